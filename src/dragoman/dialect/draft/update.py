"""The draft's `session/update`: type and data in one frame; v1 has a tagged update.

Plain text chunks are most of the traffic, so they are built directly; everything else uses the mappings.
"""

from __future__ import annotations

from typing import Final

from dragoman.dialect.draft.tables import CHUNK_KIND_BY_TYPE, CHUNK_SIDE_DATA, CHUNK_TYPE_BY_KIND, NAME
from dragoman.dialect.draft.tool_output import lift_error, lift_output, lower_outputs
from dragoman.dialect.guesses import guess_tool_kind, placeholder_text
from dragoman.dialect.mapping import Conversion, ConversionPair, ObjectMapping, apply_to_list, apply_to_object
from dragoman.dialect.reshape import ABSENT, SIDE_DATA_KEY, Lifted, Object
from dragoman.dialect.side_data import begin_lowering, strip_private, strip_side_data
from dragoman.dialect.v1.tables import UPDATE_KINDS
from dragoman.errors import Unsayable

_FLAG_TYPES: Final = (int, bool)
_FRAME: Final = ObjectMapping(side_data=("timestamp",))
_CHUNK: Final = ObjectMapping(side_data=CHUNK_SIDE_DATA, unsupported=("messageId",))
_TOOL: Final = ObjectMapping(
    renames={"id": "toolCallId", "input": "rawInput", "status": "status"},
    side_data=("requiresPermission",),
    inferred={"title": "", "kind": ""},
    unsupported=("kind", "content", "rawOutput"),
)
_PROGRESS: Final = ObjectMapping(
    renames={"id": "toolCallId", "status": "status"},
    side_data=("duration",),
    unsupported=("title", "name", "kind", "locations", "rawInput", "rawOutput"),
)
_LOCATION: Final = ObjectMapping(side_data=("column", "endLine", "endColumn"))
_PLAN: Final = ObjectMapping(side_data=("planId",))
_STEP: Final = ObjectMapping(
    renames={"description": "content"}, side_data=("id",), inferred={"priority": "medium"}, unsupported=("priority",)
)
_COMMANDS: Final = ObjectMapping(renames={"commands": "availableCommands"})
_COMMAND: Final = ObjectMapping(unsupported=("input",))
_MODE: Final = ObjectMapping(renames={"currentMode": "currentModeId"}, side_data=("previousMode", "reason"))
_OPTION: Final = ObjectMapping(
    side_data=("key", "previousValue", "currentValue", "source"),
    inferred={"configOptions": []},
    unsupported=("configOptions",),
)


def lift_update(params: Object) -> Object:
    """Lift a frame of the draft to v1's params."""
    data, kind = params.get("data"), params.get("type")
    if type(data) is not dict or type(kind) is not str:
        return params
    chunk = CHUNK_KIND_BY_TYPE.get(kind)
    if chunk is not None and len(params) == 3 and "sessionId" in params:
        update = _lift_plain_chunk(chunk, data)
        if update is not None:
            return {"sessionId": params["sessionId"], "update": update}
    name, (lift, _) = _CONVERSION_BY_TYPE.get(kind, (kind, _UNKNOWN_CONVERSION))
    lifted = _FRAME.begin_lifting(strip_side_data(params))
    lifted.take("type")
    lifted.put("update", {**lift(lifted.take("data")), "sessionUpdate": name})
    return lifted.build()


def lower_update(params: Object) -> Object:
    """Lower v1's params to a frame of the draft."""
    update = params.get("update")
    kind = update.get("sessionUpdate") if type(update) is dict else None
    if type(update) is not dict or type(kind) is not str:
        return params
    wire = CHUNK_TYPE_BY_KIND.get(kind)
    if wire is not None and len(params) == 2 and "sessionId" in params:
        data = _lower_plain_chunk(update)
        if data is not None:
            return {"sessionId": params["sessionId"], "type": wire, "data": data}
    if (
        kind in UPDATE_KINDS and kind not in _CONVERSION_BY_KIND
    ):  # a partly understood update would do more harm than a missing one
        raise Unsayable(NAME, f"the update {kind}")
    wire, (_, lower) = _CONVERSION_BY_KIND.get(kind, (kind, _UNKNOWN_CONVERSION))
    lowered = _FRAME.begin_lowering(params)
    lowered.take("update")
    lowered.put("type", wire)
    lowered.put("data", lower({name: value for name, value in update.items() if name != "sessionUpdate"}))
    out: Object = strip_private(lowered.build())
    return out


def _lift_plain_chunk(chunk: str, data: Object) -> Object | None:
    """Return the update for a text with only numbers and flags; None if there is more."""
    text = data.get("content")
    if type(text) is not str:
        return None
    update: Object = {"sessionUpdate": chunk, "content": {"type": "text", "text": text}}
    if len(data) > 1:
        noted = {name: value for name, value in data.items() if name != "content"}
        if not _has_only_flags(noted):
            return None
        update["_meta"] = {SIDE_DATA_KEY: noted}
    return update


def _lower_plain_chunk(update: Object) -> Object | None:
    """Return the data for a text with only numbers and flags; None if there is more."""
    content, meta = update.get("content"), update.get("_meta")
    if type(content) is not dict or len(content) != 2 or content.get("type") != "text":
        return None
    text = content.get("text")
    if type(text) is not str:
        return None
    if meta is None:
        return {"content": text} if len(update) == 2 else None
    noted = meta.get(SIDE_DATA_KEY) if type(meta) is dict and len(meta) == 1 else None
    if len(update) != 3 or type(noted) is not dict or not _has_only_flags(noted):
        return None
    return {"content": text, **noted}


def _has_only_flags(side_data: Object) -> bool:
    return all(name in CHUNK_SIDE_DATA and type(value) in _FLAG_TYPES for name, value in side_data.items())


def _lift_chunk(data: Object) -> Object:
    lifted = _CHUNK.begin_lifting(data)
    text = lifted.take("content")
    lifted.put("content", {"type": "text", "text": text} if type(text) is str else text)
    return lifted.build()


def _lower_chunk(update: Object) -> Object:
    lowered = _CHUNK.begin_lowering(update)
    block = lowered.take("content")
    if type(block) is dict:
        if len(block) != 2 or block.get("type") != "text":
            lowered.side_data["content"] = block
        block = placeholder_text(block)
    lowered.put("content", block)
    return lowered.build(_CHUNK.unsupported)


def _lift_tool(data: Object) -> Object:
    lifted = Lifted(data)
    lifted.rename(_TOOL.renames)
    lifted.move_to_side_data(_TOOL.side_data)
    tool, location = lifted.take("tool"), lifted.rest.get("location")
    lifted.put("name", tool)
    if type(tool) is str:
        for name, value in (("title", tool), ("kind", guess_tool_kind(tool))):
            if name not in lifted.rest:
                lifted.infer(name, value)
    if type(location) is dict:
        lifted.take("location")
        lifted.put("locations", [_LOCATION.lift(location)])
    return lifted.build()


def _lower_tool(update: Object) -> Object:
    lowered = _TOOL.begin_lowering(update)
    name, title = lowered.take("name"), lowered.take("title")
    tool = title if name is ABSENT or name is None else name
    lowered.put("tool", tool)
    if title is not ABSENT and title != tool:
        lowered.side_data["title"] = title
    places = lowered.take("locations")
    if type(places) is list and places and type(places[0]) is dict:
        lowered.put("location", _LOCATION.lower(places[0]))
        places = places[1:]
    if places is not ABSENT and places:
        lowered.side_data["locations"] = places
    return lowered.build(_TOOL.unsupported)


def _lift_progress(data: Object) -> Object:
    lifted = _PROGRESS.begin_lifting(data)
    error = lifted.rest.get("error")
    failed = data.get("status") == "failed" and type(error) is not str
    entries = [lift_output(lifted.rest.get("output"), failed)]
    if entries[0] is not None:
        lifted.take("output")
    if type(error) is str:
        lifted.take("error")
        entries.append(lift_error(error))
    made = [entry for entry in entries if entry is not None]
    if made:
        lifted.put("content", made)
    return lifted.build()


def _lower_progress(update: Object) -> Object:
    lowered = _PROGRESS.begin_lowering(update)
    entries = lowered.take("content")
    if type(entries) is list:
        said = lower_outputs(entries, update.get("status") == "failed")
        lowered.put("output", said.output)
        lowered.put("error", said.error)
        entries = said.rest
    if entries is not ABSENT and entries:
        lowered.side_data["content"] = entries
    return lowered.build(_PROGRESS.unsupported)


def _lift_plan(data: Object) -> Object:
    lifted = _PLAN.begin_lifting(data)
    lifted.put("entries", apply_to_list(_STEP.lift, lifted.take("steps")))
    if "planId" not in data:
        lifted.inferred.append("planId")
    return lifted.build()


def _lower_plan(update: Object) -> Object:
    lowered = _PLAN.begin_lowering(update)
    if "planId" not in lowered.inferred:
        lowered.out.setdefault("planId", "plan")
    entries = lowered.take("entries")
    if type(entries) is list:
        entries = [apply_to_object(_lower_numbered_step(number), entry) for number, entry in enumerate(entries, 1)]
    lowered.put("steps", entries)
    return lowered.build()


def _lower_numbered_step(number: int) -> Conversion:
    return _STEP._replace(defaults={"id": f"step_{number}"}).lower


def _lift_commands(data: Object) -> Object:
    return _COMMANDS.lift(data)


def _lower_commands(update: Object) -> Object:
    lowered = _COMMANDS.begin_lowering(update)
    lowered.put("commands", apply_to_list(_COMMAND.lower, lowered.out.get("commands", ABSENT)))
    return lowered.build()


def _lift_unknown(obj: Object) -> Object:
    return obj


def _lower_unknown(obj: Object) -> Object:
    return begin_lowering(obj).build()


_UNKNOWN_CONVERSION: Final[ConversionPair] = (_lift_unknown, _lower_unknown)
_UPDATE_CONVERSIONS: Final[tuple[tuple[str, str, ConversionPair], ...]] = (
    *((wire, name, (_lift_chunk, _lower_chunk)) for wire, name in CHUNK_KIND_BY_TYPE.items()),
    ("tool_call", "tool_call", (_lift_tool, _lower_tool)),
    ("tool_call_update", "tool_call_update", (_lift_progress, _lower_progress)),
    ("plan", "plan", (_lift_plan, _lower_plan)),
    ("available_commands", "available_commands_update", (_lift_commands, _lower_commands)),
    ("current_mode_update", "current_mode_update", _MODE.pair),
    ("config_option_update", "config_option_update", _OPTION.pair),
)
_CONVERSION_BY_TYPE: Final[dict[str, tuple[str, ConversionPair]]] = {
    wire: (name, pair) for wire, name, pair in _UPDATE_CONVERSIONS
}
_CONVERSION_BY_KIND: Final[dict[str, tuple[str, ConversionPair]]] = {
    name: (wire, pair) for wire, name, pair in _UPDATE_CONVERSIONS
}
