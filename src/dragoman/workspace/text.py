"""Bytes of a file as text, and text by lines.

Takes bytes or text and the path they belong to, for what is said when they do not fit; gives text exactly as it is
stored: no newline is translated, no mark removed. Touches no file; files are above.
"""

from __future__ import annotations

from typing import NamedTuple

from dragoman.errors import Kind, ProtocolError


class LineRange(NamedTuple):
    """Some lines of a file: their text, how many lines the file has, and whether lines follow after these."""

    text: str
    total_lines: int
    truncated: bool


def decode(data: bytes, path: str, encoding: str) -> str:
    """The text that these bytes are in this encoding, or invalid_params."""
    try:
        return data.decode(encoding)
    except LookupError:
        raise _unknown_encoding(encoding) from None
    except ValueError as error:
        message = f"{path} is not {encoding} text: {error}"
        raise ProtocolError(Kind.INVALID_PARAMS, message, {"encoding": encoding}) from None


def encode(text: str, path: str, encoding: str) -> bytes:
    """The bytes of a text in this encoding, or invalid_params."""
    try:
        return text.encode(encoding)
    except LookupError:
        raise _unknown_encoding(encoding) from None
    except ValueError as error:
        message = f"the text for {path} cannot be written as {encoding}: {error}"
        raise ProtocolError(Kind.INVALID_PARAMS, message, {"encoding": encoding}) from None


def _unknown_encoding(encoding: str) -> ProtocolError:
    message = f"there is no text encoding {encoding!r}; utf-8 is always there"
    return ProtocolError(Kind.INVALID_PARAMS, message, {"encoding": encoding})


def select_lines(text: str, line: int | None, limit: int | None) -> LineRange:
    """Cut by lines: where lines follow, the newline of the last one falls away (peers.md 30).

    A cut that reaches past the last line keeps the end of the file as it is, so that an agent that reads with
    a large limit and writes back (qwen, peers.md 28) does not lose the final newline.
    """
    total = text.count("\n") + (text != "" and not text.endswith("\n"))
    start = 0
    for _ in range(max(line or 1, 1) - 1):  # 0 is in circulation for "from the start" (peers.md 23)
        start = text.find("\n", start) + 1
        if not start:
            return LineRange("", total, False)
    if limit is None:
        return LineRange(text[start:], total, False)
    if limit == 0:
        return LineRange("", total, start < len(text))
    end = start
    for _ in range(limit):
        end = text.find("\n", end) + 1
        if not end:
            return LineRange(text[start:], total, False)
    return LineRange(text[start : end - 1].removesuffix("\r"), total, end < len(text))
