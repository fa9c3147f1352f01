"""What is visible of a flow: the position, scrolling, the selected block, search, and the marked text.

Nothing here takes longer for a longer transcript: positions are relative to blocks, and only visible blocks are
rendered.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterator
from itertools import pairwise
from typing import NamedTuple

from dragoman.cli.ui.rows import Piece, Row
from dragoman.tui.flow.block import Block, RenderOptions, has_gap
from dragoman.tui.flow.flow import Flow

# Blocks whose rows are kept.
MAX_RENDERED = 400

BLANK = Row()


class Position(NamedTuple):
    """A row of a block, and a column in it; blocks are counted from the first one that was ever shown."""

    block: int
    row: int
    column: int = 0


class VisibleRow(NamedTuple):
    """One row of the screen, and where it comes from; -1 is the empty row before a block."""

    block: int
    at: int
    row: Row


class FlowView:
    """The window on one flow."""

    def __init__(self, flow: Flow) -> None:
        self.flow = flow
        self.options = RenderOptions(80)
        self.height = 20
        self.selected: int | None = None  # the block that keys act on
        self._top: Position | None = None  # the first visible row; None: the end is shown
        self._shifted = 0
        self._rendered: OrderedDict[int, Block] = OrderedDict()

    # --- blocks -------------------------------------------------------------------------------------------------

    def _rows(self, at: int) -> list[Row]:
        block = self.flow.blocks[at]
        rows = block.rows(self.options)
        key = id(block)
        self._rendered[key] = block
        self._rendered.move_to_end(key)
        while len(self._rendered) > max(MAX_RENDERED, 2 * self.height):
            self._rendered.popitem(last=False)[1].forget_rows()
        return rows

    def _gap(self, at: int) -> int:
        return int(at > 0 and has_gap(self.flow.blocks[at - 1], self.flow.blocks[at]))

    def _size(self, at: int) -> int:
        """Return how many rows a block takes, with the empty row before it; 0 for one that shows nothing."""
        rows = self._rows(at)
        return len(rows) + self._gap(at) if rows else 0

    # --- position -----------------------------------------------------------------------------------------------

    @property
    def follows(self) -> bool:
        """Whether the end is shown."""
        return self._top is None

    @property
    def is_at_start(self) -> bool:
        """Whether the first row is visible."""
        top = self._first()
        return top.block == 0 and top.row <= 0

    def _note_shift(self) -> None:
        """Keep the position when blocks came before the first one."""
        moved = self.flow.shifted - self._shifted
        if moved:
            self._shifted = self.flow.shifted
            if self._top is not None:
                self._top = Position(self._top.block + moved, self._top.row)
            if self.selected is not None:
                self.selected += moved

    def _first(self) -> Position:
        """Return the first visible row: a block, and a row counted from the empty row before it."""
        self._note_shift()
        end = self._end_top()
        if self._top is None or (self._top.block, self._top.row) >= (end.block, end.row):
            return end
        return self._top

    def _end_top(self) -> Position:
        left = self.height
        for at in range(len(self.flow.blocks) - 1, -1, -1):
            size = self._size(at)
            if size >= left:
                return Position(at, size - left)
            left -= size
        return Position(0, 0)

    def visible(self) -> list[VisibleRow]:
        """Return the rows on the screen."""
        top = self._first()
        if self._top is not None and top == self._end_top():
            self._top = None
        shown: list[VisibleRow] = []
        for at in range(top.block, len(self.flow.blocks)):
            rows = self._rows(at)
            if rows:
                gap = self._gap(at)
                skip = top.row if at == top.block else 0
                for index in range(skip - gap, len(rows)):
                    shown.append(VisibleRow(at, index, rows[index] if index >= 0 else BLANK))
                    if len(shown) >= self.height:
                        return shown
        return shown

    def scroll(self, rows: int) -> None:
        """Move by so many rows; up is negative. At the end, new text is followed again."""
        top = self._first()
        at, row = top.block, top.row + rows
        while row < 0 and at > 0:
            at -= 1
            row += self._size(at)
        while at < len(self.flow.blocks) and row >= self._size(at):
            row -= self._size(at)
            at += 1
        self._top = Position(max(0, at), max(0, row))
        if (self._top.block, self._top.row) >= self._end_top()[:2]:
            self._top = None

    def follow(self) -> None:
        """Show the end."""
        self._top = None

    def go_to_start(self) -> None:
        """Show the beginning."""
        self._top = Position(0, 0)

    def reveal(self, at: int, row: int = 0) -> None:
        """Scroll until a row of a block is visible."""
        self._note_shift()
        shown = self.visible()
        if any(each.block == at and each.at == row for each in shown):
            return
        is_below = bool(shown) and (at, row) > (shown[-1].block, shown[-1].at)
        self._top = Position(at, row + self._gap(at))
        if is_below:
            self.scroll(1 - self.height)

    # --- selection of a block -----------------------------------------------------------------------------------

    def select(self, step: int) -> None:
        """Select the next or the previous block that shows something; from none, the last visible one."""
        self._note_shift()
        at = self.selected
        if at is None:
            shown = self.visible()
            at = shown[-1].block + (step < 0) if shown else len(self.flow.blocks)
        at += step
        while 0 <= at < len(self.flow.blocks):
            if self._rows(at):
                self.selected = at
                self.reveal(at, 0 if step < 0 else min(len(self._rows(at)), self.height) - 1)
                return
            at += step

    @property
    def selected_block(self) -> Block | None:
        """The selected block."""
        self._note_shift()
        return self.flow.blocks[self.selected] if self.selected is not None and self.flow.blocks else None

    # --- search -------------------------------------------------------------------------------------------------

    def find(self, words: str, step: int = -1) -> bool:
        """Select the next block in a direction that contains a text; return whether there is one."""
        self._note_shift()
        wanted = words.casefold()
        count = len(self.flow.blocks)
        if not wanted or not count:
            return False
        start = self.selected if self.selected is not None else (count if step < 0 else -1)
        for distance in range(1, count + 1):
            at = (start + step * distance) % count
            if wanted in self.flow.blocks[at].content.copy_text().casefold():
                self.selected = at
                rows = self._rows(at)
                hit = next((index for index, row in enumerate(rows) if wanted in row.text.casefold()), 0)
                self.reveal(at, hit)
                return True
        return False

    # --- marked text --------------------------------------------------------------------------------------------

    def marked_text(self, begin: Position, end: Position) -> str:
        """Return the text between two positions."""
        begin, end = min(begin, end), max(begin, end)
        lines: list[str] = []
        for at in range(begin.block, min(end.block + 1, len(self.flow.blocks))):
            rows = self._rows(at)
            first = begin.row if at == begin.block else 0
            last = end.row if at == end.block else len(rows) - 1
            if lines and self._gap(at):
                lines.append("")
            for index in range(max(0, first), min(last + 1, len(rows))):
                text = rows[index].text
                cut_end = end.column + 1 if (at, index) == (end.block, end.row) else len(text)
                cut_begin = begin.column if (at, index) == (begin.block, begin.row) else 0
                lines.append(text[cut_begin:cut_end].rstrip())
        return "\n".join(lines)


def restyle(row: Row, begin: int, end: int, style: str) -> Row:
    """Return a row with some of its characters in another style."""
    pieces: list[Piece] = []
    at = 0
    for text, old in row.pieces:
        cuts = sorted({0, len(text), min(max(0, begin - at), len(text)), min(max(0, end - at), len(text))})
        for first, last in pairwise(cuts):
            is_inside = begin <= at + first < end
            pieces.append((text[first:last], f"{old} {style}".strip() if is_inside else old))
        at += len(text)
    return Row(pieces, row.fill)


def mark_words(row: Row, words: str, style: str) -> Row:
    """Return a row with every place of a text in another style."""
    for begin in _places(row.text.casefold(), words.casefold()):
        row = restyle(row, begin, begin + len(words), style)
    return row


def _places(text: str, words: str) -> Iterator[int]:
    at = text.find(words) if words else -1
    while at >= 0:
        yield at
        at = text.find(words, at + len(words))
