"""List a folder, or all below it: names, types, sizes and times.

Breadth first. Links are listed and never followed. Bounded: `truncated` says that entries are missing.
"""

from __future__ import annotations

import errno
import os
import stat
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import NamedTuple

# Entries in one listing, whatever limit is requested: they fit one message.
MAX_ENTRIES = 50_000

# Names read of one folder: they are sorted, so all are in memory at once.
MAX_NAMES = 200_000

# Nested folders: deeper than real trees, a limit for hostile ones.
MAX_DEPTH = 100

READ_DIRECTORY_FLAGS = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC

_TYPE_TESTS = ((stat.S_ISREG, "file"), (stat.S_ISDIR, "directory"), (stat.S_ISLNK, "symlink"))


class ListingEntry(NamedTuple):
    """One name, relative to the listed folder; only files have a size."""

    name: str
    type: str  # file | directory | symlink | other
    size: int | None
    modified_at: str


class Listing(NamedTuple):
    """The entries, and whether some are missing."""

    entries: list[ListingEntry]
    truncated: bool


def list_directory(directory_fd: int, recursive: bool = False, limit: int | None = None) -> Listing:
    """List the folder of this descriptor, and with `recursive` all folders in it; at most `limit` entries."""
    most = MAX_ENTRIES if limit is None else min(limit, MAX_ENTRIES)
    entries: list[ListingEntry] = []
    todo: deque[tuple[str, ...]] = deque([()])
    truncated = False
    while todo:
        place = todo.popleft()
        try:
            with open_subdirectory(directory_fd, place) as fd:
                found, cut = read_directory(fd)
        except OSError as error:
            # A nested folder may be unreadable, gone or a link by now: still list the others.
            if not place or error.errno in (errno.EMFILE, errno.ENFILE):
                raise
            truncated = truncated or error.errno == errno.EACCES
            continue
        truncated = truncated or cut
        for name, status in found:
            if len(entries) >= most:
                return Listing(entries, True)
            inner = (*place, name)
            entries.append(_build_entry(inner, status))
            if recursive and stat.S_ISDIR(status.st_mode):
                if len(inner) < MAX_DEPTH:
                    todo.append(inner)
                else:
                    truncated = True
    return Listing(entries, truncated)


@contextmanager
def open_subdirectory(directory_fd: int, parts: tuple[str, ...]) -> Iterator[int]:
    """Open a nested folder for reading; refuse links on the way."""
    fd = os.open(".", READ_DIRECTORY_FLAGS, dir_fd=directory_fd)
    try:
        for name in parts:
            outer = fd
            try:
                fd = os.open(name, READ_DIRECTORY_FLAGS, dir_fd=outer)
            finally:
                if fd != outer:
                    os.close(outer)
        yield fd
    finally:
        os.close(fd)


def read_directory(fd: int) -> tuple[list[tuple[str, os.stat_result]], bool]:
    """Return the sorted names in an open folder with their status, and whether some are missing."""
    found: list[tuple[str, os.stat_result]] = []
    with os.scandir(fd) as entries:
        for entry in entries:
            if len(found) >= MAX_NAMES:
                return sorted(found, key=_entry_name), True
            try:
                found.append((entry.name, entry.stat(follow_symlinks=False)))
            except OSError:
                continue  # deleted meanwhile
    found.sort(key=_entry_name)
    return found, False


def _entry_name(pair: tuple[str, os.stat_result]) -> str:
    return pair[0]


def type_of_mode(mode: int) -> str:
    """Return the file type of a mode."""
    return next((word for test, word in _TYPE_TESTS if test(mode)), "other")


def printable_name(name: str) -> str:
    """Return a name as valid text, with other bytes replaced."""
    return os.fsencode(name).decode("utf-8", "replace")


def _build_entry(parts: tuple[str, ...], status: os.stat_result) -> ListingEntry:
    return ListingEntry(
        printable_name("/".join(parts)),
        type_of_mode(status.st_mode),
        status.st_size if stat.S_ISREG(status.st_mode) else None,
        _format_time(status.st_mtime),
    )


def _format_time(seconds: float) -> str:
    try:
        when = datetime.fromtimestamp(seconds, UTC)
    except (OverflowError, ValueError, OSError):  # a file system can have times out of range
        when = datetime.fromtimestamp(0, UTC)
    return when.isoformat(timespec="milliseconds").replace("+00:00", "Z")
