"""Permission: the draft asks yes or no about an operation on a resource, v1 offers options about a tool call.

Takes and gives the params or the result of `session/request_permission`. An answer that names none of the
draft's scopes is never taken for a yes: the ledger, which knows the options, first says what it
means in the side data.
"""

from __future__ import annotations

from typing import Final

from dragoman.dialect.draft.tables import (
    DECISIONS,
    FILE_OPERATIONS,
    KINDS,
    OPERATIONS,
    OPTIONS,
    RESOURCE_MEMBERS,
    RESOURCE_SOURCES,
)
from dragoman.dialect.reshape import ABSENT, Json, Lifted, Object
from dragoman.dialect.side_data import opened

_ASKED: Final = ("operation", "resource", "reason")
_ANSWERED: Final = ("granted", "remember", "scope")


def _meaning(operation: Json, resource: Json, reason: Json) -> Object:
    """The members of a tool call that an operation on a resource says."""
    call: Object = {"kind": KINDS.get(operation, "other") if isinstance(operation, str) else "other"}
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
    """The draft's question as v1 asks it."""
    if "operation" not in params and "resource" not in params:
        return params
    lifted, call = Lifted(params), Lifted({})
    tool_call = lifted.take("toolCallId")
    asked = {name: lifted.take(name) for name in _ASKED}
    if tool_call is ABSENT:
        call.infer("toolCallId", f"permission:{asked['operation'] or ''}:{asked['resource'] or ''}")
    else:
        call.put("toolCallId", tool_call)
    call.out.update(_meaning(**asked))
    call.side.update((name, value) for name, value in asked.items() if value is not ABSENT)
    lifted.put("toolCall", call.done())
    lifted.infer("options", [dict(option) for option in OPTIONS])
    return lifted.done()


def lower_request(params: Object) -> Object:
    """v1's question as the draft asks it."""
    call = params.get("toolCall")
    if not isinstance(call, dict):
        return params
    lowered, told = opened(params, ("options",)), opened(call, ("toolCallId",))
    lowered.take("toolCall")
    lowered.put("toolCallId", told.take("toolCallId"))
    asked = {name: told.recall(name) for name in _ASKED}
    if asked["operation"] is ABSENT and asked["resource"] is ABSENT:
        asked = _question(call, asked["reason"])
    for name, value in asked.items():
        lowered.put(name, value)
    for name, value in _meaning(**asked).items():
        if told.left.get(name) == value:
            told.take(name)
    rest = told.done()
    if rest:
        lowered.side["toolCall"] = rest
    return lowered.done(("options",))


def _question(call: Object, reason: Json) -> Object:
    """Operation, resource and reason of a tool call that says at most the reason."""
    kind, title = call.get("kind"), call.get("title")
    operation = OPERATIONS.get(kind, "mcp_tool") if isinstance(kind, str) else "mcp_tool"
    if reason is ABSENT and isinstance(title, str):
        reason = title
    resource = _resource(call)
    if resource is ABSENT:
        resource = title if isinstance(title, str) else call.get("toolCallId", "")
    return {"operation": operation, "resource": resource, "reason": reason}


def _resource(call: Object) -> Json:
    locations, given = call.get("locations"), call.get("rawInput")
    first = locations[0] if isinstance(locations, list) and locations else None
    if isinstance(first, dict) and isinstance(first.get("path"), str):
        return first["path"]
    if isinstance(given, str) and given:  # crow's arguments
        return given
    told = given if isinstance(given, dict) else {}
    return next((told[name] for name in RESOURCE_SOURCES if isinstance(told.get(name), str)), ABSENT)


def lift_answer(result: Object) -> Object:
    """The draft's yes or no as the option it stands for."""
    if "granted" not in result:
        return result
    lifted = Lifted(result)
    lifted.keep(_ANSWERED)
    scope = lifted.side.get("scope")
    chosen = "deny"
    if lifted.side["granted"] is True:
        chosen = scope if isinstance(scope, str) and scope else "once"
    lifted.put("outcome", {"outcome": "selected", "optionId": chosen})
    return lifted.done()


def lower_answer(result: Object) -> Object:
    """A chosen option as the draft's yes or no."""
    lowered = opened(result)
    outcome = lowered.take("outcome")
    if "granted" in lowered.side:
        lowered.restore(_ANSWERED)
        return lowered.done()
    chosen = outcome.get("optionId") if isinstance(outcome, dict) else None
    decision = DECISIONS.get(chosen) if isinstance(chosen, str) else None
    lowered.out.update(decision or {"granted": False})
    if decision is None and outcome is not ABSENT:
        lowered.side["outcome"] = outcome
    return lowered.done()
