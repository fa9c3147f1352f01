"""Updates in v2: tool calls as patches in which null clears, identified plans, tagged commands."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from dragoman.dialect.reshape import Json, Object
from dragoman.dialect.v1.tables import TOOL_CALL_KINDS
from dragoman.dialect.v2 import session
from dragoman.dialect.v2.tables import CLEARABLE_MEMBERS, NAME, NEAREST_STATUSES, PLAN_ID
from dragoman.errors import Unsayable

# --- tool calls -------------------------------------------------------------------------------------------------------


def lift_tool_call(call: Object) -> Object:
    """Lift a patch of a tool call: null members are listed in `clear`."""
    out = {name: value for name, value in call.items() if name not in CLEARABLE_MEMBERS or value is not None}
    cleared = [name for name in CLEARABLE_MEMBERS if name in call and call[name] is None]
    if cleared:
        out["clear"] = cleared
    if isinstance(out.get("content"), list):
        out["content"] = [lift_content(item) for item in out["content"]]
    return out


def lower_tool_call(call: Object) -> Object:
    """Lower a tool call: null means unchanged and is left out; what `clear` names becomes null."""
    out = {name: value for name, value in call.items() if value is not None and name != "clear"}
    cleared = call.get("clear")
    for name in cleared if isinstance(cleared, list) else ():
        if name in CLEARABLE_MEMBERS:
            out.setdefault(name, None)
    status = out.get("status")
    if isinstance(status, str):
        out["status"] = NEAREST_STATUSES.get(status, status)
    if isinstance(out.get("content"), list):
        out["content"] = [lower_content(item) for item in out["content"]]
    if isinstance(out.get("locations"), list):
        out["locations"] = [_lower_location(item) for item in out["locations"]]
    return out


def _lower_location(item: Json) -> Json:
    """Lines begin with 1; v1's 0 and null say nothing."""
    if isinstance(item, dict) and "line" in item and not item["line"]:
        return {name: value for name, value in item.items() if name != "line"}
    return item


def lift_content(item: Json) -> Json:
    """Lift an item of a tool call's content: patches and terminals have other names in the vocabulary."""
    match item.get("type") if isinstance(item, dict) else None:
        case "diff" if "changes" in item:
            return {**item, "type": "patch"}
        case "terminal":
            return {**item, "type": "agent_terminal"}
    return item


def lower_content(item: Json) -> Json:
    """Lower an item of a tool call's content; a terminal that the client runs is only named."""
    match item.get("type") if isinstance(item, dict) else None:
        case "patch":
            return {**item, "type": "diff"}
        case "agent_terminal":
            return {**item, "type": "terminal"}
        case "diff":
            return _lower_diff(item)
        case "terminal":
            text = f"[terminal {item.get('terminalId', '')}]"
            return {"type": "content", "content": {"type": "text", "text": text}}
    return item


def _lower_diff(item: Object) -> Object:
    """A file before and after becomes one change and a patch."""
    from dragoman.dialect.narrow.git_patch import patch_of

    path, old, new = item.get("path"), item.get("oldText"), item.get("newText")
    if not isinstance(path, str) or not isinstance(new, str):
        return item
    old = old if isinstance(old, str) else None
    out: Object = {
        "type": "diff",
        "changes": [{"operation": "add" if old is None else "modify", "path": path, "fileType": "text"}],
        "patch": {"format": "git_patch", "text": patch_of(path, old, new)},
    }
    if "_meta" in item:
        out["_meta"] = item["_meta"]
    return out


# --- other updates ----------------------------------------------------------------------------------------------------


def _lift_content_chunk(update: Object) -> Object:
    return {**update, "content": lift_content(update.get("content"))}


def _lower_content_chunk(update: Object) -> Object:
    return {**update, "content": lower_content(update.get("content"))}


def _lift_commands(update: Object) -> Object:
    return {**update, "availableCommands": session.lift_commands(update.get("availableCommands"))}


def _lower_commands(update: Object) -> Object:
    return {**update, "availableCommands": session.lower_commands(update.get("availableCommands"))}


def _lift_options(update: Object) -> Object:
    options = update.get("configOptions")
    return (
        {**update, "configOptions": [session.lift_option(each) for each in options]}
        if isinstance(options, list)
        else update
    )


def _lower_options(update: Object) -> Object:
    return {**update, "configOptions": session.lower_options(update.get("configOptions"))}


def _lower_start(update: Object) -> Object:
    return {**lower_tool_call(update), "sessionUpdate": "tool_call_update"}


def _lower_plan(update: Object) -> Object:
    rest = {name: value for name, value in update.items() if name not in ("entries", "sessionUpdate")}
    plan = {"type": "items", "planId": PLAN_ID, "entries": update.get("entries")}
    return {"sessionUpdate": "plan_update", "plan": plan, **rest}


def _lift_plan(update: Object) -> Object:
    """A plan with the id that stands for v1's only plan."""
    plan = update.get("plan")
    if isinstance(plan, dict) and plan.get("type") == "items" and plan.get("planId") == PLAN_ID:
        rest = {name: value for name, value in update.items() if name not in ("plan", "sessionUpdate")}
        return {"sessionUpdate": "plan", "entries": plan.get("entries"), **rest}
    return update


def _refuse_mode(update: Object) -> Object:
    raise Unsayable(NAME, "the update current_mode_update")


Conversion = Callable[[Object], Object]

LIFT: Final[dict[str, Conversion]] = {
    "tool_call_update": lift_tool_call,
    "tool_call_content_chunk": _lift_content_chunk,
    "available_commands_update": _lift_commands,
    "config_option_update": _lift_options,
    "plan_update": _lift_plan,
}
LOWER: Final[dict[str, Conversion]] = {
    "tool_call": _lower_start,
    "tool_call_update": lower_tool_call,
    "tool_call_content_chunk": _lower_content_chunk,
    "available_commands_update": _lower_commands,
    "config_option_update": _lower_options,
    "plan": _lower_plan,
    "current_mode_update": _refuse_mode,
}
assert set(TOOL_CALL_KINDS) <= set(LOWER)


def _convert(table: dict[str, Conversion], params: Object) -> Object:
    update = params.get("update")
    if not isinstance(update, dict):
        return params
    kind = update.get("sessionUpdate")
    convert = table.get(kind) if isinstance(kind, str) else None
    return params if convert is None else {**params, "update": convert(update)}


def lift_update(params: Object) -> Object:
    """Lift session/update."""
    return _convert(LIFT, params)


def lower_update(params: Object) -> Object:
    """Lower session/update."""
    return _convert(LOWER, params)
