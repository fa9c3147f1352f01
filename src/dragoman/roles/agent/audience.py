"""Which updates a client is told, and in which form: some kinds are for those who asked for them (reference 1.8).

A table of gates and a table of older forms. What a client did not ask for is said as it was said before that kind
existed, or not at all. Takes an update and a connection, gives the update to send. Above are sessions.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from dragoman.engine.connection import Connection
from dragoman.schema.plan import PlanItems
from dragoman.schema.update import (
    CompactionSummaryChunk,
    CompactionUpdate,
    Notice,
    Plan,
    PlanRemoved,
    PlanUpdate,
    SessionMessage,
    SessionMessageChunk,
    SubagentUpdate,
)

# Kinds of updates that a client must ask for, and the capability by which it does.
GATES: dict[type, str] = {
    Notice: "client.session.notices",
    CompactionUpdate: "client.session.compaction",
    CompactionSummaryChunk: "client.session.compaction",
    PlanUpdate: "client.plan",
    PlanRemoved: "client.plan",
    SubagentUpdate: "client.subagents",
    SessionMessage: "client.subagents",
    SessionMessageChunk: "client.subagents",
}


def _unnamed_plan(update: PlanUpdate) -> Plan | None:
    """A plan without a name; one that is a file or Markdown has no entries to show."""
    return Plan(entries=update.plan.entries) if isinstance(update.plan, PlanItems) else None


# How a kind is said to clients that did not ask for it; kinds not listed are left out.
FALLBACKS: dict[type, Callable[[Any], Any]] = {PlanUpdate: _unnamed_plan, PlanRemoved: lambda _: Plan(entries=[])}


def update_for_client(connection: Connection, update: Any) -> Any:
    """The update as this client is to hear it; None when it is not."""
    kind = type(update)
    gate = GATES.get(kind)
    if gate is None or connection.offers(gate):
        return update
    older = FALLBACKS.get(kind)
    return older(update) if older is not None else None
