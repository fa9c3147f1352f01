"""A transport wrapper that applies faults to frames, reproducibly for a seed.

`faulty(transport, sending=[...], receiving=[...])` gives a transport, so it also fits as `trace=` of `connect`. Nothing
sleeps: delays are counted in passes of the event loop.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Sequence

from dragoman.errors import ConnectionFailed, TransportClosed, WriteStalled
from dragoman.testing.faults import Fault, FaultPipeline, FaultyFrame, Stall
from dragoman.transport.base import HIGH_WATER, Transport, WrappedTransport
from dragoman.wire.frames import Frame, LineSplitter

# Passes after which drain() of a stalled connection fails; stands for a minute of real time.
STALLED_PASSES = 100

# Passes that a frame waits for the next one to merge with. A peer in the same loop answers within them.
MERGE_PASSES = 3


def faulty(
    transport: Transport, *, sending: Sequence[Fault] = (), receiving: Sequence[Fault] = (), seed: int = 0
) -> Transport:
    """Return the transport with faults; `sending` and `receiving` as seen by the user of the transport."""
    return FaultyTransport(transport, tuple(sending), tuple(receiving), seed)


class FaultyTransport(WrappedTransport):
    """A transport that applies faults to its frames, both ways."""

    def __init__(
        self, transport: Transport, sending: tuple[Fault, ...], receiving: tuple[Fault, ...], seed: int
    ) -> None:
        if any(isinstance(fault, Stall) for fault in receiving):
            raise ValueError("Stall is a fault of sending; use Delay, Drop or Disconnect for receiving")
        super().__init__(transport)
        self._out = FaultPipeline(sending, f"{seed}/sending")
        self._in = FaultPipeline(receiving, f"{seed}/receiving")
        self._outgoing: deque[FaultyFrame] = deque()
        self._incoming: deque[FaultyFrame] = deque()
        self._splitter = LineSplitter()  # joins pieces as a stream would
        self._write_raw = getattr(transport, "write_raw", None)
        self._queued = 0
        self._waited = 0  # passes since the last frame
        self._ticking = False
        self._stuck = False
        self._broken: ConnectionFailed | None = None  # why sending fails
        self._ended: ConnectionFailed | None = None  # why receiving fails, if the connection broke
        self._closing: asyncio.Future[None] | None = None

    # --- sending ----------------------------------------------------------------------------------------------------

    def send(self, data: bytes, session: str | None = None) -> None:
        """Send one frame, subject to the faults."""
        if self._broken is not None:
            raise self._broken.with_traceback(None)
        self._waited = 0
        self._queue(self._out.apply(data))
        if self._outgoing or self._out.held_passes:
            self._tick_soon()
        if self._broken is not None:
            raise self._broken.with_traceback(None)

    def congested(self) -> bool:
        """Return whether so much is queued that the sender should wait."""
        return self._stuck or self._queued > HIGH_WATER or self._transport.congested()

    async def drain(self) -> None:
        """Wait until everything queued was sent; fail after some passes if the peer stopped reading."""
        passes = 0
        while (self._stuck or self._outgoing) and self._broken is None:
            await asyncio.sleep(0)
            passes += self._stuck
            if passes > STALLED_PASSES:
                self._break(WriteStalled(f"{self.peer} read no bytes for {STALLED_PASSES} passes of the event loop"))
        if self._broken is not None:
            raise self._broken.with_traceback(None)
        await self._transport.drain()

    def _queue(self, pieces: list[FaultyFrame]) -> None:
        for frame in pieces:
            self._outgoing.append(frame)
            self._queued += len(frame.data)
        while self._outgoing and not self._stuck and self._broken is None:
            first = self._outgoing[0]
            if first.passes or first.cuts or (first.merged and len(self._outgoing) == 1):
                return  # _tick continues
            if first.merged and self._outgoing[1].is_whole:
                del self._outgoing[0]
                self._outgoing[0] = self._merge(first, self._outgoing[0])
                continue
            self._write(self._outgoing.popleft())

    def _merge(self, frame: FaultyFrame, later: FaultyFrame) -> FaultyFrame:
        """Join two frames into one write on a stream; in memory they arrive in one pass anyway."""
        if self._write_raw is None:
            self._write(frame)
            return later
        return later._replace(data=frame.data + b"\n" + later.data)

    def _write(self, frame: FaultyFrame) -> None:
        if frame.disconnects:
            self._break(TransportClosed(f"the connection to {self.peer} broke"))
        elif frame.stalls:
            self._stuck = True
            self._outgoing.appendleft(frame._replace(stalls=False))
            return
        else:
            self._transport.send(frame.data)
        self._queued -= len(frame.data)

    def _tick_soon(self) -> None:
        if not self._ticking:
            self._ticking = True
            asyncio.get_running_loop().call_soon(self._tick)

    def _tick(self) -> None:
        """Advance by one pass of the event loop."""
        self._ticking = False
        if self._broken is not None or self._stuck:
            return
        try:
            self._advance()
        except ConnectionFailed as error:
            self._broken = self._broken or error
        if not self._stuck and (self._outgoing or self._out.held_passes):
            self._tick_soon()

    def _advance(self) -> None:
        if not self._outgoing:
            self._waited += 1
            if self._waited >= self._out.held_passes:
                self._queue(self._out.flush())
            return
        first = self._outgoing.popleft()
        if first.passes:
            self._outgoing.appendleft(first._replace(passes=first.passes - 1))
        elif first.cuts:
            self._outgoing.appendleft(self._send_piece(first))
        else:
            self._write(first)
        self._queue([])

    def _send_piece(self, frame: FaultyFrame) -> FaultyFrame:
        """Send one piece; without a stream, each piece is only a pass that goes by."""
        if self._write_raw is None:
            return frame._replace(cuts=frame.cuts[1:])
        piece, rest = frame.split()
        self._write_raw(piece)
        self._queued -= len(piece)
        return rest

    # --- receiving --------------------------------------------------------------------------------------------------

    async def receive(self) -> list[Frame]:
        """Return the next frames, subject to the faults."""
        while True:
            if self._ended is not None:
                raise self._ended.with_traceback(None)
            if not self._incoming:
                await self._fetch()
            frames = await self._due_frames()
            if frames:
                return frames

    async def _fetch(self) -> None:
        if self._in.held_passes:
            await self._fetch_within(self._in.held_passes)
            self._incoming.extend(self._in.flush())
            return
        self._apply_receiving_faults(await self._transport.receive())
        if self._incoming and self._incoming[-1].merged:
            await self._fetch_within(MERGE_PASSES)

    async def _fetch_within(self, passes: int) -> None:
        """Receive for some passes; a cancelled receive or a closed transport loses no frame."""
        more = asyncio.ensure_future(self._transport.receive())
        try:
            for _ in range(passes):
                await asyncio.sleep(0)
                if more.done():
                    break
        finally:
            if more.done():
                if more.exception() is None:
                    self._apply_receiving_faults(more.result())
            else:
                more.cancel()
                await asyncio.gather(more, return_exceptions=True)

    def _apply_receiving_faults(self, frames: list[Frame]) -> None:
        for frame in frames:
            self._incoming.extend(self._in.apply(frame) if isinstance(frame, bytes) else [])

    async def _due_frames(self) -> list[Frame]:
        """Return the frames that are due; cancelling it loses none."""
        frames: list[Frame] = []
        while self._incoming:
            first = self._incoming[0]
            if first.passes or first.cuts:
                if frames:
                    break
                await asyncio.sleep(0)
                self._incoming[0] = self._receive_piece(first)
                continue
            self._incoming.popleft()
            if first.disconnects:
                self._incoming.clear()
                self._break(TransportClosed(f"the connection to {self.peer} broke"))
                break
            frames += self._splitter.feed(first.data + b"\n")
        return frames

    def _receive_piece(self, frame: FaultyFrame) -> FaultyFrame:
        if frame.passes:
            return frame._replace(passes=frame.passes - 1)
        piece, rest = frame.split()
        self._splitter.feed(piece)
        return rest

    # --- closing ----------------------------------------------------------------------------------------------------

    def _break(self, error: ConnectionFailed) -> None:
        self._broken = self._broken or error
        self._ended = self._ended or error
        self._outgoing.clear()
        self._queued = 0
        if self._closing is None:
            self._closing = asyncio.ensure_future(self._transport.close(str(error)))

    async def close(self, reason: str = "") -> None:
        """Close the transport, after sending what is delayed."""
        while (self._outgoing or self._out.held_passes) and not self._stuck and self._broken is None:
            self._tick_soon()
            await asyncio.sleep(0)
        self._broken = self._broken or TransportClosed(f"the connection to {self.peer} was closed")
        if self._closing is None:
            self._closing = asyncio.ensure_future(self._transport.close(reason))
        await asyncio.shield(self._closing)
