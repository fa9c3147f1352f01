"""Write a file atomically: write a temporary file next to it and rename it.

Hard links to the file keep the old bytes, and the file keeps its mode. Only regular files are written.
"""

from __future__ import annotations

import errno
import os
import signal
import stat
from collections.abc import Callable
from contextlib import suppress
from typing import NamedTuple

from dragoman.errors import Kind, ProtocolError
from dragoman.workspace.paths import PathTarget, Roots, file_error_data, find_target, translate_os_errors

# Non-blocking: opening a FIFO must not wait for a reader.
_PROBE_FLAGS = os.O_WRONLY | os.O_NONBLOCK
_CREATE_FLAGS = os.O_WRONLY | os.O_CREAT | os.O_EXCL

_READ_SIZE = 1024 * 1024


# How long a write waits for a program that has the file open, and how often it looks. Seconds.
CONTEST_WAIT, CONTEST_PAUSE = 2.0, 0.001


class WriteResult(NamedTuple):
    """The result of a write."""

    bytes_written: int
    created: bool


def check_regular(target: PathTarget, status: os.stat_result | None) -> None:
    """Refuse what is missing, a folder, or not a regular file; opening will refuse a link."""
    if status is None:
        raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT))
    if stat.S_ISLNK(status.st_mode):
        return  # it just became a link: opening fails, and the walk starts again
    if stat.S_ISDIR(status.st_mode):
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR))
    if not stat.S_ISREG(status.st_mode):
        message = f"{target.requested} is not a regular file (a device, pipe or socket)"
        raise ProtocolError(Kind.INVALID_PARAMS, message, file_error_data(target.requested))


def check_replaceable(target: PathTarget) -> os.stat_result | None:
    """Return the status of the file to replace, None if there is none; raises OSError if it is not writable."""
    seen = target.stat()
    if seen is None:
        return None
    check_regular(target, seen)
    # Do not replace a read-only file, although the folder would allow it.
    probe = target.open(_PROBE_FLAGS)
    try:
        before = os.fstat(probe)
    finally:
        os.close(probe)
    check_regular(target, before)
    return before


# Gets the content that is about to be replaced, None if there is no file. Raises ProtocolError if it must stay.
CheckContent = Callable[[bytes | None], None]


def write_file(
    target: PathTarget,
    data: bytes,
    overwrite: bool,
    check: CheckContent | None = None,
    *,
    is_contested: bool = False,
) -> WriteResult:
    """Write exactly these bytes to the file.

    `check` sees the old content right before. With `is_contested` another program may write the file at this very
    moment: what it wrote meanwhile is restored, and the write refused.
    """
    if not overwrite:
        seen = target.stat()
        if seen is not None:
            check_regular(target, seen)
            raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST))
        _write_new_file(target, target.name, target.open(_CREATE_FLAGS), data)
        return WriteResult(len(data), created=True)
    before = check_replaceable(target)
    name = write_temporary(target, data, before)
    try:
        if check is None:
            rename(target, name, target.name)
        elif is_contested:
            _replace_contested(target, name, data, check)
        else:
            check(read_content(target, target.name))
            rename(target, name, target.name)
    except BaseException:
        unlink(target, name)
        raise
    return WriteResult(len(data), created=before is None)


def _replace_contested(target: PathTarget, name: str, data: bytes, check: CheckContent) -> None:
    """Replace a file that a command may be writing, so that nothing that it writes is lost."""
    fd = _lease_file(target)
    if fd is None:  # there is no such file, or it cannot be leased
        _replace_with_backup(target, name, check)
        return
    try:
        # In place: a command that opens the file now waits for us, and would write to the old file after a rename.
        check(_read_whole(fd))
        written = 0
        while written < len(data):
            written += os.pwrite(fd, data[written:], written)
        os.ftruncate(fd, len(data))
    finally:
        os.close(fd)  # this ends the lease, too
    unlink(target, name)


def _lease_file(target: PathTarget) -> int | None:
    """Open a file alone: the kernel lets others wait until it is closed. None if that cannot be had.

    Linux gives such a lease for a file of this user that nobody has open. A program that writes it is waited for.
    """
    import time

    try:
        fd = target.open(os.O_RDWR | os.O_NONBLOCK)
    except OSError:
        return None
    try:
        import fcntl

        # Not SIGIO, which would end this process when somebody waits for the file; this one is ignored.
        fcntl.fcntl(fd, fcntl.F_SETSIG, signal.SIGURG)
        deadline = time.monotonic() + CONTEST_WAIT
        while True:
            try:
                fcntl.fcntl(fd, fcntl.F_SETLEASE, fcntl.F_WRLCK)
                if os.fstat(fd).st_nlink != 1:  # its other names keep the old content
                    os.close(fd)
                    return None
                return fd
            except OSError as error:
                if error.errno != errno.EAGAIN or time.monotonic() > deadline:
                    raise
            time.sleep(CONTEST_PAUSE)
    except (OSError, ImportError, AttributeError):  # not Linux, another owner, or a program that keeps it open
        os.close(fd)
        return None


def _read_whole(fd: int) -> bytes:
    with open(os.dup(fd), "rb", buffering=0) as file:
        return file.readall()


def _replace_with_backup(target: PathTarget, name: str, check: CheckContent) -> None:
    """Replace a file and look whether a command wrote to the old one meanwhile; then restore that."""
    backup = new_temporary_name()
    try:
        os.link(target.name, backup, src_dir_fd=target.directory, dst_dir_fd=target.directory, follow_symlinks=False)
    except OSError:  # it does not exist, or hard links are not supported
        check(read_content(target, target.name))
        rename(target, name, target.name)
        return
    try:
        old = read_content(target, backup)
        check(old)
        rename(target, name, target.name)
        if read_content(target, backup) == old:
            return
        rename(target, backup, target.name)
        message = f"{target.requested} was written by a command at the same moment; read it again, then write it"
        raise ProtocolError(Kind.INVALID_STATE, message, {"path": target.path})
    finally:
        unlink(target, backup)


def read_content(target: PathTarget, name: str) -> bytes | None:
    """Return the content of a name in the folder of a target; None if there is no such file."""
    try:
        fd = target.open_name(name, os.O_RDONLY | os.O_NONBLOCK)
    except FileNotFoundError:
        return None
    try:
        data = os.read(fd, os.fstat(fd).st_size + 1)
        while more := os.read(fd, _READ_SIZE):
            data += more
        return data
    finally:
        os.close(fd)


def rename(target: PathTarget, old: str, new: str) -> None:
    """Rename a name in the folder of a target."""
    os.rename(old, new, src_dir_fd=target.directory, dst_dir_fd=target.directory)


def unlink(target: PathTarget, name: str) -> None:
    """Remove a name in the folder of a target, if it is there."""
    with suppress(FileNotFoundError):
        os.unlink(name, dir_fd=target.directory)


def new_temporary_name() -> str:
    """Return a new name for a temporary file."""
    return f".dragoman-{os.urandom(8).hex()}.tmp"


def write_temporary(target: PathTarget, data: bytes, replaced: os.stat_result | None) -> str:
    """Write the bytes to a temporary file with the mode and owner of the replaced file; return its name."""
    name = new_temporary_name()
    flags = _CREATE_FLAGS | os.O_NOFOLLOW | os.O_CLOEXEC
    fd = os.open(name, flags, 0o666 if replaced is None else 0o600, dir_fd=target.directory)
    _write_new_file(target, name, fd, data, replaced)
    return name


def _write_new_file(
    target: PathTarget, name: str, fd: int, data: bytes, replaced: os.stat_result | None = None
) -> None:
    """Write a file that was just created; remove it if that fails."""
    try:
        try:
            rest = memoryview(data)
            while rest:
                rest = rest[os.write(fd, rest) :]
            if replaced is not None:
                now = os.fstat(fd)
                if (now.st_uid, now.st_gid) != (replaced.st_uid, replaced.st_gid):
                    with suppress(OSError):  # only root can change the owner; the content matters more
                        os.fchown(fd, replaced.st_uid, replaced.st_gid)
                # Without setuid and setgid, as the kernel clears them on any write.
                os.fchmod(fd, stat.S_IMODE(replaced.st_mode) & 0o1777)
        finally:
            os.close(fd)
    except BaseException:
        os.unlink(name, dir_fd=target.directory)
        raise


def make_directory(roots: Roots, path: str, *, base: str | None = None, parents: bool = False) -> bool:
    """Create a folder; return False if it exists."""
    name = path.rstrip("/") or path  # with a trailing slash the folder would have to exist
    with find_target(roots, name, base=base, make_directories=parents) as target, translate_os_errors(target.requested):
        roots.check_writable(target.path, target.requested)
        try:
            os.mkdir(target.name, dir_fd=target.directory)
        except FileExistsError:
            seen = target.stat()
            if seen is None or not stat.S_ISDIR(seen.st_mode):
                raise
            return False
    return True
