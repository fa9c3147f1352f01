"""Permission: the draft asks yes or no about an operation on a resource, v1 offers options for a tool call.

Converts params and result of `session/request_permission`. An answer without a scope of the draft is never an
allowance: the emulator, which knows the options, first adds the meaning as side data.
"""

from __future__ import annotations

from typing import Final

from dragoman.dialect.draft.tables import (
    FILE_OPERATIONS,
    OPERATION_BY_TOOL_KIND,
    PERMISSION_ANSWERS,
    PERMISSION_OPTIONS,
    RESOURCE_INPUT_MEMBERS,
    RESOURCE_MEMBERS,
    TOOL_KIND_BY_OPERATION,
)
from dragoman.dialect.reshape import ABSENT, Json, Lifted, Object
from dragoman.dialect.side_data import begin_lowering

_REQUEST_MEMBERS: Final = ("operation", "resource", "reason")
_ANSWER_MEMBERS: Final = ("granted", "remember", "scope")


def _tool_call_members(operation: Json, resource: Json, reason: Json) -> Object:
    """Return the tool call members for an operation on a resource."""
    call: Object = {"kind": TOOL_KIND_BY_OPERATION.get(operation, "other") if isinstance(operation, str) else "other"}
    title = reason if isinstance(reason, str) and reason else resource
    if title is not ABSENT:
        call["title"] = title
    if resource is ABSENT or not isinstance(operation, str):
        return call
    if operation in FILE_OPERATIONS:
        call["locations"] = [{"path": resource}]
    elif operation in RESOURCE_MEMBERS:
        call["rawInput"] = {RESOURCE_MEMBERS[operation]: resource}
    return call


def lift_request(params: Object) -> Object:
    """Lift the draft's request."""
    if "operation" not in params and "resource" not in params:
        return params
    lifted, call = Lifted(params), Lifted({})
    tool_call = lifted.take("toolCallId")
    asked = {name: lifted.take(name) for name in _REQUEST_MEMBERS}
    if tool_call is ABSENT:
        call.infer("toolCallId", f"permission:{asked['operation'] or ''}:{asked['resource'] or ''}")
    else:
        call.put("toolCallId", tool_call)
    call.out.update(_tool_call_members(**asked))
    call.side_data.update((name, value) for name, value in asked.items() if value is not ABSENT)
    lifted.put("toolCall", call.build())
    lifted.infer("options", [dict(option) for option in PERMISSION_OPTIONS])
    return lifted.build()


def lower_request(params: Object) -> Object:
    """Lower v1's request."""
    call = params.get("toolCall")
    if not isinstance(call, dict):
        return params
    lowered, told = begin_lowering(params, ("options",)), begin_lowering(call, ("toolCallId",))
    lowered.take("toolCall")
    lowered.put("toolCallId", told.take("toolCallId"))
    asked = {name: told.take_side_data(name) for name in _REQUEST_MEMBERS}
    if asked["operation"] is ABSENT and asked["resource"] is ABSENT:
        asked = _request_members(call, asked["reason"])
    for name, value in asked.items():
        lowered.put(name, value)
    for name, value in _tool_call_members(**asked).items():
        if told.rest.get(name) == value:
            told.take(name)
    rest = told.build()
    if rest:
        lowered.side_data["toolCall"] = rest
    return lowered.build(("options",))


def _request_members(call: Object, reason: Json) -> Object:
    """Return operation, resource and reason of a tool call that has at most the reason."""
    kind, title = call.get("kind"), call.get("title")
    operation = OPERATION_BY_TOOL_KIND.get(kind, "mcp_tool") if isinstance(kind, str) else "mcp_tool"
    if reason is ABSENT and isinstance(title, str):
        reason = title
    resource = _resource_of(call)
    if resource is ABSENT:
        resource = title if isinstance(title, str) else call.get("toolCallId", "")
    return {"operation": operation, "resource": resource, "reason": reason}


def _resource_of(call: Object) -> Json:
    locations, given = call.get("locations"), call.get("rawInput")
    first = locations[0] if isinstance(locations, list) and locations else None
    if isinstance(first, dict) and isinstance(first.get("path"), str):
        return first["path"]
    if isinstance(given, str) and given:  # crow's arguments
        return given
    told = given if isinstance(given, dict) else {}
    return next((told[name] for name in RESOURCE_INPUT_MEMBERS if isinstance(told.get(name), str)), ABSENT)


def lift_answer(result: Object) -> Object:
    """Lift the draft's yes or no to an option."""
    if "granted" not in result:
        return result
    lifted = Lifted(result)
    lifted.move_to_side_data(_ANSWER_MEMBERS)
    scope = lifted.side_data.get("scope")
    chosen = "deny"
    if lifted.side_data["granted"] is True:
        chosen = scope if isinstance(scope, str) and scope else "once"
    lifted.put("outcome", {"outcome": "selected", "optionId": chosen})
    return lifted.build()


def lower_answer(result: Object) -> Object:
    """Lower a chosen option to the draft's yes or no."""
    lowered = begin_lowering(result)
    outcome = lowered.take("outcome")
    if "granted" in lowered.side_data:
        lowered.move_from_side_data(_ANSWER_MEMBERS)
        return lowered.build()
    chosen = outcome.get("optionId") if isinstance(outcome, dict) else None
    decision = PERMISSION_ANSWERS.get(chosen) if isinstance(chosen, str) else None
    lowered.out.update(decision or {"granted": False})
    if decision is None and outcome is not ABSENT:
        lowered.side_data["outcome"] = outcome
    return lowered.build()
