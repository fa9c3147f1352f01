"""Faults of clients in the draft."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable

from tests.conformance.faults.client.turn import result
from tests.conformance.faults.edits import (
    disconnect_on,
    drop,
    edit_all_incoming,
    edit_calls,
    edit_incoming,
    edit_params,
    edit_replies,
    edit_results,
    with_,
    without,
)
from tests.conformance.faults.fault import FaultContext, Json, seed

READ, WRITE, WAIT = "fs/read_text_file", "fs/write_text_file", "terminal/wait_for_exit"


def tells(matches: Callable[[str, Json], bool]) -> Callable[[Json], bool]:
    """Match updates of such a type, with such data."""

    def sees(message: Json) -> bool:
        params = message.get("params") if isinstance(message, dict) else None
        return isinstance(params, dict) and "type" in params and matches(params["type"], params.get("data") or {})

    return sees


def _humps(params: Json) -> None:
    params["capabilities"]["fs"] = {"readTextFile": True, "writeTextFile": True}


def _exclusive(_: FaultContext, message: Json) -> Iterable[Json]:
    request = message["params"]
    return [{**message, "params": {**request, "endLine": request["endLine"] - 1}} if "endLine" in request else message]


def _refuses_relative(context: FaultContext, message: Json) -> Iterable[Json]:
    request = context.request(message).get("params") or {}
    error = {"code": -32602, "message": "the path is not absolute"}
    if not os.path.isabs(str(request.get("path", "/"))):
        return [{"jsonrpc": "2.0", "id": message["id"], "error": error}]
    return [message]


def _overwrites(_: FaultContext, message: Json) -> Iterable[Json]:
    return [{**message, "params": without("overwrite")(message["params"])}]


def _no_env(_: FaultContext, message: Json) -> Iterable[Json]:
    return [{**message, "params": without("env")(message["params"])}]


def _waits_for_ever(_: FaultContext, message: Json) -> Iterable[Json]:
    return [{**message, "params": without("timeout")(message["params"])}]


def _ignores_demands(_: FaultContext, message: Json) -> Iterable[Json]:
    found = result(message)
    if "requiredClientCapabilities" in found:
        return [{**message, "result": without("requiredClientCapabilities")(found)}]
    return [message]


def _null_code(params: Json) -> Json:
    return {**params, "exitCode": None} if params.get("signal") else params


seed("client.draft.01", edit_params("initialize", without("clientInfo")))
seed("client.draft.02", edit_params("initialize", _humps))
seed("client.draft.03", edit_results("session/request_permission", lambda params: {"granted": "yes"}))
seed("client.draft.04", edit_results("session/request_permission", with_(scope="forever")))
seed("client.draft.05", edit_results(READ, without("encoding")))
seed("client.draft.06", edit_incoming(READ, _exclusive))
seed("client.draft.07", edit_replies(READ, _refuses_relative))
seed("client.draft.08", edit_results(WRITE, without("bytesWritten")))
seed("client.draft.09", edit_incoming(WRITE, _overwrites))
seed("client.draft.10", edit_incoming("terminal/create", _no_env))
seed("client.draft.11", edit_calls("terminal/output", drop))
seed("client.draft.12", edit_results(WAIT, _null_code))
seed("client.draft.13", edit_incoming(WAIT, _waits_for_ever))
seed("client.draft.14", edit_results("terminal/kill", lambda params: {}))
seed("client.draft.15", edit_all_incoming(_ignores_demands))
seed("client.draft.16", disconnect_on(tells(lambda kind, data: data.get("status") == "denied")))
seed("client.draft.17", disconnect_on(tells(lambda kind, data: (data.get("output") or {}).get("type") == "diff")))
seed("client.draft.18", disconnect_on(tells(lambda kind, data: kind == "config_option_update")))
seed(
    "client.draft.19",
    disconnect_on(lambda message: isinstance(message, dict) and "timestamp" in (message.get("params") or {})),
)
