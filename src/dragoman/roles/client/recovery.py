"""What a client does about an error: a table from kinds to strategies (docs/protocol/draft.md#error-recovery), and a
Recovery that applies it. A Recovery never repeats by itself what has already had effects.
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
    """What to do about an error."""

    NEW_SESSION = "new_session"  # open a new session and retry there
    EXPLAIN = "explain"  # explain it to the user, who may retry
    BACK_OFF = "back_off"  # wait, longer each time, and retry
    LONGER_TIMEOUT = "longer"  # retry with longer timeouts
    REPORT = "report"  # log it and tell the user, who may retry


STRATEGIES: dict[str, str] = {
    Kind.SESSION_NOT_FOUND: Strategy.NEW_SESSION,
    Kind.PERMISSION_DENIED: Strategy.EXPLAIN,
    Kind.RATE_LIMITED: Strategy.BACK_OFF,
    Kind.TIMEOUT: Strategy.LONGER_TIMEOUT,
    Kind.INTERNAL_ERROR: Strategy.REPORT,
    # Not in the draft's table, but alike.
    Kind.SESSION_EXPIRED: Strategy.NEW_SESSION,
    Kind.ACCESS_DENIED: Strategy.EXPLAIN,
}

# Many agents report an unknown session as an invalid param or an internal error
# (docs/protocol/peers.md#unknown-session); only the message tells.
_AMBIGUOUS_KINDS = frozenset({Kind.INVALID_PARAMS, Kind.INTERNAL_ERROR, Kind.RESOURCE_NOT_FOUND})
_NO_SESSION = re.compile(
    r"\b(unknown|no such|invalid) session\b|\bsession\b.*\b(not found|unknown|does not exist)\b", re.IGNORECASE
)


def strategy_of(error: ProtocolError) -> str | None:
    """Return what to do about an error, or None."""
    if error.kind in _AMBIGUOUS_KINDS and _NO_SESSION.search(error.explanation):
        return Strategy.NEW_SESSION
    return STRATEGIES.get(error.kind)


class FailedAttempt(msgspec.Struct, frozen=True, kw_only=True):
    """An error and the strategy for it."""

    error: ProtocolError
    strategy: str
    attempts: int  # how many attempts failed
    has_acted: bool  # whether tool calls have started; a retry would run them again

    @property
    def explanation(self) -> str:
        """A sentence for the user."""
        return f"{_EXPLANATIONS[self.strategy]}: {self.error.explanation}"


_EXPLANATIONS = {
    Strategy.NEW_SESSION: "The agent no longer knows this session; a new one is opened, without its history",
    Strategy.EXPLAIN: "This was not allowed",
    Strategy.BACK_OFF: "The agent limits the rate of requests; the next attempt has to wait",
    Strategy.LONGER_TIMEOUT: "This took too long",
    Strategy.REPORT: "An error occurred in the agent",
}

# Strategies that retry without asking, as long as no tool call has started.
_AUTOMATIC = frozenset({Strategy.NEW_SESSION, Strategy.BACK_OFF, Strategy.LONGER_TIMEOUT})


class Recovery:
    """Retries after errors, with limits."""

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
        if not isinstance(max_attempts, int):
            raise TypeError(f"max_attempts is a whole number, not {max_attempts!r:.80}")
        if max_attempts < 1:
            raise ValueError("max_attempts must be at least 1")
        self.max_attempts = max_attempts  # including the first
        self.initial_delay = initial_delay
        self.max_delay = max_delay
        self.timeout_factor = timeout_factor  # how much timeouts grow with each timeout
        self._on_failure = on_failure  # shows an error to the user
        self._confirm_retry = confirm_retry  # asks the user whether to retry; without it the answer is no
        self._sleep = sleep
        self._jitter = jitter

    def delay(self, attempts: int) -> float:
        """Return the delay after so many attempts: doubled each time, with jitter."""
        full = min(self.max_delay, self.initial_delay * 2.0 ** min(attempts - 1, 64))
        return full * (0.5 + self._jitter() / 2)

    async def run(
        self,
        work: Callable[[float], Awaitable[T]],
        *,
        renew: Callable[[], Awaitable[None]] | None = None,
        has_acted: Callable[[], bool] = lambda: False,
    ) -> T:
        """Call `work` with a factor for its timeouts, and again after errors that allow it."""
        attempts, timeout_factor = 0, 1.0
        while True:
            try:
                return await work(timeout_factor)
            except ProtocolError as error:
                attempts += 1
                strategy = strategy_of(error)
                if strategy is None:
                    raise
                failure = FailedAttempt(error=error, strategy=strategy, attempts=attempts, has_acted=has_acted())
                self._report_failure(failure)
                if attempts >= self.max_attempts or not await self._should_retry(failure):
                    raise
                if strategy == Strategy.NEW_SESSION:
                    if renew is None:
                        raise
                    await renew()
                elif strategy == Strategy.BACK_OFF:
                    await self._sleep(self.delay(attempts))
                elif strategy == Strategy.LONGER_TIMEOUT:
                    timeout_factor *= self.timeout_factor

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
