"""Faults as values: what a bad line does to frames. `faulty` wraps any transport in them (`faulty_transport`).

A fault hits the frames whose numbers are in `at` (from 1), or each with a `chance`, or all of them. Each is a pure
function over the frames of one direction: it takes a frame, its number and a seeded randomness, and gives what becomes
of it. Faults compose: the next one sees what the one before has left. Knows no transport.
"""

from __future__ import annotations

from random import Random
from typing import NamedTuple

import msgspec

# The least that the amounts of faults can be.
LEAST = {"pieces": 1, "passes": 0, "times": 1, "keep": 0, "bytes": 0}


class Parcel(NamedTuple):
    """What becomes of a frame: its bytes, in which pieces they go, and what the line does before it."""

    data: bytes
    cuts: tuple[int, ...] = ()  # where the bytes are cut into pieces that go one by one
    passes: int = 0  # so many passes of the loop it waits
    joined: bool = False  # goes together with the one after it
    ends: bool = False  # the line breaks in place of it
    sticks: bool = False  # the line takes nothing from here on


class Fault(msgspec.Struct, frozen=True, kw_only=True):
    """One thing that goes wrong, and with which frames."""

    at: int | tuple[int, ...] = ()
    chance: float = 1.0

    def __post_init__(self) -> None:
        """Refuse what would never hit, or mean nothing: a test with it would pass for the wrong reason."""
        numbers = (self.at,) if isinstance(self.at, int) else self.at
        if any(number < 1 for number in numbers):
            raise ValueError(f"at={self.at!r}: frames are counted from 1")
        if not 0 <= self.chance <= 1:
            raise ValueError(f"chance={self.chance!r}: it is a share, from 0 to 1")
        for name, least in LEAST.items():
            amount = getattr(self, name, None)
            if isinstance(amount, int) and amount < least:
                raise ValueError(f"{name}={amount!r}: {type(self).__name__} needs at least {least}")

    def hits(self, number: int, random: Random) -> bool:
        """Whether it hits this frame."""
        if self.at != ():
            return number == self.at if isinstance(self.at, int) else number in self.at
        return self.chance >= 1 or random.random() < self.chance

    def strike(self, parcel: Parcel, random: Random) -> list[Parcel]:
        """What becomes of a frame that is hit."""
        return [parcel]


class Split(Fault, frozen=True, kw_only=True):
    """The frame goes in so many pieces (at random places), each in a pass of its own."""

    pieces: int = 2

    def strike(self, parcel: Parcel, random: Random) -> list[Parcel]:
        """Cut it."""
        places = range(1, len(parcel.data) + 1)  # the last place is before the line end
        cuts = sorted(random.sample(places, min(self.pieces - 1, len(places))))
        return [parcel._replace(cuts=tuple(cuts))]


class Merge(Fault, frozen=True, kw_only=True):
    """The frame waits for the next one, for a few passes of the loop, and arrives together with it."""

    def strike(self, parcel: Parcel, random: Random) -> list[Parcel]:
        """Join it to its successor."""
        return [parcel._replace(joined=True)]


class Delay(Fault, frozen=True, kw_only=True):
    """The frame, and all behind it, waits so many passes of the event loop: time without a clock."""

    passes: int = 10

    def strike(self, parcel: Parcel, random: Random) -> list[Parcel]:
        """Let it wait."""
        return [parcel._replace(passes=parcel.passes + self.passes)]


class Drop(Fault, frozen=True, kw_only=True):
    """The frame never arrives."""

    def strike(self, parcel: Parcel, random: Random) -> list[Parcel]:
        """Lose it."""
        return []


class Duplicate(Fault, frozen=True, kw_only=True):
    """The frame arrives more than once."""

    times: int = 2

    def strike(self, parcel: Parcel, random: Random) -> list[Parcel]:
        """Repeat it."""
        return [parcel] * self.times


class Truncate(Fault, frozen=True, kw_only=True):
    """Only the beginning of the frame arrives: so many bytes, or a random part."""

    keep: int | None = None

    def strike(self, parcel: Parcel, random: Random) -> list[Parcel]:
        """Cut the rest off."""
        size = len(parcel.data)
        keep = random.randrange(1, max(size, 2)) if self.keep is None else self.keep
        return [parcel._replace(data=parcel.data[:keep])]


class Garble(Fault, frozen=True, kw_only=True):
    """So many bytes of the frame are changed, at random places; line ends are never made of them."""

    bytes: int = 1

    def strike(self, parcel: Parcel, random: Random) -> list[Parcel]:
        """Change some bytes."""
        data = bytearray(parcel.data)
        for place in random.sample(range(len(data)), min(self.bytes, len(data))):
            data[place] = random.choice([byte for byte in range(256) if byte not in (data[place], 10, 13)])
        return [parcel._replace(data=bytes(data))]


class Junk(Fault, frozen=True, kw_only=True):
    """A line that is no message comes before the frame, as of a program that prints to standard output."""

    line: bytes = b"npm warn deprecated: this is not a message"

    def strike(self, parcel: Parcel, random: Random) -> list[Parcel]:
        """Put the line before it."""
        return [Parcel(self.line), parcel]


class Reorder(Fault, frozen=True, kw_only=True):
    """The frame arrives after the one behind it, if that comes within so many passes of the loop."""

    passes: int = 20


class Disconnect(Fault, frozen=True, kw_only=True):
    """The line breaks in place of the frame: it and all later ones are lost, both ways."""

    def strike(self, parcel: Parcel, random: Random) -> list[Parcel]:
        """Break the line."""
        return [parcel._replace(ends=True)]


class Stall(Fault, frozen=True, kw_only=True):
    """The other end takes nothing from the frame on: writes queue until somebody gives up. For sending only."""

    def strike(self, parcel: Parcel, random: Random) -> list[Parcel]:
        """Stop taking."""
        return [parcel._replace(sticks=True)]


class Line:
    """One direction: frames in, what becomes of them out, by faults in their order."""

    def __init__(self, faults: tuple[Fault, ...], seed: str) -> None:
        self._faults = [(fault, Random(f"{seed}/{place}")) for place, fault in enumerate(faults)]
        self._counts = [0] * len(faults)
        self._held: dict[int, Parcel] = {}  # by fault: frames that wait to be overtaken

    def take(self, data: bytes) -> list[Parcel]:
        """One frame."""
        return self._through([Parcel(data)], 0)

    def flush(self) -> list[Parcel]:
        """What still waits to be overtaken, when nothing comes any more."""
        found: list[Parcel] = []
        for place in sorted(self._held):
            found += self._through([self._held.pop(place)], place + 1)
        return found

    @property
    def waits(self) -> int:
        """So many passes a frame waits to be overtaken; 0 when none does."""
        waiting = [fault.passes for place in self._held if isinstance(fault := self._faults[place][0], Reorder)]
        return max(waiting, default=0)

    def _through(self, parcels: list[Parcel], start: int) -> list[Parcel]:
        for place in range(start, len(self._faults)):
            parcels = [made for parcel in parcels for made in self._at(place, parcel)]
        return parcels

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
