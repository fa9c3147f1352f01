"""Trying again until it works: pauses that grow, an end, and two lines for the user.

Takes a way to try and a Patience. Says so at the first failure and at success, and nothing between; gives up at once on
what no pause will mend (a refused token, a connection that the server has forgotten).
"""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Awaitable, Callable
from typing import TypeVar

from dragoman.errors import ConnectionFailed, Unreachable
from dragoman.transport.remote.patience import Patience

T = TypeVar("T")


class Retrying:
    """One interruption, from the cut to the end of it."""

    def __init__(
        self,
        peer: str,
        patience: Patience,
        report: Callable[[str], None],
        reason: str = "",
        *,
        chance: Callable[[], float] = random.random,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], Awaitable[object]] = asyncio.sleep,
    ) -> None:
        self._peer = peer
        self._patience = patience
        self._report = report
        self._reason = reason
        self._chance = chance
        self._clock = clock
        self._sleep = sleep

    async def run(self, attempt: Callable[[], Awaitable[T]]) -> T:
        """Try until it works; raises what the last try raised."""
        begun, tries, said = self._clock(), 0, False
        while True:
            try:
                result = await attempt()
            except ConnectionFailed as error:
                tries += 1
                left = begun + self._patience.whole - self._clock()
                if not (isinstance(error, Unreachable) and error.is_passing) or left <= 0:
                    raise
                if not said:
                    said = True
                    because = f" ({self._reason})" if self._reason else ""
                    self._report(f"{self._peer}: the connection was cut{because}; trying again for {_spell(left)}")
                pause = self._patience.pause(tries, self._chance)
                await self._sleep(min(max(pause, error.wait or 0.0), max(left, 0.0)))
                continue
            took = self._clock() - begun
            if said or took >= 1.0:
                self._report(f"{self._peer}: connected again after {_spell(took)}")
            return result


def _spell(seconds: float) -> str:
    return f"{seconds / 60:.0f} min" if seconds >= 120 else f"{seconds:.1f} s"
