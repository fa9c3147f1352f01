"""Faults of an agent under hostility."""

from __future__ import annotations

from collections.abc import Iterable

from dragoman.conformance.seeding import hears, listens
from dragoman.conformance.twin import Fault, Json, Tape, seeded


def _drowns(tape: Tape, message: Json) -> Iterable[Json]:
    tape.notes["flood"] = tape.notes.get("flood", 0) + 1
    if tape.notes["flood"] == 400:
        tape.die()
    yield message


def _dies_of_second_answers(tape: Tape, message: Json) -> Iterable[Json]:
    if "method" not in message:
        seen = tape.notes.setdefault("answers", [])
        if message.get("id") in seen:
            tape.die()
        seen.append(message.get("id"))
    yield message


def _short_names(_: Tape, message: Json) -> Iterable[Json]:
    if len(str(message.get("method"))) < 50_000:
        yield message


def _plain_texts(_: Tape, message: Json) -> Iterable[Json]:
    if "\\x07" not in repr(message["params"]):
        yield message


def _takes_nobody(tape: Tape, message: Json) -> Iterable[Json]:
    if message["params"].get("sessionId") == "":
        tape.say({"jsonrpc": "2.0", "id": message["id"], "result": {"stopReason": "end_turn"}})
    else:
        yield message


def _tired_of_cancels(tape: Tape, message: Json) -> Iterable[Json]:
    tape.notes["cancels"] = tape.notes.get("cancels", 0) + 1
    if tape.notes["cancels"] == 40:
        tape.die()
    yield message


def _dies_of(part: bytes) -> Fault:
    """The line, as it is or as it was read, has this in it."""

    def hearing(tape: Tape, message: Json) -> Iterable[Json]:
        if part.decode() in repr(message):
            tape.die()
        yield message

    return Fault(hears=hearing)


def _answers_nonsense(tape: Tape, message: Json) -> Iterable[Json]:
    if not isinstance(message["params"].get("sessionId"), str):
        tape.say({"jsonrpc": "2.0", "id": None, "result": {}})
    yield message


def _few(tape: Tape, message: Json) -> Iterable[Json]:
    tape.notes["sessions"] = tape.notes.get("sessions", 0) + 1
    if tape.notes["sessions"] < 10:
        yield message
    else:
        error = {"code": -32603, "message": "too many sessions"}
        tape.say({"jsonrpc": "2.0", "id": message["id"], "error": error})


seeded("agent.robust.01", hears("_flood/notification", _drowns))
seeded("agent.robust.02", listens(_dies_of_second_answers))
seeded("agent.robust.03", listens(_short_names))
seeded("agent.robust.04", hears("session/prompt", _plain_texts))
seeded("agent.robust.05", hears("session/prompt", _takes_nobody))
seeded("agent.robust.06", hears("session/cancel", _tired_of_cancels))
seeded("agent.robust.08", _dies_of(b"922"))
seeded("agent.robust.09", _dies_of(b"99999999999999999999"))
seeded("agent.robust.10", hears("session/cancel", _answers_nonsense))
seeded("agent.robust.11", hears("session/new", _few))
seeded("agent.robust.12", _dies_of(b"'method': 5"))
