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
    LONGER = "longer"  # try again with more patience
    REPORT = "report"  # log it, tell the user, and let them try again


STRATEGIES: dict[str, str] = {
    Kind.SESSION_NOT_FOUND: Strategy.NEW_SESSION,
    Kind.PERMISSION_DENIED: Strategy.EXPLAIN,
    Kind.RATE_LIMITED: Strategy.BACK_OFF,
    Kind.TIMEOUT: Strategy.LONGER,
    Kind.INTERNAL_ERROR: Strategy.REPORT,
    # Not in the seed's table, and the same in kind.
    Kind.SESSION_EXPIRED: Strategy.NEW_SESSION,
    Kind.ACCESS_DENIED: Strategy.EXPLAIN,
}

# Many agents call an unknown session an invalid param or an internal error (peers.md 10); only their words tell.
_VAGUE = frozenset({Kind.INVALID_PARAMS, Kind.INTERNAL_ERROR, Kind.RESOURCE_NOT_FOUND})
_NO_SESSION = re.compile(
    r"\b(unknown|no such|invalid) session\b|\bsession\b.*\b(not found|unknown|does not exist)\b", re.IGNORECASE
)


def strategy_of(error: ProtocolError) -> str | None:
    """What to do about an error; None when there is nothing to be done."""
    if error.kind in _VAGUE and _NO_SESSION.search(error.explanation):
        return Strategy.NEW_SESSION
    return STRATEGIES.get(error.kind)


class Trouble(msgspec.Struct, frozen=True, kw_only=True):
    """An error, and what is about to be done about it."""

    error: ProtocolError
    strategy: str
    tries: int  # how often it was tried
    has_acted: bool  # whether tools have run meanwhile: trying again would run them again

    @property
    def explanation(self) -> str:
        """A sentence for the user."""
        return f"{_SENTENCES[self.strategy]}: {self.error.explanation}"


_SENTENCES = {
    Strategy.NEW_SESSION: "The agent does not know this session any more; a new one begins, without its memory",
    Strategy.EXPLAIN: "This was not allowed",
    Strategy.BACK_OFF: "The agent is asked too often; the next try has to wait",
    Strategy.LONGER: "This took too long",
    Strategy.REPORT: "Something went wrong in the agent",
}

# Strategies that go on by themselves, as long as nothing was done yet that would be done twice.
_BY_THEMSELVES = frozenset({Strategy.NEW_SESSION, Strategy.BACK_OFF, Strategy.LONGER})


class Recovery:
    """How to recover from errors, and how often."""

    def __init__(
        self,
        *,
        tries: int = 4,
        first_pause: float = 1.0,
        longest_pause: float = 60.0,
        longer: float = 2.0,
        tell: Callable[[Trouble], object] | None = None,
        retry: Callable[[Trouble], Awaitable[bool] | bool] | None = None,
        sleep: Callable[[float], Awaitable[object]] = asyncio.sleep,
        chance: Callable[[], float] = random.random,
    ) -> None:
        if tries < 1:
            raise ValueError("something must be tried at least once")
        self.tries = tries  # all in all
        self.first_pause = first_pause
        self.longest_pause = longest_pause
        self.longer = longer  # by how much patience grows with each timeout
        self._tell = tell  # shows the user what went wrong
        self._retry = retry  # asks the user whether to try again; nobody asked means no
        self._sleep = sleep
        self._chance = chance

    def pause(self, tries: int) -> float:
        """How long to wait after so many tries: twice as long each time, and never all clients at once."""
        whole = min(self.longest_pause, self.first_pause * 2.0 ** min(tries - 1, 64))
        return whole * (0.5 + self._chance() / 2)

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
                trouble = Trouble(error=error, strategy=strategy, tries=tries, has_acted=has_acted())
                self._say(trouble)
                if tries >= self.tries or not await self._may_go_on(trouble):
                    raise
                if strategy == Strategy.NEW_SESSION:
                    if renew is None:
                        raise
                    await renew()
                elif strategy == Strategy.BACK_OFF:
                    await self._sleep(self.pause(tries))
                elif strategy == Strategy.LONGER:
                    stretch *= self.longer

    def _say(self, trouble: Trouble) -> None:
        if trouble.strategy == Strategy.REPORT:
            logger.warning("the agent reports %s: %s", trouble.error.kind, trouble.error.message)
        if self._tell is not None:
            self._tell(trouble)

    async def _may_go_on(self, trouble: Trouble) -> bool:
        if trouble.strategy in _BY_THEMSELVES and not trouble.has_acted:
            return True
        if self._retry is None:
            return False
        answer = self._retry(trouble)
        return await answer if isinstance(answer, Awaitable) else answer
