"""Read JSON that the strict decoder refused, as far as possible.

Broken UTF-8 and lone surrogates become U+FFFD (node splits an emoji when a stream ends inside one). NaN and infinities
become null. Of duplicate keys the last one counts. A byte order mark is ignored.
"""

from __future__ import annotations

from typing import Any

from dragoman.errors import Kind, ProtocolError
from dragoman.wire.depth import MAX_DEPTH


def repair(frame: bytes) -> Any:
    """Return the values of a frame that strict decoding refused; raise a parse error when it is not JSON."""
    import json

    text = frame.decode("utf-8", "replace").removeprefix("\ufeff")
    try:
        value = json.loads(text, strict=False, parse_constant=_constant_as_null, parse_int=_bounded_int)
        return clean_values(value)
    except RecursionError:
        raise ProtocolError(
            Kind.PARSE_ERROR, f"the message is nested deeper than {MAX_DEPTH} levels; flatten it"
        ) from None
    except ValueError as error:
        raise ProtocolError(
            Kind.PARSE_ERROR, f"the message is not JSON: {error}; send each message as one object"
        ) from None


def clean_values(value: Any, levels: int = MAX_DEPTH) -> Any:
    """Return the values without lone surrogates; raise RecursionError when they nest deeper than this."""
    if isinstance(value, str):
        return clean_text(value)
    if levels < 0 and isinstance(value, dict | list | tuple):
        raise RecursionError
    if isinstance(value, dict):
        return {clean_text(str(key)): clean_values(item, levels - 1) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [clean_values(item, levels - 1) for item in value]
    return value


def clean_text(text: str) -> str:
    """Replace lone surrogates by U+FFFD; join a pair that was escaped in two halves."""
    if text.isascii():
        return text
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    return text


def _constant_as_null(_: str) -> None:
    return None


def _bounded_int(digits: str) -> int | float:
    """Parse an integer; one too long for any id or count becomes a float, not a slow bignum."""
    return int(digits) if len(digits) <= 40 else float(digits)
