"""Trying again until it works: pauses that grow, an end, and two lines for the user.

Takes a way to try and a Patience. Says so at the first failure and at success, and nothing between; of a cut that the
first try mends, one line. Gives up at once on what no pause will mend (a refused token, a connection that the server
has forgotten).
"""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Awaitable, Callable
from typing import TypeVar

from msgspec import Struct

from dragoman.errors import ConnectionFailed, Unreachable


class Patience(Struct, frozen=True, kw_only=True):
    """The first and the longest pause between two tries, and after how long to give up. Seconds."""

    first: float = 0.1  # a cut that was only a moment is mended before anybody notices
    longest: float = 10.0  # what a person waits for after the network is back
    whole: float = 600.0  # a laptop that was closed for a coffee; then somebody should hear of it

    def pause(self, tries: int, chance: Callable[[], float] = random.random) -> float:
        """How long to wait after so many failed tries in a row."""
        return float(chance() * min(self.longest, self.first * 2.0 ** min(tries, 32)))


# Tries once: for those who would rather be told.
IMPATIENT = Patience(whole=0.0)


T = TypeVar("T")


# The parts of a connection that were cut together have noticed by then. Seconds.
TOGETHER = 1.0


class Outage:
    """Says once that a connection is in trouble and once that it is over, whatever number of its parts find out."""

    def __init__(self, report: Callable[[str], None]) -> None:
        self._report = report
        self._parts = 0
        self._told = float("-inf")  # when something was said last

    def begins(self, text: str) -> None:
        """One part is in trouble."""
        self._parts += 1
        if self._parts == 1:
            self._report(text)

    def ends(self, text: str) -> None:
        """One part is well again."""
        self._parts -= 1
        if self._parts == 0 and text:
            self._report(text)
            self._told = time.monotonic()

    def passed(self, text: str) -> None:
        """One part was in trouble and is well again already; of those that were cut together, one says so."""
        now = time.monotonic()
        if self._parts == 0 and now - self._told > TOGETHER:
            self._told = now
            self._report(text)


class Retrying:
    """One interruption, from the cut to the end of it."""

    def __init__(
        self,
        peer: str,
        patience: Patience,
        outage: Outage,
        reason: str = "",
        *,
        was_cut: bool = False,
        trouble: str = "the connection was cut",
        relief: str = "connected again",
        chance: Callable[[], float] = random.random,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], Awaitable[object]] = asyncio.sleep,
    ) -> None:
        self._peer = peer
        self._patience = patience
        self._outage = outage
        self._reason = reason
        self._was_cut = was_cut
        self._trouble = trouble
        self._relief = relief
        self._chance = chance
        self._clock = clock
        self._sleep = sleep

    async def run(self, attempt: Callable[[], Awaitable[T]]) -> T:
        """Try until it works; raises what the last try raised."""
        begun, tries = self._clock(), 0
        try:
            while True:
                try:
                    result = await attempt()
                    break
                except ConnectionFailed as error:
                    left = begun + self._patience.whole - self._clock()
                    if not (isinstance(error, Unreachable) and error.is_passing) or left <= 0:
                        raise
                    tries += 1
                    if tries == 1:
                        because = f" ({self._reason})" if self._reason else ""
                        text = f"{self._peer}: {self._trouble}{because}; trying again for {_spell(left)}"
                        text += f" ({_bare(str(error), self._peer)})"
                        self._outage.begins(text)
                    pause = self._patience.pause(tries, self._chance)
                    await self._sleep(min(max(pause, error.wait or 0.0), left))
        except BaseException:
            if tries:
                self._outage.ends("")
            raise
        if tries:
            self._outage.ends(f"{self._peer}: {self._relief} after {_spell(self._clock() - begun)}")
        elif self._was_cut:
            self._outage.passed(f"{self._peer}: {self._trouble} and is mended ({_spell(self._clock() - begun)})")
        return result


def _spell(seconds: float) -> str:
    return f"{seconds / 60:.0f} min" if seconds >= 120 else f"{seconds:.1f} s"


def _bare(text: str, peer: str) -> str:
    """A sentence without the name that stands before it already."""
    for name in (peer, peer.removeprefix("agent ")):
        text = text.removeprefix(f"{name}: ")
    return text
