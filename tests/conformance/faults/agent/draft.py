"""Faults in what only the draft asks of an agent."""

from __future__ import annotations

from collections.abc import Iterable

from tests.conformance.faults.agent.dialect import typed
from tests.conformance.faults.agent.session import one_at_a_time
from tests.conformance.faults.edits import (
    Edit,
    edit_calls,
    edit_errors,
    edit_incoming,
    edit_params,
    edit_results,
    with_,
    without,
)
from tests.conformance.faults.fault import FaultContext, Json, seed

NEW, PROMPT, UPDATE, QUESTION = "session/new", "session/prompt", "session/update", "session/request_permission"


def _status(wrong: str, right: str) -> Edit:
    def edit(data: Json) -> Json:
        return {**data, "status": wrong} if data.get("status") == right else data

    return edit


def _jumps(_: FaultContext, message: Json) -> Iterable[Json]:
    """A call that waits for permission is completed, and then runs."""
    params = message["params"]
    yield message
    if params["type"] == "tool_call_update" and params["data"].get("status") == "completed":
        yield {**message, "params": {**params, "data": {"id": params["data"]["id"], "status": "in_progress"}}}


def _not_sent(_: FaultContext, message: Json) -> Iterable[Json]:
    if message["params"]["type"] != "current_mode_update":
        yield message


def _steps(data: Json) -> Json:
    return {**data, "steps": [without("description")(data["steps"][0]), *data["steps"][1:]]}


def _commands(data: Json) -> Json:
    return {**data, "commands": [{"name": "echo"}, *data["commands"][1:]]}


def _tokens(result: Json) -> None:
    if "usage" in result:
        result["usage"]["inputTokens"] = "many"


def _unsuggested(error: Json) -> Json:
    return {**error, "data": without("suggestion")(error["data"])}


def _unreasoned(_: FaultContext, message: Json) -> Iterable[Json]:
    if "reason" not in message["params"]:
        yield message


def _whole(data: Json) -> Json:
    """Send a diff as both texts, as in v1."""
    is_diff = (data.get("output") or {}).get("type") == "diff"
    return {**data, "output": {**without("hunks")(data["output"]), "newText": "x"}} if is_diff else data


def _place(data: Json) -> Json:
    return {**data, "location": {**data["location"], "line": "first"}} if "location" in data else data


def _abilities(result: Json) -> None:
    result["capabilities"]["promptCapabilities"]["streaming"] = "always"


seed("agent.draft.01", edit_results("initialize", without("capabilities")))
seed("agent.draft.02", edit_results(NEW, with_(createdAt="this morning")))
seed(
    "agent.draft.03",
    edit_params(UPDATE, lambda params: without("data")(params) if params["type"] == "plan" else params),
)
seed("agent.draft.04", edit_params(UPDATE, with_(timestamp=1700000000)))
seed("agent.draft.05", typed("agent_message_chunk", with_(index="first")))
seed("agent.draft.06", typed("tool_call", without("tool")))
seed("agent.draft.07", edit_calls(UPDATE, _jumps))
seed("agent.draft.08", typed("tool_call_update", _status("failed", "denied")))
seed("agent.draft.09", typed("tool_call_update", _status("failed", "cancelled")))
seed("agent.draft.10", edit_params(QUESTION, with_(operation="write")))
seed("agent.draft.11", edit_results("session/set_mode", without("previousMode")))
seed("agent.draft.12", edit_calls(UPDATE, _not_sent))
seed("agent.draft.13", edit_results("session/set_config_option", without("currentValue")))
seed("agent.draft.14", edit_results("authenticate", without("success")))
seed("agent.draft.15", edit_results(PROMPT, _tokens))
seed("agent.draft.16", edit_results("session/load", without("messageCount")))
seed("agent.draft.17", edit_results("terminal/output", without("received")))
seed("agent.draft.18", edit_errors("session/load", _unsuggested))
seed("agent.draft.19", edit_params("fs/read_text_file", with_(startLine=0)))
seed("agent.draft.20", typed("plan", _steps))
seed("agent.draft.21", typed("thought_message_chunk", with_(content={"type": "text"})))
seed("agent.draft.22", edit_params(QUESTION, without("reason")))
seed("agent.draft.23", typed("available_commands", _commands))
seed("agent.draft.24", edit_params("terminal/create", with_(env=[{"name": "A", "value": "b"}])))
seed("agent.draft.25", typed("tool_call_update", _status("pending", "awaiting_permission")))
seed("agent.draft.26", edit_incoming(PROMPT, one_at_a_time))
seed("agent.draft.29", edit_errors("session/load", with_(code=-32603)))
seed("agent.draft.31", edit_incoming("session/cancel", _unreasoned))
seed("agent.draft.32", typed("config_option_update", with_(source=["agent"])))
seed("agent.draft.33", typed("current_mode_update", with_(previousMode=1)))
seed("agent.draft.34", typed("tool_call_update", _whole))
seed("agent.draft.35", typed("tool_call", _place))
seed("agent.draft.37", edit_results("initialize", _abilities))
seed("agent.draft.38", typed("tool_call_update", without("error")))
seed("agent.draft.39", edit_results("initialize", with_(requiredClientCapabilities="fs.read")))
