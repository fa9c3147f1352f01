"""A block of the transcript: its content, whether it is open, and its rows for one width."""

from __future__ import annotations

from typing import Any, NamedTuple, Protocol

from dragoman.cli.ui.rows import Row


class RenderOptions(NamedTuple):
    """What the rows of a block depend on."""

    width: int
    is_split: bool | None = None  # diffs side by side; None: where there is room
    has_side_panel: bool = False  # the plan is shown at the side
    image_cells: tuple[int, int] = (0, 0)  # columns and rows that a picture may take; 0: pictures are described


class Content(Protocol):
    """What a block shows."""

    kind: str  # blocks of different kinds are separated by an empty row, and so are messages

    @property
    def version(self) -> Any:
        """A value that changes with the content."""

    def render(self, options: RenderOptions, is_open: bool) -> list[Row]:
        """Return the rows; `is_open`: with everything that is left out otherwise."""

    def copy_text(self) -> str:
        """Return all of it as text."""


# Kinds of blocks that stand together without an empty row.
_TIGHT_KINDS = frozenset({"card", "note"})


class Block:
    """One part of the transcript."""

    __slots__ = ("_key", "_rows", "content", "is_open")

    def __init__(self, content: Content) -> None:
        self.content = content
        self.is_open = False
        self._key: object = None
        self._rows: list[Row] = []

    def rows(self, options: RenderOptions) -> list[Row]:
        """Return the rows, rendered again if something changed."""
        key = (options, self.is_open, self.content.version)
        if key != self._key:
            self._rows = self.content.render(options, self.is_open)
            self._key = (options, self.is_open, self.content.version)
        return self._rows

    def forget_rows(self) -> None:
        """Drop the rows, to save memory."""
        self._key, self._rows = None, []
        forget = getattr(self.content, "forget_rows", None)
        if forget is not None:
            forget()


def has_gap(before: Block, block: Block) -> bool:
    """Return whether an empty row separates two blocks."""
    kinds = before.content.kind, block.content.kind
    return kinds[0] != kinds[1] or kinds[0] not in _TIGHT_KINDS
