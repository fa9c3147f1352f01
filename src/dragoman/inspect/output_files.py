"""Create the files of recordings and of copies, without damage to existing files.

A recording never replaces a file: it gets the next free name. A copy replaces a file only when it is complete, and
never its source.
"""

from __future__ import annotations

import fcntl
import os
import stat
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import BinaryIO

from dragoman.errors import DragomanError

# Recordings with one name; beyond it the user should clean up.
MAX_RECORDINGS = 10_000

_MODE = 0o600  # recordings contain private conversations
_FLAGS = os.O_WRONLY | os.O_CLOEXEC


class NotWritable(DragomanError):
    """A recording or a copy cannot be written; the message says what to try."""


def create_recording_file(path: str) -> tuple[int, str]:
    """Create a file for a recording; return its descriptor and path: this one, or talk-2.ndjson if it exists."""
    stem, ending = os.path.splitext(path)
    for number in range(1, MAX_RECORDINGS):
        name = path if number == 1 else f"{stem}-{number}{ending}"
        try:
            fd = os.open(name, _FLAGS | os.O_CREAT | (os.O_EXCL if _has_content(name) else 0), _MODE)
        except FileExistsError:
            continue
        except OSError as error:
            why = f"cannot record to {name}: {error.strerror}; choose another file"
            raise NotWritable(f"{why}, or create the folder" if isinstance(error, FileNotFoundError) else why) from None
        if _try_lock(fd):
            return fd, name
        os.close(fd)
    raise NotWritable(
        f"cannot record to {path}: there are {MAX_RECORDINGS} recordings of that name; choose another file"
    )


def _has_content(name: str) -> bool:
    """Return whether the file must not be overwritten; an empty file, a pipe or a device may be."""
    try:
        there = os.stat(name)
    except OSError:
        return os.path.islink(name)
    return stat.S_ISREG(there.st_mode) and there.st_size > 0


def _try_lock(fd: int) -> bool:
    """Lock the file; return False if another process records to it."""
    if not stat.S_ISREG(os.fstat(fd).st_mode):
        return True
    with suppress(OSError):
        os.fchmod(fd, _MODE)  # the file may exist already
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)  # held while the recording is open
    except BlockingIOError:
        return False
    except OSError:
        pass  # a file system without locks
    return os.fstat(fd).st_size == 0


def check_not_source(path: str, sources: Sequence[str]) -> None:
    """Refuse to write a copy to one of the files it is made of."""
    for source in sources:
        with suppress(OSError):  # one of them does not exist
            if os.path.samefile(path, source):
                raise NotWritable(f"{path} is the recording itself; choose another file with --out")


@contextmanager
def open_replacement(path: str) -> Iterator[BinaryIO]:
    """Open a file that replaces `path` when it is complete; on an error nothing changes."""
    try:
        if os.path.exists(path) and not os.path.isfile(path):  # a pipe or a device cannot be replaced
            with open(path, "wb") as file:
                yield file
            return
        target = os.path.realpath(path)
        fd, draft = tempfile.mkstemp(prefix=f".{os.path.basename(target)}.", dir=os.path.dirname(target))
        try:
            with os.fdopen(fd, "wb") as file:
                yield file
            os.replace(draft, target)
        except BaseException:
            with suppress(OSError):
                os.unlink(draft)
            raise
    except OSError as error:
        raise NotWritable(f"cannot write {path}: {error.strerror}; choose another file with --out") from None
