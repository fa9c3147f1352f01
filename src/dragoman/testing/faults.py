"""Faults as values: what a bad connection does to frames. `faulty` wraps any transport with them.

A fault applies to the frames whose numbers are in `at` (from 1), or to each with a `chance`, or to all. Each is a pure
function of a frame and a seeded random generator. Faults compose: each gets the output of the one before.
"""

from __future__ import annotations

from random import Random
from typing import NamedTuple

import msgspec

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
