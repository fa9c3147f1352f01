"""A snapshot of a folder, to find changes: created, modified, deleted.

Every scan walks to the folder again, so a folder that was moved away is gone. Links are never followed. Bounded and
synchronous; `watch` decides when to scan.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from typing import NamedTuple

from dragoman.errors import Kind, ProtocolError
from dragoman.workspace.listing import MAX_DEPTH, open_subdirectory, printable_name, read_directory
from dragoman.workspace.paths import Roots, find_target, translate_os_errors

# Names in one snapshot; watch a larger tree in parts.
MAX_NAMES = 100_000

# A path below the watched folder; () is the folder itself.
RelativePath = tuple[str, ...]


class WatchChange(NamedTuple):
    """One changed path."""

    path: str
    type: str  # created | modified | deleted


class _FileState(NamedTuple):
    """The state of a file, to detect changes."""

    is_directory: bool
    identity: tuple[int, int, int]  # type, device, inode
    version: tuple[int, int]  # time and size; zeros for folders


class DirectorySnapshot:
    """The last known state of a folder (or of one file in it)."""

    def __init__(self, roots: Roots, path: str, base: str | None, recursive: bool) -> None:
        self._roots = roots
        self._path = path
        self._base = base
        self._recursive = recursive
        self._file_name: str | None = None
        self._states: dict[RelativePath, dict[str, _FileState]] = {}
        self._name_count = 0
        self._identity = (0, 0)
        self.root_path = ""
        self.is_gone = False  # the watched path was deleted
        self.on_enter: Callable[[RelativePath, int], None] = lambda place, fd: None  # called with each open folder
        self.on_leave: Callable[[RelativePath], None] = lambda place: None

    @property
    def directories(self) -> list[RelativePath]:
        """The folders in the snapshot."""
        return list(self._states)

    def begin(self) -> None:
        """Take the first snapshot, without changes. Raises ProtocolError."""
        with find_target(self._roots, self._path, base=self._base) as target, translate_os_errors(target.requested):
            seen = target.stat()
            if seen is None:
                message = f"{self._path} does not exist, so it cannot be watched"
                raise ProtocolError(Kind.RESOURCE_NOT_FOUND, message, {"path": self._path})
            is_directory = stat.S_ISDIR(seen.st_mode)
            self._file_name = None if is_directory else target.name
            self.root_path = target.path if is_directory else os.path.dirname(target.path)
            with open_subdirectory(target.directory, (target.name,) if is_directory else ()) as fd:
                self._identity = _identity(os.fstat(fd))
                self._add_directory(fd, (), None)
        if self._name_count > MAX_NAMES:
            message = f"{self._path} has more than {MAX_NAMES} names; watch a part of it"
            raise ProtocolError(Kind.TOO_LARGE, message, {"limit": MAX_NAMES})

    def find_changes(
        self, directories: Iterable[RelativePath], written: Iterable[tuple[RelativePath, str]] = ()
    ) -> list[WatchChange]:
        """Return the changes in these folders; `written` names count as changed even if they look the same."""
        changes: list[WatchChange] = []
        try:
            with self._open_root() as top:
                for place in sorted(set(directories), key=len):
                    if place in self._states:
                        self._compare_directory(top, place, changes)
        except (OSError, ProtocolError):
            self.is_gone = True
            self._remove_directory((), changes)
            if self._file_name is None:
                changes.append(self._change((), "deleted"))
            return changes
        reported = {change.path for change in changes}
        for place, name in written:
            state = self._states.get(place, {}).get(name)
            change = self._change((*place, name), "modified")
            if state is not None and not state.is_directory and change.path not in reported:
                changes.append(change)
        return changes

    # --- one folder -------------------------------------------------------------------------------------------

    def _compare_directory(self, root_fd: int, directory: RelativePath, changes: list[WatchChange]) -> None:
        try:
            with open_subdirectory(root_fd, directory) as fd:
                now = self._read_states(fd)
                self._compare_states(fd, directory, now, changes)
        except OSError:
            if not directory:
                raise
            self._remove_directory(directory, changes)  # the parent folder reports that it is gone

    def _compare_states(
        self, fd: int, directory: RelativePath, now: dict[str, _FileState], changes: list[WatchChange]
    ) -> None:
        before = self._states[directory]
        for name, state in before.items():
            after = now.get(name)
            if after is None or (state.is_directory and after.identity != state.identity):
                if state.is_directory:
                    self._remove_directory((*directory, name), changes)
                if after is None or not after.is_directory:
                    changes.append(self._change((*directory, name), "deleted" if after is None else "modified"))
        self._name_count += len(now) - len(before)
        self._states[directory] = now
        for name, state in now.items():
            old = before.get(name)
            if old is None or (state.is_directory and old.identity != state.identity):
                changes.append(self._change((*directory, name), "created" if old is None else "modified"))
                if state.is_directory:
                    self._add_subdirectory(fd, directory, name, changes)
            elif not old.is_directory and (old.identity, old.version) != (state.identity, state.version):
                changes.append(self._change((*directory, name), "modified"))

    def _read_states(self, fd: int) -> dict[str, _FileState]:
        found, _ = read_directory(fd)
        return {name: _state_of(status) for name, status in found if self._file_name is None or name == self._file_name}

    def _add_directory(self, fd: int, directory: RelativePath, changes: list[WatchChange] | None) -> None:
        """Add a folder and its subfolders; with `changes`, report their entries as created."""
        self.on_enter(directory, fd)  # before reading: report a change twice rather than never
        states = self._read_states(fd)
        self._states[directory] = states
        self._name_count += len(states)
        for name, state in states.items():
            if changes is not None:
                changes.append(self._change((*directory, name), "created"))
            if state.is_directory:
                self._add_subdirectory(fd, directory, name, changes)

    def _add_subdirectory(self, fd: int, directory: RelativePath, name: str, changes: list[WatchChange] | None) -> None:
        inner = (*directory, name)
        is_watched = self._recursive and self._file_name is None
        if not is_watched or len(inner) >= MAX_DEPTH or self._name_count > MAX_NAMES:
            return
        with suppress(OSError), open_subdirectory(fd, (name,)) as folder:  # unreadable, gone, or a link by now
            self._add_directory(folder, inner, changes)

    def _remove_directory(self, directory: RelativePath, changes: list[WatchChange]) -> None:
        """Remove a folder and all below it; report their entries as deleted."""
        for other in [known for known in self._states if known[: len(directory)] == directory]:
            states = self._states.pop(other)
            self._name_count -= len(states)
            self.on_leave(other)
            changes.extend(self._change((*other, name), "deleted") for name in states)

    # --- path lookup ------------------------------------------------------------------------------------------

    @contextmanager
    def _open_root(self) -> Iterator[int]:
        """Open the watched folder again; it must be the same folder as before."""
        with find_target(self._roots, self.root_path.rstrip("/") + "/") as target:
            if _identity(os.fstat(target.directory)) != self._identity:
                raise FileNotFoundError(self.root_path)
            yield target.directory

    def _change(self, parts: RelativePath, type: str) -> WatchChange:
        return WatchChange(printable_name("/".join([self.root_path.rstrip("/"), *parts])), type)


def _identity(status: os.stat_result) -> tuple[int, int]:
    return status.st_dev, status.st_ino


def _state_of(status: os.stat_result) -> _FileState:
    is_folder = stat.S_ISDIR(status.st_mode)
    identity = (stat.S_IFMT(status.st_mode), status.st_dev, status.st_ino)
    return _FileState(is_folder, identity, (0, 0) if is_folder else (status.st_mtime_ns, status.st_size))


def merge_changes(pending: dict[str, str], changes: Iterable[WatchChange]) -> None:
    """Merge changes into the unread ones, so that each path is reported once."""
    for path, kind in changes:
        before = pending.pop(path, None)
        merged = _MERGED_TYPES.get((before, kind), kind)
        if merged:
            pending[path] = merged


def take_changes(pending: dict[str, str], limit: int) -> Iterator[WatchChange]:
    """Remove and yield the oldest changes."""
    for path in list(pending)[:limit]:
        yield WatchChange(path, pending.pop(path))


_MERGED_TYPES: dict[tuple[str | None, str], str] = {
    ("created", "modified"): "created",
    ("created", "deleted"): "",
    ("deleted", "created"): "modified",
}
