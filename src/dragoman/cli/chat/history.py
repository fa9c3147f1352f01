"""Input history: one JSON text per line, in a file that only its owner can read. A text that begins with a space is not
kept, as in shells.
"""

from __future__ import annotations

import json
import os

from dragoman.config.private_files import file_lock, write_private

# The file is truncated when it has twice as many.
MAX_TEXTS = 1000


class InputHistory:
    """The input history of one user."""

    def __init__(self, path: str) -> None:
        self._path = path

    def texts(self) -> list[str]:
        """Return the texts, the newest last; skip what cannot be read."""
        try:
            with open(self._path, encoding="utf-8", errors="replace") as file:
                lines = file.read().splitlines()
        except OSError:
            return []
        texts = []
        for line in lines[-MAX_TEXTS:]:
            try:
                text = json.loads(line)
            except ValueError:
                continue
            if isinstance(text, str):
                texts.append(text)
        return texts

    def add(self, text: str) -> None:
        """Add one text; an error does not interrupt the chat."""
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
