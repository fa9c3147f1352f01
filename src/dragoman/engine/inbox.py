"""The queue of received messages while a handler is awaited: bounded in bytes, dispatched in wire order.

While no handler has to be awaited, the inbox stays empty and costs nothing.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable

from dragoman.wire.envelope import Envelope

# Above this much undispatched input the reader stops, so a slow handler slows the peer instead of filling memory.
INBOX_BYTES = 16 * 1024 * 1024

Dispatch = Callable[[Envelope, bytes], Awaitable[None] | None]


class Inbox:
    """The queue behind a handler that is being awaited."""

    __slots__ = ("_dispatch", "_on_error", "_queue", "_waiting", "_wake", "is_busy", "size", "space_available")

    def __init__(self, dispatch: Dispatch, on_error: Callable[[BaseException], None]) -> None:
        self._dispatch = dispatch
        self._on_error = on_error
        self._queue: deque[tuple[Envelope, bytes]] = deque()
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

    def push(self, envelope: Envelope, frame: bytes) -> None:
        """Queue one message."""
        self._queue.append((envelope, frame))
        self.size += len(frame)

    @property
    def is_full(self) -> bool:
        """Whether the reader should wait."""
        return self.size > INBOX_BYTES

    async def run(self) -> None:
        """Await handlers and dispatch the messages that queued behind them, forever."""
        queue = self._queue
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
                if not queue:
                    break
                envelope, frame = queue.popleft()
                self.size -= len(frame)
                if self.size <= INBOX_BYTES:
                    self.space_available.set()
                waiting = self._dispatch(envelope, frame)
            self.is_busy = False
            self.space_available.set()

    async def wait_idle(self) -> None:
        """Return when nothing is queued or awaited."""
        while self.is_busy:
            self.space_available.clear()
            await self.space_available.wait()
