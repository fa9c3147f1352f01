"""inotify on Linux: which folders changed, and which names in them were written.

`open_inotify` and `add` return None if inotify is missing or exhausted; the watch then polls. A folder is added by its
descriptor, so the folder that was checked is the one that is watched.
"""

from __future__ import annotations

import os
import struct
import sys
from typing import Any, NamedTuple

_MODIFY, _CLOSE_WRITE = 0x2, 0x8
_MOVED_FROM, _MOVED_TO, _CREATE, _DELETE = 0x40, 0x80, 0x100, 0x200
_DELETE_SELF, _MOVE_SELF = 0x400, 0x800
_OVERFLOW, _IGNORED = 0x4000, 0x8000
_ONLYDIR = 0x1000000

_MASK = _MODIFY | _CLOSE_WRITE | _MOVED_FROM | _MOVED_TO | _CREATE | _DELETE | _DELETE_SELF | _MOVE_SELF | _ONLYDIR

_EVENT_HEADER = struct.Struct("iIII")
_READ_SIZE = 64 * 1024


class InotifyEvent(NamedTuple):
    """A change: in which folder (None: events were lost, so anywhere), and the name that was written."""

    watch_number: int | None
    written_name: str | None
    is_removed: bool = False  # the watch number is no longer valid


class Inotify:
    """One inotify queue."""

    def __init__(self, fd: int, libc: Any) -> None:
        self.fd = fd
        self._libc = libc

    def add(self, directory_fd: int) -> int | None:
        """Watch an open folder; return its number, or None if the system has no more watches."""
        number = self._libc.inotify_add_watch(self.fd, f"/proc/self/fd/{directory_fd}".encode(), _MASK)
        return number if number >= 0 else None

    def remove(self, number: int) -> None:
        """Stop watching a folder; ignore one that is gone."""
        self._libc.inotify_rm_watch(self.fd, number)

    def read(self) -> list[InotifyEvent]:
        """Return the events since the last call; never waits."""
        signals: list[InotifyEvent] = []
        try:
            data = os.read(self.fd, _READ_SIZE)
        except BlockingIOError:
            return signals
        start = 0
        while start + _EVENT_HEADER.size <= len(data):
            number, mask, _, length = _EVENT_HEADER.unpack_from(data, start)
            start += _EVENT_HEADER.size
            name = data[start : start + length].rstrip(b"\0")
            start += length
            written = os.fsdecode(name) if mask & (_MODIFY | _CLOSE_WRITE) and name else None
            signals.append(InotifyEvent(None if mask & _OVERFLOW else number, written, bool(mask & _IGNORED)))
        return signals

    def close(self) -> None:
        """End all watches."""
        os.close(self.fd)


def open_inotify() -> Inotify | None:
    """Open a queue; return None if the system has none."""
    if not sys.platform.startswith("linux") or not os.path.exists("/proc/self/fd"):
        return None
    import ctypes

    try:
        libc = ctypes.CDLL(None, use_errno=True)
        fd = libc.inotify_init1(os.O_NONBLOCK | os.O_CLOEXEC)
    except (OSError, AttributeError):
        return None
    return Inotify(fd, libc) if fd >= 0 else None
