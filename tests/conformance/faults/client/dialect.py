"""Faults of clients in banjo, crow and 2025.1."""

from __future__ import annotations

from collections.abc import Iterable

from tests.conformance.faults.client.turn import result
from tests.conformance.faults.client.update import update
from tests.conformance.faults.edits import (
    Edit,
    disconnect_on,
    drop,
    edit_all_incoming,
    edit_calls,
    edit_errors,
    edit_incoming,
    edit_params,
    edit_replies,
    edit_results,
    fail_with,
    with_,
    without,
)
from tests.conformance.faults.fault import FaultContext, Json, seed

READ, WRITE = "fs/read_text_file", "fs/write_text_file"


def _camel_case_info(params: Json) -> Json:
    return {**without("client_info")(params), "clientInfo": params.get("client_info")}


def _as_notification(_: FaultContext, message: Json) -> Iterable[Json]:
    return [{name: value for name, value in message.items() if name != "id"}]


def _needs_reason(_: FaultContext, message: Json) -> Iterable[Json]:
    return [] if result(message) == {"status": "ok"} else [message]


def _no_shell(_: FaultContext, message: Json) -> Iterable[Json]:
    """Run only the first word."""
    first = str(message["params"].get("command", "")).split(" ")[0]
    return [{**message, "params": {**message["params"], "command": f"{first} nothing"}}]


def _needs_version(message: Json) -> bool:
    """Agents of other probes have another name; otherwise only the missing version would differ."""
    found = result(message)
    return "agent_info" in found and "protocol_version" not in found and found["agent_info"].get("name") == "a"


def _replace_code(right: int, wrong: int) -> Edit:
    return lambda error: {**error, "code": wrong} if error.get("code") == right else error


def _ignore_refused_version(context: FaultContext, message: Json) -> Iterable[Json]:
    """Ignore a refused version."""
    error = message.get("error") if isinstance(message, dict) else None
    if isinstance(error, dict) and error.get("code") == -32001:
        request = {"cwd": "/", "mcpServers": []}
        context.send({"jsonrpc": "2.0", "id": "all the same", "method": "session/new", "params": request})
    yield message


def _offers_nothing(params: Json) -> None:
    params["capabilities"]["text_files"] = False


seed("client.dialect.01", edit_params("initialize", without("clientCapabilities")))
seed("client.dialect.02", disconnect_on(lambda message: update(message).get("sessionUpdate") == "current_model_update"))
seed("client.dialect.03", disconnect_on(lambda message: result(message).get("stopReason") == "auth_required"))
seed(
    "client.dialect.04",
    disconnect_on(lambda message: any("id" in each for each in update(message).get("entries") or [])),
)
seed("client.dialect.05", edit_all_incoming(_ignore_refused_version))
seed("client.dialect.21", edit_params("initialize", _camel_case_info))
seed("client.dialect.22", edit_params("session/new", without("mcpServers")))
seed("client.dialect.23", edit_calls("permission_response", drop))
seed("client.dialect.24", edit_params("permission_response", with_(option_id="allow_once")))
seed("client.dialect.25", edit_calls("cancel", _as_notification))
seed("client.dialect.26", disconnect_on(lambda message: update(message).get("@type") == "plan_update"))
seed("client.dialect.41", edit_params("initialize", with_(protocol_version=2025)))
seed("client.dialect.42", edit_params("initialize", with_(working_directory=".")))
seed("client.dialect.43", edit_params("initialize", without("mcp_servers")))
seed("client.dialect.44", edit_params("session/new", with_(session_id=5)))
seed(
    "client.dialect.45",
    edit_params("session/prompt", lambda params: {**without("content")(params), "prompt": params["content"]}),
)
seed("client.dialect.46", edit_all_incoming(_needs_reason))
seed("client.dialect.47", edit_incoming("terminal/create", _no_shell))
seed("client.dialect.48", edit_results("terminal/create", lambda result: {"terminalId": result.get("terminal_id")}))
seed(
    "client.dialect.49",
    disconnect_on(
        lambda message: isinstance(message, dict) and "steps" in str(message.get("params", {}).get("data", ""))
    ),
)
seed("client.dialect.50", disconnect_on(_needs_version))
seed("client.dialect.51", edit_results(WRITE, lambda _: {}))
seed("client.dialect.52", edit_errors(READ, _replace_code(-32001, -32603)))
seed("client.dialect.53", edit_errors(READ, _replace_code(-32002, -32603)))
seed("client.dialect.54", edit_params("initialize", _offers_nothing))
seed("client.dialect.55", edit_replies("terminal/kill", fail_with(-32601, "Method not found")))
