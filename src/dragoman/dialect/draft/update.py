"""`session/update` of the draft: type and data beside each other in a frame, against v1's tagged update.

Takes and gives the params of one notification. Text chunks are most of what a connection carries, so the
plain ones are built directly; everything else goes through the rows.
"""

from __future__ import annotations

from typing import Final

from dragoman.dialect.draft.tables import CHUNK_SIDE, CHUNKS, CHUNKS_BACK, DIALECT
from dragoman.dialect.draft.tool_output import lift_error, lift_output, lower_outputs
from dragoman.dialect.guesses import guess_kind, placeholder
from dragoman.dialect.mapping import Pair, Row, Turn, each, one
from dragoman.dialect.reshape import ABSENT, SIDE, Lifted, Object
from dragoman.dialect.side_data import cleared, opened, plain
from dragoman.dialect.v1.tables import UPDATES
from dragoman.errors import Unsayable

_PLAIN: Final = (int, bool)
_FRAME: Final = Row(side=("timestamp",))
_CHUNK: Final = Row(side=CHUNK_SIDE, unsaid=("messageId",))
_TOOL: Final = Row(
    names={"id": "toolCallId", "input": "rawInput", "status": "status"},
    side=("requiresPermission",),
    inferred={"title": "", "kind": ""},
    unsaid=("kind", "content", "rawOutput"),
)
_PROGRESS: Final = Row(
    names={"id": "toolCallId", "status": "status"},
    side=("duration",),
    unsaid=("title", "name", "kind", "locations", "rawInput", "rawOutput"),
)
_LOCATION: Final = Row(side=("column", "endLine", "endColumn"))
_PLAN: Final = Row(side=("planId",))
_STEP: Final = Row(
    names={"description": "content"}, side=("id",), inferred={"priority": "medium"}, unsaid=("priority",)
)
_COMMANDS: Final = Row(names={"commands": "availableCommands"})
_COMMAND: Final = Row(unsaid=("input",))
_MODE: Final = Row(names={"currentMode": "currentModeId"}, side=("previousMode", "reason"))
_OPTION: Final = Row(
    side=("key", "previousValue", "currentValue", "source"),
    inferred={"configOptions": []},
    unsaid=("configOptions",),
)


def lift_update(params: Object) -> Object:
    """A frame of the draft as v1's params."""
    data, kind = params.get("data"), params.get("type")
    if type(data) is not dict or type(kind) is not str:
        return params
    chunk = CHUNKS.get(kind)
    if chunk is not None and len(params) == 3 and "sessionId" in params:
        update = _lift_plain(chunk, data)
        if update is not None:
            return {"sessionId": params["sessionId"], "update": update}
    name, (lift, _) = _BY_TYPE.get(kind, (kind, _AS_IT_IS))
    lifted = _FRAME.read(cleared(params))
    lifted.take("type")
    lifted.put("update", {**lift(lifted.take("data")), "sessionUpdate": name})
    return lifted.done()


def lower_update(params: Object) -> Object:
    """v1's params as a frame of the draft."""
    update = params.get("update")
    kind = update.get("sessionUpdate") if type(update) is dict else None
    if type(update) is not dict or type(kind) is not str:
        return params
    wire = CHUNKS_BACK.get(kind)
    if wire is not None and len(params) == 2 and "sessionId" in params:
        data = _lower_plain(update)
        if data is not None:
            return {"sessionId": params["sessionId"], "type": wire, "data": data}
    if kind in UPDATES and kind not in _BY_NAME:  # half understood it would do more harm than one that is missing
        raise Unsayable(DIALECT, f"the update {kind}")
    wire, (_, lower) = _BY_NAME.get(kind, (kind, _AS_IT_IS))
    lowered = _FRAME.say(params)
    lowered.take("update")
    lowered.put("type", wire)
    lowered.put("data", lower({name: value for name, value in update.items() if name != "sessionUpdate"}))
    out: Object = plain(lowered.done())
    return out


def _lift_plain(chunk: str, data: Object) -> Object | None:
    """The update for a text with nothing but numbers and flags beside it; None when there is more to it."""
    text = data.get("content")
    if type(text) is not str:
        return None
    update: Object = {"sessionUpdate": chunk, "content": {"type": "text", "text": text}}
    if len(data) > 1:
        noted = {name: value for name, value in data.items() if name != "content"}
        if not _is_noted(noted):
            return None
        update["_meta"] = {SIDE: noted}
    return update


def _lower_plain(update: Object) -> Object | None:
    """The data for a text with nothing but numbers and flags beside it; None when there is more to it."""
    content, meta = update.get("content"), update.get("_meta")
    if type(content) is not dict or len(content) != 2 or content.get("type") != "text":
        return None
    text = content.get("text")
    if type(text) is not str:
        return None
    if meta is None:
        return {"content": text} if len(update) == 2 else None
    noted = meta.get(SIDE) if type(meta) is dict and len(meta) == 1 else None
    if len(update) != 3 or type(noted) is not dict or not _is_noted(noted):
        return None
    return {"content": text, **noted}


def _is_noted(noted: Object) -> bool:
    return all(name in CHUNK_SIDE and type(value) in _PLAIN for name, value in noted.items())


def _lift_chunk(data: Object) -> Object:
    lifted = _CHUNK.read(data)
    text = lifted.take("content")
    lifted.put("content", {"type": "text", "text": text} if type(text) is str else text)
    return lifted.done()


def _lower_chunk(update: Object) -> Object:
    lowered = _CHUNK.say(update)
    block = lowered.take("content")
    if type(block) is dict:
        if len(block) != 2 or block.get("type") != "text":
            lowered.side["content"] = block
        block = placeholder(block)
    lowered.put("content", block)
    return lowered.done(_CHUNK.unsaid)


def _lift_tool(data: Object) -> Object:
    lifted = Lifted(data)
    lifted.move(_TOOL.names)
    lifted.keep(_TOOL.side)
    tool, location = lifted.take("tool"), lifted.left.get("location")
    lifted.put("name", tool)
    if type(tool) is str:
        for name, value in (("title", tool), ("kind", guess_kind(tool))):
            if name not in lifted.left:
                lifted.infer(name, value)
    if type(location) is dict:
        lifted.take("location")
        lifted.put("locations", [_LOCATION.lift(location)])
    return lifted.done()


def _lower_tool(update: Object) -> Object:
    lowered = _TOOL.say(update)
    name, title = lowered.take("name"), lowered.take("title")
    tool = title if name is ABSENT or name is None else name
    lowered.put("tool", tool)
    if title is not ABSENT and title != tool:
        lowered.side["title"] = title
    places = lowered.take("locations")
    if type(places) is list and places and type(places[0]) is dict:
        lowered.put("location", _LOCATION.lower(places[0]))
        places = places[1:]
    if places is not ABSENT and places:
        lowered.side["locations"] = places
    return lowered.done(_TOOL.unsaid)


def _lift_progress(data: Object) -> Object:
    lifted = _PROGRESS.read(data)
    error = lifted.left.get("error")
    failed = data.get("status") == "failed" and type(error) is not str
    entries = [lift_output(lifted.left.get("output"), failed)]
    if entries[0] is not None:
        lifted.take("output")
    if type(error) is str:
        lifted.take("error")
        entries.append(lift_error(error))
    made = [entry for entry in entries if entry is not None]
    if made:
        lifted.put("content", made)
    return lifted.done()


def _lower_progress(update: Object) -> Object:
    lowered = _PROGRESS.say(update)
    entries = lowered.take("content")
    if type(entries) is list:
        said = lower_outputs(entries, update.get("status") == "failed")
        lowered.put("output", said.output)
        lowered.put("error", said.error)
        entries = said.rest
    if entries is not ABSENT and entries:
        lowered.side["content"] = entries
    return lowered.done(_PROGRESS.unsaid)


def _lift_plan(data: Object) -> Object:
    lifted = _PLAN.read(data)
    lifted.put("entries", each(_STEP.lift, lifted.take("steps")))
    if "planId" not in data:
        lifted.inferred.append("planId")
    return lifted.done()


def _lower_plan(update: Object) -> Object:
    lowered = _PLAN.say(update)
    if "planId" not in lowered.inferred:
        lowered.out.setdefault("planId", "plan")
    entries = lowered.take("entries")
    if type(entries) is list:
        entries = [one(_numbered(number), entry) for number, entry in enumerate(entries, 1)]
    lowered.put("steps", entries)
    return lowered.done()


def _numbered(number: int) -> Turn:
    return _STEP._replace(defaults={"id": f"step_{number}"}).lower


def _lift_commands(data: Object) -> Object:
    return _COMMANDS.lift(data)


def _lower_commands(update: Object) -> Object:
    lowered = _COMMANDS.say(update)
    lowered.put("commands", each(_COMMAND.lower, lowered.out.get("commands", ABSENT)))
    return lowered.done()


def _as_it_is(obj: Object) -> Object:
    return obj


def _without_notes(obj: Object) -> Object:
    return opened(obj).done()


_AS_IT_IS: Final[Pair] = (_as_it_is, _without_notes)
_KINDS: Final[tuple[tuple[str, str, Pair], ...]] = (
    *((wire, name, (_lift_chunk, _lower_chunk)) for wire, name in CHUNKS.items()),
    ("tool_call", "tool_call", (_lift_tool, _lower_tool)),
    ("tool_call_update", "tool_call_update", (_lift_progress, _lower_progress)),
    ("plan", "plan", (_lift_plan, _lower_plan)),
    ("available_commands", "available_commands_update", (_lift_commands, _lower_commands)),
    ("current_mode_update", "current_mode_update", _MODE.pair),
    ("config_option_update", "config_option_update", _OPTION.pair),
)
_BY_TYPE: Final[dict[str, tuple[str, Pair]]] = {wire: (name, pair) for wire, name, pair in _KINDS}
_BY_NAME: Final[dict[str, tuple[str, Pair]]] = {name: (wire, pair) for wire, name, pair in _KINDS}
