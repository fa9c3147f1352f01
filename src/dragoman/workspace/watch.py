"""Watch a folder or a file, and report batches of changes, each path once.

Uses inotify if available, else polls. Scans run on threads (`snapshot`). Unread changes are merged, so a slow reader
needs no more memory than the watched names.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

from dragoman.workspace.inotify import InotifyWatcher, open_inotify
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
    snapshot = DirectorySnapshot(roots, path, base, recursive)
    inotify = open_inotify(snapshot) if interval is None else None
    try:
        await asyncio.to_thread(snapshot.begin)
    except BaseException:
        if inotify is not None:
            inotify.close()
        raise
    return DirectoryWatch(snapshot, inotify, POLL_INTERVAL if interval is None else interval)


class DirectoryWatch:
    """The changes of one folder or file; close it after use."""

    def __init__(self, snapshot: DirectorySnapshot, inotify: InotifyWatcher | None, interval: float) -> None:
        self._snapshot = snapshot
        self._inotify = inotify
        self._poll_if_full()
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

    def _poll_if_full(self) -> None:
        """Poll from now on if inotify cannot watch all folders."""
        if self._inotify is not None and self._inotify.is_full:
            self._inotify.close()
            self._inotify = None

    async def _wait_for_events(self) -> tuple[list[RelativePath], list[tuple[RelativePath, str]]]:
        if self._inotify is not None:
            await self._inotify.has_events.wait()
            await asyncio.sleep(SETTLE_DELAY)
            self._poll_if_full()
            return (self._snapshot.directories, []) if self._inotify is None else self._inotify.take_changed()
        await asyncio.sleep(self._interval)
        return self._snapshot.directories, []
