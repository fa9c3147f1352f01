"""Faults in the order of what an agent says."""

from __future__ import annotations

from collections.abc import Iterable

from dragoman.conformance.faults.agent_update import also_telling
from dragoman.conformance.seeding import hears, listens, speaks
from dragoman.conformance.twin import Json, Tape, seeded

TEXT = {"type": "text", "text": "hello there"}


def _telling(session: str, kind: str) -> Json:
    told = {"sessionId": session, "update": {"sessionUpdate": kind, "content": TEXT}}
    return {"jsonrpc": "2.0", "method": "session/update", "params": told}


def _usage(session: str) -> Json:
    told = {"sessionId": session, "update": {"sessionUpdate": "usage_update", "used": 1, "size": 2}}
    return {"jsonrpc": "2.0", "method": "session/update", "params": told}


def _early(tape: Tape, message: Json) -> Iterable[Json]:
    if tape.method(message) == "session/new" and "result" in message:
        yield _usage(message["result"]["sessionId"])
    yield message


def _tail_after_the_end(tape: Tape, message: Json) -> Iterable[Json]:
    """The last piece of a plain turn is held until its answer has gone."""
    held = tape.notes.pop("held", None)
    is_chunk = tape.busy() and message.get("method") == "session/update" and "`/help` shows" in str(message)
    if is_chunk:
        tape.notes["held"] = message
        return
    yield message
    if held is not None:
        yield held


def _unasked(tape: Tape, message: Json) -> Iterable[Json]:
    yield message
    if tape.method(message) == "session/new" and "result" in message and not tape.notes.get("said"):
        tape.notes["said"] = True
        yield _telling(message["result"]["sessionId"], "agent_message_chunk")


def _swapped(tape: Tape, message: Json) -> Iterable[Json]:
    if "chunk 00007 " in str(message):
        tape.notes["held"] = message
        return
    yield message
    if "chunk 00008 " in str(message) and "held" in tape.notes:
        yield tape.notes.pop("held")


def _busy(tape: Tape, message: Json) -> Iterable[Json]:
    waiting = any(each["method"] == "session/request_permission" for each in tape.asked.values())
    if not (message.get("method") == "no/such_method" and tape.busy() and not waiting):
        yield message


def _waiting(tape: Tape, message: Json) -> Iterable[Json]:
    waiting = [each for each in tape.asked.values() if each["method"] == "session/request_permission"]
    collides = message.get("id") in {each["id"] for each in waiting}
    if not (message.get("method") == "no/such_method" and tape.busy() and waiting and not collides):
        yield message


def _tells_forks(tape: Tape, message: Json) -> Iterable[Json]:
    if tape.method(message) == "session/fork" and "result" in message:
        yield _telling(message["result"]["sessionId"], "user_message_chunk")
    yield message


def _not_in_a_turn(tape: Tape, message: Json) -> Iterable[Json]:
    if not tape.busy():
        yield message


seeded("agent.order.01", speaks(_early))
seeded("agent.order.02", speaks(_tail_after_the_end))
seeded("agent.order.03", speaks(_unasked))
seeded("agent.order.04", speaks(_swapped))
seeded("agent.order.05", listens(_busy))
seeded("agent.order.06", also_telling("hello there", {"sessionUpdate": "user_message_chunk", "content": TEXT}))
seeded("agent.order.07", speaks(_tells_forks))
seeded("agent.order.08", listens(_waiting))
seeded("agent.order.09", hears("session/set_mode", _not_in_a_turn))
seeded("agent.order.10", hears("session/new", _not_in_a_turn))
