"""Clients that lend terminals badly."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from dragoman.conformance.client_seeding import deaf, dies
from dragoman.conformance.client_twin import ClientFault
from dragoman.conformance.seeding import hears, listens, params, replies, results, without
from dragoman.conformance.twin import Json, Tape, seeded

CREATE, OUTPUT, WAIT, KILL, RELEASE = (
    f"terminal/{name}" for name in ("create", "output", "wait_for_exit", "kill", "release")
)
GONE = {"code": -32602, "message": "there is no such terminal"}


def _params(tape: Tape, message: Json) -> dict[str, Json]:
    return dict(tape.request(message).get("params") or {})


def _line(asked: dict[str, Json]) -> str:
    return str((asked.get("args") or ["", ""])[-1])


def creates(meant: Callable[[dict[str, Json]], bool]) -> Callable[[Json], bool]:
    """Messages that want such a terminal."""
    return lambda message: isinstance(message, dict) and message.get("method") == CREATE and meant(message["params"])


def _forgets_killed(tape: Tape, message: Json) -> Iterable[Json]:
    method = tape.method(message)
    if method == KILL:
        tape.notes["killed"] = True
    if method == OUTPUT and "killed" in tape.notes:
        return [{"jsonrpc": "2.0", "id": message["id"], "error": GONE}]
    return [message]


def _remembers(tape: Tape, message: Json) -> Iterable[Json]:
    if (
        tape.method(message) == OUTPUT
        and "error" in message
        and _params(tape, message)["terminalId"] != "no-such-terminal"
    ):
        return [{"jsonrpc": "2.0", "id": message["id"], "result": {"output": "done", "truncated": False}}]
    return [message]


def _keeps_the_beginning(result: Json) -> Json:
    return {**result, "output": "begin00000"} if result.get("truncated") else result


def _no_env(_: Tape, message: Json) -> Iterable[Json]:
    return [{**message, "params": {name: value for name, value in message["params"].items() if name != "env"}}]


def _no_cwd(_: Tape, message: Json) -> Iterable[Json]:
    return [{**message, "params": {name: value for name, value in message["params"].items() if name != "cwd"}}]


def _one_by_one(tape: Tape, message: Json) -> Iterable[Json]:
    """While one waits, nobody else is heard, unless it is to end the waiting."""
    if message.get("method") == WAIT and message.get("id") == "waiting":
        tape.notes["waiting"] = True
    return [] if "waiting" in tape.notes and message.get("method") == OUTPUT else [message]


def _null(tape: Tape, message: Json) -> Iterable[Json]:
    unknown = _params(tape, message).get("terminalId") == "no-such-terminal"
    return [{"jsonrpc": "2.0", "id": message["id"], "result": None} if unknown else message]


def _never_tells(tape: Tape, message: Json) -> Iterable[Json]:
    return [] if "killing" in tape.notes else [message]


def _notes_kill(tape: Tape, message: Json) -> Iterable[Json]:
    tape.notes["killing"] = True
    return [message]


def _lets_run(tape: Tape, message: Json) -> Iterable[Json]:
    """What runs is not released, only answered; at the end of all its process is ended by our own client."""
    if any(each["method"] == WAIT for each in tape.heard.values()):
        return [message]
    tape.say({"jsonrpc": "2.0", "id": message["id"], "result": {}})
    return []


def _no_terminals(told: Json) -> None:
    told["clientCapabilities"]["terminal"] = False


seeded("client.terminal.01", deaf(creates(lambda asked: _line(asked) == "sleep 300")))
seeded("client.terminal.02", results(OUTPUT, without("truncated")))
seeded("client.terminal.03", results(WAIT, lambda result: {"exit_code": result.get("exitCode"), "signal": None}))
seeded("client.terminal.04", ClientFault(says=_forgets_killed))
seeded("client.terminal.05", ClientFault(says=_remembers))
seeded("client.terminal.06", results(OUTPUT, _keeps_the_beginning))
seeded("client.terminal.07", hears(CREATE, _no_env))
seeded("client.terminal.08", hears(CREATE, _no_cwd))
seeded("client.terminal.09", listens(_one_by_one))
seeded(
    "client.terminal.10",
    results(OUTPUT, lambda result: {"exitStatus": {"exitCode": 0, "signal": None}, **result}),
)
seeded("client.terminal.11", replies(OUTPUT, _null))
seeded("client.terminal.12", dies(creates(lambda asked: asked["command"] == "/no/such/program")))
seeded("client.terminal.13", ClientFault(hears=hears(KILL, _notes_kill).hears, says=replies(WAIT, _never_tells).says))
seeded("client.terminal.14", hears(RELEASE, _lets_run))
seeded("client.terminal.15", params("initialize", _no_terminals))
