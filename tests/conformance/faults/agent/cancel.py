"""Faults in how an agent cancels."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from tests.conformance.faults.edits import edit_incoming, fail_with
from tests.conformance.faults.fault import Fault, FaultContext, Json, seed

CANCEL, PROMPT = "session/cancel", "session/prompt"


def _noting(ends: Callable[[FaultContext, Json], Iterable[Json]]) -> Fault:
    """Change the answer to a prompt; the notes have the number of cancels, and whether a turn ran."""

    def hearing(context: FaultContext, message: Json) -> Iterable[Json]:
        if isinstance(message, dict) and message.get("method") == CANCEL:
            if not context.is_running():
                context.notes["idle"] = True
            else:
                context.notes["cancels"] = context.notes.get("cancels", 0) + 1
                prompts = [each for each in context.open.values() if each["method"] == PROMPT]
                context.notes["at once"] = context.notes.get("last") == PROMPT and len(prompts) == 1
        if isinstance(message, dict) and "method" in message:
            context.notes["last"] = message["method"]
        yield message

    def saying(context: FaultContext, message: Json) -> Iterable[Json]:
        context.notes["last"] = ""
        return ends(context, message) if context.method(message) == PROMPT else (message,)

    return Fault(outgoing=saying, incoming=hearing)


def _is_cancelled(context: FaultContext, message: Json) -> bool:
    return bool(context.notes.get("cancels")) and message.get("result", {}).get("stopReason") == "cancelled"


def _ended(message: Json, reason: str) -> Json:
    return {**message, "result": {"stopReason": reason}}


def _never(context: FaultContext, message: Json) -> Iterable[Json]:
    return () if _is_cancelled(context, message) and not _special(context) else (message,)


def _special(context: FaultContext) -> bool:
    """Return whether other requirements cover this case."""
    asked = any(each["method"] == "session/request_permission" for each in context.requests_out.values())
    prompts = [each for each in context.requests_in.values() if each["method"] == PROMPT]
    return asked or context.notes.get("at once", False) or context.notes["cancels"] > 1 or len(prompts) > 1


def _error(context: FaultContext, message: Json) -> Iterable[Json]:
    return (
        fail_with(-32603, "aborted")(context, message)
        if _is_cancelled(context, message) and not _special(context)
        else (message,)
    )


def _end_turn(context: FaultContext, message: Json) -> Iterable[Json]:
    yield _ended(message, "end_turn") if _is_cancelled(context, message) and not _special(context) else message


def _sticky(context: FaultContext, message: Json) -> Iterable[Json]:
    sticks = context.notes.get("sticks")
    context.notes["sticks"] = sticks or _is_cancelled(context, message)
    yield _ended(message, "cancelled") if sticks else message


def _remembers(context: FaultContext, message: Json) -> Iterable[Json]:
    yield _ended(message, "cancelled") if context.notes.get("idle") else message


def _complains(context: FaultContext, message: Json) -> Iterable[Json]:
    if "no-such-session" in str(message):
        context.send({"jsonrpc": "2.0", "error": {"code": -32602, "message": "unknown session"}})
    yield message


def _wrong_at_questions(context: FaultContext, message: Json) -> Iterable[Json]:
    asked = any(each["method"] == "session/request_permission" for each in context.requests_out.values())
    yield _ended(message, "end_turn") if asked and context.notes.get("cancels") else message


def _dies_of_late_answers(context: FaultContext, message: Json) -> Iterable[Json]:
    if isinstance(message, dict) and "outcome" in str(message.get("result")) and not context.is_running():
        context.disconnect()
    yield message


def _twice(context: FaultContext, message: Json) -> Iterable[Json]:
    yield message
    if context.notes.get("cancels", 0) > 1:
        yield message


def _not_at_once(context: FaultContext, message: Json) -> Iterable[Json]:
    alone = context.notes.get("at once") and context.notes["cancels"] == 1 and not context.requests_out
    return () if alone else (message,)


def _forgets(context: FaultContext, message: Json) -> Iterable[Json]:
    taken = [each for each in context.requests_in.values() if each["method"] == PROMPT]
    return () if context.notes.get("taken back") and taken else (message,)


def _taking_back(says: Callable[[FaultContext, Json], Iterable[Json]]) -> Fault:
    def hearing(context: FaultContext, message: Json) -> Iterable[Json]:
        if isinstance(message, dict) and message.get("method") == "$/cancel_request":
            context.notes["taken back"] = True
        yield message

    def saying(context: FaultContext, message: Json) -> Iterable[Json]:
        return says(context, message) if context.method(message) == PROMPT else (message,)

    return Fault(outgoing=saying, incoming=hearing)


def _strange_number(context: FaultContext, message: Json) -> Iterable[Json]:
    return fail_with(-32603)(context, message) if context.notes.get("taken back") else (message,)


def _answers_it(context: FaultContext, message: Json) -> Iterable[Json]:
    if message["params"].get("requestId") == 999_999:
        context.send({"jsonrpc": "2.0", "id": None, "error": {"code": -32601, "message": "Method not found"}})
    yield message


def _cancels_all(context: FaultContext, message: Json) -> Iterable[Json]:
    yield message
    for request in list(context.open.values()):
        session = (request.get("params") or {}).get("sessionId")
        if request["method"] == PROMPT and session != message["params"].get("sessionId"):
            yield {**message, "params": {"sessionId": session}}


def _leaves_calls_open(context: FaultContext, message: Json) -> Iterable[Json]:
    is_update = isinstance(message, dict) and message.get("method") == "session/update"
    cancelling = any(each["method"] == CANCEL for each in context.notifications_in)
    if not (is_update and cancelling and "tool_call_update" in str(message)):
        yield message


def _goes_on(context: FaultContext, message: Json) -> Iterable[Json]:
    yield message
    if _is_cancelled(context, message):
        chunk = {"sessionUpdate": "agent_message_chunk", "content": {"type": "text", "text": "as I said"}}
        session = context.request(message)["params"]["sessionId"]
        yield {"jsonrpc": "2.0", "method": "session/update", "params": {"sessionId": session, "update": chunk}}


def _takes_back_another(context: FaultContext, message: Json) -> Iterable[Json]:
    asked = [each["method"] for each in context.requests_out.values()]
    if context.is_running() and asked and asked[-1] == "session/request_permission":
        context.send({"jsonrpc": "2.0", "method": "$/cancel_request", "params": {"requestId": 424_242}})
    yield message


seed("agent.cancel.01", _noting(_never))
seed("agent.cancel.02", _noting(_error))
seed("agent.cancel.03", _noting(_end_turn))
seed("agent.cancel.04", _noting(_sticky))
seed("agent.cancel.05", _noting(_remembers))
seed("agent.cancel.06", edit_incoming(CANCEL, _complains))
seed("agent.cancel.07", _noting(_wrong_at_questions))
seed("agent.cancel.08", Fault(incoming=_dies_of_late_answers))
seed("agent.cancel.09", _noting(_twice))
seed("agent.cancel.10", _noting(_not_at_once))
seed("agent.cancel.11", _taking_back(_forgets))
seed("agent.cancel.12", edit_incoming("$/cancel_request", _answers_it))
seed("agent.cancel.13", edit_incoming(CANCEL, _cancels_all))
seed("agent.cancel.14", Fault(outgoing=_leaves_calls_open))
seed("agent.cancel.15", _noting(_goes_on))
seed("agent.cancel.16", _taking_back(_strange_number))
seed("agent.cancel.17", edit_incoming(CANCEL, _takes_back_another))
