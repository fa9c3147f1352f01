"""Faults in how a client initializes its agent."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable

from tests.conformance.faults.edits import (
    disconnect_on,
    edit_all_incoming,
    edit_all_outgoing,
    edit_calls,
    edit_params,
    with_,
    without,
)
from tests.conformance.faults.fault import ClientFault, FaultContext, Json, seed

# The timeout of an impatient client. Seconds.
HURRY = 0.4


def request(method: str, params: Json, id: Json) -> Json:
    """Return a message of the fault."""
    return {"jsonrpc": "2.0", "id": id, "method": method, "params": params}


def _notify_before_initialize(_: FaultContext, message: Json) -> Iterable[Json]:
    return [{"jsonrpc": "2.0", "method": "_vendor/hello", "params": {}}, message]


def _request_before_answer(_: FaultContext, message: Json) -> Iterable[Json]:
    return [message, request("_vendor/early", {}, "early")]


def _again(_: FaultContext, message: Json) -> Iterable[Json]:
    return [message, request("initialize", {"protocolVersion": 1}, "again")]


def _lists(_: FaultContext, message: Json) -> Iterable[Json]:
    return [message, request("session/list", {}, "unoffered")]


def _accept_unknown_version(_: FaultContext, message: Json) -> Iterable[Json]:
    result = message.get("result")
    if isinstance(result, dict) and result.get("protocolVersion") == 999:
        return [{**message, "result": {**result, "protocolVersion": 1}}]
    return [message]


def _answered(message: Json, code: int) -> bool:
    error = message.get("error")
    return isinstance(error, dict) and error.get("code") == code


def _use_unknown_auth_method(context: FaultContext, message: Json) -> Iterable[Json]:
    if _answered(message, -32000):
        context.send(request("authenticate", {"methodId": "password"}, "auth"))
    return [message]


def _repeat_after_auth_error(context: FaultContext, message: Json) -> Iterable[Json]:
    if _answered(message, -32000) and not context.notes.get("insisted"):
        context.notes["insisted"] = True
        for number in range(4):
            context.send(request("session/new", {"cwd": "/", "mcpServers": []}, f"again-{number}"))
    return [message]


def _prompts_anyway(context: FaultContext, message: Json) -> Iterable[Json]:
    if _answered(message, -32603):
        context.send(
            request("session/prompt", {"sessionId": "", "prompt": [{"type": "text", "text": "Hello"}]}, "anyway")
        )
    return [message]


def _end_if_slow(context: FaultContext, message: Json) -> Iterable[Json]:
    if isinstance(message, dict) and message.get("method") == "initialize":
        context.notes["alarm"] = asyncio.get_running_loop().call_later(HURRY, context.disconnect)
    return [message]


def _stop_timer(context: FaultContext, message: Json) -> Iterable[Json]:
    if "alarm" in context.notes:
        context.notes["alarm"].cancel()
    return [message]


def _lacks_in_result(message: Json, name: str) -> bool:
    result = message.get("result") if isinstance(message, dict) else None
    return isinstance(result, dict) and "protocolVersion" in result and name not in result


def _initialize_result(message: Json) -> dict[str, Json]:
    result = message.get("result") if isinstance(message, dict) else None
    return result if isinstance(result, dict) and "protocolVersion" in result else {}


seed("client.life.01", edit_calls("initialize", _notify_before_initialize))
seed("client.life.02", edit_params("initialize", with_(protocolVersion="1")))
seed("client.life.03", edit_params("initialize", without("clientInfo")))
seed("client.life.04", edit_params("initialize", lambda told: told["clientCapabilities"].update(terminal="yes")))
seed("client.life.05", edit_calls("initialize", _request_before_answer))
seed("client.life.06", edit_all_incoming(_accept_unknown_version))
seed("client.life.07", disconnect_on(lambda message: _lacks_in_result(message, "agentInfo")))
seed("client.life.08", disconnect_on(lambda message: "extra" in _initialize_result(message)))
seed("client.life.09", disconnect_on(lambda message: _initialize_result(message).get("agentInfo", 0) is None))
seed("client.life.10", edit_calls("session/new", _again))
seed("client.life.11", edit_calls("session/new", _lists))
seed("client.life.12", edit_all_incoming(_use_unknown_auth_method))
seed("client.life.13", edit_all_incoming(_repeat_after_auth_error))
seed("client.life.14", edit_all_incoming(_prompts_anyway))
seed(
    "client.life.15",
    ClientFault(outgoing=edit_all_outgoing(_end_if_slow).outgoing, incoming=edit_all_incoming(_stop_timer).incoming),
)
