"""Retry with growing delays until it works or the time is over, with at most two reports to the user.

Gives up at once on errors that no delay can fix (a refused token, a connection that the server forgot).
"""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Awaitable, Callable
from typing import TypeVar

from msgspec import Struct

from dragoman.errors import ConnectionFailed, Unreachable


class Backoff(Struct, frozen=True, kw_only=True):
    """The first and the longest delay between two tries, and when to give up. Seconds."""

    initial_delay: float = 0.1  # a short cut is repaired before anybody notices
    max_delay: float = 10.0  # how long a person waits after the network is back
    give_up_after: float = 600.0  # a laptop that was closed for a while; then the user should know

    def delay(self, tries: int, jitter: Callable[[], float] = random.random) -> float:
        """Return how long to wait after this many failed tries in a row."""
        return float(jitter() * min(self.max_delay, self.initial_delay * 2.0 ** min(tries, 32)))


# Try once.
NO_RETRY = Backoff(give_up_after=0.0)

T = TypeVar("T")

# The parts of a connection that were cut together have noticed by then. Seconds.
MERGE_WINDOW = 1.0


class Outage:
    """Reports once that a connection is interrupted and once that it works again, however many parts notice."""

    def __init__(self, report: Callable[[str], None]) -> None:
        self._report = report
        self._affected_parts = 0
        self._last_report = float("-inf")  # time of the last report

    def begin(self, text: str) -> None:
        """Report that one part is interrupted."""
        self._affected_parts += 1
        if self._affected_parts == 1:
            self._report(text)

    def end(self, text: str) -> None:
        """Report that one part works again."""
        self._affected_parts -= 1
        if self._affected_parts == 0 and text:
            self._report(text)
            self._last_report = time.monotonic()

    def report_brief(self, text: str) -> None:
        """Report an interruption that is already over; only once for parts that were cut together."""
        now = time.monotonic()
        if self._affected_parts == 0 and now - self._last_report > MERGE_WINDOW:
            self._last_report = now
            self._report(text)


class RetryLoop:
    """One interruption, from the cut to its end."""

    def __init__(
        self,
        peer: str,
        backoff: Backoff,
        outage: Outage,
        reason: str = "",
        *,
        was_cut: bool = False,
        failure_text: str = "the connection was cut",
        recovery_text: str = "connected again",
        jitter: Callable[[], float] = random.random,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], Awaitable[object]] = asyncio.sleep,
    ) -> None:
        self._peer = peer
        self._backoff = backoff
        self._outage = outage
        self._reason = reason
        self._was_cut = was_cut
        self._failure_text = failure_text
        self._recovery_text = recovery_text
        self._jitter = jitter
        self._clock = clock
        self._sleep = sleep

    async def run(self, attempt: Callable[[], Awaitable[T]]) -> T:
        """Retry until it works; raise the error of the last try."""
        started_at, tries = self._clock(), 0
        try:
            while True:
                try:
                    result = await attempt()
                    break
                except ConnectionFailed as error:
                    left = started_at + self._backoff.give_up_after - self._clock()
                    if not (isinstance(error, Unreachable) and error.is_passing) or left <= 0:
                        raise
                    tries += 1
                    if tries == 1:
                        because = f" ({self._reason})" if self._reason else ""
                        text = f"{self._peer}: {self._failure_text}{because}; trying again for {_format_duration(left)}"
                        text += f" ({_strip_peer_name(str(error), self._peer)})"
                        self._outage.begin(text)
                    delay = self._backoff.delay(tries, self._jitter)
                    await self._sleep(min(max(delay, error.wait or 0.0), left))
        except BaseException:
            if tries:
                self._outage.end("")
            raise
        if tries:
            self._outage.end(
                f"{self._peer}: {self._recovery_text} after {_format_duration(self._clock() - started_at)}"
            )
        elif self._was_cut:
            self._outage.report_brief(
                f"{self._peer}: {self._failure_text} and is restored ({_format_duration(self._clock() - started_at)})"
            )
        return result


def _format_duration(seconds: float) -> str:
    return f"{seconds / 60:.0f} min" if seconds >= 120 else f"{seconds:.1f} s"


def _strip_peer_name(text: str, peer: str) -> str:
    """Return the text without the peer's name before it."""
    for name in (peer, peer.removeprefix("agent ")):
        text = text.removeprefix(f"{name}: ")
    return text
