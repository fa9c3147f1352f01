"""Faults of clients in the draft."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable

from dragoman.conformance.client_seeding import dies
from dragoman.conformance.faults.client_turn import result
from dragoman.conformance.seeding import calls, dropped, hears, listens, params, replies, results, with_, without
from dragoman.conformance.twin import Json, Tape, seeded

READ, WRITE, WAIT = "fs/read_text_file", "fs/write_text_file", "terminal/wait_for_exit"


def tells(meant: Callable[[str, Json], bool]) -> Callable[[Json], bool]:
    """Updates of such a type, with such data."""

    def sees(message: Json) -> bool:
        told = message.get("params") if isinstance(message, dict) else None
        return isinstance(told, dict) and "type" in told and meant(told["type"], told.get("data") or {})

    return sees


def _humps(told: Json) -> None:
    told["capabilities"]["fs"] = {"readTextFile": True, "writeTextFile": True}


def _exclusive(_: Tape, message: Json) -> Iterable[Json]:
    asked = message["params"]
    return [{**message, "params": {**asked, "endLine": asked["endLine"] - 1}} if "endLine" in asked else message]


def _refuses_relative(tape: Tape, message: Json) -> Iterable[Json]:
    asked = tape.request(message).get("params") or {}
    error = {"code": -32602, "message": "the path is not absolute"}
    if not os.path.isabs(str(asked.get("path", "/"))):
        return [{"jsonrpc": "2.0", "id": message["id"], "error": error}]
    return [message]


def _overwrites(_: Tape, message: Json) -> Iterable[Json]:
    return [{**message, "params": without("overwrite")(message["params"])}]


def _no_env(_: Tape, message: Json) -> Iterable[Json]:
    return [{**message, "params": without("env")(message["params"])}]


def _waits_for_ever(_: Tape, message: Json) -> Iterable[Json]:
    return [{**message, "params": without("timeout")(message["params"])}]


def _ignores_demands(_: Tape, message: Json) -> Iterable[Json]:
    found = result(message)
    if "requiredClientCapabilities" in found:
        return [{**message, "result": without("requiredClientCapabilities")(found)}]
    return [message]


def _null_code(told: Json) -> Json:
    return {**told, "exitCode": None} if told.get("signal") else told


seeded("client.draft.01", params("initialize", without("clientInfo")))
seeded("client.draft.02", params("initialize", _humps))
seeded("client.draft.03", results("session/request_permission", lambda told: {"granted": "yes"}))
seeded("client.draft.04", results("session/request_permission", with_(scope="forever")))
seeded("client.draft.05", results(READ, without("encoding")))
seeded("client.draft.06", hears(READ, _exclusive))
seeded("client.draft.07", replies(READ, _refuses_relative))
seeded("client.draft.08", results(WRITE, without("bytesWritten")))
seeded("client.draft.09", hears(WRITE, _overwrites))
seeded("client.draft.10", hears("terminal/create", _no_env))
seeded("client.draft.11", calls("terminal/output", dropped))
seeded("client.draft.12", results(WAIT, _null_code))
seeded("client.draft.13", hears(WAIT, _waits_for_ever))
seeded("client.draft.14", results("terminal/kill", lambda told: {}))
seeded("client.draft.15", listens(_ignores_demands))
seeded("client.draft.16", dies(tells(lambda kind, data: data.get("status") == "denied")))
seeded("client.draft.17", dies(tells(lambda kind, data: (data.get("output") or {}).get("type") == "diff")))
seeded("client.draft.18", dies(tells(lambda kind, data: kind == "config_option_update")))
seeded(
    "client.draft.19",
    dies(lambda message: isinstance(message, dict) and "timestamp" in (message.get("params") or {})),
)
