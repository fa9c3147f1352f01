"""Two transports joined in memory, without a process or a descriptor.

With a limit each direction holds only that many bytes before the sender queues, as on a full pipe.
"""

from __future__ import annotations

import asyncio

from dragoman.errors import ConnectionFailed, TransportClosed, WriteStalled
from dragoman.transport.base import (
    CLOSE_TIMEOUT,
    HIGH_WATER,
    LOW_WATER,
    WRITE_STALL,
    FrameConsumer,
    FrameQueue,
    close_error,
)
from dragoman.transport.flow_control import FlowControl
from dragoman.wire.frames import Frame


def memory_pair(limit: int | None = None, stall: float = WRITE_STALL) -> tuple[MemoryTransport, MemoryTransport]:
    """Return two joined ends; above `limit` unreceived bytes per direction, senders queue."""
    left, right = MemoryTransport("left", limit, stall), MemoryTransport("right", limit, stall)
    left._other, right._other = right, left
    left.peer, right.peer = "right", "left"
    return left, right


def internal_pair(name: str, other: str) -> tuple[MemoryTransport, MemoryTransport]:
    """Return two joined ends between parts of this program; each is called by its peer's name."""
    left, right = memory_pair(HIGH_WATER)
    left.peer, right.peer = other, name
    left.is_internal = right.is_internal = True
    return left, right


class MemoryTransport:
    """One end of a pair in memory."""

    _other: MemoryTransport
    is_internal = False  # whether both ends are parts of this program, which trust each other

    def __init__(self, name: str, limit: int | None, stall: float) -> None:
        self.peer = name
        self._limit = limit
        self._stall = stall
        self._incoming = FrameQueue()
        self._queue: list[bytes] = []  # frames the other end has no space for yet
        high, low = (HIGH_WATER, LOW_WATER) if limit is None else (limit, limit // 4)
        self._flow_control = FlowControl(stall, self._on_stall, high, low)
        self._send_error: ConnectionFailed | None = None  # why no more frames can be sent
        self._closed = False

    async def receive(self) -> list[Frame]:
        """Return the next frames; after the last one, raise TransportClosed or WriteStalled."""
        return await self._incoming.receive()

    def listen(self, take: FrameConsumer) -> None:
        """Do nothing: both ends share one loop and would run each other's handlers recursively."""

    def send(self, data: bytes, session: str | None = None) -> None:
        """Give one frame to the other end, or queue it while that end is full."""
        if self._send_error is not None:
            raise self._send_error.with_traceback(None)
        if self._limit is None:
            self._other._incoming.push(data)
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
        """Wait until at most a quarter of the limit is queued."""
        await self._flow_control.drain()

    async def close(self, reason: str = "") -> None:
        """Flush for a bounded time, then end the frames of both ends."""
        if self._closed:
            return
        self._closed = True
        error = close_error(self.peer, reason)
        self._send_error = self._send_error or error
        try:
            async with asyncio.timeout(CLOSE_TIMEOUT):
                await self._flow_control.wait_empty()
        except (TimeoutError, ConnectionFailed):
            pass
        finally:
            self._fail(error)
            self._other._fail(
                TransportClosed(f"{self._other.peer} closed the connection{f': {reason}' if reason else ''}")
            )

    def _flush_queue(self) -> None:
        """Move what fits to the other end; an empty end takes one frame of any size."""
        incoming, limit = self._other._incoming, self._limit or 0
        moved_count = 0
        for frame in self._queue:
            if incoming.queued_bytes and incoming.queued_bytes + len(frame) > limit:
                incoming.call_when_drained(self._flush_queue)
                break
            incoming.push(frame)
            self._flow_control.remove(len(frame))
            moved_count += 1
        del self._queue[:moved_count]

    def _on_stall(self) -> None:
        self._fail(WriteStalled(f"{self.peer} took no bytes for {self._stall:g} seconds"))

    def _fail(self, error: ConnectionFailed) -> None:
        self._incoming.end(error)
        self._send_error = self._send_error or error
        self._queue.clear()
        self._flow_control.fail(error)
