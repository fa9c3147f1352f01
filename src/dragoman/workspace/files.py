"""The files that a client shares with an agent: text by lines, bytes by ranges, folders, several files at once.

Reads and writes text and bytes unchanged, only in regular files inside the roots (see `paths`). Synchronous, except for
watching. Permission is checked before.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from copy import copy
from functools import partial
from typing import TYPE_CHECKING, NamedTuple, Protocol, TypeVar

from dragoman.errors import Kind, ProtocolError
from dragoman.workspace.atomic_write import WriteResult, check_regular, write_file
from dragoman.workspace.paths import (
    PathTarget,
    Roots,
    WouldWait,
    find_target,
    resolve_inside,
    translate_os_errors,
    with_target,
)
from dragoman.workspace.text import LineRange, decode, encode, select_lines

if TYPE_CHECKING:
    from dragoman.workspace.listing import Listing
    from dragoman.workspace.watch import DirectoryWatch

__all__ = ["MAX_BYTES", "ByteRange", "Files", "LineRange", "WriteResult"]

T = TypeVar("T")

# As much as one message may carry (wire.frames.MAX_FRAME).
MAX_BYTES = 64 * 1024 * 1024

# Bytes returned at once: they must fit a message in base64.
MAX_RANGE_BYTES = 32 * 1024 * 1024

_READ_SIZE = 1024 * 1024

# The largest file that is read at once, without a thread: so much is copied and decoded in a tenth of a millisecond.
MAX_AT_ONCE = 256 * 1024

# Makes a read fail that would wait for the disk (Linux).
_NOWAIT: int | None = getattr(os, "RWF_NOWAIT", None)

# Non-blocking: opening a FIFO must not wait for a writer.
_READ_FLAGS = os.O_RDONLY | os.O_NONBLOCK


class ByteRange(NamedTuple):
    """Some bytes of a file, the size of the file, and whether more bytes follow."""

    data: bytes
    size: int
    truncated: bool


class FileTracker(Protocol):
    """Follows what is read and written, and may refuse to replace a file. Called from threads, with canonical paths."""

    def note_read(self, path: str, data: bytes) -> None:
        """Note the content of a file that was read."""
        ...

    def writing(self, contents: Sequence[tuple[str, bytes]]) -> AbstractContextManager[bool]:
        """Return a block in which these files are written; note them at its end.

        It gives whether another program may write them at the same moment.
        """
        ...

    @property
    def compares(self) -> bool:
        """Whether `check` has to see the old content."""
        ...

    def check(self, path: str, current: bytes | None) -> None:
        """Raise ProtocolError if this content, None if there is no file, must not be replaced."""
        ...


class Files:
    """The files inside some folders; `protected` ones are never written."""

    def __init__(
        self,
        roots: Sequence[str],
        *,
        base: str | None = None,
        max_bytes: int = MAX_BYTES,
        protected: Sequence[str] = (),
        resolve: Callable[[str], str] = os.path.realpath,
    ) -> None:
        self._roots = Roots(roots, protected, resolve)
        self._base = base
        self._max_bytes = max_bytes
        self._tracker: FileTracker | None = None

    @property
    def roots(self) -> tuple[str, ...]:
        """The canonical paths of the folders."""
        return self._roots.real_paths

    def with_approved(self, paths: Mapping[str, str], tracker: FileTracker | None = None) -> Files:
        """Return the same files, where each requested path leads to the canonical path that was approved, or fails.

        `tracker` follows what is read and written.
        """
        files = copy(self)
        files._roots = self._roots.with_approved(paths)
        files._tracker = tracker
        return files

    def approved_path(self, path: str) -> str:
        """Return the canonical path that was approved for a requested one."""
        return self._roots.approved_path(path) or self.resolve(path)

    def resolve(self, path: str) -> str:
        """Return the canonical path of a file, existing or not, for permission questions."""
        return resolve_inside(self._roots, path, base=self._base)

    # --- reading ----------------------------------------------------------------------------------------------

    def read_text(self, path: str, line: int | None = None, limit: int | None = None, encoding: str = "utf-8") -> str:
        """Return the text of a file, or `limit` lines from the 1-based `line` on."""
        return self.read_lines(path, line, limit, encoding).text

    def read_lines(
        self, path: str, line: int | None = None, limit: int | None = None, encoding: str = "utf-8"
    ) -> LineRange:
        """Read like read_text, and return how many lines there are."""
        return self._select_lines(path, line, limit, encoding, waits=True)

    def read_lines_at_once(
        self, path: str, line: int | None = None, limit: int | None = None, encoding: str = "utf-8"
    ) -> LineRange | None:
        """Read like read_lines if the system has a small file in memory; None if a thread has to do it.

        An agent reads mostly what was just read or written, and a thread takes longer than such a read.
        """
        try:
            return None if _NOWAIT is None else self._select_lines(path, line, limit, encoding, waits=False)
        except WouldWait:
            return None

    def _select_lines(self, path: str, line: int | None, limit: int | None, encoding: str, *, waits: bool) -> LineRange:
        for name, value in (("line", line), ("limit", limit)):
            _check_count(name, value)
        read = partial(self._read_text_bytes, waits=waits)
        return select_lines(decode(self._with_open_file(path, read, waits=waits), path, encoding), line, limit)

    def read_bytes(self, path: str, offset: int | None = None, length: int | None = None) -> ByteRange:
        """Return the bytes from `offset` on, at most `length` and never more than fit a message."""
        for name, value in (("offset", offset), ("length", length)):
            _check_count(name, value)
        most = min(MAX_RANGE_BYTES, self._max_bytes)

        def read(target: PathTarget, fd: int) -> ByteRange:
            chunk = _read_range(fd, offset or 0, most if length is None else min(length, most))
            if self._tracker is not None and not chunk.truncated:  # the end was read, so the whole file is known
                self._tracker.note_read(target.path, chunk.data if not offset else self._read_all(target, fd))
            return chunk

        return self._with_open_file(path, read)

    def list(self, path: str, recursive: bool = False, limit: int | None = None) -> Listing:
        """List a folder, with `recursive` also all below it; links are listed, not followed."""
        from dragoman.workspace.listing import list_directory

        _check_count("limit", limit)
        folder = path.rstrip("/") + "/" if path else path
        with find_target(self._roots, folder, base=self._base) as target, translate_os_errors(target.requested):
            return list_directory(target.directory, recursive, limit)

    async def watch(self, path: str, recursive: bool = False, *, interval: float | None = None) -> DirectoryWatch:
        """Watch a folder or a file; with `interval`, poll every so many seconds instead of using inotify."""
        from dragoman.workspace.watch import start_watch

        return await start_watch(self._roots, path, base=self._base, recursive=recursive, interval=interval)

    # --- writing ----------------------------------------------------------------------------------------------

    def write_text(
        self,
        path: str,
        text: str,
        encoding: str = "utf-8",
        *,
        create_directories: bool = False,
        overwrite: bool = True,
    ) -> WriteResult:
        """Write exactly this text to a file; hard links to it keep the old text."""
        data = encode(text, path, encoding)
        return self.write_bytes(path, data, create_directories=create_directories, overwrite=overwrite)

    def write_bytes(
        self, path: str, data: bytes, *, create_directories: bool = False, overwrite: bool = True
    ) -> WriteResult:
        """Write exactly these bytes to a file; hard links to it keep the old bytes."""
        self._check_size(path, len(data))

        def write(target: PathTarget) -> WriteResult:
            self._roots.check_writable(target.path, target.requested)
            tracker = self._tracker
            if tracker is None:
                return write_file(target, data, overwrite)
            with tracker.writing([(target.path, data)]) as is_contested:
                check = partial(tracker.check, target.path) if tracker.compares else None
                return write_file(target, data, overwrite, check, is_contested=is_contested)

        return with_target(self._roots, path, write, base=self._base, make_directories=create_directories)

    def write_many(
        self,
        files: Sequence[tuple[str, str | bytes]],
        *,
        create_directories: bool = False,
        expected: Mapping[str, str] | None = None,
    ) -> int:
        """Write all files or none; return the number of bytes. One whose text is not as `expected` refuses all."""
        from dragoman.workspace.atomic_batch import write_all

        ready = [(path, data if isinstance(data, bytes) else encode(data, path, "utf-8")) for path, data in files]
        self._check_size("the batch", sum(len(data) for _, data in ready))
        before = {path: encode(text, path, "utf-8") for path, text in (expected or {}).items()}
        write = partial(write_all, self._roots, ready, base=self._base, create_directories=create_directories)
        tracker = self._tracker
        if tracker is None:
            return write(check=partial(_check_expected, before) if before else None)

        def check(target: PathTarget, current: bytes | None) -> None:
            _check_expected(before, target, current)
            tracker.check(target.path, current)

        with tracker.writing([(self.resolve(path), data) for path, data in ready]):
            return write(check=check if before or tracker.compares else None)

    def make_directory(self, path: str, *, parents: bool = False) -> bool:
        """Create a folder, with `parents` also its parents; return False if it exists."""
        from dragoman.workspace.atomic_write import make_directory

        return make_directory(self._roots, path, base=self._base, parents=parents)

    # --- path lookup ------------------------------------------------------------------------------------------

    def _with_open_file(self, path: str, read: Callable[[PathTarget, int], T], *, waits: bool = True) -> T:
        def use(target: PathTarget) -> T:
            check_regular(target, target.stat())
            fd = target.open(_READ_FLAGS, waits=waits)
            try:
                check_regular(target, os.fstat(fd))
                return read(target, fd)
            finally:
                os.close(fd)

        return with_target(self._roots, path, use, base=self._base)

    def _read_text_bytes(self, target: PathTarget, fd: int, *, waits: bool) -> bytes:
        data = self._read_all(target, fd) if waits else self._read_at_once(target, fd)
        if self._tracker is not None:
            self._tracker.note_read(target.path, data)
        return data

    def _read_all(self, target: PathTarget, fd: int) -> bytes:
        self._check_size(target.requested, os.fstat(fd).st_size)
        data = bytearray()
        while chunk := os.pread(fd, _READ_SIZE, len(data)):
            data += chunk
            self._check_size(target.requested, len(data))  # again: the file may grow while it is read
        return bytes(data)

    def _read_at_once(self, target: PathTarget, fd: int) -> bytes:
        """Return the whole content, or raise WouldWait."""
        assert _NOWAIT is not None
        size = os.fstat(fd).st_size
        self._check_size(target.requested, size)
        if size > MAX_AT_ONCE:
            raise WouldWait
        data = bytearray(size + 1)  # one more, to see whether the file grew
        try:
            count = os.preadv(fd, [data], 0, _NOWAIT)
        except OSError:  # not in memory, or not a file system that can tell
            raise WouldWait from None
        if count != size:  # a part is in memory, or the file is being written
            raise WouldWait
        return bytes(data[:size])

    def _check_size(self, path: str, size: int) -> None:
        if size > self._max_bytes:
            message = f"{path}: {size} bytes exceed the limit of {self._max_bytes} bytes"
            raise ProtocolError(Kind.TOO_LARGE, message, {"size": size, "limit": self._max_bytes})


def _check_expected(expected: Mapping[str, bytes], target: PathTarget, current: bytes | None) -> None:
    """Refuse a batch if a file is not as expected."""
    if target.requested in expected and current != expected[target.requested]:
        message = f"{target.requested} changed meanwhile; nothing was written; read it again"
        raise ProtocolError(Kind.INVALID_STATE, message, {"path": target.requested})


def _check_count(name: str, value: int | None) -> None:
    if value is not None and value < 0:
        raise ProtocolError(Kind.INVALID_PARAMS, f"{name} must not be negative: {value}")


def _read_range(fd: int, offset: int, length: int) -> ByteRange:
    size = os.fstat(fd).st_size
    if offset > size:
        return ByteRange(b"", size, False)
    data = bytearray()
    while len(data) < length and (chunk := os.pread(fd, min(_READ_SIZE, length - len(data)), offset + len(data))):
        data += chunk
    end = offset + len(data)
    # The file may have changed, or (as in /proc) have no size: what was read counts.
    ended = len(data) < length
    return ByteRange(bytes(data), end if ended else max(size, end), not ended and end < size)
