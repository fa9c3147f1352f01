"""Two transports joined in memory: what one sends the other receives, with no process and no descriptor.

`pair()` gives both ends. With a limit each direction holds only so many bytes before the sender queues, so
back-pressure and stalls behave as on a full pipe. Above is the engine; below is a list.
"""

from __future__ import annotations

import asyncio

from dragoman.errors import ConnectionFailed, TransportClosed, WriteStalled
from dragoman.transport.base import CLOSE_TIMEOUT, HIGH_WATER, LOW_WATER, WRITE_STALL, FrameConsumer
from dragoman.transport.flow_control import FlowControl
from dragoman.wire.frames import Frame


def memory_pair(limit: int | None = None, stall: float = WRITE_STALL) -> tuple[MemoryTransport, MemoryTransport]:
    """Two joined ends; `limit` bounds the bytes a direction holds unreceived, beyond it senders queue."""
    left, right = MemoryTransport("left", limit, stall), MemoryTransport("right", limit, stall)
    left._other, right._other = right, left
    left.peer, right.peer = "right", "left"
    return left, right


class MemoryTransport:
    """One end of a pair in memory."""

    _other: MemoryTransport

    def __init__(self, name: str, limit: int | None, stall: float) -> None:
        self.peer = name
        self._limit = limit
        self._stall = stall
        self._inbox: list[Frame] = []
        self._inbox_bytes = 0  # bytes in the inbox
        self._queue: list[bytes] = []  # what the other end has no room for yet
        high, low = (HIGH_WATER, LOW_WATER) if limit is None else (limit, limit // 4)
        self._flow_control = FlowControl(stall, self._on_stall, high, low)
        self._waiter: asyncio.Future[None] | None = None
        self._receive_error: ConnectionFailed | None = None  # why no more frames come
        self._send_error: ConnectionFailed | None = None  # why no more frames go
        self._closed = False

    async def receive(self) -> list[Frame]:
        """The next frames; raises TransportClosed or WriteStalled after the last one."""
        while not self._inbox:
            if self._receive_error is not None:
                raise self._receive_error.with_traceback(None)
            if self._waiter is not None:
                raise RuntimeError("receive() is already waiting; a transport has one receiver")
            self._waiter = asyncio.get_running_loop().create_future()
            try:
                await self._waiter
            finally:
                self._waiter = None
        batch, self._inbox, self._inbox_bytes = self._inbox, [], 0
        if self._other._queue:
            self._other._flush_queue()
        return batch

    def listen(self, take: FrameConsumer) -> None:
        """Nothing is offered: both ends are in one loop, and would run each other's handlers without end."""

    def send(self, data: bytes, session: str | None = None) -> None:
        """Hand one frame to the other end, or queue it while that end is full."""
        if self._send_error is not None:
            raise self._send_error.with_traceback(None)
        if self._limit is None:
            self._other._deliver(data)
            return
        waiting = bool(self._queue)
        self._queue.append(data)
        self._flow_control.add(len(data))
        self._flush_queue()
        if self._queue and not waiting:
            self._flow_control.start_stall_timer()

    def congested(self) -> bool:
        """Whether more than the limit is queued here."""
        return self._flow_control.congested()

    async def drain(self) -> None:
        """Wait until a quarter of the limit is queued."""
        await self._flow_control.drain()

    async def close(self, reason: str = "") -> None:
        """Flush for a bounded time; both ends then see the end of frames."""
        if self._closed:
            return
        self._closed = True
        because = f": {reason}" if reason else ""
        ours = TransportClosed(f"the connection to {self.peer} was closed{because}")
        self._send_error = self._send_error or ours
        try:
            async with asyncio.timeout(CLOSE_TIMEOUT):
                await self._flow_control.wait_empty()
        except (TimeoutError, ConnectionFailed):
            pass
        finally:
            self._fail(ours)
            self._other._fail(TransportClosed(f"{self._other.peer} closed the connection{because}"))

    def _deliver(self, data: bytes) -> None:
        self._inbox.append(data)
        self._inbox_bytes += len(data)
        waiter = self._waiter
        if waiter is not None and not waiter.done():
            waiter.set_result(None)

    def _flush_queue(self) -> None:
        """Move what fits to the other end; one frame always fits an empty end, however large."""
        other, limit = self._other, self._limit or 0
        moved = 0
        for frame in self._queue:
            if other._inbox_bytes and other._inbox_bytes + len(frame) > limit:
                break
            other._deliver(frame)
            self._flow_control.remove(len(frame))
            moved += 1
        del self._queue[:moved]

    def _on_stall(self) -> None:
        self._fail(WriteStalled(f"{self.peer} took no bytes for {self._stall:g} seconds"))

    def _fail(self, error: ConnectionFailed) -> None:
        self._receive_error = self._receive_error or error
        self._send_error = self._send_error or error
        self._queue.clear()
        self._flow_control.fail(error)
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)
