"""Frames that arrived from a remote peer, for one receiver: the half of a transport that every carrier shares.

A carrier delivers frames and says when they end; the engine receives or listens. Above is the engine, below are the
sockets and requests of `sockets` and `streams`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from dragoman.errors import ConnectionFailed
from dragoman.transport.base import FrameConsumer
from dragoman.wire.frames import Frame

# A carrier stops reading above this many bytes that nobody received, so that the peer slows down.
MAX_QUEUED_BYTES = 1024 * 1024


class FrameQueue:
    """What came in and was not received yet."""

    __slots__ = ("_batch", "_consumer", "_end_error", "_on_drained", "_waiter", "queued_bytes")

    def __init__(self) -> None:
        self.queued_bytes = 0  # bytes nobody received yet
        self._batch: list[Frame] = []
        self._consumer: FrameConsumer | None = None
        self._waiter: asyncio.Future[None] | None = None
        self._end_error: ConnectionFailed | None = None
        self._on_drained: Callable[[], None] | None = None

    async def receive(self) -> list[Frame]:
        """The next frames; raises what `end` was given after the last one."""
        while not self._batch:
            if self._end_error is not None:
                raise self._end_error.with_traceback(None)
            if self._waiter is not None:
                raise RuntimeError("receive() is already waiting; a transport has one receiver")
            self._waiter = asyncio.get_running_loop().create_future()
            try:
                await self._waiter
            finally:
                self._waiter = None
        batch, self._batch, self.queued_bytes = self._batch, [], 0
        if self._on_drained is not None:
            on_room, self._on_drained = self._on_drained, None
            on_room()
        return batch

    def listen(self, take: FrameConsumer) -> None:
        """Offer each delivery to `take` first, while nothing older waits."""
        self._consumer = take

    def deliver(self, frames: list[Frame]) -> None:
        """These frames have arrived."""
        if self._end_error is not None:
            return
        if not self._batch and self._consumer is not None and self._waiter is not None and self._consumer(frames):
            return
        self._batch += frames
        self.queued_bytes += sum(len(frame) if type(frame) is bytes else 0 for frame in frames)
        self._wake_receiver()

    @property
    def is_full(self) -> bool:
        """Whether the carrier should stop reading, until `when_room` says otherwise."""
        return self.queued_bytes > MAX_QUEUED_BYTES

    def call_when_drained(self, on_drained: Callable[[], None]) -> None:
        """Call this once, when what is here now has been received."""
        self._on_drained = on_drained

    def end(self, error: ConnectionFailed) -> None:
        """No more frames come; the first reason counts."""
        if self._end_error is None:
            self._end_error = error
            self._wake_receiver()

    def _wake_receiver(self) -> None:
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)
