"""Check that the files of an open store are still in place; another program may move or remove them.

SQLite keeps writing to an unlinked file, and its content is lost when the process ends. Two checks per commit cost a
few microseconds.
"""

from __future__ import annotations

import os

from dragoman.errors import StoreFault

# The file and its write-ahead log, which exists as long as a connection does.
_FILES = ("", "-wal")


class Place:
    """The files as they were when the store was opened. Thread-safe."""

    def __init__(self, path: str) -> None:
        """Call after connecting. A file that does not exist now is not checked."""
        identities = [(path + end, _identity(path + end)) for end in _FILES]
        self._files = [(file, identity) for file, identity in identities if identity is not None]

    def check(self) -> None:
        """Raise StoreFault if a file was moved; succeed again when it is put back."""
        for path, identity in self._files:
            if _identity(path) != identity:
                raise StoreFault(
                    "moved",
                    f"{path} was moved, removed or replaced while in use, so nothing can be stored; "
                    "put it back or restart Dragoman",
                )


def _identity(path: str) -> tuple[int, int] | None:
    """Return the identity of the file at a path; None if there is none."""
    try:
        found = os.stat(path)
    except (FileNotFoundError, NotADirectoryError):
        return None
    return found.st_dev, found.st_ino
