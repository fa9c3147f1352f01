"""The file of an editor: read it, and replace it in one step with its links and its mode kept."""

from __future__ import annotations

import errno
import hashlib
import os
import stat

import msgspec

from dragoman.config.private_files import file_stamp, read_bytes
from dragoman.errors import ConfigFault

# The mode of a file and of a folder that did not exist. Entries may name secrets.
_NEW_FILE, _NEW_FOLDER = 0o600, 0o700


class FileState(msgspec.Struct, frozen=True):
    """A file as it was read: its text (None if there is no file), and a stamp that changes with it."""

    path: str
    text: str | None
    stamp: tuple[int, int, int] | None


def read_file(path: str) -> FileState:
    """Read the file; raise ConfigFault if it is no text file."""
    stamp = file_stamp(path)
    if stamp is None and os.path.islink(path):
        raise ConfigFault([f"{path} is a link to a file that does not exist; create that file, or remove the link"])
    try:
        data = read_bytes(path)
        return FileState(path, None if data is None else data.decode(), stamp)
    except UnicodeDecodeError:
        raise ConfigFault([f"{path} is not UTF-8; save it as UTF-8 in the editor first"]) from None
    except OSError as error:
        raise ConfigFault([f"{path}: {error.strerror or error}"]) from None


def replace_file(before: FileState, text: str | None) -> None:
    """Replace what was read by the text, or remove the file; raise ConfigFault if it changed since."""
    real = os.path.realpath(before.path)  # a link stays a link: its target is replaced
    try:
        if file_stamp(before.path) != before.stamp:
            raise ConfigFault([f"{before.path} was changed by another program just now; try again"])
        if text is None:
            os.unlink(real)
            return
        _write(real, text.encode(), before)
    except OSError as error:
        if error.errno in (errno.EACCES, errno.EPERM, errno.EROFS):
            advice = "; show the entry instead, and add it where you keep your settings"
        else:
            advice = ""
        raise ConfigFault([f"{error.filename or before.path}: {error.strerror or error}{advice}"]) from None


def _write(path: str, data: bytes, before: FileState) -> None:
    folder = os.path.dirname(path)
    os.makedirs(folder, mode=_NEW_FOLDER, exist_ok=True)
    status = os.stat(path) if before.stamp is not None else None
    temporary = os.path.join(folder, f".{os.path.basename(path)}.{os.urandom(6).hex()}")
    fd = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, _NEW_FILE)
    try:
        with open(fd, "wb") as file:
            file.write(data)
            file.flush()
            if status is not None:
                if (status.st_uid, status.st_gid) != (os.geteuid(), os.getegid()):
                    os.fchown(fd, status.st_uid, status.st_gid)
                os.fchmod(fd, stat.S_IMODE(status.st_mode))
            os.fsync(fd)
        if file_stamp(path) != before.stamp:
            raise ConfigFault([f"{before.path} was changed by another program just now; try again"])
        os.replace(temporary, path)
    except BaseException:
        os.unlink(temporary)
        raise


def digest(text: str | None) -> str:
    """Return a value that tells two texts apart."""
    return "" if text is None else hashlib.sha256(text.encode()).hexdigest()
