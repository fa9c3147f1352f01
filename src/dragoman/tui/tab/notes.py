"""What the commands would print, as notes of a tab: an output stream whose lines are blocks of the transcript."""

from __future__ import annotations

import io
from collections.abc import Callable, Iterable

from dragoman.cli.ui.terminal import OutputStream, StyledLine


class NoteStream(OutputStream):
    """Writes lines with a function; a footer replaces the one before."""

    def __init__(self, show: Callable[[str, str], None], show_footer: Callable[[str], None]) -> None:
        super().__init__(io.StringIO())
        self.has_ansi = True  # a footer can be replaced
        self._show = show
        self._set_footer = show_footer

    def write_line(self, text: str, style: str = "") -> None:
        """Show a line."""
        self._show(self.redact(text), style)

    def write_text(self, text: str, style: str = "") -> None:
        """Show a text."""
        self._show(self.redact(text), style)

    def write_pieces(self, pieces: Iterable[tuple[str, str]]) -> None:
        """Show pieces, without their styles."""
        self._show(self.redact("".join(text for text, _ in pieces)), "")

    def draw_block(self, key: object, lines: list[StyledLine]) -> None:
        """Show lines; they are not drawn again."""
        self.write_lines(lines)

    def show_footer(self, text: str) -> None:
        """Show a line until it is cleared."""
        self._set_footer(text)

    def clear_footer(self) -> None:
        """Remove the footer."""
        self._set_footer("")

    def ensure_line_start(self) -> None:
        """Do nothing: every line stands alone."""

    def ensure_blank_line(self) -> None:
        """Do nothing: the view separates blocks."""
