"""Positions in a text, as language servers count them, and text edits. Pure.

A line ends with LF, CRLF or CR and nothing else. Characters are counted in the encoding that the server chose: bytes of
UTF-8, units of UTF-16, or code points. A position beyond the end of a line or of the text is moved to that end.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterable
from typing import Any, NamedTuple

UTF8, UTF16, UTF32 = "utf-8", "utf-16", "utf-32"
ENCODINGS = (UTF8, UTF16, UTF32)

_LINE_END = re.compile(r"\r\n|\n|\r")


class InvalidEdit(Exception):
    """An edit of a language server that cannot be applied; the message says why."""


class TextEdit(NamedTuple):
    """A replacement: from one offset to another, in code points."""

    start: int
    end: int
    text: str


class TextIndex:
    """A text with the starts of its lines; converts positions of one encoding to offsets and back."""

    def __init__(self, text: str, encoding: str = UTF16) -> None:
        self.text = text
        self.encoding = encoding if encoding in ENCODINGS else UTF16
        self._starts = [0, *(match.end() for match in _LINE_END.finditer(text))]

    @property
    def line_count(self) -> int:
        """The number of lines, at least one."""
        return len(self._starts)

    def line(self, number: int) -> str:
        """Return a line by its 0-based number, without its end; "" beyond the text."""
        if not 0 <= number < len(self._starts):
            return ""
        start = self._starts[number]
        end = _LINE_END.search(self.text, start)
        return self.text[start : end.start() if end else len(self.text)]

    def offset(self, position: Any) -> int:
        """Return the offset of an LSP position."""
        line, character = _count(position, "line"), _count(position, "character")
        if line >= len(self._starts):
            return len(self.text)
        text = self.line(line)
        return self._starts[line] + _code_points(text, character, self.encoding)

    def position(self, offset: int) -> dict[str, int]:
        """Return the LSP position of an offset."""
        offset = max(0, min(offset, len(self.text)))
        line = bisect_right(self._starts, offset) - 1
        before = self.text[self._starts[line] : offset]
        return {"line": line, "character": _units(before, self.encoding)}

    def place(self, position: Any) -> tuple[int, int]:
        """Return the 1-based line and column of an LSP position, as people count them."""
        offset = self.offset(position)
        line = bisect_right(self._starts, offset) - 1
        return line + 1, offset - self._starts[line] + 1

    def span(self, range_: Any) -> tuple[int, int]:
        """Return the offsets of an LSP range. Raise InvalidEdit if it ends before it begins."""
        if not isinstance(range_, dict):
            raise InvalidEdit("a range is missing")
        start, end = self.offset(range_.get("start")), self.offset(range_.get("end"))
        if end < start:
            raise InvalidEdit("a range ends before it begins")
        return start, end


def apply_edits(text: str, edits: Iterable[Any], encoding: str) -> str:
    """Return the text with the LSP edits applied. Raise InvalidEdit if two of them overlap."""
    index = TextIndex(text, encoding)
    spans = []
    for edit in edits:
        if not isinstance(edit, dict) or not isinstance(edit.get("newText"), str):
            raise InvalidEdit("an edit has no text")
        spans.append(TextEdit(*index.span(edit.get("range")), edit["newText"]))
    spans.sort(key=lambda edit: (edit.start, edit.end))  # stable: insertions at one place stay in order
    parts, last = [], 0
    for edit in spans:
        if edit.start < last:
            raise InvalidEdit("two edits overlap")
        parts += [text[last : edit.start], edit.text]
        last = edit.end
    return "".join([*parts, text[last:]])


def _count(position: Any, name: str) -> int:
    value = position.get(name) if isinstance(position, dict) else None
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    return value if isinstance(value, int) and value > 0 else 0


def _units(text: str, encoding: str) -> int:
    """Return the length of a text in an encoding."""
    if encoding == UTF32 or text.isascii():
        return len(text)
    if encoding == UTF8:
        return len(text.encode("utf-8", "surrogatepass"))
    return len(text) + sum(character > "\uffff" for character in text)


def _code_points(line: str, count: int, encoding: str) -> int:
    """Return how many code points of a line the first `count` units are; a position inside a character is its start."""
    if encoding == UTF32 or line.isascii():
        return min(count, len(line))
    total = 0
    for index, character in enumerate(line):
        total += _units(character, encoding)
        if total > count:
            return index
    return len(line)
