"""The bounds of a team: how deep agents ask each other, how many work at once, and what all of them may spend."""

from __future__ import annotations

import msgspec

from dragoman.errors import Kind, ProtocolError
from dragoman.schema.prompt import Usage

# Agents that wait for each other's answers: more is rarely help and often a loop.
DEFAULT_DEPTH = 3

# Sessions at once, each of which is a process.
DEFAULT_WIDTH = 8

# Turns of all agents together: a bound for agents that keep asking each other.
DEFAULT_TURNS = 200


class TeamBounds(msgspec.Struct, frozen=True, kw_only=True):
    """What a team may do at most. Tokens and cost count what the agents report; None is no bound."""

    depth: int = DEFAULT_DEPTH  # how many agents may wait for each other in a row
    width: int = DEFAULT_WIDTH  # open sessions
    turns: int = DEFAULT_TURNS
    tokens: int | None = None
    cost: float | None = None


class Budget:
    """What a team has spent."""

    def __init__(self, bounds: TeamBounds) -> None:
        self._bounds = bounds
        self.turns = 0
        self.tokens = 0
        self.unreported: list[Usage] = []  # what the client of the team was not told yet
        self._costs: dict[object, float] = {}  # the cost of each session so far

    @property
    def cost(self) -> float:
        """The cost of all sessions, as the agents report it."""
        return sum(self._costs.values())

    def begin_turn(self) -> None:
        """Count a turn. Raise rate_limited if there may be no more."""
        self.check()
        if self.turns >= self._bounds.turns:
            raise _spent(f"{self._bounds.turns} turns")
        self.turns += 1

    def add_usage(self, usage: Usage | None) -> None:
        """Count the tokens of a turn."""
        if usage is not None:
            self.tokens += usage.total_tokens
            self.unreported = [*self.unreported, usage]

    def take_unreported(self) -> tuple[int, int] | None:
        """Return the input and output tokens since the last call; None if no agent reported any."""
        usages, self.unreported = self.unreported, []
        if not usages:
            return None
        return sum(each.input_tokens for each in usages), sum(each.output_tokens for each in usages)

    def note_cost(self, session: object, cost: float) -> None:
        """Note what a session has cost so far."""
        self._costs[session] = cost

    def check(self) -> None:
        """Raise rate_limited if the budget is spent."""
        if self._bounds.tokens is not None and self.tokens >= self._bounds.tokens:
            raise _spent(f"{self._bounds.tokens} tokens")
        if self._bounds.cost is not None and self.cost >= self._bounds.cost:
            raise _spent(f"a cost of {self._bounds.cost:g}")


def _spent(what: str) -> ProtocolError:
    return ProtocolError(Kind.RATE_LIMITED, f"the team has spent its budget of {what}; raise the bound, or start again")


def bound_error(what: str, limit: int) -> ProtocolError:
    """Return the error for something that is more than a bound."""
    return ProtocolError(Kind.RATE_LIMITED, f"{what}: {limit}", {"limit": limit})
