"""Decode and encode the text of files, and select lines.

Text stays exactly as stored: no newline is translated, no byte order mark removed.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import NamedTuple

from dragoman.errors import Kind, ProtocolError


class LineRange(NamedTuple):
    """Some lines of a file: their text, the number of lines in the file, and whether more lines follow."""

    text: str
    total_lines: int
    truncated: bool


def decode(data: bytes, path: str, encoding: str) -> str:
    """Decode the bytes, or raise invalid_params."""
    with _report_errors(encoding, f"{path} is not {encoding} text"):
        return data.decode(encoding)


def encode(text: str, path: str, encoding: str) -> bytes:
    """Encode the text, or raise invalid_params."""
    with _report_errors(encoding, f"the text for {path} cannot be written as {encoding}"):
        return text.encode(encoding)


@contextmanager
def _report_errors(encoding: str, what: str) -> Iterator[None]:
    try:
        yield
    except (LookupError, ValueError) as error:
        is_unknown = isinstance(error, LookupError)
        message = f"unknown text encoding {encoding!r}; use utf-8" if is_unknown else f"{what}: {error}"
        raise ProtocolError(Kind.INVALID_PARAMS, message, {"encoding": encoding}) from None


def select_lines(text: str, line: int | None, limit: int | None) -> LineRange:
    """Select lines; if more follow, remove the newline of the last one (docs/protocol/peers.md#line-slices).

    A selection past the last line keeps the end of the file unchanged, so that an agent that reads with a large
    limit and writes back (qwen, docs/protocol/peers.md#missing-files) does not lose the final newline.
    """
    total = text.count("\n") + (text != "" and not text.endswith("\n"))
    start = 0
    for _ in range(max(line or 1, 1) - 1):  # some peers send 0 for "from the start" (docs/protocol/peers.md#nulls)
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
