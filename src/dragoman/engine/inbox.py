"""The queue of received messages while a handler is awaited: bounded in bytes, dispatched in wire order.

While no handler has to be awaited, the inbox stays empty and costs nothing.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

from dragoman.wire.frames import Frame

# Above this much undispatched input the reader stops, so a slow handler slows the peer instead of filling memory.
INBOX_BYTES = 16 * 1024 * 1024

# Consumed frames at the beginning of the queue are dropped when there are this many of them.
_DROP_AFTER = 1024

# Takes frames and where to begin, and dispatches them until one has to be awaited. Returns where to go on, and what to
# await.
Dispatch = Callable[[list[Frame], int], tuple[int, Awaitable[None] | None]]


class Inbox:
    """The queue behind a handler that is being awaited."""

    __slots__ = ("_dispatch", "_next", "_on_error", "_queue", "_waiting", "_wake", "is_busy", "size", "space_available")

    def __init__(self, dispatch: Dispatch, on_error: Callable[[BaseException], None]) -> None:
        self._dispatch = dispatch
        self._on_error = on_error
        self._queue: list[Frame] = []
        self._next = 0  # the first frame of the queue that is not dispatched
        self._waiting: Awaitable[None] | None = None
        self._wake = asyncio.Event()
        self.space_available = asyncio.Event()
        self.is_busy = False
        self.size = 0

    def block_on(self, waiting: Awaitable[None]) -> None:
        """Await this before anything else is dispatched; later messages queue."""
        self.is_busy = True
        self._waiting = waiting
        self._wake.set()

    def push(self, frames: list[Frame]) -> None:
        """Queue frames."""
        self._queue += frames
        self.size += total_size(frames)

    @property
    def is_full(self) -> bool:
        """Whether the reader should wait."""
        return self.size > INBOX_BYTES

    async def run(self) -> None:
        """Await handlers and dispatch the frames that queued behind them, forever."""
        while True:
            await self._wake.wait()
            self._wake.clear()
            waiting, self._waiting = self._waiting, None
            while True:
                if waiting is not None:
                    try:
                        await waiting
                    except Exception as error:
                        self._on_error(error)
                if self._next == len(self._queue):
                    break
                waiting = self._dispatch_queued()
            self.is_busy = False
            self.space_available.set()

    def _dispatch_queued(self) -> Awaitable[None] | None:
        queue, start = self._queue, self._next
        self._next, waiting = self._dispatch(queue, start)
        self.size -= total_size(queue[start : self._next])
        if self._next == len(queue) or self._next >= _DROP_AFTER:
            del queue[: self._next]
            self._next = 0
        if self.size <= INBOX_BYTES:
            self.space_available.set()
        return waiting

    async def wait_idle(self) -> None:
        """Return when nothing is queued or awaited."""
        while self.is_busy:
            self.space_available.clear()
            await self.space_available.wait()


def total_size(frames: list[Frame]) -> int:
    """Return the bytes of frames; of one that was too long nothing is kept."""
    return sum(len(frame) for frame in frames if type(frame) is bytes)
