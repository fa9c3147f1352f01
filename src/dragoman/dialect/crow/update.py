"""session/update of crow: {sessionId, update: {"@type", ...}}, with texts, bare tool calls and plans.

Wire params in, v1 params out, and back. Statuses, kinds and plan entries are v1's own; what a tool call has
beyond id, title, kind and status goes unsaid. A permission_request is no update but a question: see there.
"""

from __future__ import annotations

from collections.abc import Callable

from dragoman.dialect.crow.tables import DIALECT, KINDS, SPELLED, TEXTS, TOOL, TOOL_UNSAID
from dragoman.dialect.guesses import lift_text, lower_text
from dragoman.dialect.reshape import ABSENT, Json, Lifted, Lowered, Object
from dragoman.dialect.side_data import cleared, opened, plain
from dragoman.dialect.v1.tables import CHUNKS, STATUSES, UPDATES, chunk_text
from dragoman.errors import Unsayable


def lift_update(params: Object) -> Object:
    """An update of a crow agent."""
    update = params.get("update")
    if type(update) is not dict:
        said: Object = cleared(params)
        return said
    kind = update.get("@type", ABSENT)
    name = KINDS.get(kind, kind) if isinstance(kind, str) else kind
    # By far the most frequent message there is: a piece of text and nothing else.
    if len(params) == 2 and len(update) == 2 and "text" in update and "sessionId" in params and name in CHUNKS:
        content = {"type": "text", "text": update["text"]}
        return {"sessionId": params["sessionId"], "update": {"sessionUpdate": name, "content": content}}
    out: Object = dict(cleared(params))
    lifted = Lifted(out["update"])
    if lifted.take("@type") is not ABSENT:
        lifted.put("sessionUpdate", name)
    if rule := _LIFT.get(name) if isinstance(name, str) else None:
        rule(lifted)
    out["update"] = lifted.done()
    return out


def lower_update(params: Object) -> Object:
    """An update for a crow client; kinds that v1 has and crow lacks are unsayable."""
    text = chunk_text(params)
    if text is not None:
        kind = SPELLED[params["update"]["sessionUpdate"]]
        return {"sessionId": params["sessionId"], "update": {"@type": kind, "text": text}}
    update = params.get("update")
    low = opened(params)
    if isinstance(update, dict):
        low.put("update", _lower(update))
    said: Object = plain(low.done())
    return said


def _lower(update: Object) -> Object:
    name = update.get("sessionUpdate")
    known = name if isinstance(name, str) else ""
    if known in UPDATES and known not in SPELLED:
        raise Unsayable(DIALECT, f"the update {known}")
    low = opened(update)
    kind = low.take("sessionUpdate")
    low.put("@type", SPELLED.get(known, kind))
    if rule := _LOWER.get(known):
        rule(low)
    return low.done()


def _lower_text(low: Lowered) -> None:
    lower_text(low)
    unsay(low, ("messageId",))


def _lift_tool(lifted: Lifted) -> None:
    lifted.move(TOOL)


def _lower_tool(low: Lowered) -> None:
    low.move(TOOL)
    lower_status(low)
    unsay(low, TOOL_UNSAID)


def lower_status(low: Lowered) -> None:
    """The nearest status that v1 has a word for; the true one beside it."""
    status = low.take("status")
    said = STATUSES.get(status, status) if isinstance(status, str) else status
    low.put("status", said)
    if said is not status:
        low.side["status"] = status


def unsay(low: Lowered, names: tuple[str, ...]) -> None:
    """Move members that crow has no place for to the side data."""
    for name in names:
        value: Json = low.take(name)
        if value is not ABSENT:
            low.side[name] = value


_LIFT: dict[str, Callable[[Lifted], None]] = {
    **dict.fromkeys(TEXTS.values(), lift_text),
    "tool_call": _lift_tool,
    "tool_call_update": _lift_tool,
}
_LOWER: dict[str, Callable[[Lowered], None]] = {
    **dict.fromkeys(TEXTS.values(), _lower_text),
    "tool_call": _lower_tool,
    "tool_call_update": _lower_tool,
}
