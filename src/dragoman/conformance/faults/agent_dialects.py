"""Faults in what only banjo, crow and 2025.1 ask of an agent."""

from __future__ import annotations

from collections.abc import Iterable

from dragoman.conformance.faults.agent_init import refusing
from dragoman.conformance.seeding import (
    Edit,
    calls,
    errors,
    fails,
    params,
    replies,
    results,
    speaks,
    updates,
    with_,
    without,
)
from dragoman.conformance.twin import Fault, Json, Tape, seeded

NEW, PROMPT, UPDATE = "session/new", "session/prompt", "session/update"


def crow(kind: str, edit: Edit) -> Fault:
    """Updates of one @type."""

    def change(told: Json) -> Json:
        update = told["update"]
        return {**told, "update": edit(dict(update))} if update.get("@type") == kind else told

    return params(UPDATE, change)


def typed(kind: str, edit: Edit) -> Fault:
    """Updates of one type in 2025.1 and the draft: their data."""

    def change(told: Json) -> Json:
        return {**told, "data": edit(dict(told["data"]))} if told.get("type") == kind else told

    return params(UPDATE, change)


def _untold(_: Tape, message: Json) -> Iterable[Json]:
    if "current_model_update" not in str(message):
        yield message


def _first(name: str, **members: Json) -> Edit:
    """The first of a list has other members; None takes one away."""

    def edit(value: Json) -> Json:
        head = {**value[name][0], **members}
        first = {member: item for member, item in head.items() if item is not None}
        return {**value, name: [first, *value[name][1:]]}

    return edit


def _with_names(tape: Tape, message: Json) -> Iterable[Json]:
    """Session ids that are no UUIDs, in answers and updates."""
    if tape.method(message) == NEW and "result" in message:
        message = {**message, "result": {"sessionId": "session-" + message["result"]["sessionId"]}}
    elif "sessionId" in message.get("params", {}):
        message = {**message, "params": {**message["params"], "sessionId": "session-" + message["params"]["sessionId"]}}
    yield message


def _unnamed(_: Tape, message: Json) -> Iterable[Json]:
    told = message.get("params") if isinstance(message, dict) else None
    if isinstance(told, dict) and isinstance(told.get("session_id"), str):
        message = {**message, "params": {**told, "session_id": told["session_id"].removeprefix("session-")}}
    yield message


def _wrong_state(tape: Tape, message: Json) -> Iterable[Json]:
    """A second prompt is refused as if it could not be read."""
    odd = "error" in message and tape.others(tape.request(message))
    yield {**message, "error": {**message["error"], "code": -32600}} if odd else message


def _takes_again(tape: Tape, message: Json) -> Iterable[Json]:
    """An id that is in use, once there was an introduction."""
    introduced = any(each["method"] == "initialize" for each in tape.heard.values())
    odd = "error" in message and introduced
    yield {"jsonrpc": "2.0", "id": message["id"], "result": {"status": "ok"}} if odd else message


def _models(result: Json) -> None:
    result["models"]["currentModelId"] = "no such model"


_named = Fault(says=speaks(_with_names).says)

seeded("agent.dialect.01", results(NEW, without("modes")))
seeded("agent.dialect.02", results(NEW, _models))
seeded("agent.dialect.03", results("session/set_model", lambda _: None if _ is None else "ok"))
seeded("agent.dialect.04", calls(UPDATE, _untold))
seeded("agent.dialect.05", refusing("session/set_mode", lambda told: "modeId" not in told))
seeded("agent.dialect.06", replies("authenticate", fails(-32602)))
seeded("agent.dialect.07", updates("plan", _first("entries", id=None)))
seeded("agent.dialect.08", replies("unstable_resumeSession", fails(-32601)))
seeded("agent.dialect.09", errors("initialize", with_(code=-32602)))
seeded("agent.dialect.10", results("initialize", without("authMethods")))

seeded("agent.dialect.21", results("initialize", lambda r: {**r, "agent_capabilities": {"prompt_capabilities": True}}))
seeded("agent.dialect.22", Fault(says=_named.says, hears=_unnamed))
seeded("agent.dialect.23", crow("plan_update", without("@type")))
seeded("agent.dialect.24", crow("agent_message_text", with_(text=["text"])))
seeded("agent.dialect.25", crow("tool_call_start", without("kind")))
seeded("agent.dialect.26", crow("plan_update", _first("entries", priority=None)))
seeded("agent.dialect.27", replies("cancel", fails(-32601)))
seeded("agent.dialect.28", crow("permission_request", _first("permission_options", title=None)))
seeded("agent.dialect.29", errors(PROMPT, without("data")))
seeded("agent.dialect.30", crow("agent_thought_text", with_(text={"text": "hm"})))
seeded("agent.dialect.31", crow("tool_call_update", without("status")))

seeded(
    "agent.dialect.41",
    results("initialize", lambda r: {**r, "capabilities": {**r["capabilities"], "streaming": "yes"}}),
)
seeded(
    "agent.dialect.42",
    results("initialize", lambda r: {**r, "capabilities": {**r["capabilities"], "supported_modes": "ask"}}),
)
seeded("agent.dialect.43", results(NEW, with_(status="done")))
seeded("agent.dialect.44", params(UPDATE, with_(session_id="inner-1")))
seeded(
    "agent.dialect.45",
    params(UPDATE, lambda told: without("type")(told) if told["type"] == "agent_thought_chunk" else told),
)
seeded("agent.dialect.46", typed("agent_message_chunk", with_(text={"type": "text"})))
seeded("agent.dialect.47", typed("tool_call", with_(arguments="path")))
seeded("agent.dialect.48", typed("plan", _first("steps", id="one")))
seeded("agent.dialect.49", replies(PROMPT, _wrong_state))
seeded("agent.dialect.50", results(PROMPT, without("status")))
seeded("agent.dialect.51", params("fs/read_text_file", with_(path="notes.txt")))
seeded("agent.dialect.52", params("terminal/create", with_(command="printf", args=["hello"])))
seeded("agent.dialect.53", replies(NEW, _takes_again))
seeded("agent.dialect.54", replies("authenticate", fails(-32601)))
seeded("agent.dialect.55", typed("tool_call_update", without("id")))
seeded("agent.dialect.57", typed("agent_thought_chunk", with_(text=["hm"])))
