"""inotify on Linux: which folders of a snapshot changed, and which names in them were written.

A folder is added by its descriptor, so the folder that was checked is the one that is watched. If inotify is missing or
out of watches, the watch polls.
"""

from __future__ import annotations

import asyncio
import os
import struct
import sys
from typing import Any

from dragoman.workspace.snapshot import DirectorySnapshot, RelativePath

_MODIFY, _CLOSE_WRITE = 0x2, 0x8
_MOVED_FROM, _MOVED_TO, _CREATE, _DELETE = 0x40, 0x80, 0x100, 0x200
_DELETE_SELF, _MOVE_SELF = 0x400, 0x800
_OVERFLOW = 0x4000
_ONLYDIR = 0x1000000

_MASK = _MODIFY | _CLOSE_WRITE | _MOVED_FROM | _MOVED_TO | _CREATE | _DELETE | _DELETE_SELF | _MOVE_SELF | _ONLYDIR

_EVENT_HEADER = struct.Struct("iIII")
_READ_SIZE = 64 * 1024


def open_inotify(snapshot: DirectorySnapshot) -> InotifyWatcher | None:
    """Watch every folder that the snapshot enters from now on; return None if the system has no inotify."""
    if not sys.platform.startswith("linux") or not os.path.exists("/proc/self/fd"):
        return None
    import ctypes

    try:
        libc = ctypes.CDLL(None, use_errno=True)
        fd = libc.inotify_init1(os.O_NONBLOCK | os.O_CLOEXEC)
    except (OSError, AttributeError):
        return None
    return InotifyWatcher(snapshot, fd, libc) if fd >= 0 else None


class InotifyWatcher:
    """One inotify queue for the folders of a snapshot."""

    def __init__(self, snapshot: DirectorySnapshot, fd: int, libc: Any) -> None:
        self._snapshot = snapshot
        self._loop = asyncio.get_running_loop()
        self._fd = fd
        self._libc = libc
        self._directory_by_number: dict[int, RelativePath] = {}
        self._number_by_directory: dict[RelativePath, int] = {}
        self._changed_directories: set[RelativePath] = set()
        self._written_names: set[tuple[RelativePath, str]] = set()
        self.is_full = False  # the system has no more watches
        self.has_events = asyncio.Event()
        snapshot.on_enter = self._add_directory
        snapshot.on_leave = self._remove_directory
        self._loop.add_reader(fd, self._read_events)

    def take_changed(self) -> tuple[list[RelativePath], list[tuple[RelativePath, str]]]:
        """Return and clear the changed folders and written names."""
        self._read_events()
        changed, written = list(self._changed_directories), list(self._written_names)
        self._changed_directories.clear()
        self._written_names.clear()
        self.has_events.clear()
        return changed, written

    def close(self) -> None:
        """End all watches; may be called again."""
        fd, self._fd = self._fd, -1
        if fd >= 0:
            self._loop.remove_reader(fd)
            os.close(fd)

    def _add_directory(self, directory: RelativePath, directory_fd: int) -> None:
        """Add an open folder; runs on the scanning thread, the only one that changes these tables."""
        number = -1
        if self._fd >= 0:
            number = self._libc.inotify_add_watch(self._fd, f"/proc/self/fd/{directory_fd}".encode(), _MASK)
        if number < 0:
            self.is_full = True
            return
        self._number_by_directory[directory] = number
        self._directory_by_number[number] = directory

    def _remove_directory(self, directory: RelativePath) -> None:
        number = self._number_by_directory.pop(directory, None)
        if number is not None and self._directory_by_number.get(number) == directory:
            del self._directory_by_number[number]
            if self._fd >= 0:
                self._libc.inotify_rm_watch(self._fd, number)

    def _read_events(self) -> None:
        """Note the changes since the last call; never waits."""
        try:
            data = os.read(self._fd, _READ_SIZE) if self._fd >= 0 else b""
        except BlockingIOError:
            return
        start = 0
        while start + _EVENT_HEADER.size <= len(data):
            number, mask, _, length = _EVENT_HEADER.unpack_from(data, start)
            start += _EVENT_HEADER.size
            name = data[start : start + length].rstrip(b"\0")
            start += length
            if mask & _OVERFLOW:  # events were lost: anything may have changed
                self._changed_directories.update(self._snapshot.directories)
            elif (directory := self._directory_by_number.get(number)) is not None:
                self._changed_directories.add(directory)
                if name and mask & (_MODIFY | _CLOSE_WRITE):
                    self._written_names.add((directory, os.fsdecode(name)))
        if self._changed_directories:
            self.has_events.set()
