"""Rows of styled text, for views that place text themselves: widths, wrapping, clipping, joining.

A piece is a text with a style; a row is a list of pieces without a newline. Nothing here writes to a terminal.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from dragoman.cli.ui.terminal import char_width, sanitize_line, without_question_bar

Piece = tuple[str, str]  # text and style

TAB_SIZE = 4


class Row:
    """One row. `fill` is the style of the rest of the line; `cells` is for whoever draws it."""

    __slots__ = ("cells", "fill", "pieces")

    def __init__(self, pieces: Sequence[Piece] = (), fill: str = "") -> None:
        self.pieces = pieces
        self.fill = fill
        self.cells: object = None

    @property
    def text(self) -> str:
        """The text without styles."""
        return "".join(text for text, _ in self.pieces)

    def __repr__(self) -> str:
        return f"Row({self.text!r})"


def peer_line(text: str) -> str:
    """Return text of a peer as one line that neither acts on the terminal nor imitates a question."""
    return without_question_bar(sanitize_line(text))


def text_width(text: str) -> int:
    """Return how many columns a text takes."""
    return len(text) if text.isascii() else sum(map(char_width, text))


def pieces_width(pieces: Iterable[Piece]) -> int:
    """Return how many columns pieces take."""
    return sum(text_width(text) for text, _ in pieces)


def clip_text(text: str, width: int) -> str:
    """Return a text in at most so many columns; an ellipsis marks a cut. Takes time for `width`, not for the text."""
    if len(text) <= width and text_width(text) <= width:
        return text
    used, kept = 0, []
    for character in text:
        used += char_width(character)
        if used > width - 1:
            break
        kept.append(character)
    return "".join(kept) + ("…" if width > 0 else "")


def clip_pieces(pieces: Iterable[Piece], width: int) -> list[Piece]:
    """Return pieces in at most so many columns."""
    kept: list[Piece] = []
    left = width
    for text, style in pieces:
        size = text_width(text)
        if size > left:
            kept.append((clip_text(text, left), style))
            break
        kept.append((text, style))
        left -= size
    return kept


def pad_pieces(pieces: Iterable[Piece], width: int, style: str = "") -> list[Piece]:
    """Return pieces in exactly so many columns."""
    kept = clip_pieces(pieces, width)
    left = width - pieces_width(kept)
    return [*kept, (" " * left, style)] if left > 0 else kept


def two_sides(left: Iterable[Piece], right: Iterable[Piece], width: int, style: str = "") -> list[Piece]:
    """Return a row with text at its left and at its right end; the left one gives way."""
    ending = clip_pieces(right, width)
    return [*pad_pieces(left, max(0, width - pieces_width(ending)), style), *ending]


class RowWriter:
    """Makes rows of pieces with newlines: breaks lines that are too long, expands tabs, replaces the question bar."""

    def __init__(self, width: int, indent: Sequence[Piece] = ()) -> None:
        self.rows: list[Row] = []
        self._width = max(1, width)
        self._indent = list(indent)
        self._column = 0
        self._is_open = False  # whether the last row may still get text

    def write(self, pieces: Iterable[Piece]) -> None:
        """Add pieces."""
        for text, style in pieces:
            first, *more = without_question_bar(text).split("\n")
            if first:
                self._add(first, style)
            for part in more:
                self._end_row()
                if part:
                    self._add(part, style)

    def _end_row(self) -> None:
        if not self._is_open:
            self.rows.append(Row(list(self._indent)))
        self._is_open, self._column = False, 0

    def _add(self, text: str, style: str) -> None:
        while text:
            if not self._is_open:
                self.rows.append(Row(list(self._indent)))
                self._is_open, self._column = True, 0
            if "\t" in text:
                text = self._expand_tabs(text)
            part, text, size = split_columns(text, self._width - self._column, is_row_empty=not self._column)
            if part:
                last = self.rows[-1]
                # A new row, because whoever drew the old one may have kept its cells.
                self.rows[-1] = Row([*last.pieces, (part, style)])
                self._column += size
            if text:
                self._is_open, self._column = False, 0

    def _expand_tabs(self, text: str) -> str:
        return (" " * self._column + text).expandtabs(TAB_SIZE)[self._column :]


def split_columns(text: str, width: int, *, is_row_empty: bool = True) -> tuple[str, str, int]:
    """Return the beginning that fits into so many columns, the rest, and the columns of the beginning."""
    if text.isascii():
        part = text[: max(0, width)] or (text[:1] if is_row_empty else "")
        return part, text[len(part) :], len(part)
    used = 0
    for index, character in enumerate(text):
        size = char_width(character)
        if used + size > width and (index or not is_row_empty):
            return text[:index], text[index:], used
        used += size
    return text, "", used


def wrap_text(text: str, width: int, style: str = "", indent: str = "") -> list[Row]:
    """Return a text as rows, broken between words where possible; every row begins with the indent."""
    rows: list[Row] = []
    room = max(1, width - text_width(indent))
    for line in without_question_bar(text).expandtabs(TAB_SIZE).split("\n"):
        rest = line
        while True:
            part, after, _ = split_columns(rest, room)
            if after and (cut := part.rfind(" ")) > room // 3 and not after.startswith(" "):
                part, after = part[:cut], rest[cut:]
            rows.append(Row([(indent, ""), (part, style)]))
            rest = after.lstrip(" ")
            if not rest:
                break
    return rows
