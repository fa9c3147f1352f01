"""Faults in how an agent takes back."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from dragoman.conformance.seeding import fails, hears
from dragoman.conformance.twin import Fault, Json, Tape, seeded

CANCEL, PROMPT = "session/cancel", "session/prompt"


def _noting(ends: Callable[[Tape, Json], Iterable[Json]]) -> Fault:
    """The answer to a prompt is changed; the notes tell how many cancels came, and whether a turn ran."""

    def hearing(tape: Tape, message: Json) -> Iterable[Json]:
        if isinstance(message, dict) and message.get("method") == CANCEL:
            if not tape.busy():
                tape.notes["idle"] = True
            else:
                tape.notes["cancels"] = tape.notes.get("cancels", 0) + 1
                prompts = [each for each in tape.open.values() if each["method"] == PROMPT]
                tape.notes["at once"] = tape.notes.get("last") == PROMPT and len(prompts) == 1
        if isinstance(message, dict) and "method" in message:
            tape.notes["last"] = message["method"]
        yield message

    def saying(tape: Tape, message: Json) -> Iterable[Json]:
        tape.notes["last"] = ""
        return ends(tape, message) if tape.method(message) == PROMPT else (message,)

    return Fault(says=saying, hears=hearing)


def _is_cancelled(tape: Tape, message: Json) -> bool:
    return bool(tape.notes.get("cancels")) and message.get("result", {}).get("stopReason") == "cancelled"


def _ended(message: Json, reason: str) -> Json:
    return {**message, "result": {"stopReason": reason}}


def _never(tape: Tape, message: Json) -> Iterable[Json]:
    return () if _is_cancelled(tape, message) and not _special(tape) else (message,)


def _special(tape: Tape) -> bool:
    """Circumstances that other requirements are about."""
    asked = any(each["method"] == "session/request_permission" for each in tape.asked.values())
    prompts = [each for each in tape.heard.values() if each["method"] == PROMPT]
    return asked or tape.notes.get("at once", False) or tape.notes["cancels"] > 1 or len(prompts) > 1


def _error(tape: Tape, message: Json) -> Iterable[Json]:
    return (
        fails(-32603, "aborted")(tape, message) if _is_cancelled(tape, message) and not _special(tape) else (message,)
    )


def _end_turn(tape: Tape, message: Json) -> Iterable[Json]:
    yield _ended(message, "end_turn") if _is_cancelled(tape, message) and not _special(tape) else message


def _sticky(tape: Tape, message: Json) -> Iterable[Json]:
    sticks = tape.notes.get("sticks")
    tape.notes["sticks"] = sticks or _is_cancelled(tape, message)
    yield _ended(message, "cancelled") if sticks else message


def _remembers(tape: Tape, message: Json) -> Iterable[Json]:
    yield _ended(message, "cancelled") if tape.notes.get("idle") else message


def _complains(tape: Tape, message: Json) -> Iterable[Json]:
    if "no-such-session" in str(message):
        tape.say({"jsonrpc": "2.0", "error": {"code": -32602, "message": "unknown session"}})
    yield message


def _wrong_at_questions(tape: Tape, message: Json) -> Iterable[Json]:
    asked = any(each["method"] == "session/request_permission" for each in tape.asked.values())
    yield _ended(message, "end_turn") if asked and tape.notes.get("cancels") else message


def _dies_of_late_answers(tape: Tape, message: Json) -> Iterable[Json]:
    if isinstance(message, dict) and "outcome" in str(message.get("result")) and not tape.busy():
        tape.die()
    yield message


def _twice(tape: Tape, message: Json) -> Iterable[Json]:
    yield message
    if tape.notes.get("cancels", 0) > 1:
        yield message


def _not_at_once(tape: Tape, message: Json) -> Iterable[Json]:
    alone = tape.notes.get("at once") and tape.notes["cancels"] == 1 and not tape.asked
    return () if alone else (message,)


def _forgets(tape: Tape, message: Json) -> Iterable[Json]:
    taken = [each for each in tape.heard.values() if each["method"] == PROMPT]
    return () if tape.notes.get("taken back") and taken else (message,)


def _taking_back(says: Callable[[Tape, Json], Iterable[Json]]) -> Fault:
    def hearing(tape: Tape, message: Json) -> Iterable[Json]:
        if isinstance(message, dict) and message.get("method") == "$/cancel_request":
            tape.notes["taken back"] = True
        yield message

    def saying(tape: Tape, message: Json) -> Iterable[Json]:
        return says(tape, message) if tape.method(message) == PROMPT else (message,)

    return Fault(says=saying, hears=hearing)


def _strange_number(tape: Tape, message: Json) -> Iterable[Json]:
    return fails(-32603)(tape, message) if tape.notes.get("taken back") else (message,)


def _answers_it(tape: Tape, message: Json) -> Iterable[Json]:
    if message["params"].get("requestId") == 999_999:
        tape.say({"jsonrpc": "2.0", "id": None, "error": {"code": -32601, "message": "Method not found"}})
    yield message


def _cancels_all(tape: Tape, message: Json) -> Iterable[Json]:
    yield message
    for request in list(tape.open.values()):
        session = (request.get("params") or {}).get("sessionId")
        if request["method"] == PROMPT and session != message["params"].get("sessionId"):
            yield {**message, "params": {"sessionId": session}}


def _leaves_calls_open(tape: Tape, message: Json) -> Iterable[Json]:
    is_update = isinstance(message, dict) and message.get("method") == "session/update"
    cancelling = any(each["method"] == CANCEL for each in tape.told)
    if not (is_update and cancelling and "tool_call_update" in str(message)):
        yield message


def _goes_on(tape: Tape, message: Json) -> Iterable[Json]:
    yield message
    if _is_cancelled(tape, message):
        chunk = {"sessionUpdate": "agent_message_chunk", "content": {"type": "text", "text": "as I said"}}
        session = tape.request(message)["params"]["sessionId"]
        yield {"jsonrpc": "2.0", "method": "session/update", "params": {"sessionId": session, "update": chunk}}


def _takes_back_another(tape: Tape, message: Json) -> Iterable[Json]:
    asked = [each["method"] for each in tape.asked.values()]
    if tape.busy() and asked and asked[-1] == "session/request_permission":
        tape.say({"jsonrpc": "2.0", "method": "$/cancel_request", "params": {"requestId": 424_242}})
    yield message


seeded("agent.cancel.01", _noting(_never))
seeded("agent.cancel.02", _noting(_error))
seeded("agent.cancel.03", _noting(_end_turn))
seeded("agent.cancel.04", _noting(_sticky))
seeded("agent.cancel.05", _noting(_remembers))
seeded("agent.cancel.06", hears(CANCEL, _complains))
seeded("agent.cancel.07", _noting(_wrong_at_questions))
seeded("agent.cancel.08", Fault(hears=_dies_of_late_answers))
seeded("agent.cancel.09", _noting(_twice))
seeded("agent.cancel.10", _noting(_not_at_once))
seeded("agent.cancel.11", _taking_back(_forgets))
seeded("agent.cancel.12", hears("$/cancel_request", _answers_it))
seeded("agent.cancel.13", hears(CANCEL, _cancels_all))
seeded("agent.cancel.14", Fault(says=_leaves_calls_open))
seeded("agent.cancel.15", _noting(_goes_on))
seeded("agent.cancel.16", _taking_back(_strange_number))
seeded("agent.cancel.17", hears(CANCEL, _takes_back_another))
