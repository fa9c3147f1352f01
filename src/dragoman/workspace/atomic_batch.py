"""Write several files together: all of them, or none.

All are first written to temporary files, then renamed; the old files are kept until the last rename. A failure restores
everything, and removes the folders that were created. Does not protect against a loss of power.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Callable, Sequence
from contextlib import suppress

from dragoman.errors import Kind, ProtocolError
from dragoman.workspace.atomic_write import (
    check_replaceable,
    new_temporary_name,
    read_content,
    rename,
    unlink,
    write_temporary,
)
from dragoman.workspace.paths import PathTarget, Roots, find_target, translate_os_errors, with_target

# Gets a file and its content right before it is replaced, None if there is none. Raises ProtocolError to refuse all.
CheckFile = Callable[[PathTarget, bytes | None], None]

# Files in one batch: more than people review at once, and each may hold a folder open.
MAX_FILES = 200


def write_all(
    roots: Roots,
    files: Sequence[tuple[str, bytes]],
    *,
    base: str | None = None,
    create_directories: bool = False,
    check: CheckFile | None = None,
) -> int:
    """Write all files or none; return the number of bytes. `check` sees the old content of each, and may refuse."""
    if len(files) > MAX_FILES:
        message = f"{len(files)} files exceed the limit of {MAX_FILES} files in one batch"
        raise ProtocolError(Kind.TOO_LARGE, message, {"limit": MAX_FILES})
    batch = _Batch(roots, base, create_directories, check)
    try:
        for path, data in files:
            batch.stage(path, data)
        batch.commit()
    except BaseException:
        batch.roll_back()
        raise
    finally:
        batch.close()
    return sum(len(data) for _, data in files)


class _StagedFile:
    """One file of a batch: its target, its temporary name, and the backup name of the old file."""

    __slots__ = ("backup_name", "identity", "replaces", "target", "temporary_name")

    def __init__(self, target: PathTarget, temporary_name: str, replaces: bool) -> None:
        self.target = target
        self.temporary_name: str | None = temporary_name
        self.replaces = replaces
        self.backup_name: str | None = None
        self.identity = _identity(target, temporary_name)  # identifies our file under any name


class _Batch:
    def __init__(self, roots: Roots, base: str | None, create_directories: bool, check: CheckFile | None) -> None:
        self._roots = roots
        self._base = base
        self._create_directories = create_directories
        self._check = check
        self._staged: list[_StagedFile] = []
        self._targets: set[tuple[int, int, str]] = set()
        self._made_directories: list[str] = []

    def stage(self, path: str, data: bytes) -> None:
        """Write a temporary file next to the target."""
        with_target(
            self._roots,
            path,
            lambda target: self._stage_target(target, data),
            base=self._base,
            make_directories=self._create_directories,
            made_directories=self._made_directories,
        )

    def _stage_target(self, target: PathTarget, data: bytes) -> None:
        self._roots.check_writable(target.path, target.requested)
        before = check_replaceable(target)
        folder = os.fstat(target.directory)
        place = (folder.st_dev, folder.st_ino, target.name)
        if place in self._targets:
            raise ProtocolError(Kind.INVALID_PARAMS, f"{target.requested} occurs twice", {"path": target.requested})
        name = write_temporary(target, data, before)
        self._staged.append(_StagedFile(target.detach(), name, before is not None))
        self._targets.add(place)

    def commit(self) -> None:
        """Rename every file to its target, keeping backups until the end."""
        for staged in self._staged:
            target = staged.target
            with translate_os_errors(target.requested):
                if staged.replaces:
                    _back_up(staged)
                elif target.stat() is not None:  # it was created since: do not overwrite it
                    raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST))
                if self._check is not None:
                    self._check(
                        target, None if staged.backup_name is None else read_content(target, staged.backup_name)
                    )
                rename(target, staged.temporary_name or "", target.name)
                staged.temporary_name = None
        for staged in self._staged:
            if staged.backup_name is not None:
                unlink(staged.target, staged.backup_name)
                staged.backup_name = None

    def roll_back(self) -> None:
        """Restore everything, the last one first; ignore errors."""
        for staged in reversed(self._staged):
            target = staged.target
            with suppress(OSError):
                if staged.temporary_name is not None:
                    unlink(target, staged.temporary_name)
                if staged.backup_name is not None:
                    rename(target, staged.backup_name, target.name)
                    unlink(target, staged.backup_name)  # rename does nothing if both names are the same file
                elif staged.temporary_name is None and _identity(target, target.name) == staged.identity:
                    unlink(target, target.name)
        for folder in reversed(self._made_directories):
            with suppress(OSError, ProtocolError), find_target(self._roots, folder) as target:
                os.rmdir(target.name, dir_fd=target.directory)  # fails if it is in use

    def close(self) -> None:
        """Close all folders."""
        for staged in self._staged:
            staged.target.close()


def _back_up(staged: _StagedFile) -> None:
    """Link the old file to a backup name; rename it if hard links are not supported."""
    target, name = staged.target, new_temporary_name()
    try:
        os.link(target.name, name, src_dir_fd=target.directory, dst_dir_fd=target.directory, follow_symlinks=False)
    except FileNotFoundError:
        return  # deleted meanwhile: the file is new
    except OSError:
        rename(target, target.name, name)
    staged.backup_name = name


def _identity(target: PathTarget, name: str) -> tuple[int, int] | None:
    try:
        status = os.stat(name, dir_fd=target.directory, follow_symlinks=False)
    except OSError:
        return None
    return status.st_dev, status.st_ino
