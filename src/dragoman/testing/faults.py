"""Faults as values: what a bad connection does to frames. `faulty` wraps any transport with them.

A fault applies to the frames whose numbers are in `at` (from 1), or to each with a `chance`, or to all. Each is a pure
function of a frame and a seeded random generator. Faults compose: each gets the output of the one before.
"""

from __future__ import annotations

from random import Random
from typing import NamedTuple

import msgspec

# The smallest allowed value of each parameter.
LEAST = {"pieces": 1, "passes": 0, "times": 1, "keep": 0, "bytes": 0}


class Parcel(NamedTuple):
    """A frame after the faults: its bytes, how they are split, and what happens before it."""

    data: bytes
    cuts: tuple[int, ...] = ()  # offsets that split the bytes into pieces sent one by one
    passes: int = 0  # how many passes of the event loop it waits
    joined: bool = False  # sent together with the next one
    ends: bool = False  # the connection breaks instead of it
    sticks: bool = False  # the peer reads nothing from here on


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
        for name, least in LEAST.items():
            amount = getattr(self, name, None)
            if isinstance(amount, int) and amount < least:
                raise ValueError(f"{name}={amount!r}: {type(self).__name__} needs at least {least}")

    def hits(self, number: int, random: Random) -> bool:
        """Return whether the fault applies to this frame."""
        if self.at != ():
            return number == self.at if isinstance(self.at, int) else number in self.at
        return self.chance >= 1 or random.random() < self.chance

    def strike(self, parcel: Parcel, random: Random) -> list[Parcel]:
        """Return what replaces the frame."""
        return [parcel]


class Split(Fault, frozen=True, kw_only=True):
    """Split the frame into pieces (at random offsets), each sent in its own pass of the event loop."""

    pieces: int = 2

    def strike(self, parcel: Parcel, random: Random) -> list[Parcel]:
        """Split the frame."""
        places = range(1, len(parcel.data) + 1)  # the last place is before the line end
        cuts = sorted(random.sample(places, min(self.pieces - 1, len(places))))
        return [parcel._replace(cuts=tuple(cuts))]


class Merge(Fault, frozen=True, kw_only=True):
    """Hold the frame for a few passes of the event loop, and deliver it together with the next one."""

    def strike(self, parcel: Parcel, random: Random) -> list[Parcel]:
        """Mark the frame to be joined with the next one."""
        return [parcel._replace(joined=True)]


class Delay(Fault, frozen=True, kw_only=True):
    """Delay the frame and all after it by some passes of the event loop: time without a clock."""

    passes: int = 10

    def strike(self, parcel: Parcel, random: Random) -> list[Parcel]:
        """Delay the frame."""
        return [parcel._replace(passes=parcel.passes + self.passes)]


class Drop(Fault, frozen=True, kw_only=True):
    """Lose the frame."""

    def strike(self, parcel: Parcel, random: Random) -> list[Parcel]:
        """Remove the frame."""
        return []


class Duplicate(Fault, frozen=True, kw_only=True):
    """Deliver the frame more than once."""

    times: int = 2

    def strike(self, parcel: Parcel, random: Random) -> list[Parcel]:
        """Repeat the frame."""
        return [parcel] * self.times


class Truncate(Fault, frozen=True, kw_only=True):
    """Deliver only the beginning of the frame: `keep` bytes, or a random part."""

    keep: int | None = None

    def strike(self, parcel: Parcel, random: Random) -> list[Parcel]:
        """Cut off the rest of the frame."""
        size = len(parcel.data)
        keep = random.randrange(1, max(size, 2)) if self.keep is None else self.keep
        return [parcel._replace(data=parcel.data[:keep])]


class Garble(Fault, frozen=True, kw_only=True):
    """Change some bytes of the frame, at random offsets; never to a line end."""

    bytes: int = 1

    def strike(self, parcel: Parcel, random: Random) -> list[Parcel]:
        """Change some bytes."""
        data = bytearray(parcel.data)
        for place in random.sample(range(len(data)), min(self.bytes, len(data))):
            data[place] = random.choice([byte for byte in range(256) if byte not in (data[place], 10, 13)])
        return [parcel._replace(data=bytes(data))]


class Junk(Fault, frozen=True, kw_only=True):
    """Insert a line that is not a message before the frame, like a program that prints to stdout."""

    line: bytes = b"npm warn deprecated: this is not a message"

    def strike(self, parcel: Parcel, random: Random) -> list[Parcel]:
        """Insert the line before the frame."""
        return [Parcel(self.line), parcel]


class Reorder(Fault, frozen=True, kw_only=True):
    """Swap the frame with the next one, if that comes within some passes of the event loop."""

    passes: int = 20


class Disconnect(Fault, frozen=True, kw_only=True):
    """Break the connection: the frame and all later ones are lost, both ways."""

    def strike(self, parcel: Parcel, random: Random) -> list[Parcel]:
        """Break the connection instead of sending the frame."""
        return [parcel._replace(ends=True)]


class Stall(Fault, frozen=True, kw_only=True):
    """Stop reading at the frame: writes queue until the sender times out. For sending only."""

    def strike(self, parcel: Parcel, random: Random) -> list[Parcel]:
        """Mark where the peer stops reading."""
        return [parcel._replace(sticks=True)]


class Line:
    """One direction of a connection: applies the faults to each frame, in order."""

    def __init__(self, faults: tuple[Fault, ...], seed: str) -> None:
        self._faults = [(fault, Random(f"{seed}/{place}")) for place, fault in enumerate(faults)]
        self._counts = [0] * len(faults)
        self._held: dict[int, Parcel] = {}  # by fault: frames that wait for the next one to pass

    def take(self, data: bytes) -> list[Parcel]:
        """Apply the faults to one frame."""
        return self._through([Parcel(data)], 0)

    def flush(self) -> list[Parcel]:
        """Return the frames that still wait, when no more come."""
        found: list[Parcel] = []
        for place in sorted(self._held):
            found += self._through([self._held.pop(place)], place + 1)
        return found

    @property
    def waits(self) -> int:
        """How many passes the held frame waits for the next one; 0 if none is held."""
        waiting = [fault.passes for place in self._held if isinstance(fault := self._faults[place][0], Reorder)]
        return max(waiting, default=0)

    def _through(self, pieces: list[Parcel], start: int) -> list[Parcel]:
        for place in range(start, len(self._faults)):
            pieces = [result for parcel in pieces for result in self._at(place, parcel)]
        return pieces

    def _at(self, place: int, parcel: Parcel) -> list[Parcel]:
        fault, random = self._faults[place]
        self._counts[place] += 1
        hit = fault.hits(self._counts[place], random)
        if not isinstance(fault, Reorder):
            return fault.strike(parcel, random) if hit else [parcel]
        held = self._held.pop(place, None)
        if held is not None:
            return [parcel, held]
        if hit:
            self._held[place] = parcel
            return []
        return [parcel]
