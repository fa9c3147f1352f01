"""Two transports joined in memory: what one sends the other receives, with no process and no descriptor.

`pair()` gives both ends. With a limit each direction holds only so many bytes before the sender queues, so
back-pressure and stalls behave as on a full pipe. Above is the engine; below is a list.
"""

from __future__ import annotations

import asyncio

from dragoman.errors import ConnectionFailed, TransportClosed, WriteStalled
from dragoman.transport.base import CLOSE_PATIENCE, HIGH_WATER, LOW_WATER, WRITE_STALL, Take
from dragoman.transport.flow_control import Gate
from dragoman.wire.frames import Frame


def pair(limit: int | None = None, stall: float = WRITE_STALL) -> tuple[MemoryTransport, MemoryTransport]:
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
        self._held = 0  # bytes in the inbox
        self._queue: list[bytes] = []  # what the other end has no room for yet
        high, low = (HIGH_WATER, LOW_WATER) if limit is None else (limit, limit // 4)
        self._gate = Gate(stall, self._stalled, high, low)
        self._waiter: asyncio.Future[None] | None = None
        self._ended: ConnectionFailed | None = None  # why no more frames come
        self._broken: ConnectionFailed | None = None  # why no more frames go
        self._closed = False

    async def receive(self) -> list[Frame]:
        """The next frames; raises TransportClosed or WriteStalled after the last one."""
        while not self._inbox:
            if self._ended is not None:
                raise self._ended.with_traceback(None)
            if self._waiter is not None:
                raise RuntimeError("receive() is already waiting; a transport has one receiver")
            self._waiter = asyncio.get_running_loop().create_future()
            try:
                await self._waiter
            finally:
                self._waiter = None
        batch, self._inbox, self._held = self._inbox, [], 0
        if self._other._queue:
            self._other._push()
        return batch

    def listen(self, take: Take) -> None:
        """Nothing is offered: both ends are in one loop, and would run each other's handlers without end."""

    def send(self, data: bytes, session: str | None = None) -> None:
        """Hand one frame to the other end, or queue it while that end is full."""
        if self._broken is not None:
            raise self._broken.with_traceback(None)
        if self._limit is None:
            self._other._deliver(data)
            return
        waiting = bool(self._queue)
        self._queue.append(data)
        self._gate.add(len(data))
        self._push()
        if self._queue and not waiting:
            self._gate.watch()

    def congested(self) -> bool:
        """Whether more than the limit is queued here."""
        return self._gate.congested()

    async def drain(self) -> None:
        """Wait until a quarter of the limit is queued."""
        await self._gate.drain()

    async def close(self, reason: str = "") -> None:
        """Flush for a bounded time; both ends then see the end of frames."""
        if self._closed:
            return
        self._closed = True
        because = f": {reason}" if reason else ""
        ours = TransportClosed(f"the connection to {self.peer} was closed{because}")
        self._broken = self._broken or ours
        try:
            async with asyncio.timeout(CLOSE_PATIENCE):
                await self._gate.empty()
        except (TimeoutError, ConnectionFailed):
            pass
        finally:
            self._fail(ours)
            self._other._fail(TransportClosed(f"{self._other.peer} closed the connection{because}"))

    def _deliver(self, data: bytes) -> None:
        self._inbox.append(data)
        self._held += len(data)
        waiter = self._waiter
        if waiter is not None and not waiter.done():
            waiter.set_result(None)

    def _push(self) -> None:
        """Move what fits to the other end; one frame always fits an empty end, however large."""
        other, limit = self._other, self._limit or 0
        moved = 0
        for frame in self._queue:
            if other._held and other._held + len(frame) > limit:
                break
            other._deliver(frame)
            self._gate.took(len(frame))
            moved += 1
        del self._queue[:moved]

    def _stalled(self) -> None:
        self._fail(WriteStalled(f"{self.peer} took no bytes for {self._stall:g} seconds"))

    def _fail(self, error: ConnectionFailed) -> None:
        self._ended = self._ended or error
        self._broken = self._broken or error
        self._queue.clear()
        self._gate.fail(error)
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)
