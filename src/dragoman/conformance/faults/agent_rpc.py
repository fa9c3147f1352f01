"""Faults in an agent's JSON-RPC."""

from __future__ import annotations

from collections.abc import Iterable

from dragoman.conformance.seeding import errors, hears, listens, replies, speaks, with_, without
from dragoman.conformance.twin import Fault, Json, Tape, seeded

UNKNOWN = "no/such_method"


def _number_for_text(_: Tape, message: Json) -> Iterable[Json]:
    id = message.get("id")
    yield {**message, "id": int(id)} if "method" not in message and isinstance(id, str) and id.isdigit() else message


def _answers(tape: Tape, message: Json) -> Iterable[Json]:
    tape.say({"jsonrpc": "2.0", "id": None, "error": {"code": -32601, "message": "Method not found"}})
    yield message


def _ids(wrong: Json, right: Json) -> Fault:
    """One id comes back as another."""

    def whole(tape: Tape, message: Json) -> Iterable[Json]:
        meant = message.get("id") == right and tape.method(message) == "session/new"
        yield {**message, "id": wrong} if meant else message

    return speaks(whole)


def _deaf_to_own_ids(tape: Tape, message: Json) -> Iterable[Json]:
    ours = {asked["id"] for asked in tape.asked.values()}
    if message.get("method") != UNKNOWN or message.get("id") not in ours:
        yield message


def dying(meant: type) -> Fault:
    """Dies of a line that is this."""

    def change(tape: Tape, message: Json) -> Iterable[Json]:
        if type(message) is meant:
            tape.die()
        else:
            yield message

    return Fault(hears=change)


def _dies_of_half_a_line(tape: Tape, message: Json) -> Iterable[Json]:
    if isinstance(message, bytes) and b'"id": 902' in message:
        tape.die()
    else:
        yield message


def _dies_of_errors(tape: Tape, message: Json) -> Iterable[Json]:
    if message.get("id", 0) is None and "error" in message:
        tape.die()
    yield message


def _silent_about(code: int) -> Fault:
    def whole(_: Tape, message: Json) -> Iterable[Json]:
        if message.get("id", 0) is not None or message.get("error", {}).get("code") != code:
            yield message

    return speaks(whole)


def _strict(_: Tape, message: Json) -> Iterable[Json]:
    """Wrong params where there is a member nobody knows."""
    yield {**message, "params": {}} if "memberOfTheFuture" in message else message


def _without_meta(_: Tape, message: Json) -> Iterable[Json]:
    yield {**message, "params": {}} if "_meta" in message["params"] else message


def _answers_answers(tape: Tape, message: Json) -> Iterable[Json]:
    if message.get("id") == 904:
        tape.say({"jsonrpc": "2.0", "id": 904, "error": {"code": -32600, "message": "Invalid request"}})
    yield message


def _where(holds: type | None, code: int) -> Fault:
    """Prompts whose params are of this type are refused with another code."""

    def whole(tape: Tape, message: Json) -> Iterable[Json]:
        request = tape.request(message)
        params = request.get("params")
        odd = params is None if holds is None else isinstance(params, holds)
        yield {**message, "error": {"code": code, "message": "Internal error"}} if odd else message

    return replies("session/prompt", whole)


def _accepts_lists(tape: Tape, message: Json) -> Iterable[Json]:
    if message.get("method") == "session/prompt" and isinstance(message.get("params"), list):
        tape.say({"jsonrpc": "2.0", "id": message["id"], "result": {"stopReason": "end_turn"}})
    else:
        yield message


def _loses_the_seventh(_: Tape, message: Json) -> Iterable[Json]:
    if message["params"].get("number") != 7:
        yield message


def _wants_the_usual_order(_: Tape, message: Json) -> Iterable[Json]:
    if next(iter(message)) != "params":
        yield message


def _never_twice(tape: Tape, message: Json) -> Iterable[Json]:
    count = tape.notes["count"] = tape.notes.get("count", 0) + (message.get("id") == 907)
    if message.get("id") != 907 or count == 1:
        yield message


def _both(_: Tape, message: Json) -> Iterable[Json]:
    yield {**message, "result": None}


def _twice(tape: Tape, message: Json) -> Iterable[Json]:
    yield message
    if tape.method(message) == "session/new":
        yield message


def _unversioned(tape: Tape, message: Json) -> Iterable[Json]:
    yield without("jsonrpc")(message) if tape.method(message) == "session/new" else message


def _calls_its_own(tape: Tape, message: Json) -> Iterable[Json]:
    if "hello there" in str(message):
        tape.say({"jsonrpc": "2.0", "method": "agent/notify/suggestion", "params": {"text": "And then?"}})
    yield message


seeded("agent.rpc.01", speaks(_number_for_text))
seeded("agent.rpc.02", hears("no/such_notification", _answers))
seeded("agent.rpc.03", errors(UNKNOWN, with_(code=-32603)))
seeded("agent.rpc.04", speaks(_unversioned))
seeded("agent.rpc.05", replies(UNKNOWN, _both))
seeded("agent.rpc.06", errors("session/prompt", with_(message={"text": "wrong"})))
seeded("agent.rpc.07", speaks(_twice))
seeded("agent.rpc.08", _ids(None, 0))
seeded("agent.rpc.09", listens(_deaf_to_own_ids))
seeded("agent.rpc.10", dying(list))
seeded("agent.rpc.11", _silent_about(-32600))
seeded("agent.rpc.12", Fault(hears=_dies_of_half_a_line))
seeded("agent.rpc.13", _silent_about(-32700))
seeded("agent.rpc.14", dying(int))
seeded("agent.rpc.15", listens(_strict))
seeded(
    "agent.rpc.16",
    replies("_example.org/no_such_method", lambda _, m: [{"jsonrpc": "2.0", "id": m["id"], "result": None}]),
)
seeded("agent.rpc.17", hears("session/new", _without_meta))
seeded("agent.rpc.18", listens(_answers_answers))
seeded("agent.rpc.19", listens(_dies_of_errors))
seeded("agent.rpc.20", _where(None, -32603))
seeded("agent.rpc.21", listens(_accepts_lists))
seeded("agent.rpc.22", hears(UNKNOWN, _loses_the_seventh))
seeded("agent.rpc.23", listens(_wants_the_usual_order))
seeded("agent.rpc.24", hears(UNKNOWN, _never_twice))
seeded("agent.rpc.25", errors("no/such_method_either", lambda _: {"code": -32601, "message": "Method not found"}))
seeded("agent.rpc.26", _ids(float(2**53), 2**53 - 1))
seeded("agent.rpc.27", hears("session/prompt", _calls_its_own))
