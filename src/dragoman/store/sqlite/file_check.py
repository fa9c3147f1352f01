"""Whether the files of an open store are still where they were: somebody may move or remove them under it.

Takes a path, remembers what stood there, and compares. SQLite goes on writing into a file that has no name any more,
and what it keeps there is gone when the process ends. Two looks a commit cost a few microseconds.
"""

from __future__ import annotations

import os

from dragoman.errors import StoreFault

# The file, and the write-ahead log beside it, which is there as long as a connection is.
_FILES = ("", "-wal")


class Place:
    """The files as they were when the store was opened. From any thread."""

    def __init__(self, path: str) -> None:
        """After a connection was made. What is not there now (where SQLite can keep no such log) is not missed."""
        known = [(path + end, _identity(path + end)) for end in _FILES]
        self._files = [(file, identity) for file, identity in known if identity is not None]

    def check(self) -> None:
        """Raise StoreFault unless they are there; it is right again when they are put back."""
        for path, identity in self._files:
            if _identity(path) != identity:
                raise StoreFault(
                    "moved",
                    f"{path} was moved, removed or replaced while it was in use: nothing is kept any more; "
                    "put it back where it was, or start again",
                )


def _identity(path: str) -> tuple[int, int] | None:
    """What stands at a path; None if nothing does."""
    try:
        found = os.stat(path)
    except (FileNotFoundError, NotADirectoryError):
        return None
    return found.st_dev, found.st_ino
