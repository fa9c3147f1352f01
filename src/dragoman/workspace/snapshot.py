"""A folder as it was when last looked at, and what is different now.

Takes the roots and a path; every look walks there again by descriptors, so that a folder that was moved out is gone and
not followed. Gives changes: created, modified, deleted. Links are entries like others and never followed. Bounded;
synchronous. Who says when to look is above (watch).
"""

from __future__ import annotations

import os
import stat
from collections.abc import Callable, Iterable, Iterator
from typing import NamedTuple

from dragoman.errors import Kind, ProtocolError
from dragoman.workspace.listing import MAX_DEPTH, opened, said, statuses
from dragoman.workspace.paths import Roots, Spot, faults_of, find

# Names remembered for one watch; a tree with more is better watched in parts.
MAX_NAMES = 100_000

# A place below the watched folder; () is the folder itself.
Place = tuple[str, ...]


class Change(NamedTuple):
    """One path that is different."""

    path: str
    type: str  # created | modified | deleted


class _Mark(NamedTuple):
    """What tells a file from what it was before."""

    is_folder: bool
    identity: tuple[int, int, int]  # kind, device, number
    state: tuple[int, int]  # time and size; nothing for folders, whose entries speak for themselves


class Survey:
    """What is known of a folder (or of one file in it)."""

    def __init__(self, roots: Roots, path: str, base: str | None, recursive: bool) -> None:
        self._roots = roots
        self._path = path
        self._base = base
        self._recursive = recursive
        self._only: str | None = None
        self._known: dict[Place, dict[str, _Mark]] = {}
        self._count = 0
        self._identity = (0, 0)
        self.top = ""
        self.is_over = False  # what was watched is gone
        self.entered: Callable[[Place, int], None] = lambda place, fd: None  # told of each folder, open
        self.left: Callable[[Place], None] = lambda place: None

    @property
    def places(self) -> list[Place]:
        """The folders that are looked at."""
        return list(self._known)

    def begin(self) -> None:
        """Look for the first time; what is there now is no news. Raises ProtocolError."""
        with find(self._roots, self._path, base=self._base) as spot, faults_of(spot.asked):
            seen = spot.stat()
            if seen is None:
                message = f"{self._path} does not exist; there is nothing to watch"
                raise ProtocolError(Kind.RESOURCE_NOT_FOUND, message, {"path": self._path})
            if stat.S_ISDIR(seen.st_mode):
                with _inside(spot) as fd:
                    self._identity = _identity(os.fstat(fd))
                    self.top = spot.path
                    self._enter(fd, (), None)
            else:
                self._only = spot.name
                self.top = os.path.dirname(spot.path)
                with opened(spot.directory, ()) as fd:
                    self._identity = _identity(os.fstat(fd))
                    self._enter(fd, (), None)
        if self._count > MAX_NAMES:
            message = f"{self._path} holds more than the {MAX_NAMES} names that are watched at once; watch a part of it"
            raise ProtocolError(Kind.TOO_LARGE, message, {"limit": MAX_NAMES})

    def look(self, places: Iterable[Place], written: Iterable[tuple[Place, str]] = ()) -> list[Change]:
        """What is different in these folders; `written` names are known to be, even if they look the same."""
        changes: list[Change] = []
        try:
            with self._top() as top:
                for place in sorted(set(places), key=len):
                    if place in self._known:
                        self._look_at(top, place, changes)
        except (OSError, ProtocolError):
            self.is_over = True
            self._leave((), changes)
            if self._only is None:
                changes.append(Change(self._said(()), "deleted"))
            return changes
        told = {change.path for change in changes}
        for place, name in written:
            mark = self._known.get(place, {}).get(name)
            if mark is not None and not mark.is_folder and self._said((*place, name)) not in told:
                changes.append(Change(self._said((*place, name)), "modified"))
        return changes

    # --- one folder -------------------------------------------------------------------------------------------

    def _look_at(self, top: int, place: Place, changes: list[Change]) -> None:
        try:
            with opened(top, place) as fd:
                now = self._marks(fd)
                self._compare(fd, place, now, changes)
        except OSError:
            if not place:
                raise
            self._leave(place, changes)  # the folder above will tell that it is gone

    def _compare(self, fd: int, place: Place, now: dict[str, _Mark], changes: list[Change]) -> None:
        before = self._known[place]
        for name, mark in before.items():
            after = now.get(name)
            if after is None or (mark.is_folder and after.identity != mark.identity):
                if mark.is_folder:
                    self._leave((*place, name), changes)
                if after is None or not after.is_folder:
                    changes.append(Change(self._said((*place, name)), "deleted" if after is None else "modified"))
        self._count += len(now) - len(before)
        self._known[place] = now
        for name, mark in now.items():
            old = before.get(name)
            if old is None or (mark.is_folder and old.identity != mark.identity):
                changes.append(Change(self._said((*place, name)), "created" if old is None else "modified"))
                if mark.is_folder:
                    self._enter_named(fd, place, name, changes)
            elif not old.is_folder and (old.identity, old.state) != (mark.identity, mark.state):
                changes.append(Change(self._said((*place, name)), "modified"))

    def _marks(self, fd: int) -> dict[str, _Mark]:
        found, _ = statuses(fd)
        return {name: _mark(status) for name, status in found if self._only is None or name == self._only}

    def _enter(self, fd: int, place: Place, changes: list[Change] | None) -> None:
        """Begin to know a folder and those in it; without `changes` nothing in them is news."""
        self.entered(place, fd)  # before it is read: what happens in between is told twice rather than not at all
        marks = self._marks(fd)
        self._known[place] = marks
        self._count += len(marks)
        for name, mark in marks.items():
            if changes is not None:
                changes.append(Change(self._said((*place, name)), "created"))
            if mark.is_folder:
                self._enter_named(fd, place, name, changes)

    def _enter_named(self, fd: int, place: Place, name: str, changes: list[Change] | None) -> None:
        inner = (*place, name)
        if not self._recursive or self._only is not None or len(inner) >= MAX_DEPTH or self._count > MAX_NAMES:
            return
        try:
            with opened(fd, (name,)) as folder:
                self._enter(folder, inner, changes)
        except OSError:
            pass  # closed to us, gone, or a link by now

    def _leave(self, place: Place, changes: list[Change]) -> None:
        """Forget a folder and all below it; what was in them is gone from here."""
        for other in [known for known in self._known if known[: len(place)] == place]:
            marks = self._known.pop(other)
            self._count -= len(marks)
            self.left(other)
            changes.extend(Change(self._said((*other, name)), "deleted") for name in marks)

    # --- the way there ----------------------------------------------------------------------------------------

    def _top(self) -> _Folder:
        """The watched folder, walked to anew; it must be the one that was there before."""
        with find(self._roots, self.top.rstrip("/") + "/") as spot:
            fd = os.dup(spot.directory)
        if _identity(os.fstat(fd)) != self._identity:
            os.close(fd)
            raise FileNotFoundError(self.top)
        return _Folder(fd)

    def _said(self, place: Place) -> str:
        return said("/".join([self.top.rstrip("/"), *place]))


class _Folder:
    """A descriptor that is given back at the end of a `with`."""

    def __init__(self, fd: int) -> None:
        self._fd = fd

    def __enter__(self) -> int:
        return self._fd

    def __exit__(self, *_: object) -> None:
        os.close(self._fd)


def _inside(spot: Spot) -> _Folder:
    return _Folder(spot.open(os.O_RDONLY | os.O_DIRECTORY))


def _identity(status: os.stat_result) -> tuple[int, int]:
    return status.st_dev, status.st_ino


def _mark(status: os.stat_result) -> _Mark:
    is_folder = stat.S_ISDIR(status.st_mode)
    identity = (stat.S_IFMT(status.st_mode), status.st_dev, status.st_ino)
    return _Mark(is_folder, identity, (0, 0) if is_folder else (status.st_mtime_ns, status.st_size))


def merged(earlier: dict[str, str], changes: Iterable[Change]) -> None:
    """Add changes to those nobody has read yet, so that each path is told once."""
    for path, kind in changes:
        before = earlier.pop(path, None)
        told = _MERGED.get((before, kind), kind)
        if told:
            earlier[path] = told


def taken(waiting: dict[str, str], most: int) -> Iterator[Change]:
    """The changes that wait longest; they do not wait any more."""
    for path in list(waiting)[:most]:
        yield Change(path, waiting.pop(path))


_MERGED: dict[tuple[str | None, str], str] = {
    ("created", "modified"): "created",
    ("created", "deleted"): "",
    ("deleted", "created"): "modified",
}
