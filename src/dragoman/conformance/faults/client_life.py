"""Faults in how a client meets its agent."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable

from dragoman.conformance.client_seeding import dies
from dragoman.conformance.client_twin import ClientFault
from dragoman.conformance.seeding import calls, listens, params, speaks, with_, without
from dragoman.conformance.twin import Json, Tape, seeded

# The patience of a client that is in a hurry. Seconds.
HURRY = 0.4


def request(method: str, params: Json, id: Json) -> Json:
    """A message of the fault's own."""
    return {"jsonrpc": "2.0", "id": id, "method": method, "params": params}


def _first(_: Tape, message: Json) -> Iterable[Json]:
    return [{"jsonrpc": "2.0", "method": "_vendor/hello", "params": {}}, message]


def _at_once(_: Tape, message: Json) -> Iterable[Json]:
    return [message, request("_vendor/early", {}, "early")]


def _again(_: Tape, message: Json) -> Iterable[Json]:
    return [message, request("initialize", {"protocolVersion": 1}, "again")]


def _lists(_: Tape, message: Json) -> Iterable[Json]:
    return [message, request("session/list", {}, "unoffered")]


def _goes_on(_: Tape, message: Json) -> Iterable[Json]:
    result = message.get("result")
    if isinstance(result, dict) and result.get("protocolVersion") == 999:
        return [{**message, "result": {**result, "protocolVersion": 1}}]
    return [message]


def _answered(message: Json, code: int) -> bool:
    error = message.get("error")
    return isinstance(error, dict) and error.get("code") == code


def _makes_up_a_method(tape: Tape, message: Json) -> Iterable[Json]:
    if _answered(message, -32000):
        tape.say(request("authenticate", {"methodId": "password"}, "auth"))
    return [message]


def _insists(tape: Tape, message: Json) -> Iterable[Json]:
    if _answered(message, -32000) and not tape.notes.get("insisted"):
        tape.notes["insisted"] = True
        for number in range(4):
            tape.say(request("session/new", {"cwd": "/", "mcpServers": []}, f"again-{number}"))
    return [message]


def _prompts_anyway(tape: Tape, message: Json) -> Iterable[Json]:
    if _answered(message, -32603):
        tape.say(request("session/prompt", {"sessionId": "", "prompt": [{"type": "text", "text": "Hello"}]}, "anyway"))
    return [message]


def _hurries(tape: Tape, message: Json) -> Iterable[Json]:
    if isinstance(message, dict) and message.get("method") == "initialize":
        tape.notes["alarm"] = asyncio.get_running_loop().call_later(HURRY, tape.die)
    return [message]


def _calms(tape: Tape, message: Json) -> Iterable[Json]:
    if "alarm" in tape.notes:
        tape.notes["alarm"].cancel()
    return [message]


def _introduces(message: Json, name: str) -> bool:
    result = message.get("result") if isinstance(message, dict) else None
    return isinstance(result, dict) and "protocolVersion" in result and name not in result


def _introduction(message: Json) -> dict[str, Json]:
    result = message.get("result") if isinstance(message, dict) else None
    return result if isinstance(result, dict) and "protocolVersion" in result else {}


seeded("client.life.01", calls("initialize", _first))
seeded("client.life.02", params("initialize", with_(protocolVersion="1")))
seeded("client.life.03", params("initialize", without("clientInfo")))
seeded("client.life.04", params("initialize", lambda told: told["clientCapabilities"].update(terminal="yes")))
seeded("client.life.05", calls("initialize", _at_once))
seeded("client.life.06", listens(_goes_on))
seeded("client.life.07", dies(lambda message: _introduces(message, "agentInfo")))
seeded("client.life.08", dies(lambda message: "extra" in _introduction(message)))
seeded("client.life.09", dies(lambda message: _introduction(message).get("agentInfo", 0) is None))
seeded("client.life.10", calls("session/new", _again))
seeded("client.life.11", calls("session/new", _lists))
seeded("client.life.12", listens(_makes_up_a_method))
seeded("client.life.13", listens(_insists))
seeded("client.life.14", listens(_prompts_anyway))
seeded("client.life.15", ClientFault(says=speaks(_hurries).says, hears=listens(_calms).hears))
