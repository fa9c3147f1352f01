"""Clients with faulty terminals."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from tests.conformance.faults.edits import (
    disconnect_on,
    edit_all_incoming,
    edit_incoming,
    edit_params,
    edit_replies,
    edit_results,
    ignore_on,
    without,
)
from tests.conformance.faults.fault import ClientFault, FaultContext, Json, seed

CREATE, OUTPUT, WAIT, KILL, RELEASE = (
    f"terminal/{name}" for name in ("create", "output", "wait_for_exit", "kill", "release")
)
GONE = {"code": -32602, "message": "there is no such terminal"}


def _params(context: FaultContext, message: Json) -> dict[str, Json]:
    return dict(context.request(message).get("params") or {})


def _line(request: dict[str, Json]) -> str:
    return str((request.get("args") or ["", ""])[-1])


def creates(matches: Callable[[dict[str, Json]], bool]) -> Callable[[Json], bool]:
    """Match requests for such a terminal."""
    return lambda message: isinstance(message, dict) and message.get("method") == CREATE and matches(message["params"])


def _forgets_killed(context: FaultContext, message: Json) -> Iterable[Json]:
    method = context.method(message)
    if method == KILL:
        context.notes["killed"] = True
    if method == OUTPUT and "killed" in context.notes:
        return [{"jsonrpc": "2.0", "id": message["id"], "error": GONE}]
    return [message]


def _output_after_release(context: FaultContext, message: Json) -> Iterable[Json]:
    if (
        context.method(message) == OUTPUT
        and "error" in message
        and _params(context, message)["terminalId"] != "no-such-terminal"
    ):
        return [{"jsonrpc": "2.0", "id": message["id"], "result": {"output": "done", "truncated": False}}]
    return [message]


def _keeps_the_beginning(result: Json) -> Json:
    return {**result, "output": "begin00000"} if result.get("truncated") else result


def _no_env(_: FaultContext, message: Json) -> Iterable[Json]:
    return [{**message, "params": {name: value for name, value in message["params"].items() if name != "env"}}]


def _no_cwd(_: FaultContext, message: Json) -> Iterable[Json]:
    return [{**message, "params": {name: value for name, value in message["params"].items() if name != "cwd"}}]


def _one_by_one(context: FaultContext, message: Json) -> Iterable[Json]:
    """Ignore requests for output while one request waits for a command."""
    return [] if context.is_running(WAIT) and message.get("method") == OUTPUT else [message]


def _null(context: FaultContext, message: Json) -> Iterable[Json]:
    unknown = _params(context, message).get("terminalId") == "no-such-terminal"
    return [{"jsonrpc": "2.0", "id": message["id"], "result": None} if unknown else message]


def _never_end(context: FaultContext, message: Json) -> Iterable[Json]:
    return [] if "killing" in context.notes else [message]


def _notes_kill(context: FaultContext, message: Json) -> Iterable[Json]:
    context.notes["killing"] = True
    return [message]


def _lets_run(context: FaultContext, message: Json) -> Iterable[Json]:
    """Answer the release without doing it; our own client ends the process at the end."""
    if any(each["method"] == WAIT for each in context.requests_in.values()):
        return [message]
    context.send({"jsonrpc": "2.0", "id": message["id"], "result": {}})
    return []


def _no_terminals(params: Json) -> None:
    params["clientCapabilities"]["terminal"] = False


seed("client.terminal.01", ignore_on(creates(lambda request: _line(request) == "sleep 300")))
seed("client.terminal.02", edit_results(OUTPUT, without("truncated")))
seed("client.terminal.03", edit_results(WAIT, lambda result: {"exit_code": result.get("exitCode"), "signal": None}))
seed("client.terminal.04", ClientFault(outgoing=_forgets_killed))
seed("client.terminal.05", ClientFault(outgoing=_output_after_release))
seed("client.terminal.06", edit_results(OUTPUT, _keeps_the_beginning))
seed("client.terminal.07", edit_incoming(CREATE, _no_env))
seed("client.terminal.08", edit_incoming(CREATE, _no_cwd))
seed("client.terminal.09", edit_all_incoming(_one_by_one))
seed(
    "client.terminal.10",
    edit_results(OUTPUT, lambda result: {"exitStatus": {"exitCode": 0, "signal": None}, **result}),
)
seed("client.terminal.11", edit_replies(OUTPUT, _null))
seed("client.terminal.12", disconnect_on(creates(lambda request: request["command"] == "/no/such/program")))
seed(
    "client.terminal.13",
    ClientFault(incoming=edit_incoming(KILL, _notes_kill).incoming, outgoing=edit_replies(WAIT, _never_end).outgoing),
)
seed("client.terminal.14", edit_incoming(RELEASE, _lets_run))
seed("client.terminal.15", edit_params("initialize", _no_terminals))
