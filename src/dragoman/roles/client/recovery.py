"""What a client does about an error: a table from kinds to strategies (seed 004 section 15.3), and who applies it.

`STRATEGIES` and `strategy_of` are pure. A Recovery runs a piece of work, and after an error does what the table says, a
bounded number of times; clock and chance are given to it. It never repeats by itself what has already had effects.
"""

from __future__ import annotations

import asyncio
import logging
import random
import re
from collections.abc import Awaitable, Callable
from typing import TypeVar

import msgspec

from dragoman.errors import Kind, ProtocolError

logger = logging.getLogger("dragoman")

T = TypeVar("T")


class Strategy:
    """The ways out of an error."""

    NEW_SESSION = "new_session"  # open a new session and try there
    EXPLAIN = "explain"  # tell the user why, and let them try again
    BACK_OFF = "back_off"  # wait, each time longer, and try again
    LONGER_TIMEOUT = "longer"  # try again with more patience
    REPORT = "report"  # log it, tell the user, and let them try again


STRATEGIES: dict[str, str] = {
    Kind.SESSION_NOT_FOUND: Strategy.NEW_SESSION,
    Kind.PERMISSION_DENIED: Strategy.EXPLAIN,
    Kind.RATE_LIMITED: Strategy.BACK_OFF,
    Kind.TIMEOUT: Strategy.LONGER_TIMEOUT,
    Kind.INTERNAL_ERROR: Strategy.REPORT,
    # Not in the seed's table, and the same in kind.
    Kind.SESSION_EXPIRED: Strategy.NEW_SESSION,
    Kind.ACCESS_DENIED: Strategy.EXPLAIN,
}

# Many agents call an unknown session an invalid param or an internal error (peers.md 10); only their words tell.
_AMBIGUOUS_KINDS = frozenset({Kind.INVALID_PARAMS, Kind.INTERNAL_ERROR, Kind.RESOURCE_NOT_FOUND})
_NO_SESSION = re.compile(
    r"\b(unknown|no such|invalid) session\b|\bsession\b.*\b(not found|unknown|does not exist)\b", re.IGNORECASE
)


def strategy_of(error: ProtocolError) -> str | None:
    """What to do about an error; None when there is nothing to be done."""
    if error.kind in _AMBIGUOUS_KINDS and _NO_SESSION.search(error.explanation):
        return Strategy.NEW_SESSION
    return STRATEGIES.get(error.kind)


class FailedAttempt(msgspec.Struct, frozen=True, kw_only=True):
    """An error, and what is about to be done about it."""

    error: ProtocolError
    strategy: str
    attempts: int  # how often it was tried
    has_acted: bool  # whether tools have run meanwhile: trying again would run them again

    @property
    def explanation(self) -> str:
        """A sentence for the user."""
        return f"{_EXPLANATIONS[self.strategy]}: {self.error.explanation}"


_EXPLANATIONS = {
    Strategy.NEW_SESSION: "The agent does not know this session any more; a new one begins, without its memory",
    Strategy.EXPLAIN: "This was not allowed",
    Strategy.BACK_OFF: "The agent is asked too often; the next try has to wait",
    Strategy.LONGER_TIMEOUT: "This took too long",
    Strategy.REPORT: "Something went wrong in the agent",
}

# Strategies that go on by themselves, as long as nothing was done yet that would be done twice.
_AUTOMATIC = frozenset({Strategy.NEW_SESSION, Strategy.BACK_OFF, Strategy.LONGER_TIMEOUT})


class Recovery:
    """How to recover from errors, and how often."""

    def __init__(
        self,
        *,
        max_attempts: int = 4,
        initial_delay: float = 1.0,
        max_delay: float = 60.0,
        timeout_factor: float = 2.0,
        on_failure: Callable[[FailedAttempt], object] | None = None,
        confirm_retry: Callable[[FailedAttempt], Awaitable[bool] | bool] | None = None,
        sleep: Callable[[float], Awaitable[object]] = asyncio.sleep,
        jitter: Callable[[], float] = random.random,
    ) -> None:
        if max_attempts < 1:
            raise ValueError("something must be tried at least once")
        self.max_attempts = max_attempts  # all in all
        self.initial_delay = initial_delay
        self.max_delay = max_delay
        self.timeout_factor = timeout_factor  # by how much patience grows with each timeout
        self._on_failure = on_failure  # shows the user what went wrong
        self._confirm_retry = confirm_retry  # asks the user whether to try again; nobody asked means no
        self._sleep = sleep
        self._jitter = jitter

    def delay(self, attempts: int) -> float:
        """How long to wait after so many tries: twice as long each time, and never all clients at once."""
        whole = min(self.max_delay, self.initial_delay * 2.0 ** min(attempts - 1, 64))
        return whole * (0.5 + self._jitter() / 2)

    async def run(
        self,
        work: Callable[[float], Awaitable[T]],
        *,
        renew: Callable[[], Awaitable[None]] | None = None,
        has_acted: Callable[[], bool] = lambda: False,
    ) -> T:
        """Do the work, again and again if need be; it is told by how much to stretch its timeouts."""
        tries, stretch = 0, 1.0
        while True:
            try:
                return await work(stretch)
            except ProtocolError as error:
                tries += 1
                strategy = strategy_of(error)
                if strategy is None:
                    raise
                trouble = FailedAttempt(error=error, strategy=strategy, attempts=tries, has_acted=has_acted())
                self._report_failure(trouble)
                if tries >= self.max_attempts or not await self._should_retry(trouble):
                    raise
                if strategy == Strategy.NEW_SESSION:
                    if renew is None:
                        raise
                    await renew()
                elif strategy == Strategy.BACK_OFF:
                    await self._sleep(self.delay(tries))
                elif strategy == Strategy.LONGER_TIMEOUT:
                    stretch *= self.timeout_factor

    def _report_failure(self, failure: FailedAttempt) -> None:
        if failure.strategy == Strategy.REPORT:
            logger.warning("the agent reports %s: %s", failure.error.kind, failure.error.message)
        if self._on_failure is not None:
            self._on_failure(failure)

    async def _should_retry(self, failure: FailedAttempt) -> bool:
        if failure.strategy in _AUTOMATIC and not failure.has_acted:
            return True
        if self._confirm_retry is None:
            return False
        answer = self._confirm_retry(failure)
        return await answer if isinstance(answer, Awaitable) else answer
