"""Faults as values: what a bad connection does to frames, and `faulty`, which wraps any transport with them.

A fault applies to the frames whose numbers are in `at` (from 1), or to each with a `chance`, or to all. Faults compose:
each gets the output of the one before. Delays are counted in passes of the event loop, so nothing sleeps.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Sequence
from random import Random
from typing import NamedTuple

import msgspec

from dragoman.errors import ConnectionFailed, TransportClosed, WriteStalled
from dragoman.transport.base import HIGH_WATER, Transport, WrappedTransport
from dragoman.wire.frames import Frame, LineSplitter

# Passes after which drain() of a stalled connection fails; stands for a minute of real time.
STALLED_PASSES = 100

# Passes that a frame waits for the next one to merge with. A peer in the same loop answers within them.
MERGE_PASSES = 3

# The smallest allowed value of each parameter.
MINIMUM = {"pieces": 1, "passes": 0, "times": 1, "keep": 0, "bytes": 0}


class FaultyFrame(NamedTuple):
    """A frame after the faults: its bytes, how they are split, and what happens before it."""

    data: bytes
    cuts: tuple[int, ...] = ()  # offsets that split the bytes into pieces sent one by one
    passes: int = 0  # how many passes of the event loop it waits
    merged: bool = False  # sent together with the next one
    disconnects: bool = False  # the connection breaks instead of it
    stalls: bool = False  # the peer reads nothing from here on

    @property
    def is_whole(self) -> bool:
        """Whether it is sent at once, as one frame."""
        return not (self.passes or self.cuts or self.disconnects or self.stalls)

    def split(self) -> tuple[bytes, FaultyFrame]:
        """Return its first piece and the rest."""
        place, *later = self.cuts
        rest = self._replace(data=self.data[place:], cuts=tuple(cut - place for cut in later))
        return self.data[:place], rest


class Fault(msgspec.Struct, frozen=True, kw_only=True):
    """One fault, and the frames it applies to."""

    at: int | tuple[int, ...] = ()
    chance: float = 1.0

    def __post_init__(self) -> None:
        """Refuse values that never apply: a test with such a fault would pass for the wrong reason."""
        numbers = (self.at,) if isinstance(self.at, int) else self.at
        if any(number < 1 for number in numbers):
            raise ValueError(f"at={self.at!r}: frames are counted from 1")
        if not 0 <= self.chance <= 1:
            raise ValueError(f"chance={self.chance!r}: give a number from 0 to 1")
        for name, least in MINIMUM.items():
            amount = getattr(self, name, None)
            if isinstance(amount, int) and amount < least:
                raise ValueError(f"{name}={amount!r}: {type(self).__name__} needs at least {least}")

    def applies_to(self, number: int, random: Random) -> bool:
        """Return whether the fault applies to this frame."""
        if self.at != ():
            return number == self.at if isinstance(self.at, int) else number in self.at
        return self.chance >= 1 or random.random() < self.chance

    def _apply(self, frame: FaultyFrame, random: Random) -> list[FaultyFrame]:
        """Return what replaces the frame."""
        return [frame]


class Split(Fault, frozen=True, kw_only=True):
    """Split the frame into pieces (at random offsets), each sent in its own pass of the event loop."""

    pieces: int = 2

    def _apply(self, frame: FaultyFrame, random: Random) -> list[FaultyFrame]:
        places = range(1, len(frame.data) + 1)  # the last place is before the line end
        cuts = sorted(random.sample(places, min(self.pieces - 1, len(places))))
        return [frame._replace(cuts=tuple(cuts))]


class Merge(Fault, frozen=True, kw_only=True):
    """Hold the frame for a few passes of the event loop, and deliver it together with the next one."""

    def _apply(self, frame: FaultyFrame, random: Random) -> list[FaultyFrame]:
        return [frame._replace(merged=True)]


class Delay(Fault, frozen=True, kw_only=True):
    """Delay the frame and all after it by some passes of the event loop: time without a clock."""

    passes: int = 10

    def _apply(self, frame: FaultyFrame, random: Random) -> list[FaultyFrame]:
        return [frame._replace(passes=frame.passes + self.passes)]


class Drop(Fault, frozen=True, kw_only=True):
    """Lose the frame."""

    def _apply(self, frame: FaultyFrame, random: Random) -> list[FaultyFrame]:
        return []


class Duplicate(Fault, frozen=True, kw_only=True):
    """Deliver the frame more than once."""

    times: int = 2

    def _apply(self, frame: FaultyFrame, random: Random) -> list[FaultyFrame]:
        return [frame] * self.times


class Truncate(Fault, frozen=True, kw_only=True):
    """Deliver only the beginning of the frame: `keep` bytes, or a random part."""

    keep: int | None = None

    def _apply(self, frame: FaultyFrame, random: Random) -> list[FaultyFrame]:
        size = len(frame.data)
        keep = random.randrange(1, max(size, 2)) if self.keep is None else self.keep
        return [frame._replace(data=frame.data[:keep])]


class Garble(Fault, frozen=True, kw_only=True):
    """Change some bytes of the frame, at random offsets; never to a line end."""

    bytes: int = 1

    def _apply(self, frame: FaultyFrame, random: Random) -> list[FaultyFrame]:
        data = bytearray(frame.data)
        for place in random.sample(range(len(data)), min(self.bytes, len(data))):
            data[place] = random.choice([byte for byte in range(256) if byte not in (data[place], 10, 13)])
        return [frame._replace(data=bytes(data))]


class Junk(Fault, frozen=True, kw_only=True):
    """Insert a line that is not a message before the frame, like a program that prints to stdout."""

    line: bytes = b"npm warn deprecated: this is not a message"

    def _apply(self, frame: FaultyFrame, random: Random) -> list[FaultyFrame]:
        return [FaultyFrame(self.line), frame]


class Reorder(Fault, frozen=True, kw_only=True):
    """Swap the frame with the next one, if that comes within some passes of the event loop."""

    passes: int = 20


class Disconnect(Fault, frozen=True, kw_only=True):
    """Break the connection: the frame and all later ones are lost, both ways."""

    def _apply(self, frame: FaultyFrame, random: Random) -> list[FaultyFrame]:
        return [frame._replace(disconnects=True)]


class Stall(Fault, frozen=True, kw_only=True):
    """Stop reading at the frame: writes queue until the sender times out. For sending only."""

    def _apply(self, frame: FaultyFrame, random: Random) -> list[FaultyFrame]:
        return [frame._replace(stalls=True)]


class FaultPipeline:
    """One direction of a connection: applies the faults to each frame, in order."""

    def __init__(self, faults: tuple[Fault, ...], seed: str) -> None:
        self._faults = [(fault, Random(f"{seed}/{place}")) for place, fault in enumerate(faults)]
        self._counts = [0] * len(faults)
        self._held: dict[int, FaultyFrame] = {}  # by fault: frames that wait for the next one to pass

    def apply(self, data: bytes) -> list[FaultyFrame]:
        """Apply the faults to one frame."""
        return self._apply_from([FaultyFrame(data)], 0)

    def flush(self) -> list[FaultyFrame]:
        """Return the frames that still wait, when no more come."""
        found: list[FaultyFrame] = []
        for place in sorted(self._held):
            found += self._apply_from([self._held.pop(place)], place + 1)
        return found

    @property
    def held_passes(self) -> int:
        """How many passes the held frame waits for the next one; 0 if none is held."""
        waiting = [fault.passes for place in self._held if isinstance(fault := self._faults[place][0], Reorder)]
        return max(waiting, default=0)

    def _apply_from(self, pieces: list[FaultyFrame], start: int) -> list[FaultyFrame]:
        for place in range(start, len(self._faults)):
            pieces = [result for frame in pieces for result in self._apply_fault(place, frame)]
        return pieces

    def _apply_fault(self, place: int, frame: FaultyFrame) -> list[FaultyFrame]:
        fault, random = self._faults[place]
        self._counts[place] += 1
        hit = fault.applies_to(self._counts[place], random)
        if not isinstance(fault, Reorder):
            return fault._apply(frame, random) if hit else [frame]
        held = self._held.pop(place, None)
        if held is not None:
            return [frame, held]
        if hit:
            self._held[place] = frame
            return []
        return [frame]


# --- transport --------------------------------------------------------------------------------------------------------


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
