"""Tool calls as the agent announced them: a permission request may name its call by id only
(docs/protocol/peers.md#tool-call-order). No I/O.
"""

from __future__ import annotations

from typing import Any

import msgspec

from dragoman.schema.toolcall import ToolCallUpdate
from dragoman.schema.update import ToolCallStart

# Calls that are remembered until their turn ends; of more than that the oldest are forgotten.
MAX_CALLS = 1000

# What a question can show of a call.
_SHOWN_MEMBERS = ("title", "name", "kind", "locations", "raw_input")


class AnnouncedCalls:
    """The announced tool calls of all sessions of a connection.

    A question gets `members`, and the first of `subjects` (what the call is about) unless it has any of these. Others
    would only be side data.
    """

    def __init__(self, members: tuple[str, ...], subjects: tuple[str, ...] = ()) -> None:
        self._members = members
        self._subjects = subjects
        self._calls: dict[tuple[str, str], ToolCallUpdate] = {}

    def note(self, session: str, call: Any) -> None:
        """Note a tool call, or a change of one."""
        key = (session, call.tool_call_id)
        known = self._calls.pop(key, None)
        if type(call) is not ToolCallStart:  # which may use an id again
            call = with_announced(call, known, _SHOWN_MEMBERS)
        self._calls[key] = ToolCallUpdate(
            tool_call_id=call.tool_call_id, **{name: getattr(call, name) for name in _SHOWN_MEMBERS}
        )
        if len(self._calls) > MAX_CALLS:
            del self._calls[next(iter(self._calls))]

    def complete(self, session: str, call: ToolCallUpdate) -> Any:
        """Return the tool call of a question with what was announced and it does not repeat."""
        known = self._calls.get((session, call.tool_call_id))
        subject = next((name for name in self._subjects if getattr(known, name, None)), None)
        if subject is not None and not any(getattr(call, name) for name in self._subjects):
            call = with_announced(call, known, (subject,))
        return with_announced(call, known, self._members)

    def forget(self, session: str) -> None:
        """Forget the calls of a session, because its turn is over."""
        self._calls = {key: call for key, call in self._calls.items() if key[0] != session}


def with_announced(call: Any, known: Any, members: tuple[str, ...] = _SHOWN_MEMBERS) -> Any:
    """Return a tool call with those of these members of a known one that it lacks."""
    missing = {name: value for name in members if not getattr(call, name) and (value := getattr(known, name, None))}
    return msgspec.structs.replace(call, **missing) if missing else call
