"""Where recordings and copies of them are written, without harm to a file that is there.

Takes a path that somebody named, gives something to write to. A recording never takes the place of another file: the
next free name beside it is used. A copy takes the place of what was there when it is complete, and never that of what
it is made of. Above are the recorder and the export; knows nothing of what is written.
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

# So many recordings of one name; whoever has more of them wants to clear up first.
MAX_RECORDINGS = 10_000

_MODE = 0o600  # a recording holds everything that was said, and a copy most of it
_FLAGS = os.O_WRONLY | os.O_CLOEXEC


class NotWritable(DragomanError):
    """A recording, or a copy of one, cannot be written; says what to try."""


def create_recording_file(path: str) -> tuple[int, str]:
    """A file for a recording and its path: this one, or talk-2.ndjson, talk-3.ndjson where something is there."""
    stem, ending = os.path.splitext(path)
    for number in range(1, MAX_RECORDINGS):
        name = path if number == 1 else f"{stem}-{number}{ending}"
        try:
            fd = os.open(name, _FLAGS | os.O_CREAT | (os.O_EXCL if _has_content(name) else 0), _MODE)
        except FileExistsError:
            continue
        except OSError as error:
            why = f"cannot record to {name}: {error.strerror}; choose another file"
            raise NotWritable(f"{why}, or make its folder" if isinstance(error, FileNotFoundError) else why) from None
        if _try_lock(fd):
            return fd, name
        os.close(fd)
    raise NotWritable(
        f"cannot record to {path}: there are {MAX_RECORDINGS} recordings of that name; choose another file"
    )


def _has_content(name: str) -> bool:
    """Whether something is there that must stay as it is; an empty file, a pipe or a device is there to be used."""
    try:
        there = os.stat(name)
    except OSError:
        return os.path.islink(name)
    return stat.S_ISREG(there.st_mode) and there.st_size > 0


def _try_lock(fd: int) -> bool:
    """Whether nobody else records to this file; two that came at the same moment must not share it."""
    if not stat.S_ISREG(os.fstat(fd).st_mode):
        return True
    with suppress(OSError):
        os.fchmod(fd, _MODE)  # one that was made beforehand
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)  # as long as the recording is open
    except BlockingIOError:
        return False
    except OSError:
        pass  # a file system without locks
    return os.fstat(fd).st_size == 0


def check_not_source(path: str, sources: Sequence[str]) -> None:
    """Refuse to write a copy to one of the files it is made of."""
    for source in sources:
        if _is_same_file(path, source):
            raise NotWritable(f"{path} is the recording itself, which stays as it is; choose another file with --out")


@contextmanager
def open_replacement(path: str) -> Iterator[BinaryIO]:
    """A file to write a copy to; it gets its name when all is written, else nothing has changed."""
    try:
        if os.path.exists(path) and not os.path.isfile(path):  # a pipe or a device has no name to change; a folder none
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


def _is_same_file(path: str, source: str) -> bool:
    try:
        return os.path.samefile(path, source)
    except OSError:
        return False
