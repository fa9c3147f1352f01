"""The interface of every transport, the limits they share, the queue of received frames, and a wrapper.

A transport sends and receives whole frames (without newline), in order, to and from one peer.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import Any, Protocol

from dragoman.errors import ConnectionFailed, TransportClosed
from dragoman.wire.frames import Frame

# Above this many queued bytes a producer should wait: a few pipe buffers, so the peer never idles meanwhile.
HIGH_WATER = 256 * 1024

# Waiting producers resume below this: far enough from HIGH_WATER that they do not wake for every write.
LOW_WATER = 64 * 1024

# One read call takes up to this many bytes: about a thousand chunk updates per wake-up.
READ_SIZE = 256 * 1024

# A peer that takes no bytes for this long while some are queued is stuck (two full pipes), not slow. Seconds.
WRITE_STALL = 60.0

# How long a close tries to write what is still queued. Seconds; people wait for it.
CLOSE_TIMEOUT = 2.0

# After one half of the connection broke, the other half may still deliver the explanation. Seconds.
HALF_CLOSED_GRACE = 1.0

# A transport stops reading above this many unreceived bytes, so that the peer slows down.
MAX_QUEUED_BYTES = 1024 * 1024

# Gets the frames of one block. Returns whether it took them; otherwise they wait for `receive`.
FrameConsumer = Callable[[list[Frame]], bool]


class Splitter(Protocol):
    """Splits a byte stream into frames."""

    def feed(self, data: bytes) -> list[Frame]:
        """Add bytes and return the frames they complete."""
        ...

    def finish(self) -> list[Frame]:
        """Return what is left at the end of the stream."""
        ...


class Framing(Protocol):
    """How frames are written to a byte stream, for peers that do not use lines."""

    def open_splitter(self) -> Splitter:
        """Return the splitter of one stream."""
        ...

    def join(self, frames: Sequence[bytes]) -> bytes:
        """Return the bytes of some frames."""
        ...


class Transport(Protocol):
    """Moves frames to and from one peer. Bound to one event loop; one receiver at a time."""

    peer: str
    """How error messages name the other end."""

    async def receive(self) -> list[Frame]:
        """Return the next frames in order, never an empty list; a cancel loses no frame.

        Raise TransportClosed (AgentExited for a process) when the frames ended or this end was closed, and WriteStalled
        when the peer stopped reading. Frames that had arrived are returned first.
        """
        ...

    def listen(self, take: FrameConsumer) -> None:
        """Offer frames to `take` first, as they are read, while a `receive` is waiting.

        This saves a pass of the event loop per block. A transport may never offer any: `receive` returns them all.
        """
        ...

    def send(self, data: bytes, session: str | None = None) -> None:
        """Queue one frame; alone in its loop pass it is written at once, in a burst together with others.

        Raise TransportClosed or WriteStalled when nothing can be sent any more.
        """
        ...

    def congested(self) -> bool:
        """Whether so much is queued that the sender should await `drain`."""
        ...

    async def drain(self) -> None:
        """Return when little is queued. Raise TransportClosed or WriteStalled when that can never happen."""
        ...

    async def close(self, reason: str = "") -> None:
        """Flush within a bounded time and release everything. Idempotent; raises nothing."""
        ...


def frames_size(frames: Sequence[Frame]) -> int:
    """Return the bytes of frames; an oversize one was not kept and counts nothing."""
    return sum(len(frame) if type(frame) is bytes else 0 for frame in frames)


def close_error(peer: str, reason: str) -> TransportClosed:
    """Return the error of a transport that was closed at this end."""
    return TransportClosed(f"the connection to {peer} was closed{f': {reason}' if reason else ''}")


class ClosedOnce:
    """The `close` of a transport: the first call releases everything, later ones wait for it."""

    peer: str
    _closing: asyncio.Future[None] | None = None

    async def close(self, reason: str = "") -> None:
        """Flush and release everything within a bounded time. Idempotent; raises nothing."""
        if self._closing is not None:
            await asyncio.shield(self._closing)
            return
        self._closing = asyncio.get_running_loop().create_future()
        try:
            await self._release(close_error(self.peer, reason), reason)
        finally:
            self._closing.set_result(None)

    async def _release(self, error: ConnectionFailed, reason: str) -> None:
        """Flush what is queued, end with this error, and release everything."""
        raise NotImplementedError


class WrappedTransport:
    """A transport around another one; a subclass overrides what it changes."""

    def __init__(self, transport: Transport) -> None:
        self.peer = transport.peer
        self._transport = transport

    async def receive(self) -> list[Frame]:
        """Return the next frames."""
        return await self._transport.receive()

    def listen(self, take: FrameConsumer) -> None:
        """Ignore the consumer: every frame comes through `receive`, where a subclass may change it."""

    def send(self, data: bytes, session: str | None = None) -> None:
        """Send one frame."""
        self._transport.send(data, session)

    def congested(self) -> bool:
        """Whether so much is queued that the sender should await `drain`."""
        return self._transport.congested()

    async def drain(self) -> None:
        """Wait until little is queued."""
        await self._transport.drain()

    async def close(self, reason: str = "") -> None:
        """Close the transport."""
        await self._transport.close(reason)

    def __getattr__(self, name: str) -> Any:
        """Return any other attribute of the wrapped transport (process id, stderr tail)."""
        return getattr(self._transport, name)


class FrameQueue:
    """Frames that arrived and were not received yet."""

    __slots__ = ("_batch", "_consumer", "_end_error", "_on_drained", "_waiter", "queued_bytes")

    def __init__(self) -> None:
        self.queued_bytes = 0  # bytes not received yet
        self._batch: list[Frame] = []
        self._consumer: FrameConsumer | None = None
        self._waiter: asyncio.Future[None] | None = None
        self._end_error: ConnectionFailed | None = None
        self._on_drained: Callable[[], None] | None = None

    async def receive(self) -> list[Frame]:
        """Return the next frames; after the last one, raise the error given to `end`."""
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
            on_drained, self._on_drained = self._on_drained, None
            on_drained()
        return batch

    def listen(self, take: FrameConsumer) -> None:
        """Offer each delivery to `take` first, while nothing older is queued."""
        self._consumer = take

    def deliver(self, frames: list[Frame]) -> None:
        """Add frames that arrived."""
        if self._end_error is not None:
            return
        if not self._batch and self._consumer is not None and self._waiter is not None and self._consumer(frames):
            return
        self._batch += frames
        self.queued_bytes += frames_size(frames)
        self._wake_receiver()

    def push(self, frame: bytes) -> None:
        """Add one frame without offering it to the consumer."""
        self._batch.append(frame)
        self.queued_bytes += len(frame)
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)

    @property
    def is_empty(self) -> bool:
        """Whether everything that arrived was received."""
        return not self._batch

    @property
    def is_ended(self) -> bool:
        """Whether nothing more is delivered."""
        return self._end_error is not None

    @property
    def is_full(self) -> bool:
        """Whether the transport should stop reading until `call_when_drained` calls back."""
        return self.queued_bytes > MAX_QUEUED_BYTES

    def call_when_drained(self, on_drained: Callable[[], None]) -> None:
        """Call this once, when everything queued now has been received."""
        self._on_drained = on_drained

    def end(self, error: ConnectionFailed) -> None:
        """End the queue; only the first error counts."""
        if self._end_error is None:
            self._end_error = error
            self._wake_receiver()

    def _wake_receiver(self) -> None:
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)
