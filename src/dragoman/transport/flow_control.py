"""Count the bytes that a peer has not taken yet: make producers wait, and detect a stall."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from dragoman.errors import ConnectionFailed
from dragoman.transport.base import HIGH_WATER, LOW_WATER


class FlowControl:
    """Counts queued bytes, wakes producers at low water, reports a stall once."""

    __slots__ = (
        "_error",
        "_high",
        "_last_progress",
        "_low",
        "_on_stall",
        "_stall",
        "_timer",
        "_waiters",
        "queued_bytes",
    )

    def __init__(
        self, stall: float, on_stall: Callable[[], None], high: int = HIGH_WATER, low: int = LOW_WATER
    ) -> None:
        self.queued_bytes = 0
        self._stall = stall
        self._on_stall = on_stall
        self._high = high
        self._low = low
        self._waiters: list[tuple[int, asyncio.Future[None]]] = []
        self._timer: asyncio.TimerHandle | None = None
        self._last_progress = 0.0
        self._error: ConnectionFailed | None = None

    def add(self, size: int) -> None:
        """Add queued bytes."""
        self.queued_bytes += size

    def start_stall_timer(self) -> None:
        """Start the stall timer: the peer refused bytes and must take some within the stall limit."""
        loop = asyncio.get_running_loop()
        self._last_progress = loop.time()
        if self._timer is None and self._error is None:
            self._timer = loop.call_later(self._stall, self._check_stall)

    def remove(self, size: int) -> None:
        """Subtract bytes that the peer took."""
        self.queued_bytes -= size
        if self._timer is not None:
            self._last_progress = asyncio.get_running_loop().time()
        if self._waiters:
            self._wake_waiters()

    def congested(self) -> bool:
        """Whether more than HIGH_WATER bytes are queued."""
        return self.queued_bytes > self._high

    async def drain(self) -> None:
        """Wait for low water; raise the error given to `fail`."""
        await self._wait_below(self._low)

    async def wait_empty(self) -> None:
        """Wait until nothing is queued; raise the error given to `fail`."""
        await self._wait_below(0)

    def fail(self, error: ConnectionFailed) -> None:
        """Raise this error in producers that wait now or later: nothing more can be written."""
        self._error = error
        self.queued_bytes = 0
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        for _, waiter in self._waiters:
            if not waiter.done():
                waiter.set_exception(error)
                waiter.exception()  # avoid a warning for a producer that was cancelled
        self._waiters.clear()

    async def _wait_below(self, mark: int) -> None:
        if self._error is not None:
            raise self._error.with_traceback(None)
        if self.queued_bytes <= mark:
            return
        waiter = asyncio.get_running_loop().create_future()
        entry = (mark, waiter)
        self._waiters.append(entry)
        try:
            await waiter
        finally:
            if entry in self._waiters:
                self._waiters.remove(entry)

    def _wake_waiters(self) -> None:
        queued = self.queued_bytes
        for entry in self._waiters[:]:
            mark, waiter = entry
            if queued <= mark:
                self._waiters.remove(entry)
                if not waiter.done():
                    waiter.set_result(None)

    def _check_stall(self) -> None:
        self._timer = None
        if not self.queued_bytes:
            return
        loop = asyncio.get_running_loop()
        left = self._last_progress + self._stall - loop.time()
        if left > 0:
            self._timer = loop.call_later(left, self._check_stall)
        else:
            self._on_stall()
