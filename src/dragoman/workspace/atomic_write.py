"""Bytes put where a path led: written beside the file and renamed, so that readers see all or nothing.

Takes a Spot that the walk found, gives what the write did. Other names of a file (hard links) keep the old bytes, a
file that is replaced keeps its mode, and nothing is left beside it when that fails. Only regular files are touched.
"""

from __future__ import annotations

import errno
import os
import stat
from typing import NamedTuple

from dragoman.errors import Kind, ProtocolError
from dragoman.workspace.paths import Roots, Spot, faults_of, file_data, find

# Looks before it opens, then opens without waiting: a FIFO has no reader to wait for.
_PROBE = os.O_WRONLY | os.O_NONBLOCK
_CREATE = os.O_WRONLY | os.O_CREAT | os.O_EXCL


class Written(NamedTuple):
    """What a write did."""

    bytes_written: int
    created: bool


def check_regular(spot: Spot, status: os.stat_result | None) -> None:
    """Refuse what is missing, a folder, or no regular file; a link is left to whoever opens it."""
    if status is None:
        raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT))
    if stat.S_ISLNK(status.st_mode):
        return  # it became a link just now: opening says so, and the walk starts again
    if stat.S_ISDIR(status.st_mode):
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR))
    if not stat.S_ISREG(status.st_mode):
        message = f"{spot.asked} is not a regular file (a device, pipe or socket)"
        raise ProtocolError(Kind.INVALID_PARAMS, message, file_data(spot.asked))


def replaceable(spot: Spot) -> os.stat_result | None:
    """The file that a write would replace, None if there is none yet; OSError when it may not be written."""
    seen = spot.stat()
    if seen is None:
        return None
    check_regular(spot, seen)
    # A file that is read-only for us stays as it is, though its folder would let us replace it.
    probe = spot.open(_PROBE)
    try:
        before = os.fstat(probe)
    finally:
        os.close(probe)
    check_regular(spot, before)
    return before


def store(spot: Spot, data: bytes, overwrite: bool) -> Written:
    """Make the file hold exactly these bytes."""
    if not overwrite:
        seen = spot.stat()
        if seen is not None:
            check_regular(spot, seen)
            raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST))
        _fill(spot, spot.name, spot.open(_CREATE), data)
        return Written(len(data), created=True)
    before = replaceable(spot)
    name = stage(spot, data, before)
    try:
        os.rename(name, spot.name, src_dir_fd=spot.directory, dst_dir_fd=spot.directory)
    except OSError:
        os.unlink(name, dir_fd=spot.directory)
        raise
    return Written(len(data), created=before is None)


def beside() -> str:
    """A name for a file of ours that stands beside another for a moment."""
    return f".dragoman-{os.urandom(8).hex()}.tmp"


def stage(spot: Spot, data: bytes, before: os.stat_result | None) -> str:
    """Write the bytes beside the file, in the likeness of the one they will replace; gives the name."""
    name = beside()
    flags = _CREATE | os.O_NOFOLLOW | os.O_CLOEXEC
    fd = os.open(name, flags, 0o666 if before is None else 0o600, dir_fd=spot.directory)
    _fill(spot, name, fd, data, before)
    return name


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


def make_folder(roots: Roots, path: str, *, base: str | None = None, parents: bool = False) -> bool:
    """Make a folder; False when it was there."""
    asked = path.rstrip("/") or path  # a slash at the end would want the folder to be there
    with find(roots, asked, base=base, make_directories=parents) as spot, faults_of(spot.asked):
        roots.check_open(spot.path, spot.asked)
        try:
            os.mkdir(spot.name, dir_fd=spot.directory)
        except FileExistsError:
            return _was_there(spot)
    return True


def _was_there(spot: Spot) -> bool:
    seen = spot.stat()
    if seen is None or not stat.S_ISDIR(seen.st_mode):
        raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST))
    return False
