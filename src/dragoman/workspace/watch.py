"""A folder or a file being watched: what changed, told soon after, each path once.

Takes the roots and a path, gives batches of changes for as long as somebody asks. The kernel says where to look where
it can (inotify), else all is looked at again and again. Looking is done on threads (survey); changes that nobody reads
are merged, so a slow reader costs no more memory than the names that are watched.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

from dragoman.workspace.inotify import Inotify, open_inotify
from dragoman.workspace.paths import Roots
from dragoman.workspace.snapshot import DirectorySnapshot, RelativePath, WatchChange, merge_changes, take_changes

# After the first sign of a change: a save is several changes, and a checkout is thousands. Seconds.
SETTLE_DELAY = 0.05

# Between two looks where the kernel tells nothing. Seconds.
POLL_INTERVAL = 1.0

# Changes told at once.
MAX_CHANGES = 1000


async def start_watch(
    roots: Roots,
    path: str,
    *,
    base: str | None = None,
    recursive: bool = False,
    interval: float | None = None,
) -> DirectoryWatch:
    """Begin to watch; with an `interval` by looking that often, whatever the kernel could tell."""
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
    """What changes in one folder, or to one file; closed when nobody wants to know any more."""

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
        """The next changes, waiting for them; empty once the watch has ended."""
        while not self._pending and not self._task.done():
            self._has_changes.clear()
            news = asyncio.ensure_future(self._has_changes.wait())
            try:
                await asyncio.wait({news, self._task}, return_when=asyncio.FIRST_COMPLETED)
            finally:
                news.cancel()
        return list(take_changes(self._pending, MAX_CHANGES))

    async def __aiter__(self) -> AsyncIterator[list[WatchChange]]:
        while told := await self.next_changes():
            yield told

    def close(self) -> None:
        """Stop watching; who waits for changes is told that there are none."""
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
            else:  # the thread still looks, and adds what it finds to the queue
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
        if kernel.is_full:  # there are folders it cannot watch: look for ourselves from now on
            kernel.close()
            self._inotify = None
            return self._snapshot.directories, []
        return kernel.take_changed()


class _InotifyWatcher:
    """The kernel's queue at work for a survey: which of its folders have changed."""

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
        snapshot.on_enter = self._add_directory  # every folder that the survey enters is added
        snapshot.on_leave = self._remove_directory
        self._loop.add_reader(queue.fd, self._read_events)

    def take_changed(self) -> tuple[list[RelativePath], list[tuple[RelativePath, str]]]:
        """Where something has happened; from now on that is old."""
        self._read_events()
        dirty, written = list(self._changed_directories), list(self._written_names)
        self._changed_directories.clear()
        self._written_names.clear()
        self.has_events.clear()
        return dirty, written

    def close(self) -> None:
        """End; more than once is no fault."""
        queue, self._queue = self._queue, None
        if queue is not None:
            self._loop.remove_reader(queue.fd)
            queue.close()

    def _add_directory(self, directory: RelativePath, fd: int) -> None:
        """Called on the thread that looks, while nobody else changes these tables but for reading them."""
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
