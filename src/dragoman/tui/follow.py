"""Follow the agent: the file and line where it works, in a pane, or in the user's editor."""

from __future__ import annotations

import os
import shlex
from collections.abc import Mapping

from dragoman.cli.ui.highlight import CodeStyler
from dragoman.cli.ui.rows import Piece, Row, clip_pieces, clip_text, pad_pieces, peer_line, two_sides
from dragoman.cli.ui.terminal import without_question_bar
from dragoman.config.private_files import open_regular

# A larger file is not shown in the pane. Bytes.
MAX_FILE = 4 * 1024 * 1024

# Lines before the visible ones that the colors are computed from, so that a long string or comment has its color.
COLOR_CONTEXT = 200

# Editors that take the line in another way than `+LINE FILE`: their name, and how.
_EDITOR_FORMS = {
    "code": ("-g", "{path}:{line}"),
    "codium": ("-g", "{path}:{line}"),
    "cursor": ("-g", "{path}:{line}"),
    "zed": ("{path}:{line}",),
    "subl": ("{path}:{line}",),
    "hx": ("{path}:{line}",),
    "helix": ("{path}:{line}",),
    "idea": ("--line", "{line}", "{path}"),
    "pycharm": ("--line", "{line}", "{path}"),
    "kate": ("-l", "{line}", "{path}"),
}

# Editors with a window of their own: the terminal need not wait for them.
WINDOW_EDITORS = frozenset({"code", "codium", "cursor", "zed", "subl", "idea", "pycharm", "kate"})


def editor_command(path: str, line: int, environ: Mapping[str, str] = os.environ) -> list[str]:
    """Return the command that opens a file at a line; empty if no editor is set.

    The path is made absolute: an agent may name a file like an option of the editor, such as `+!sh`.
    """
    words = shlex.split(environ.get("VISUAL") or environ.get("EDITOR") or "")
    if not words:
        return []
    form = _EDITOR_FORMS.get(os.path.basename(words[0]), ("+{line}", "{path}"))
    return [*words, *(part.format(path=os.path.abspath(path), line=max(1, line)) for part in form)]


def has_own_window(command: list[str]) -> bool:
    """Return whether an editor does not need the terminal."""
    return bool(command) and os.path.basename(command[0]) in WINDOW_EDITORS


class FilePane:
    """The file where the agent works, around the line where it works."""

    def __init__(self, path: str, line: int) -> None:
        self.path = path
        self.line = line
        self._read_key: object = None
        self._lines: list[str] = []
        self._error = ""

    def rows(self, width: int, height: int, cwd: str) -> list[Row]:
        """Return exactly so many rows."""
        self._read()
        name = without_question_bar(peer_line(self.path.removeprefix(cwd.rstrip("/") + "/")))
        head = Row(two_sides([(f" {name}", "bold")], [(f"line {self.line} ", "dim")], width), "title")
        if self._error:
            rows = [head, Row([(f" {clip_text(self._error, width - 1)}", "dim")])]
            return [*rows, *[Row()] * (height - len(rows))][:height]
        top = max(0, min(self.line - 1 - height // 3, len(self._lines) - height + 1))
        digits = len(str(len(self._lines)))
        body = []
        for at, pieces in enumerate(self._styled(top, height - 1), top + 1):
            number: Piece = (f"{at:>{digits}} ", "number-column")
            row = pad_pieces(clip_pieces([number, *pieces], width), width)
            body.append(Row(row, "cursor-row" if at == self.line else ""))
        return [head, *body, *[Row()] * (height - 1 - len(body))][:height]

    def _styled(self, top: int, count: int) -> list[list[Piece]]:
        styler = CodeStyler(os.path.splitext(self.path)[1].lstrip("."))
        first = max(0, top - COLOR_CONTEXT)
        lines = [styler.pieces(line) for line in self._lines[first : top + count]]
        return lines[top - first :]

    def _read(self) -> None:
        """Read the file if it changed."""
        try:
            state = os.stat(self.path)
            key = (state.st_mtime_ns, state.st_size, state.st_ino)
            if key == self._read_key:
                return
            self._read_key = key
            if state.st_size > MAX_FILE:
                raise OSError(0, "this file is too large for the pane")
            with open_regular(self.path) as file:
                text = file.read(MAX_FILE).decode("utf-8", "replace")
        except OSError as error:
            self._lines, self._error = [], f"{error.strerror or error}"
            return
        self._error = ""
        lines = text.split("\n")
        self._lines = [peer_line(line.expandtabs(4))[:2000] for line in lines]
