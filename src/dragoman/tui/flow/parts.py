"""Small parts of the transcript: notes, the plan, pictures."""

from __future__ import annotations

from collections.abc import Sequence

from dragoman.cli.ui.rows import Row, clip_text, peer_line, wrap_text
from dragoman.cli.ui.terminal import sanitize
from dragoman.cli.ui.turn_view import STATUS_SIGNS, content_text
from dragoman.schema.content import ImageContent
from dragoman.tui.flow.block import RenderOptions
from dragoman.tui.images.picture import Picture

PLAN_SIGNS = {"pending": "○", "in_progress": "◐", "completed": "✓"}

# Characters of a note that are shown.
MAX_NOTE = 8000


class Note:
    """A line of ours, or several."""

    kind = "note"

    def __init__(self, text: str, style: str = "dim") -> None:
        self.version = 0
        self._text = text
        self._style = style

    def render(self, options: RenderOptions, is_open: bool) -> list[Row]:
        """Return the rows."""
        return wrap_text(sanitize(self._text[:MAX_NOTE]), options.width, self._style)

    def copy_text(self) -> str:
        """Return the text."""
        return self._text


class PlanList:
    """The plan of a turn; not shown where the side panel has it."""

    kind = "plan"

    def __init__(self) -> None:
        self.version = 0
        self._entries: list[tuple[str, str]] = []

    def replace(self, entries: Sequence[tuple[str, str]]) -> None:
        """Set the steps: status and text."""
        self._entries = list(entries)
        self.version += 1

    def render(self, options: RenderOptions, is_open: bool) -> list[Row]:
        """Return the rows."""
        return [] if options.has_side_panel else plan_rows(self._entries, options.width)

    def copy_text(self) -> str:
        """Return the steps as a list."""
        return "\n".join(f"- [{'x' if status == 'completed' else ' '}] {text}" for status, text in self._entries)


def plan_rows(entries: Sequence[tuple[str, str]], width: int) -> list[Row]:
    """Return a checklist."""
    rows = []
    for status, text in entries:
        style = {"completed": "dim", "in_progress": "bold"}.get(status, "")
        sign = (f"{PLAN_SIGNS.get(status, '○')} ", STATUS_SIGNS.get(status, ("", "dim"))[1])
        rows.append(Row([sign, (clip_text(peer_line(text), width - 2), style)]))
    return rows


class PictureBlock:
    """A picture: shown where the terminal can, described elsewhere."""

    kind = "picture"

    def __init__(self, content: ImageContent) -> None:
        self.version = 0
        self.picture = Picture(content.data, content.mime_type)
        self._description = peer_line(content_text(content))

    def render(self, options: RenderOptions, is_open: bool) -> list[Row]:
        """Return the rows: the description, and below it the cells of the picture."""
        about = f"{self._description[:-1]}{self.picture.size_text}]"
        rows = [Row([(clip_text(about, options.width), "dim")])]
        columns, lines = options.image_cells
        if columns:
            rows += self.picture.placeholder_rows(min(columns, options.width - 2), lines)
        return rows

    def copy_text(self) -> str:
        """Return the description."""
        return self._description
