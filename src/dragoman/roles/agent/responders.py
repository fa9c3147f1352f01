"""Several responders in one agent (docs/protocol/dialects.md#banjo-options).

The option `route` names a responder, or "duet": all of them in turn, `primary_agent` first. The option `auto_resume`
says whether a new session continues the last one in its folder.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from dragoman.roles.agent.options import Option
from dragoman.schema.prompt import StopReason

if TYPE_CHECKING:
    from dragoman.roles.agent.session import Session
    from dragoman.roles.agent.turn import Turn
    from dragoman.schema.config import SessionConfigOption

ROUTE, PRIMARY, AUTO_RESUME = "route", "primary_agent", "auto_resume"

# The route on which all responders answer.
DUET = "duet"

Responder = Callable[["Turn"], Awaitable[str | None]]


def with_route_options(options: Sequence[SessionConfigOption], names: Sequence[str]) -> list[SessionConfigOption]:
    """Add the routing options for these responders. One responder needs none."""
    others = [option for option in options if option.id not in (ROUTE, PRIMARY)]
    if len(names) < 2:
        return others
    return [
        *others,
        Option.select(ROUTE, [*names, DUET], description="Who answers: one of them, or all in turn"),
        Option.select(PRIMARY, list(names), description="Who answers first when all do"),
    ]


def selected_responders(session: Session, names: Iterable[str]) -> list[str]:
    """Return the names of the responders for the next prompt, in order."""
    known = list(names)
    route = session.get_option(ROUTE)
    if route in known:
        return [route]
    if route != DUET:
        return known[:1]
    first = session.get_option(PRIMARY)
    return [first, *(name for name in known if name != first)] if first in known else known


async def run_responders(responders: Mapping[str, Responder], turn: Turn) -> str | None:
    """Call the selected responders in order, until one returns a stop reason other than end_turn."""
    for name in selected_responders(turn.session, responders):
        reason = await responders[name](turn)
        if reason is not None and reason != StopReason.END_TURN:
            return reason
    return None


def is_auto_resumed(session: Session) -> bool:
    """Return whether the next session in this folder continues this one."""
    value: Any = session.get_option(AUTO_RESUME)
    return value in ("on", "true", "yes") if isinstance(value, str) else value is True
