"""Faults in what only banjo, crow and 2025.1 ask of an agent."""

from __future__ import annotations

from collections.abc import Iterable

from tests.conformance.faults.agent.init import refusing
from tests.conformance.faults.edits import (
    Edit,
    edit_all_outgoing,
    edit_calls,
    edit_errors,
    edit_params,
    edit_replies,
    edit_results,
    edit_updates,
    fail_with,
    with_,
    without,
)
from tests.conformance.faults.fault import Fault, FaultContext, Json, seed

NEW, PROMPT, UPDATE = "session/new", "session/prompt", "session/update"


def crow(kind: str, edit: Edit) -> Fault:
    """Edit updates of one @type."""

    def change(params: Json) -> Json:
        update = params["update"]
        return {**params, "update": edit(dict(update))} if update.get("@type") == kind else params

    return edit_params(UPDATE, change)


def typed(kind: str, edit: Edit) -> Fault:
    """Edit the data of updates of one type in 2025.1 and the draft."""

    def change(params: Json) -> Json:
        return {**params, "data": edit(dict(params["data"]))} if params.get("type") == kind else params

    return edit_params(UPDATE, change)


def _not_sent(_: FaultContext, message: Json) -> Iterable[Json]:
    if "current_model_update" not in str(message):
        yield message


def _first(name: str, **members: Json) -> Edit:
    """Change members of the first item of a list; None removes one."""

    def edit(value: Json) -> Json:
        head = {**value[name][0], **members}
        first = {member: item for member, item in head.items() if item is not None}
        return {**value, name: [first, *value[name][1:]]}

    return edit


def _with_names(context: FaultContext, message: Json) -> Iterable[Json]:
    """Session ids that are no UUIDs, in answers and updates."""
    if context.method(message) == NEW and "result" in message:
        message = {**message, "result": {"sessionId": "session-" + message["result"]["sessionId"]}}
    elif "sessionId" in message.get("params", {}):
        message = {**message, "params": {**message["params"], "sessionId": "session-" + message["params"]["sessionId"]}}
    yield message


def _unnamed(_: FaultContext, message: Json) -> Iterable[Json]:
    params = message.get("params") if isinstance(message, dict) else None
    if isinstance(params, dict) and isinstance(params.get("session_id"), str):
        message = {**message, "params": {**params, "session_id": params["session_id"].removeprefix("session-")}}
    yield message


def _wrong_state(context: FaultContext, message: Json) -> Iterable[Json]:
    """Refuse a second prompt as malformed."""
    odd = "error" in message and context.other_prompts(context.request(message))
    yield {**message, "error": {**message["error"], "code": -32600}} if odd else message


def _takes_again(context: FaultContext, message: Json) -> Iterable[Json]:
    """Use an id that is in use, after initialize."""
    introduced = any(each["method"] == "initialize" for each in context.requests_in.values())
    odd = "error" in message and introduced
    yield {"jsonrpc": "2.0", "id": message["id"], "result": {"status": "ok"}} if odd else message


def _models(result: Json) -> None:
    result["models"]["currentModelId"] = "no such model"


_named = Fault(outgoing=edit_all_outgoing(_with_names).outgoing)

seed("agent.dialect.01", edit_results(NEW, without("modes")))
seed("agent.dialect.02", edit_results(NEW, _models))
seed("agent.dialect.03", edit_results("session/set_model", lambda _: None if _ is None else "ok"))
seed("agent.dialect.04", edit_calls(UPDATE, _not_sent))
seed("agent.dialect.05", refusing("session/set_mode", lambda params: "modeId" not in params))
seed("agent.dialect.06", edit_replies("authenticate", fail_with(-32602)))
seed("agent.dialect.07", edit_updates("plan", _first("entries", id=None)))
seed("agent.dialect.08", edit_replies("unstable_resumeSession", fail_with(-32601)))
seed("agent.dialect.09", edit_errors("initialize", with_(code=-32602)))
seed("agent.dialect.10", edit_results("initialize", without("authMethods")))

seed(
    "agent.dialect.21", edit_results("initialize", lambda r: {**r, "agent_capabilities": {"prompt_capabilities": True}})
)
seed("agent.dialect.22", Fault(outgoing=_named.outgoing, incoming=_unnamed))
seed("agent.dialect.23", crow("plan_update", without("@type")))
seed("agent.dialect.24", crow("agent_message_text", with_(text=["text"])))
seed("agent.dialect.25", crow("tool_call_start", without("kind")))
seed("agent.dialect.26", crow("plan_update", _first("entries", priority=None)))
seed("agent.dialect.27", edit_replies("cancel", fail_with(-32601)))
seed("agent.dialect.28", crow("permission_request", _first("permission_options", title=None)))
seed("agent.dialect.29", edit_errors(PROMPT, without("data")))
seed("agent.dialect.30", crow("agent_thought_text", with_(text={"text": "hm"})))
seed("agent.dialect.31", crow("tool_call_update", without("status")))

seed(
    "agent.dialect.41",
    edit_results("initialize", lambda r: {**r, "capabilities": {**r["capabilities"], "streaming": "yes"}}),
)
seed(
    "agent.dialect.42",
    edit_results("initialize", lambda r: {**r, "capabilities": {**r["capabilities"], "supported_modes": "ask"}}),
)
seed("agent.dialect.43", edit_results(NEW, with_(status="done")))
seed("agent.dialect.44", edit_params(UPDATE, with_(session_id="inner-1")))
seed(
    "agent.dialect.45",
    edit_params(UPDATE, lambda params: without("type")(params) if params["type"] == "agent_thought_chunk" else params),
)
seed("agent.dialect.46", typed("agent_message_chunk", with_(text={"type": "text"})))
seed("agent.dialect.47", typed("tool_call", with_(arguments="path")))
seed("agent.dialect.48", typed("plan", _first("steps", id="one")))
seed("agent.dialect.49", edit_replies(PROMPT, _wrong_state))
seed("agent.dialect.50", edit_results(PROMPT, without("status")))
seed("agent.dialect.51", edit_params("fs/read_text_file", with_(path="notes.txt")))
seed("agent.dialect.52", edit_params("terminal/create", with_(command="printf", args=["hello"])))
seed("agent.dialect.53", edit_replies(NEW, _takes_again))
seed("agent.dialect.54", edit_replies("authenticate", fail_with(-32601)))
seed("agent.dialect.55", typed("tool_call_update", without("id")))
seed("agent.dialect.57", typed("agent_thought_chunk", with_(text=["hm"])))
