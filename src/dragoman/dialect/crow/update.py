"""session/update of crow: {sessionId, update: {"@type", ...}}, with texts, bare tool calls and plans.

Wire params in, v1 params out, and back. Statuses, kinds and plan entries are v1's own; what a tool call has
beyond id, title, kind and status goes unsaid. A permission_request is no update but a question: see there.
"""

from __future__ import annotations

from collections.abc import Callable

from dragoman.dialect.crow.tables import (
    DIALECT,
    KIND_BY_TYPE,
    TEXT_KIND_BY_TYPE,
    TOOL_NAMES,
    TOOL_UNSUPPORTED,
    TYPE_BY_KIND,
)
from dragoman.dialect.guesses import lift_text, lower_text
from dragoman.dialect.reshape import ABSENT, Json, Lifted, Lowered, Object
from dragoman.dialect.side_data import begin_lowering, strip_private, strip_side_data
from dragoman.dialect.v1.tables import CHUNK_KINDS, NEAREST_STATUSES, UPDATE_KINDS, chunk_text
from dragoman.errors import Unsayable


def lift_update(params: Object) -> Object:
    """An update of a crow agent."""
    update = params.get("update")
    if type(update) is not dict:
        said: Object = strip_side_data(params)
        return said
    kind = update.get("@type", ABSENT)
    name = KIND_BY_TYPE.get(kind, kind) if isinstance(kind, str) else kind
    # By far the most frequent message there is: a piece of text and nothing else.
    if len(params) == 2 and len(update) == 2 and "text" in update and "sessionId" in params and name in CHUNK_KINDS:
        content = {"type": "text", "text": update["text"]}
        return {"sessionId": params["sessionId"], "update": {"sessionUpdate": name, "content": content}}
    out: Object = dict(strip_side_data(params))
    lifted = Lifted(out["update"])
    if lifted.take("@type") is not ABSENT:
        lifted.put("sessionUpdate", name)
    if rule := _LIFT.get(name) if isinstance(name, str) else None:
        rule(lifted)
    out["update"] = lifted.build()
    return out


def lower_update(params: Object) -> Object:
    """An update for a crow client; kinds that v1 has and crow lacks are unsayable."""
    text = chunk_text(params)
    if text is not None:
        kind = TYPE_BY_KIND[params["update"]["sessionUpdate"]]
        return {"sessionId": params["sessionId"], "update": {"@type": kind, "text": text}}
    update = params.get("update")
    low = begin_lowering(params)
    if isinstance(update, dict):
        low.put("update", _lower_object(update))
    said: Object = strip_private(low.build())
    return said


def _lower_object(update: Object) -> Object:
    name = update.get("sessionUpdate")
    known = name if isinstance(name, str) else ""
    if known in UPDATE_KINDS and known not in TYPE_BY_KIND:
        raise Unsayable(DIALECT, f"the update {known}")
    low = begin_lowering(update)
    kind = low.take("sessionUpdate")
    low.put("@type", TYPE_BY_KIND.get(known, kind))
    if rule := _LOWER.get(known):
        rule(low)
    return low.build()


def _lower_text(lowered: Lowered) -> None:
    lower_text(lowered)
    move_to_side_data(lowered, ("messageId",))


def _lift_tool(lifted: Lifted) -> None:
    lifted.rename(TOOL_NAMES)


def _lower_tool(lowered: Lowered) -> None:
    lowered.rename(TOOL_NAMES)
    lower_status(lowered)
    move_to_side_data(lowered, TOOL_UNSUPPORTED)


def lower_status(lowered: Lowered) -> None:
    """The nearest status that v1 has a word for; the true one beside it."""
    status = lowered.take("status")
    said = NEAREST_STATUSES.get(status, status) if isinstance(status, str) else status
    lowered.put("status", said)
    if said is not status:
        lowered.side_data["status"] = status


def move_to_side_data(lowered: Lowered, names: tuple[str, ...]) -> None:
    """Move members that crow has no place for to the side data."""
    for name in names:
        value: Json = lowered.take(name)
        if value is not ABSENT:
            lowered.side_data[name] = value


_LIFT: dict[str, Callable[[Lifted], None]] = {
    **dict.fromkeys(TEXT_KIND_BY_TYPE.values(), lift_text),
    "tool_call": _lift_tool,
    "tool_call_update": _lift_tool,
}
_LOWER: dict[str, Callable[[Lowered], None]] = {
    **dict.fromkeys(TEXT_KIND_BY_TYPE.values(), _lower_text),
    "tool_call": _lower_tool,
    "tool_call_update": _lower_tool,
}
