"""Watch a folder or a file, and report batches of changes, each path once.

Uses inotify if available, else polls. Scans run on threads (`snapshot`). Unread changes are merged, so a slow reader
needs no more memory than the watched names.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

from dragoman.workspace.inotify import Inotify, open_inotify
from dragoman.workspace.paths import Roots
from dragoman.workspace.snapshot import DirectorySnapshot, RelativePath, WatchChange, merge_changes, take_changes

# Seconds to wait after the first event: a save is several changes, a checkout thousands.
SETTLE_DELAY = 0.05

# Seconds between two scans without inotify.
POLL_INTERVAL = 1.0

# Changes in one batch.
MAX_CHANGES = 1000


async def start_watch(
    roots: Roots,
    path: str,
    *,
    base: str | None = None,
    recursive: bool = False,
    interval: float | None = None,
) -> DirectoryWatch:
    """Start to watch; with an `interval`, poll instead of using inotify."""
    survey = DirectorySnapshot(roots, path, base, recursive)
    queue = open_inotify() if interval is None else None
    kernel = None if queue is None else _InotifyWatcher(survey, queue)
    try:
        await asyncio.to_thread(survey.begin)
    except BaseException:
        if kernel is not None:
            kernel.close()
        raise
    if kernel is not None and kernel.is_full:
        kernel.close()
        kernel = None
    return DirectoryWatch(survey, kernel, POLL_INTERVAL if interval is None else interval)


class DirectoryWatch:
    """The changes of one folder or file; close it after use."""

    def __init__(self, snapshot: DirectorySnapshot, inotify: _InotifyWatcher | None, interval: float) -> None:
        self._snapshot = snapshot
        self._inotify = inotify
        self._interval = interval
        self._pending: dict[str, str] = {}
        self._has_changes = asyncio.Event()
        self._scan: asyncio.Future[list[WatchChange]] | None = None
        self._task = asyncio.get_running_loop().create_task(self._run())

    @property
    def path(self) -> str:
        """The canonical path of the watched folder."""
        return self._snapshot.root_path

    async def next_changes(self) -> list[WatchChange]:
        """Wait for the next changes; return an empty list after the watch has ended."""
        while not self._pending and not self._task.done():
            self._has_changes.clear()
            waiter = asyncio.ensure_future(self._has_changes.wait())
            try:
                await asyncio.wait({waiter, self._task}, return_when=asyncio.FIRST_COMPLETED)
            finally:
                waiter.cancel()
        return list(take_changes(self._pending, MAX_CHANGES))

    async def __aiter__(self) -> AsyncIterator[list[WatchChange]]:
        while changes := await self.next_changes():
            yield changes

    def close(self) -> None:
        """Stop watching; a waiting reader gets an empty list."""
        self._task.cancel()
        self._pending.clear()

    async def _run(self) -> None:
        try:
            while not self._snapshot.is_gone:
                places, written = await self._wait_for_events()
                self._scan = asyncio.ensure_future(asyncio.to_thread(self._snapshot.find_changes, places, written))
                merge_changes(self._pending, await asyncio.shield(self._scan))
                if self._pending:
                    self._has_changes.set()
        finally:
            if self._scan is None or self._scan.done():
                self._close_inotify()
            else:  # the thread is still scanning, and adds folders to the queue
                self._scan.add_done_callback(self._close_inotify)

    def _close_inotify(self, _: object = None) -> None:
        if self._inotify is not None:
            self._inotify.close()

    async def _wait_for_events(self) -> tuple[list[RelativePath], list[tuple[RelativePath, str]]]:
        kernel = self._inotify
        if kernel is None:
            await asyncio.sleep(self._interval)
            return self._snapshot.directories, []
        await kernel.has_events.wait()
        await asyncio.sleep(SETTLE_DELAY)
        if kernel.is_full:  # inotify cannot watch all folders: poll from now on
            kernel.close()
            self._inotify = None
            return self._snapshot.directories, []
        return kernel.take_changed()


class _InotifyWatcher:
    """Watches the folders of a snapshot with inotify."""

    def __init__(self, snapshot: DirectorySnapshot, queue: Inotify) -> None:
        self._snapshot = snapshot
        self._loop = asyncio.get_running_loop()
        self._queue: Inotify | None = queue
        self._directory_by_number: dict[int, RelativePath] = {}
        self._number_by_directory: dict[RelativePath, int] = {}
        self._changed_directories: set[RelativePath] = set()
        self._written_names: set[tuple[RelativePath, str]] = set()
        self.is_full = False
        self.has_events = asyncio.Event()
        snapshot.on_enter = self._add_directory  # add every folder that the snapshot enters
        snapshot.on_leave = self._remove_directory
        self._loop.add_reader(queue.fd, self._read_events)

    def take_changed(self) -> tuple[list[RelativePath], list[tuple[RelativePath, str]]]:
        """Return and clear the changed folders and written names."""
        self._read_events()
        dirty, written = list(self._changed_directories), list(self._written_names)
        self._changed_directories.clear()
        self._written_names.clear()
        self.has_events.clear()
        return dirty, written

    def close(self) -> None:
        """Close the queue; may be called again."""
        queue, self._queue = self._queue, None
        if queue is not None:
            self._loop.remove_reader(queue.fd)
            queue.close()

    def _add_directory(self, directory: RelativePath, fd: int) -> None:
        """Add a folder; runs on the scanning thread, the only one that changes these tables."""
        number = None if self._queue is None else self._queue.add(fd)
        if number is None:
            self.is_full = True
            return
        self._number_by_directory[directory] = number
        self._directory_by_number[number] = directory

    def _remove_directory(self, directory: RelativePath) -> None:
        number = self._number_by_directory.pop(directory, None)
        if number is not None and self._directory_by_number.get(number) == directory:
            del self._directory_by_number[number]
            if self._queue is not None:
                self._queue.remove(number)

    def _read_events(self) -> None:
        if self._queue is None:
            return
        for number, written, _ in self._queue.read():
            if number is None:
                self._changed_directories.update(self._snapshot.directories)
            elif (place := self._directory_by_number.get(number)) is not None:
                self._changed_directories.add(place)
                if written is not None:
                    self._written_names.add((place, written))
        if self._changed_directories:
            self.has_events.set()
