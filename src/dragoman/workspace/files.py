"""Text files that a client lends an agent: whole or by lines, written all at once or not at all.

Takes paths as peers give them and gives text exactly as it is stored: no newline is translated, no mark
removed. Confinement is the work of paths; only regular files are touched. Synchronous: the caller decides on
threads. Does not know permission: who may read or write is decided before.
"""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Sequence
from typing import NamedTuple

from dragoman.errors import Kind, ProtocolError
from dragoman.workspace.paths import ATTEMPTS, Roots, Spot, faults_of, file_data, find, resolve_inside

# As much as one message may carry (wire.frames.MAX_FRAME): more could not be sent anyway.
MAX_BYTES = 64 * 1024 * 1024

_CHUNK = 1024 * 1024

# Looks before it opens, then opens without waiting: a FIFO has no writer to wait for.
_READ = os.O_RDONLY | os.O_NONBLOCK
_PROBE = os.O_WRONLY | os.O_NONBLOCK
_CREATE = os.O_WRONLY | os.O_CREAT | os.O_EXCL


class Page(NamedTuple):
    """Some lines of a file: their text, how many lines the file has, and whether lines follow after these."""

    text: str
    total_lines: int
    truncated: bool


class Written(NamedTuple):
    """What a write did."""

    bytes_written: int
    created: bool


class Files:
    """The files inside some folders; `protected` ones among them are never written."""

    def __init__(
        self,
        roots: Sequence[str],
        *,
        base: str | None = None,
        max_bytes: int = MAX_BYTES,
        protected: Sequence[str] = (),
    ) -> None:
        self._roots = Roots(roots)
        self._base = base
        self._max_bytes = max_bytes
        self._protected = tuple(os.path.realpath(path) for path in protected)

    def resolve(self, path: str) -> str:
        """The canonical path of a file, existing or not: what a person should be asked about."""
        return resolve_inside(self._roots, path, base=self._base)

    def read_text(self, path: str, line: int | None = None, limit: int | None = None, encoding: str = "utf-8") -> str:
        """The text of a file, or `limit` lines of it from the 1-based `line` on."""
        return self.read_page(path, line, limit, encoding).text

    def read_page(self, path: str, line: int | None = None, limit: int | None = None, encoding: str = "utf-8") -> Page:
        """Like read_text, and says how much more there is."""
        for name, value in (("line", line), ("limit", limit)):
            if value is not None and value < 0:
                raise ProtocolError(Kind.INVALID_PARAMS, f"{name} must not be negative: {value}")
        text = _decode(self._read(path), path, encoding)
        return _lines(text, line, limit)

    def write_text(
        self,
        path: str,
        text: str,
        encoding: str = "utf-8",
        *,
        create_directories: bool = False,
        overwrite: bool = True,
    ) -> Written:
        """Make a file hold exactly this text; other names of the file (hard links) keep the old one."""
        data = _encode(text, path, encoding)
        self._check_size(path, len(data))
        for attempt in range(ATTEMPTS):
            with find(self._roots, path, base=self._base, make_directories=create_directories) as spot:
                self._check_protected(spot)
                with faults_of(spot.asked):
                    try:
                        return _write(spot, data, overwrite)
                    except OSError as error:
                        # ELOOP: the name became a link after the walk had seen that it was none.
                        if error.errno != errno.ELOOP or attempt == ATTEMPTS - 1:
                            raise
        raise AssertionError("unreachable")

    def _read(self, path: str) -> bytes:
        for attempt in range(ATTEMPTS):
            with find(self._roots, path, base=self._base) as spot, faults_of(spot.asked):
                _check_regular(spot, spot.stat())
                try:
                    fd = spot.open(_READ)
                except OSError as error:
                    if error.errno != errno.ELOOP or attempt == ATTEMPTS - 1:
                        raise
                    continue
                try:
                    status = os.fstat(fd)
                    _check_regular(spot, status)
                    self._check_size(path, status.st_size)
                    return self._read_all(path, fd)
                finally:
                    os.close(fd)
        raise AssertionError("unreachable")

    def _read_all(self, path: str, fd: int) -> bytes:
        data = bytearray()
        while chunk := os.read(fd, _CHUNK):
            data += chunk
            self._check_size(path, len(data))  # again: it may grow while it is read
        return bytes(data)

    def _check_size(self, path: str, size: int) -> None:
        if size > self._max_bytes:
            message = f"{path}: {size} bytes are more than the {self._max_bytes} read or written at once"
            raise ProtocolError(Kind.TOO_LARGE, message, {"size": size, "limit": self._max_bytes})

    def _check_protected(self, spot: Spot) -> None:
        for place in self._protected:
            if spot.path == place or spot.path.startswith(place.rstrip("/") + "/"):
                message = f"{spot.asked} belongs to the client itself and is never written for an agent"
                raise ProtocolError(Kind.ACCESS_DENIED, message, file_data(spot.asked))


def _check_regular(spot: Spot, status: os.stat_result | None) -> None:
    if status is None:
        raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT))
    if stat.S_ISLNK(status.st_mode):
        return  # it became a link just now: opening says so, and the walk starts again
    if stat.S_ISDIR(status.st_mode):
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR))
    if not stat.S_ISREG(status.st_mode):
        message = f"{spot.asked} is not a regular file (a device, pipe or socket)"
        raise ProtocolError(Kind.INVALID_PARAMS, message, file_data(spot.asked))


def _write(spot: Spot, data: bytes, overwrite: bool) -> Written:
    seen = spot.stat()
    if seen is None:
        if overwrite:
            _replace(spot, data, None)
        else:
            _fill(spot, spot.name, spot.open(_CREATE), data)
        return Written(len(data), created=True)
    _check_regular(spot, seen)
    if not overwrite:
        raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST))
    # A file that is read-only for us stays as it is, though its folder would let us replace it.
    probe = spot.open(_PROBE)
    try:
        before = os.fstat(probe)
    finally:
        os.close(probe)
    _check_regular(spot, before)
    _replace(spot, data, before)
    return Written(len(data), created=False)


def _replace(spot: Spot, data: bytes, before: os.stat_result | None) -> None:
    """Write beside the file and rename: readers see all or nothing, and other hard links are left alone."""
    name = f".dragoman-{os.urandom(8).hex()}.tmp"
    flags = _CREATE | os.O_NOFOLLOW | os.O_CLOEXEC
    fd = os.open(name, flags, 0o666 if before is None else 0o600, dir_fd=spot.directory)
    _fill(spot, name, fd, data, before)
    try:
        os.rename(name, spot.name, src_dir_fd=spot.directory, dst_dir_fd=spot.directory)
    except OSError:
        os.unlink(name, dir_fd=spot.directory)
        raise


def _fill(spot: Spot, name: str, fd: int, data: bytes, like: os.stat_result | None = None) -> None:
    """Write a file that was just created; remove it again if that fails."""
    try:
        try:
            rest = memoryview(data)
            while rest:
                rest = rest[os.write(fd, rest) :]
            if like is not None:
                _keep_owner(fd, like)
                # Without setuid and setgid, as the kernel clears them on any write.
                os.fchmod(fd, stat.S_IMODE(like.st_mode) & 0o1777)
        finally:
            os.close(fd)
    except BaseException:
        os.unlink(name, dir_fd=spot.directory)
        raise


def _keep_owner(fd: int, like: os.stat_result) -> None:
    now = os.fstat(fd)
    if (now.st_uid, now.st_gid) != (like.st_uid, like.st_gid):
        try:
            os.fchown(fd, like.st_uid, like.st_gid)
        except OSError:
            pass  # only root can give files away; the content matters more than the owner


def _decode(data: bytes, path: str, encoding: str) -> str:
    try:
        return data.decode(encoding)
    except LookupError:
        raise _unknown_encoding(encoding) from None
    except ValueError as error:
        message = f"{path} is not {encoding} text: {error}"
        raise ProtocolError(Kind.INVALID_PARAMS, message, {"encoding": encoding}) from None


def _encode(text: str, path: str, encoding: str) -> bytes:
    try:
        return text.encode(encoding)
    except LookupError:
        raise _unknown_encoding(encoding) from None
    except ValueError as error:
        message = f"the text for {path} cannot be written as {encoding}: {error}"
        raise ProtocolError(Kind.INVALID_PARAMS, message, {"encoding": encoding}) from None


def _unknown_encoding(encoding: str) -> ProtocolError:
    message = f"there is no text encoding {encoding!r}; utf-8 is always there"
    return ProtocolError(Kind.INVALID_PARAMS, message, {"encoding": encoding})


def _lines(text: str, line: int | None, limit: int | None) -> Page:
    """Cut by lines: where lines follow, the newline of the last one falls away (peers.md 30).

    A cut that reaches past the last line keeps the end of the file as it is, so that an agent that reads with
    a large limit and writes back (qwen, peers.md 28) does not lose the final newline.
    """
    total = text.count("\n") + (text != "" and not text.endswith("\n"))
    start = 0
    for _ in range(max(line or 1, 1) - 1):  # 0 is in circulation for "from the start" (peers.md 23)
        start = text.find("\n", start) + 1
        if not start:
            return Page("", total, False)
    if limit is None:
        return Page(text[start:], total, False)
    if limit == 0:
        return Page("", total, start < len(text))
    end = start
    for _ in range(limit):
        end = text.find("\n", end) + 1
        if not end:
            return Page(text[start:], total, False)
    return Page(text[start : end - 1].removesuffix("\r"), total, end < len(text))
