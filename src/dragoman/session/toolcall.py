"""The states of a tool call and the moves between them (seed 004 section 8.2), and its merged picture.

A table and a fold: takes updates, gives the picture. `move` refuses what the table does not have; `merge` is lenient,
for real agents skip states, update calls they never announced and reuse ids (peers.md 18).
"""

from __future__ import annotations

from typing import Any

import msgspec
from msgspec import UNSET

from dragoman.errors import Kind, ProtocolError
from dragoman.schema.toolcall import ToolCallStatus as Status

TRANSITIONS: dict[str, frozenset[str]] = {
    Status.PENDING: frozenset({Status.AWAITING_PERMISSION, Status.IN_PROGRESS, Status.CANCELLED}),
    # The seed's drawing has no way from here to cancelled; section 4.5 demands it of every open call.
    Status.AWAITING_PERMISSION: frozenset({Status.IN_PROGRESS, Status.DENIED, Status.CANCELLED}),
    Status.IN_PROGRESS: frozenset({Status.COMPLETED, Status.FAILED, Status.CANCELLED}),
    Status.COMPLETED: frozenset(),
    Status.FAILED: frozenset(),
    Status.DENIED: frozenset(),
    Status.CANCELLED: frozenset(),
}

FINAL_STATUSES: frozenset[str] = frozenset(status for status, moves in TRANSITIONS.items() if not moves)


def next_status(current: str, to: str) -> str:
    """The new status; a move the table does not have is an invalid state."""
    if to not in TRANSITIONS.get(current, frozenset()):
        raise ProtocolError(Kind.INVALID_STATE, f"a tool call that is {current} cannot become {to}")
    return to


class ToolCall(msgspec.Struct, kw_only=True):
    """The merged picture of one tool call."""

    tool_call_id: str
    title: str = ""
    name: str = ""
    kind: str = "other"
    status: str = Status.PENDING
    content: list[Any] = msgspec.field(default_factory=list)
    locations: list[Any] = msgspec.field(default_factory=list)
    raw_input: Any = None
    raw_output: Any = None


_MEMBERS = ("title", "name", "kind", "status", "content", "locations", "raw_input", "raw_output")


def merge_update(call: ToolCall | None, update: Any) -> ToolCall:
    """The picture after an update (a start, a change, or the patch in a question); absent and null keep."""
    call = call or ToolCall(tool_call_id=update.tool_call_id)
    for name in _MEMBERS:
        value = getattr(update, name, UNSET)
        if value is not UNSET and value is not None:
            setattr(call, name, value)
    return call
