"""Small private files: replaced atomically, readable only by their owner, changed under a lock."""

from __future__ import annotations

import errno
import fcntl
import os
import stat
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import BinaryIO, Generic, TypeVar

import msgspec

from dragoman.errors import ConfigFault

# Larger than any policy or grants file; a larger file is not ours.
MAX_BYTES = 4 * 1024 * 1024

T = TypeVar("T")


def write_private(path: str, data: bytes) -> None:
    """Replace a file atomically; only its owner can read it."""
    folder = os.path.dirname(path)
    os.makedirs(folder, mode=0o700, exist_ok=True)
    temporary = os.path.join(folder, f".{os.path.basename(path)}.{os.urandom(6).hex()}")
    fd = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    try:
        with open(fd, "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, path)
    except BaseException:
        os.unlink(temporary)
        raise
    _sync_folder(folder)


def read_bytes(path: str, limit: int = MAX_BYTES) -> bytes | None:
    """Return the content of a file; None if it does not exist. Raise OSError, also for a special file."""
    try:
        fd = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except (FileNotFoundError, NotADirectoryError):
        return None
    with open(fd, "rb") as file:
        data = file.read(limit + 1) if not stat.S_ISFIFO(os.fstat(fd).st_mode) else None
    if data is None:  # a pipe or device without data
        raise _no_file(path)
    if len(data) > limit:
        raise OSError(f"{path} is larger than {limit} bytes")
    return data


def open_regular(path: str) -> BinaryIO:
    """Open a regular file; raise OSError for others, because a pipe would block."""
    fd = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC)
    try:
        if not stat.S_ISREG(os.fstat(fd).st_mode):
            raise _no_file(path)
        return open(fd, "rb")
    except BaseException:
        os.close(fd)
        raise


def _no_file(path: str) -> OSError:
    return OSError(errno.EINVAL, "not a regular file", path)


@contextmanager
def as_config_faults(path: str) -> Iterator[None]:
    """Turn an OSError about one of our files into a ConfigFault that names it."""
    try:
        yield
    except OSError as error:
        raise ConfigFault([f"{error.filename or path}: {error.strerror or error}"]) from None


@contextmanager
def file_lock(path: str) -> Iterator[None]:
    """Hold the lock of a file, which is a separate file; other processes wait."""
    os.makedirs(os.path.dirname(path), mode=0o700, exist_ok=True)
    fd = os.open(f"{path}.lock", os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(fd, fcntl.LOCK_EX)
        yield
    finally:
        os.close(fd)  # releases the lock


def file_stamp(path: str) -> tuple[int, int, int] | None:
    """Return a value that changes with the file; None if it does not exist."""
    try:
        status = os.stat(path)
    except (FileNotFoundError, NotADirectoryError):
        return None
    return status.st_ino, status.st_mtime_ns, status.st_size


class JsonFile(Generic[T]):
    """One value in a small private file. It is read again after each change, by this process or another."""

    def __init__(self, path: str, kind: type[T], empty: T, remedy: str) -> None:
        """`empty` is the value without a file; `remedy` says what happens if an unreadable file is moved away."""
        self.path = path
        self._kind = kind
        self._empty = empty
        self._remedy = remedy
        self._stamp: tuple[int, int, int] | None = None
        self._current = empty

    def current(self) -> T:
        """Return the current value; raise ConfigFault if the file cannot be read."""
        now = file_stamp(self.path)
        if now != self._stamp:
            self._current, self._stamp = self._read(), now
        return self._current

    def edit(self, change: Callable[[T], T]) -> None:
        """Replace the value by a changed one, under the lock; raise ConfigFault if that fails."""
        with as_config_faults(self.path), file_lock(self.path):
            before = self._read()
            after = change(before)
            if after != before:
                write_private(self.path, msgspec.json.format(msgspec.json.encode(after), indent=1))
            self._stamp = None

    def _read(self) -> T:
        try:
            data = read_bytes(self.path)
            return self._empty if data is None else msgspec.json.decode(data, type=self._kind)
        except (OSError, msgspec.DecodeError) as error:
            raise ConfigFault([f"{self.path}: {error}; move the file away to {self._remedy}"]) from None


def _sync_folder(folder: str) -> None:
    fd = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)
