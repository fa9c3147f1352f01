"""The 2025.1 session/update: {session_id, type, data}, where `data` holds v1's update object.

Messages are plain text; tool calls have a name and arguments, but no title, kind or locations; plan steps have a
number, but no priority (docs/protocol/dialects.md#y2025-updates).
"""

from __future__ import annotations

from collections.abc import Callable

from dragoman.dialect.guesses import guess_tool_kind, lift_text, lower_status, lower_text
from dragoman.dialect.reshape import ABSENT, Json, Lifted, Lowered, Object
from dragoman.dialect.side_data import strip_private, strip_side_data
from dragoman.dialect.v1.tables import CHUNK_KINDS, UPDATE_KINDS, chunk_text
from dragoman.dialect.y2025.tables import NAME, SESSION_NAMES, TOOL_UNSUPPORTED
from dragoman.errors import Unsayable


def lift_update(params: Object) -> Object:
    """Lift an update of a 2025.1 agent."""
    kind, data = params.get("type"), params.get("data")
    # The most frequent message: a plain text chunk.
    if (
        kind in CHUNK_KINDS
        and len(params) == 3
        and type(data) is dict
        and len(data) == 1
        and "text" in data
        and "session_id" in params
    ):
        update = {"sessionUpdate": kind, "content": {"type": "text", "text": data["text"]}}
        return {"sessionId": params["session_id"], "update": update}
    lifted = Lifted(strip_side_data(params))
    lifted.rename(SESSION_NAMES)
    lifted.take("type")
    if isinstance(data, dict):
        data = lifted.take("data")
        rule = _LIFT.get(kind) if isinstance(kind, str) else None
        update = rule(data) if rule else dict(data)
        if "type" in params:
            update.pop("sessionUpdate", None)
            update = {"sessionUpdate": kind, **update}
        lifted.put("update", update)
    elif "type" in params:
        lifted.put("update", {"sessionUpdate": kind})
    return lifted.build()


def lower_update(params: Object) -> Object:
    """Lower an update for a 2025.1 client; kinds that 2025.1 lacks raise an error."""
    text = chunk_text(params)
    if text is not None:
        return {
            "session_id": params["sessionId"],
            "type": params["update"]["sessionUpdate"],
            "data": {"text": text},
        }
    lowered = Lowered(params)
    lowered.rename(SESSION_NAMES)
    update = lowered.rest.get("update")
    if isinstance(update, dict):
        lowered.take("update")
        _lower_object(lowered, update)
    said: Object = strip_private(lowered.build())
    return said


def _lower_object(lowered: Lowered, update: Object) -> None:
    kind = update.get("sessionUpdate", ABSENT)
    known = kind if isinstance(kind, str) else ""
    rule = _LOWER.get(known)
    if rule is None and known in UPDATE_KINDS:
        raise Unsayable(NAME, f"the update {known}")
    lowered.put("type", kind)
    data = {name: value for name, value in update.items() if name != "sessionUpdate"}
    lowered.put("data", rule(data) if rule else Lowered(data).build())


def _lift_chunk(data: Object) -> Object:
    lifted = Lifted(data)
    lift_text(lifted)
    return lifted.build()


def _lower_chunk(data: Object) -> Object:
    lowered = Lowered(data)
    lower_text(lowered)
    return lowered.build(("messageId",))


def _lift_tool_call(data: Object) -> Object:
    lifted = Lifted(data)
    lifted.rename({"id": "toolCallId", "name": "name", "arguments": "rawInput"})
    name = lifted.out.get("name")
    if isinstance(name, str):
        if "title" not in data:
            lifted.infer("title", name)
        if "kind" not in data:
            lifted.infer("kind", guess_tool_kind(name))
    return lifted.build()


def _lower_tool_call(data: Object) -> Object:
    lowered = Lowered(data)
    lowered.rename({"id": "toolCallId"})
    name = lowered.take("name")
    if name is ABSENT or name is None:
        name = lowered.take("title", data.get("title", ABSENT))
    lowered.put("name", name)
    if lowered.rest.get("title") == name:
        lowered.take("title")
    lowered.put("arguments", lowered.take("rawInput"))
    return lowered.build(TOOL_UNSUPPORTED)


def _lift_progress(data: Object) -> Object:
    lifted = Lifted(data)
    lifted.rename({"id": "toolCallId"})
    result = lifted.take("result")
    if isinstance(result, dict) and len(result) == 1 and isinstance(result.get("content"), str):
        lifted.put("content", [_text_entry(result["content"])])
    else:
        lifted.put("rawOutput", result)
    return lifted.build()


def _lower_progress(data: Object) -> Object:
    lowered = Lowered(data)
    lowered.rename({"id": "toolCallId"})
    lower_status(lowered)
    content = lowered.take("content")
    texts = [text for entry in content if (text := _text_of(entry)) is not None] if isinstance(content, list) else []
    if texts:
        lowered.put("result", {"content": "\n".join(texts)})
        content = [entry for entry in content if entry != _text_entry(_text_of(entry))]
    else:
        lowered.put("result", lowered.take("rawOutput"))
    if content is not ABSENT and not (texts and not content):
        lowered.side_data["content"] = content
    return lowered.build(TOOL_UNSUPPORTED)


def _text_entry(text: str | None) -> Object:
    return {"type": "content", "content": {"type": "text", "text": text}}


def _text_of(entry: Json) -> str | None:
    """Return the text of a tool call's content; None for images, diffs and terminals."""
    block = entry.get("content") if isinstance(entry, dict) and entry.get("type") == "content" else None
    text = block.get("text") if isinstance(block, dict) and block.get("type") == "text" else None
    return text if isinstance(text, str) else None


def _lift_plan(data: Object) -> Object:
    lifted = Lifted(data)
    steps = lifted.take("steps")
    lifted.put("entries", [_lift_step(step) for step in steps] if isinstance(steps, list) else steps)
    return lifted.build()


def _lift_step(step: Json) -> Json:
    if not isinstance(step, dict):
        return step
    lifted = Lifted(step)
    lifted.rename({"description": "content"})
    if "priority" not in step:
        lifted.infer("priority", "medium")
    lifted.move_to_side_data(("id",))
    return lifted.build()


def _lower_plan(data: Object) -> Object:
    lowered = Lowered(data)
    entries = lowered.take("entries")
    if isinstance(entries, list):
        lowered.put("steps", [_lower_entry(entry, place) for place, entry in enumerate(entries, 1)])
    else:
        lowered.put("steps", entries)
    return lowered.build()


def _lower_entry(entry: Json, position: int) -> Json:
    if not isinstance(entry, dict):
        return entry
    lowered = Lowered(entry)
    lowered.put("id", lowered.take_side_data("id", position))
    lowered.rename({"description": "content"})
    return lowered.build(("priority",))


_LIFT: dict[str, Callable[[Object], Object]] = {
    **dict.fromkeys(CHUNK_KINDS, _lift_chunk),
    "tool_call": _lift_tool_call,
    "tool_call_update": _lift_progress,
    "plan": _lift_plan,
}
_LOWER: dict[str, Callable[[Object], Object]] = {
    **dict.fromkeys(CHUNK_KINDS, _lower_chunk),
    "tool_call": _lower_tool_call,
    "tool_call_update": _lower_progress,
    "plan": _lower_plan,
}
