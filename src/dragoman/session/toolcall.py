"""The states of a tool call, their transitions (docs/protocol/draft.md#status-machine), and its merged state.

`next_status` rejects a transition that is not in the table. `merge_update` accepts anything, because real agents skip
states, update calls they never announced and reuse ids (docs/protocol/peers.md#tool-call-order).
"""

from __future__ import annotations

from typing import Any

import msgspec
from msgspec import UNSET

from dragoman.errors import Kind, ProtocolError
from dragoman.schema.toolcall import ToolCallStatus as Status
from dragoman.schema.update import ToolCallContentChunk

TRANSITIONS: dict[str, frozenset[str]] = {
    Status.PENDING: frozenset({Status.AWAITING_PERMISSION, Status.IN_PROGRESS, Status.CANCELLED}),
    # The draft's diagram has no transition to cancelled here, but docs/protocol/draft.md#cancel requires one.
    Status.AWAITING_PERMISSION: frozenset({Status.IN_PROGRESS, Status.DENIED, Status.CANCELLED}),
    Status.IN_PROGRESS: frozenset({Status.COMPLETED, Status.FAILED, Status.CANCELLED}),
    Status.COMPLETED: frozenset(),
    Status.FAILED: frozenset(),
    Status.DENIED: frozenset(),
    Status.CANCELLED: frozenset(),
}

FINAL_STATUSES: frozenset[str] = frozenset(status for status, following in TRANSITIONS.items() if not following)


def next_status(current: str, to: str) -> str:
    """Return the new status. Raise invalid_state if the transition is not allowed."""
    if to not in TRANSITIONS.get(current, frozenset()):
        raise ProtocolError(Kind.INVALID_STATE, f"a tool call that is {current} cannot become {to}")
    return to


class ToolCall(msgspec.Struct, kw_only=True):
    """The merged state of one tool call."""

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

# Members that an update can clear, by their names on the wire.
_WIRE_NAMES = {"rawInput": "raw_input", "rawOutput": "raw_output"}


def merge_update(call: ToolCall | None, update: Any) -> ToolCall:
    """Apply an update (start, progress or the tool call of a permission request); absent and null members keep.

    A member that `clear` names loses its value; an item of content is added.
    """
    call = call or ToolCall(tool_call_id=update.tool_call_id)
    if type(update) is ToolCallContentChunk:
        call.content.append(update.content)
        return call
    for wire_name in getattr(update, "clear", UNSET) or ():
        name = _WIRE_NAMES.get(wire_name, wire_name)
        if name in _MEMBERS:
            setattr(call, name, getattr(ToolCall(tool_call_id=""), name))
    for name in _MEMBERS:
        value = getattr(update, name, UNSET)
        if value is not UNSET and value is not None:
            setattr(call, name, list(value) if name == "content" else value)  # items may be added to it
    return call
