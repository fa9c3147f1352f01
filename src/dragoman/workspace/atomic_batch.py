"""Several files written together: all of them, or none.

Takes paths with bytes. Everything is written beside its place first, so that what can fail fails before anything
changes; then all are renamed, and what was there is kept until the last one is. A failure on the way puts everything
back, folders made for it included. Holds against errors, not against a loss of power in the middle.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Sequence
from contextlib import suppress

from dragoman.errors import Kind, ProtocolError
from dragoman.workspace.atomic_write import beside, replaceable, stage
from dragoman.workspace.paths import ATTEMPTS, Roots, Spot, faults_of, find

# Files in one batch: more than any change people review at once, and each may hold a folder open.
MAX_FILES = 200


def write_all(
    roots: Roots, files: Sequence[tuple[str, bytes]], *, base: str | None = None, create_directories: bool = False
) -> int:
    """Write all files or none; gives the number of bytes."""
    if len(files) > MAX_FILES:
        message = f"{len(files)} files are more than the {MAX_FILES} that are written together"
        raise ProtocolError(Kind.TOO_LARGE, message, {"limit": MAX_FILES})
    batch = _Batch(roots, base, create_directories)
    try:
        for path, data in files:
            batch.stage(path, data)
        batch.commit()
    except BaseException:
        batch.undo()
        raise
    finally:
        batch.close()
    return sum(len(data) for _, data in files)


class _Staged:
    """One file on its way: where it goes, the name it waits under, and the name of what it replaced."""

    __slots__ = ("identity", "kept", "replaces", "spot", "waiting")

    def __init__(self, spot: Spot, waiting: str, replaces: bool) -> None:
        self.spot = spot
        self.waiting: str | None = waiting
        self.replaces = replaces
        self.kept: str | None = None
        self.identity = _identity(spot, waiting)  # how our file is known again, whatever its name


class _Batch:
    def __init__(self, roots: Roots, base: str | None, create_directories: bool) -> None:
        self._roots = roots
        self._base = base
        self._create_directories = create_directories
        self._staged: list[_Staged] = []
        self._places: set[tuple[int, int, str]] = set()
        self._made: list[str] = []

    def stage(self, path: str, data: bytes) -> None:
        """Write a file beside its place."""
        for attempt in range(ATTEMPTS):
            spot = find(self._roots, path, base=self._base, make_directories=self._create_directories, made=self._made)
            try:
                self._roots.check_open(spot.path, spot.asked)
                with faults_of(spot.asked):
                    self._stage(spot, data)
                return
            except ProtocolError as error:
                spot.close()
                # ELOOP: the name became a link after the walk had seen that it was none.
                became_link = isinstance(error.__cause__, OSError) and error.__cause__.errno == errno.ELOOP
                if not became_link or attempt == ATTEMPTS - 1:
                    raise
            except BaseException:
                spot.close()
                raise

    def _stage(self, spot: Spot, data: bytes) -> None:
        before = replaceable(spot)
        folder = os.fstat(spot.directory)
        place = (folder.st_dev, folder.st_ino, spot.name)
        if place in self._places:
            raise ProtocolError(Kind.INVALID_PARAMS, f"{spot.asked} is named twice", {"path": spot.asked})
        self._staged.append(_Staged(spot, stage(spot, data, before), before is not None))
        self._places.add(place)

    def commit(self) -> None:
        """Put every file in its place, keeping what was there."""
        for staged in self._staged:
            spot = staged.spot
            with faults_of(spot.asked):
                if staged.replaces:
                    _keep(staged)
                elif spot.stat() is not None:  # it appeared since: what is there is not ours to lose
                    raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST))
                _rename(spot, staged.waiting or "", spot.name)
                staged.waiting = None
        for staged in self._staged:
            if staged.kept is not None:
                _unlink(staged.spot, staged.kept)
                staged.kept = None

    def undo(self) -> None:
        """Put everything back, the last one first; what fails here is left, for nothing better can be done."""
        for staged in reversed(self._staged):
            spot = staged.spot
            with suppress(OSError):
                if staged.waiting is not None:
                    _unlink(spot, staged.waiting)
                if staged.kept is not None:
                    _rename(spot, staged.kept, spot.name)
                    _unlink(spot, staged.kept)  # between two names of one file a rename does nothing
                elif staged.waiting is None and _identity(spot, spot.name) == staged.identity:
                    _unlink(spot, spot.name)
        for folder in reversed(self._made):
            with suppress(OSError, ProtocolError), find(self._roots, folder) as spot:
                os.rmdir(spot.name, dir_fd=spot.directory)  # unless somebody has used it since

    def close(self) -> None:
        """Give every folder back."""
        for staged in self._staged:
            staged.spot.close()


def _keep(staged: _Staged) -> None:
    """Give what is there a second name; where files have only one, move it away for the moment."""
    spot, name = staged.spot, beside()
    try:
        os.link(spot.name, name, src_dir_fd=spot.directory, dst_dir_fd=spot.directory, follow_symlinks=False)
    except FileNotFoundError:
        return  # gone since it was looked at: then it is just new
    except OSError:
        _rename(spot, spot.name, name)
    staged.kept = name


def _rename(spot: Spot, old: str, new: str) -> None:
    os.rename(old, new, src_dir_fd=spot.directory, dst_dir_fd=spot.directory)


def _unlink(spot: Spot, name: str) -> None:
    with suppress(FileNotFoundError):
        os.unlink(name, dir_fd=spot.directory)


def _identity(spot: Spot, name: str) -> tuple[int, int] | None:
    try:
        status = os.stat(name, dir_fd=spot.directory, follow_symlinks=False)
    except OSError:
        return None
    return status.st_dev, status.st_ino
