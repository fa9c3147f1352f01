"""Faults in what only the draft asks of an agent."""

from __future__ import annotations

from collections.abc import Iterable

from dragoman.conformance.faults.agent_dialects import typed
from dragoman.conformance.faults.agent_session import one_at_a_time
from dragoman.conformance.seeding import Edit, calls, errors, hears, params, results, with_, without
from dragoman.conformance.twin import Json, Tape, seeded

NEW, PROMPT, UPDATE, QUESTION = "session/new", "session/prompt", "session/update", "session/request_permission"


def _status(wrong: str, right: str) -> Edit:
    def edit(data: Json) -> Json:
        return {**data, "status": wrong} if data.get("status") == right else data

    return edit


def _jumps(_: Tape, message: Json) -> Iterable[Json]:
    """What awaits leave is completed, and then runs."""
    told = message["params"]
    yield message
    if told["type"] == "tool_call_update" and told["data"].get("status") == "completed":
        yield {**message, "params": {**told, "data": {"id": told["data"]["id"], "status": "in_progress"}}}


def _untold(_: Tape, message: Json) -> Iterable[Json]:
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


def _unreasoned(_: Tape, message: Json) -> Iterable[Json]:
    if "reason" not in message["params"]:
        yield message


def _whole(data: Json) -> Json:
    """A diff is told as both texts, as in v1."""
    is_diff = (data.get("output") or {}).get("type") == "diff"
    return {**data, "output": {**without("hunks")(data["output"]), "newText": "x"}} if is_diff else data


def _place(data: Json) -> Json:
    return {**data, "location": {**data["location"], "line": "first"}} if "location" in data else data


def _abilities(result: Json) -> None:
    result["capabilities"]["promptCapabilities"]["streaming"] = "always"


seeded("agent.draft.01", results("initialize", without("capabilities")))
seeded("agent.draft.02", results(NEW, with_(createdAt="this morning")))
seeded("agent.draft.03", params(UPDATE, lambda told: without("data")(told) if told["type"] == "plan" else told))
seeded("agent.draft.04", params(UPDATE, with_(timestamp=1700000000)))
seeded("agent.draft.05", typed("agent_message_chunk", with_(index="first")))
seeded("agent.draft.06", typed("tool_call", without("tool")))
seeded("agent.draft.07", calls(UPDATE, _jumps))
seeded("agent.draft.08", typed("tool_call_update", _status("failed", "denied")))
seeded("agent.draft.09", typed("tool_call_update", _status("failed", "cancelled")))
seeded("agent.draft.10", params(QUESTION, with_(operation="write")))
seeded("agent.draft.11", results("session/set_mode", without("previousMode")))
seeded("agent.draft.12", calls(UPDATE, _untold))
seeded("agent.draft.13", results("session/set_config_option", without("currentValue")))
seeded("agent.draft.14", results("authenticate", without("success")))
seeded("agent.draft.15", results(PROMPT, _tokens))
seeded("agent.draft.16", results("session/load", without("messageCount")))
seeded("agent.draft.17", results("terminal/output", without("received")))
seeded("agent.draft.18", errors("session/load", _unsuggested))
seeded("agent.draft.19", params("fs/read_text_file", with_(startLine=0)))
seeded("agent.draft.20", typed("plan", _steps))
seeded("agent.draft.21", typed("thought_message_chunk", with_(content={"type": "text"})))
seeded("agent.draft.22", params(QUESTION, without("reason")))
seeded("agent.draft.23", typed("available_commands", _commands))
seeded("agent.draft.24", params("terminal/create", with_(env=[{"name": "A", "value": "b"}])))
seeded("agent.draft.25", typed("tool_call_update", _status("pending", "awaiting_permission")))
seeded("agent.draft.26", hears(PROMPT, one_at_a_time))
seeded("agent.draft.29", errors("session/load", with_(code=-32603)))
seeded("agent.draft.31", hears("session/cancel", _unreasoned))
seeded("agent.draft.32", typed("config_option_update", with_(source=["agent"])))
seeded("agent.draft.33", typed("current_mode_update", with_(previousMode=1)))
seeded("agent.draft.34", typed("tool_call_update", _whole))
seeded("agent.draft.35", typed("tool_call", _place))
seeded("agent.draft.37", results("initialize", _abilities))
seeded("agent.draft.38", typed("tool_call_update", without("error")))
seeded("agent.draft.39", results("initialize", with_(requiredClientCapabilities="fs.read")))
