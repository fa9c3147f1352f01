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
from dragoman.workspace.snapshot import Change, Place, Survey, merged, taken

# After the first sign of a change: a save is several changes, and a checkout is thousands. Seconds.
SETTLE = 0.05

# Between two looks where the kernel tells nothing. Seconds.
INTERVAL = 1.0

# Changes told at once.
MAX_CHANGES = 1000


async def watch(
    roots: Roots,
    path: str,
    *,
    base: str | None = None,
    recursive: bool = False,
    interval: float | None = None,
) -> Watch:
    """Begin to watch; with an `interval` by looking that often, whatever the kernel could tell."""
    survey = Survey(roots, path, base, recursive)
    queue = open_inotify() if interval is None else None
    kernel = None if queue is None else _Kernel(survey, queue)
    try:
        await asyncio.to_thread(survey.begin)
    except BaseException:
        if kernel is not None:
            kernel.close()
        raise
    if kernel is not None and kernel.is_full:
        kernel.close()
        kernel = None
    return Watch(survey, kernel, INTERVAL if interval is None else interval)


class Watch:
    """What changes in one folder, or to one file; closed when nobody wants to know any more."""

    def __init__(self, survey: Survey, kernel: _Kernel | None, interval: float) -> None:
        self._survey = survey
        self._kernel = kernel
        self._interval = interval
        self._waiting: dict[str, str] = {}
        self._news = asyncio.Event()
        self._looking: asyncio.Future[list[Change]] | None = None
        self._task = asyncio.get_running_loop().create_task(self._run())

    @property
    def path(self) -> str:
        """The canonical path of the watched folder."""
        return self._survey.top

    async def changes(self) -> list[Change]:
        """The next changes, waiting for them; empty once the watch has ended."""
        while not self._waiting and not self._task.done():
            self._news.clear()
            news = asyncio.ensure_future(self._news.wait())
            try:
                await asyncio.wait({news, self._task}, return_when=asyncio.FIRST_COMPLETED)
            finally:
                news.cancel()
        return list(taken(self._waiting, MAX_CHANGES))

    async def __aiter__(self) -> AsyncIterator[list[Change]]:
        while told := await self.changes():
            yield told

    def close(self) -> None:
        """Stop watching; who waits for changes is told that there are none."""
        self._task.cancel()
        self._waiting.clear()

    async def _run(self) -> None:
        try:
            while not self._survey.is_over:
                places, written = await self._await_signs()
                self._looking = asyncio.ensure_future(asyncio.to_thread(self._survey.look, places, written))
                merged(self._waiting, await asyncio.shield(self._looking))
                if self._waiting:
                    self._news.set()
        finally:
            if self._looking is None or self._looking.done():
                self._end()
            else:  # the thread still looks, and adds what it finds to the queue
                self._looking.add_done_callback(self._end)

    def _end(self, _: object = None) -> None:
        if self._kernel is not None:
            self._kernel.close()

    async def _await_signs(self) -> tuple[list[Place], list[tuple[Place, str]]]:
        kernel = self._kernel
        if kernel is None:
            await asyncio.sleep(self._interval)
            return self._survey.places, []
        await kernel.stirred.wait()
        await asyncio.sleep(SETTLE)
        if kernel.is_full:  # there are folders it cannot watch: look for ourselves from now on
            kernel.close()
            self._kernel = None
            return self._survey.places, []
        return kernel.taken()


class _Kernel:
    """The kernel's queue at work for a survey: which of its folders have changed."""

    def __init__(self, survey: Survey, queue: Inotify) -> None:
        self._survey = survey
        self._loop = asyncio.get_running_loop()
        self._queue: Inotify | None = queue
        self._places: dict[int, Place] = {}
        self._numbers: dict[Place, int] = {}
        self._dirty: set[Place] = set()
        self._written: set[tuple[Place, str]] = set()
        self.is_full = False
        self.stirred = asyncio.Event()
        survey.entered = self._entered  # every folder that the survey enters is added
        survey.left = self._left
        self._loop.add_reader(queue.fd, self._readable)

    def taken(self) -> tuple[list[Place], list[tuple[Place, str]]]:
        """Where something has happened; from now on that is old."""
        self._readable()
        dirty, written = list(self._dirty), list(self._written)
        self._dirty.clear()
        self._written.clear()
        self.stirred.clear()
        return dirty, written

    def close(self) -> None:
        """End; more than once is no fault."""
        queue, self._queue = self._queue, None
        if queue is not None:
            self._loop.remove_reader(queue.fd)
            queue.close()

    def _entered(self, place: Place, fd: int) -> None:
        """Called on the thread that looks, while nobody else changes these tables but for reading them."""
        number = None if self._queue is None else self._queue.add(fd)
        if number is None:
            self.is_full = True
            return
        self._numbers[place] = number
        self._places[number] = place

    def _left(self, place: Place) -> None:
        number = self._numbers.pop(place, None)
        if number is not None and self._places.get(number) == place:
            del self._places[number]
            if self._queue is not None:
                self._queue.remove(number)

    def _readable(self) -> None:
        if self._queue is None:
            return
        for number, written, _ in self._queue.read():
            if number is None:
                self._dirty.update(self._survey.places)
            elif (place := self._places.get(number)) is not None:
                self._dirty.add(place)
                if written is not None:
                    self._written.add((place, written))
        if self._dirty:
            self.stirred.set()
