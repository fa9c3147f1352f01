"""Faults of clients in banjo, crow and 2025.1."""

from __future__ import annotations

from collections.abc import Iterable

from dragoman.conformance.client_seeding import dies
from dragoman.conformance.faults.client_turn import result
from dragoman.conformance.faults.client_update import update
from dragoman.conformance.seeding import (
    Edit,
    calls,
    dropped,
    errors,
    fails,
    hears,
    listens,
    params,
    replies,
    results,
    with_,
    without,
)
from dragoman.conformance.twin import Json, Tape, seeded

READ, WRITE = "fs/read_text_file", "fs/write_text_file"


def _humps(told: Json) -> Json:
    return {**without("client_info")(told), "clientInfo": told.get("client_info")}


def _as_notification(_: Tape, message: Json) -> Iterable[Json]:
    return [{name: value for name, value in message.items() if name != "id"}]


def _needs_reason(_: Tape, message: Json) -> Iterable[Json]:
    return [] if result(message) == {"status": "ok"} else [message]


def _no_shell(_: Tape, message: Json) -> Iterable[Json]:
    """Only the first word is run."""
    first = str(message["params"].get("command", "")).split(" ")[0]
    return [{**message, "params": {**message["params"], "command": f"{first} nothing"}}]


def _needs_version(message: Json) -> bool:
    """Where nothing but its absence tells the introduction from that of other probes: their agent has another name."""
    found = result(message)
    return "agent_info" in found and "protocol_version" not in found and found["agent_info"].get("name") == "a"


def _numbered(right: int, wrong: int) -> Edit:
    return lambda error: {**error, "code": wrong} if error.get("code") == right else error


def _goes_on(tape: Tape, message: Json) -> Iterable[Json]:
    """A refusal of the version is not understood."""
    error = message.get("error") if isinstance(message, dict) else None
    if isinstance(error, dict) and error.get("code") == -32001:
        asked = {"cwd": "/", "mcpServers": []}
        tape.say({"jsonrpc": "2.0", "id": "all the same", "method": "session/new", "params": asked})
    yield message


def _lends_nothing(told: Json) -> None:
    told["capabilities"]["text_files"] = False


seeded("client.dialect.01", params("initialize", without("clientCapabilities")))
seeded("client.dialect.02", dies(lambda message: update(message).get("sessionUpdate") == "current_model_update"))
seeded("client.dialect.03", dies(lambda message: result(message).get("stopReason") == "auth_required"))
seeded("client.dialect.04", dies(lambda message: any("id" in each for each in update(message).get("entries") or [])))
seeded("client.dialect.05", listens(_goes_on))
seeded("client.dialect.21", params("initialize", _humps))
seeded("client.dialect.22", params("session/new", without("mcpServers")))
seeded("client.dialect.23", calls("permission_response", dropped))
seeded("client.dialect.24", params("permission_response", with_(option_id="allow_once")))
seeded("client.dialect.25", calls("cancel", _as_notification))
seeded("client.dialect.26", dies(lambda message: update(message).get("@type") == "plan_update"))
seeded("client.dialect.41", params("initialize", with_(protocol_version=2025)))
seeded("client.dialect.42", params("initialize", with_(working_directory=".")))
seeded("client.dialect.43", params("initialize", without("mcp_servers")))
seeded("client.dialect.44", params("session/new", with_(session_id=5)))
seeded(
    "client.dialect.45", params("session/prompt", lambda told: {**without("content")(told), "prompt": told["content"]})
)
seeded("client.dialect.46", listens(_needs_reason))
seeded("client.dialect.47", hears("terminal/create", _no_shell))
seeded("client.dialect.48", results("terminal/create", lambda result: {"terminalId": result.get("terminal_id")}))
seeded(
    "client.dialect.49",
    dies(lambda message: isinstance(message, dict) and "steps" in str(message.get("params", {}).get("data", ""))),
)
seeded("client.dialect.50", dies(_needs_version))
seeded("client.dialect.51", results(WRITE, lambda _: {}))
seeded("client.dialect.52", errors(READ, _numbered(-32001, -32603)))
seeded("client.dialect.53", errors(READ, _numbered(-32002, -32603)))
seeded("client.dialect.54", params("initialize", _lends_nothing))
seeded("client.dialect.55", replies("terminal/kill", fails(-32601, "Method not found")))
