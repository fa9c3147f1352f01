"""What covers the transcript for a while: lists to choose from, and pages to read."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

from dragoman.cli.ui.rows import Piece, Row, clip_text, pad_pieces, two_sides

# Columns of a list: wider ones are harder to read.
MAX_LIST_WIDTH = 90


class Item(NamedTuple):
    """One thing to choose: what it is called, what is said of it, and what choosing it does."""

    title: str
    about: str
    choose: Callable[[], None]


class Picker:
    """A list that becomes shorter with every letter."""

    def __init__(self, title: str, items: Sequence[Item], *, empty: str = "nothing found") -> None:
        self.title = title
        self.typed = ""
        self.at = 0
        self._items = list(items)
        self._empty = empty

    @property
    def items(self) -> list[Item]:
        """The items that contain all words that were typed."""
        words = self.typed.casefold().split()
        return [item for item in self._items if all(word in f"{item.title} {item.about}".casefold() for word in words)]

    @property
    def current(self) -> Item | None:
        """The item at the cursor."""
        items = self.items
        return items[min(self.at, len(items) - 1)] if items else None

    def move(self, step: int) -> None:
        """Move the cursor."""
        self.at = max(0, min(self.at + step, len(self.items) - 1))

    def type(self, text: str) -> None:
        """Add a letter; an empty one removes the last."""
        self.typed = self.typed + text if text else self.typed[:-1]
        self.at = 0

    def rows(self, width: int, height: int) -> list[Row]:
        """Return the rows of the list."""
        items, room = self.items, max(1, height - 4)
        start = max(0, min(self.at - room // 2, len(items) - room))
        body = [
            _item_row(item, width - 2, index == min(self.at, len(items) - 1))
            for index, item in enumerate(items[start : start + room], start)
        ]
        if not items:
            body = [Row([(f"  {self._empty}", "dim")])]
        head = Row(two_sides([(f" {self.title}", "bold")], [(f"{len(items)} ", "dim")], width - 2))
        return boxed([head, Row([(" ❯ ", "cyan"), (self.typed, ""), ("▏", "cyan")]), *body], width)


def _item_row(item: Item, width: int, is_here: bool) -> Row:
    row = two_sides([(f"  {item.title}", ""), ("  ", "")], [(f"{clip_text(item.about, width // 2)} ", "dim")], width)
    return Row(row, "picked" if is_here else "")


def boxed(rows: Sequence[Row], width: int) -> list[Row]:
    """Return rows in a frame."""
    top, bottom = Row([(f"╭{'─' * (width - 2)}╮", "dim")]), Row([(f"╰{'─' * (width - 2)}╯", "dim")])
    side: Piece = ("│", "dim")
    body = [Row([side, *_filled(row, width - 2), side]) for row in rows]
    return [top, *body, bottom]


def _filled(row: Row, width: int) -> list[Piece]:
    pieces = pad_pieces(row.pieces, width)
    return [(text, f"{row.fill} {style}".strip()) for text, style in pieces] if row.fill else pieces


class Page:
    """Rows to read; `make_rows` returns them for a width, and is asked again when `version` changes."""

    def __init__(
        self,
        title: str,
        make_rows: Callable[[int], list[Row]],
        *,
        version: Callable[[], object] = lambda: None,
        follows: bool = False,
        copy_text: Callable[[], str] | None = None,
    ) -> None:
        """`follows`: the end is shown while it grows."""
        self.title = title
        self.copy_text = copy_text
        self.top = 0
        self.at_row: int | None = None  # a row to show in the middle, once
        self._follows = follows
        self._make_rows = make_rows
        self._version = version
        self._key: object = None
        self._rows: list[Row] = []
        self._height = 1

    def scroll(self, rows: int) -> None:
        """Move by so many rows."""
        last = max(0, len(self._rows) - self._height)
        self.top = max(0, min(self.top + rows, last))
        self._follows = (self._follows and rows >= 0) or (rows > 0 and self.top == last)

    @property
    def page_size(self) -> int:
        """The rows that are visible at once."""
        return self._height

    def rows(self, width: int, height: int) -> list[Row]:
        """Return the visible rows, with a title."""
        key = (width, self._version())
        if key != self._key:
            self._key, self._rows = key, self._make_rows(width - 4)
        self._height = max(1, height - 3)
        last = max(0, len(self._rows) - self._height)
        if self.at_row is not None:
            self.top, self.at_row = self.at_row - self._height // 3, None
        self.top = last if self._follows else max(0, min(self.top, last))
        shown = self._rows[self.top : self.top + self._height]
        place = f"{self.top + 1}-{self.top + len(shown)} of {len(self._rows)} " if last else ""
        head = Row(two_sides([(f" {self.title}", "bold")], [(place, "dim")], width - 2))
        body = [Row([(" ", ""), *row.pieces], row.fill) for row in shown]
        return boxed([head, *body, *[Row()] * (self._height - len(body))], width)
