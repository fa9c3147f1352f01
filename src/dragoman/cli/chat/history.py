"""What was typed before: one JSON text a line, readable by its owner alone.

Takes and gives texts, the newest last. A text that begins with a space is not kept, as in shells.
"""

from __future__ import annotations

import json
import os

from dragoman.config.private_files import file_lock, write_private

# Further back than anybody searches; the file is cut when it has twice as many.
MAX_TEXTS = 1000


class InputHistory:
    """The texts of one user."""

    def __init__(self, path: str) -> None:
        self._path = path

    def texts(self) -> list[str]:
        """The newest, the very newest last; what cannot be read is left out."""
        try:
            with open(self._path, encoding="utf-8", errors="replace") as file:
                lines = file.read().splitlines()
        except OSError:
            return []
        found = []
        for line in lines[-MAX_TEXTS:]:
            try:
                text = json.loads(line)
            except ValueError:
                continue
            if isinstance(text, str):
                found.append(text)
        return found

    def add(self, text: str) -> None:
        """Keep one more; a history that cannot be written is no reason to stop talking."""
        if not text.strip() or text[0] == " ":
            return
        try:
            with file_lock(self._path):
                self._append(text)
                self._truncate()
        except OSError:
            pass

    def _append(self, text: str) -> None:
        flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC
        with open(os.open(self._path, flags, 0o600), "a", encoding="utf-8") as file:
            file.write(json.dumps(text) + "\n")

    def _truncate(self) -> None:
        with open(self._path, "rb") as file:
            lines = file.read().splitlines(keepends=True)
        if len(lines) > 2 * MAX_TEXTS:
            write_private(self._path, b"".join(lines[-MAX_TEXTS:]))
