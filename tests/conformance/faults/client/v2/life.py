"""Faults in how a v2 client connects."""

from __future__ import annotations

from collections.abc import Iterable

from tests.conformance.faults.edits import Matches, disconnect_on, edit_calls, edit_params, with_, without
from tests.conformance.faults.fault import Fault, FaultContext, Json, seed

INIT, NEW, SET, RESUME = "initialize", "session/new", "session/set_config_option", "session/resume"


def _same_id(_: FaultContext, message: Json) -> Iterable[Json]:
    return (message, {"jsonrpc": "2.0", "id": message["id"], "method": "_vendor/ping", "params": {}})


def _no_prompt(_: FaultContext, message: Json) -> Iterable[Json]:
    return () if message["params"]["sessionId"] == "check-older-session" else (message,)


def _has(name: str) -> Matches:
    """Match results with this member."""
    return lambda message: isinstance(message, dict) and name in (message.get("result") or {})


def _is_refused(message: Json) -> bool:
    return isinstance(message, dict) and message.get("error", {}).get("code") == -32022


EARLY = {"jsonrpc": "2.0", "id": "early", "method": "session/list", "params": {}}
OLD = {"jsonrpc": "2.0", "id": "old", "method": "session/set_mode", "params": {"sessionId": "x", "modeId": "code"}}
ARRAY = [{"jsonrpc": "2.0", "method": "_vendor/hello"}]


def _capable(params: Json) -> Json:
    return {**params, "capabilities": {**params["capabilities"], "voice": True}}


def _extra(method: str, extra: Json) -> Fault:
    return edit_calls(method, lambda _, message: (message, extra))


seed("client.v2life.01", edit_params(INIT, with_(protocolVersion=1)))
seed("client.v2life.02", edit_params(INIT, with_(info={"name": "editor"})))
seed("client.v2life.03", edit_params(INIT, _capable))
seed("client.v2life.04", _extra(INIT, EARLY))
seed("client.v2life.05", disconnect_on(_has("weather")))
seed("client.v2life.06", disconnect_on(_is_refused))
seed("client.v2life.07", disconnect_on(_has("agentCapabilities")))
seed("client.v2life.08", edit_params(NEW, with_(cwd="work")))
seed("client.v2life.09", edit_params(NEW, with_(mcpServers=[{"name": "untyped"}])))
seed("client.v2life.10", _extra(NEW, OLD))
seed("client.v2life.11", _extra(NEW, ARRAY))
seed("client.v2life.12", edit_calls(NEW, _same_id))
seed("client.v2life.13", edit_params(SET, without("type")))
seed("client.v2life.14", edit_params(SET, with_(value="huge")))
seed("client.v2life.15", edit_params(RESUME, with_(cwd="work")))
seed("client.v2life.16", edit_params(RESUME, with_(replayFrom={"type": "yesterday"})))
seed("client.v2life.17", edit_calls("session/prompt", _no_prompt))
