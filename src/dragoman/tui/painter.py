"""Rows on the screen: a container of prompt_toolkit that draws regions of rows and passes mouse events on.

The cells of a row are kept with the row, so that a frame costs little for what did not change.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple

from prompt_toolkit.layout.containers import Container
from prompt_toolkit.layout.dimension import Dimension
from prompt_toolkit.layout.screen import _CHAR_CACHE, Char, Screen
from prompt_toolkit.mouse_events import MouseEvent

from dragoman.cli.ui.rows import Row
from dragoman.tui.themes import style_string

# Combining marks shown on one character. More are left out: piled up, they would cover the lines above.
MAX_MARKS = 3

_EMPTY = _CHAR_CACHE["", ""]


class Region(NamedTuple):
    """Rows at a place, cut to a width; `on_click` gets the number of the row, the column and the event."""

    x: int
    y: int
    width: int
    rows: Sequence[Row]
    on_mouse: Callable[[int, int, MouseEvent], Any] | None = None
    style: str = ""  # of the whole region, below that of the rows


def cells_of(row: Row) -> list[Char]:
    """Return the cells of a row; a wide character takes two."""
    if isinstance(row.cells, list):
        return row.cells
    cells: list[Char] = []
    for text, style in row.pieces:
        name = style_string(style)
        if text.isascii():
            cells += [_CHAR_CACHE[character, name] for character in text]
        else:
            _add_wide(cells, text, name)
    row.cells = cells
    return cells


def _add_wide(cells: list[Char], text: str, style: str) -> None:
    marks = 0
    for character in text:
        cell = _CHAR_CACHE[character, style]
        if cell.width == 0:
            base = next((at for at in (len(cells) - 1, len(cells) - 2) if at >= 0 and cells[at].char), None)
            if base is not None and marks < MAX_MARKS:
                cells[base] = _CHAR_CACHE[cells[base].char + character, cells[base].style]
                marks += 1
            continue
        marks = 0
        cells.append(cell)
        cells += [_EMPTY] * (cell.width - 1)


class Painter(Container):
    """Draws the regions that a function returns for a size."""

    def __init__(
        self, draw: Callable[[int, int], Iterable[Region]], height: Callable[[int, int], int] | None = None
    ) -> None:
        """`height` returns the rows it needs, from the width and the available height; without it, all that is left."""
        self._draw = draw
        self._height = height

    def reset(self) -> None:
        """Do nothing: there is no state."""

    def preferred_width(self, max_available_width: int) -> Dimension:
        """Return the whole width."""
        return Dimension()

    def preferred_height(self, width: int, max_available_height: int) -> Dimension:
        """Return the height that is needed."""
        if self._height is None:
            return Dimension()
        return Dimension.exact(self._height(width, max_available_height))

    def write_to_screen(
        self, screen: Screen, mouse_handlers: Any, write_position: Any, parent_style: str, erase_bg: bool, z_index: Any
    ) -> None:
        """Draw the regions, in their order."""
        width, height = write_position.width, write_position.height
        for region in self._draw(width, height):
            left, top = write_position.xpos + region.x, write_position.ypos + region.y
            rows = region.rows[: max(0, height - region.y)]
            for at, row in enumerate(rows):
                _draw_row(screen.data_buffer[top + at], row, left, min(region.width, width - region.x), region.style)
            if region.on_mouse is not None and rows:
                _listen(mouse_handlers, region, left, top, len(rows))
        screen.width = max(screen.width, write_position.xpos + width)
        screen.height = max(screen.height, write_position.ypos + height)

    def get_children(self) -> list[Container]:
        """Return no children."""
        return []


def _draw_row(target: Any, row: Row, left: int, width: int, style: str) -> None:
    cells = cells_of(row)
    if len(cells) > width:
        cells = cells[:width]
        if cells and cells[-1].width == 2:  # half of a wide character
            cells[-1] = _CHAR_CACHE[" ", cells[-1].style]
    fill = " ".join(word for word in (style_string(style), style_string(row.fill)) if word)
    if fill:
        cells = [_CHAR_CACHE[cell.char, f"{fill} {cell.style}"] if cell.char else cell for cell in cells]
    target.update(zip(range(left, left + len(cells)), cells, strict=True))
    if len(cells) < width:
        blank = _CHAR_CACHE[" ", fill]
        target.update(dict.fromkeys(range(left + len(cells), left + width), blank))


def _listen(mouse_handlers: Any, region: Region, left: int, top: int, count: int) -> None:
    on_mouse = region.on_mouse
    assert on_mouse is not None

    def on_event(event: MouseEvent) -> Any:
        return on_mouse(event.position.y - top, event.position.x - left, event)

    mouse_handlers.set_mouse_handler_for_range(left, left + region.width, top, top + count, on_event)
