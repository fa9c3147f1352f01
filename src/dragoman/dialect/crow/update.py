"""The crow session/update: {sessionId, update: {"@type", ...}}, with texts, simple tool calls and plans.

Wire params in, v1 params out, and back. Statuses, kinds and plan entries are v1's; tool calls only have id, title, kind
and status. A permission_request is not an update here: see crow/permission.
"""

from __future__ import annotations

from collections.abc import Callable

from dragoman.dialect.crow.tables import (
    KIND_BY_TYPE,
    NAME,
    TEXT_KIND_BY_TYPE,
    TOOL_NAMES,
    TOOL_UNSUPPORTED,
    TYPE_BY_KIND,
)
from dragoman.dialect.guesses import lift_text, lower_status, lower_text
from dragoman.dialect.reshape import ABSENT, Json, Lifted, Lowered, Object
from dragoman.dialect.side_data import begin_lowering, strip_private, strip_side_data
from dragoman.dialect.v1.tables import CHUNK_KINDS, UPDATE_KINDS, chunk_text
from dragoman.errors import Unsayable


def lift_update(params: Object) -> Object:
    """Lift an update of a crow agent."""
    update = params.get("update")
    if type(update) is not dict:
        said: Object = strip_side_data(params)
        return said
    kind = update.get("@type", ABSENT)
    name = KIND_BY_TYPE.get(kind, kind) if isinstance(kind, str) else kind
    # The most frequent message: a plain text chunk.
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
    """Lower an update for a crow client; kinds that crow lacks raise an error."""
    text = chunk_text(params)
    if text is not None:
        kind = TYPE_BY_KIND[params["update"]["sessionUpdate"]]
        return {"sessionId": params["sessionId"], "update": {"@type": kind, "text": text}}
    update = params.get("update")
    lowered = begin_lowering(params)
    if isinstance(update, dict):
        lowered.put("update", _lower_object(update))
    said: Object = strip_private(lowered.build())
    return said


def _lower_object(update: Object) -> Object:
    name = update.get("sessionUpdate")
    known = name if isinstance(name, str) else ""
    if known in UPDATE_KINDS and known not in TYPE_BY_KIND:
        raise Unsayable(NAME, f"the update {known}")
    lowered = begin_lowering(update)
    kind = lowered.take("sessionUpdate")
    lowered.put("@type", TYPE_BY_KIND.get(known, kind))
    if rule := _LOWER.get(known):
        rule(lowered)
    return lowered.build()


def _lower_text(lowered: Lowered) -> None:
    lower_text(lowered)
    move_to_side_data(lowered, ("messageId",))


def _lift_tool(lifted: Lifted) -> None:
    lifted.rename(TOOL_NAMES)


def _lower_tool(lowered: Lowered) -> None:
    lowered.rename(TOOL_NAMES)
    lower_status(lowered)
    move_to_side_data(lowered, TOOL_UNSUPPORTED)


def move_to_side_data(lowered: Lowered, names: tuple[str, ...]) -> None:
    """Move members that crow lacks to the side data."""
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
