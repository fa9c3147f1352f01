"""Faults in how an agent cancels."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from tests.conformance.faults.edits import edit_incoming, fail_with
from tests.conformance.faults.fault import Fault, FaultContext, Json, seed

CANCEL, PROMPT = "session/cancel", "session/prompt"


def _with_cancel_notes(ends: Callable[[FaultContext, Json], Iterable[Json]]) -> Fault:
    """Change the answer to a prompt; the notes have the number of cancels, and whether a turn ran."""

    def on_incoming(context: FaultContext, message: Json) -> Iterable[Json]:
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

    def on_outgoing(context: FaultContext, message: Json) -> Iterable[Json]:
        context.notes["last"] = ""
        return ends(context, message) if context.method(message) == PROMPT else (message,)

    return Fault(outgoing=on_outgoing, incoming=on_incoming)


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


def _stay_cancelled(context: FaultContext, message: Json) -> Iterable[Json]:
    is_sticky = context.notes.get("sticks")
    context.notes["sticks"] = is_sticky or _is_cancelled(context, message)
    yield _ended(message, "cancelled") if is_sticky else message


def _cancel_after_idle_cancel(context: FaultContext, message: Json) -> Iterable[Json]:
    yield _ended(message, "cancelled") if context.notes.get("idle") else message


def _answer_unknown_session(context: FaultContext, message: Json) -> Iterable[Json]:
    if "no-such-session" in str(message):
        context.send({"jsonrpc": "2.0", "error": {"code": -32602, "message": "unknown session"}})
    yield message


def _wrong_at_questions(context: FaultContext, message: Json) -> Iterable[Json]:
    asked = any(each["method"] == "session/request_permission" for each in context.requests_out.values())
    yield _ended(message, "end_turn") if asked and context.notes.get("cancels") else message


def _disconnect_on_late_answer(context: FaultContext, message: Json) -> Iterable[Json]:
    if isinstance(message, dict) and "outcome" in str(message.get("result")) and not context.is_running():
        context.disconnect()
    yield message


def _answer_twice(context: FaultContext, message: Json) -> Iterable[Json]:
    yield message
    if context.notes.get("cancels", 0) > 1:
        yield message


def _not_at_once(context: FaultContext, message: Json) -> Iterable[Json]:
    alone = context.notes.get("at once") and context.notes["cancels"] == 1 and not context.requests_out
    return () if alone else (message,)


def _never_answer_cancelled(context: FaultContext, message: Json) -> Iterable[Json]:
    taken = [each for each in context.requests_in.values() if each["method"] == PROMPT]
    return () if context.notes.get("taken back") and taken else (message,)


def _on_cancel_request(says: Callable[[FaultContext, Json], Iterable[Json]]) -> Fault:
    def on_incoming(context: FaultContext, message: Json) -> Iterable[Json]:
        if isinstance(message, dict) and message.get("method") == "$/cancel_request":
            context.notes["taken back"] = True
        yield message

    def on_outgoing(context: FaultContext, message: Json) -> Iterable[Json]:
        return says(context, message) if context.method(message) == PROMPT else (message,)

    return Fault(outgoing=on_outgoing, incoming=on_incoming)


def _strange_number(context: FaultContext, message: Json) -> Iterable[Json]:
    return fail_with(-32603)(context, message) if context.notes.get("taken back") else (message,)


def _answer_unknown_request(context: FaultContext, message: Json) -> Iterable[Json]:
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


def _update_after_cancel(context: FaultContext, message: Json) -> Iterable[Json]:
    yield message
    if _is_cancelled(context, message):
        chunk = {"sessionUpdate": "agent_message_chunk", "content": {"type": "text", "text": "as I said"}}
        session = context.request(message)["params"]["sessionId"]
        yield {"jsonrpc": "2.0", "method": "session/update", "params": {"sessionId": session, "update": chunk}}


def _cancel_unknown_request(context: FaultContext, message: Json) -> Iterable[Json]:
    asked = [each["method"] for each in context.requests_out.values()]
    if context.is_running() and asked and asked[-1] == "session/request_permission":
        context.send({"jsonrpc": "2.0", "method": "$/cancel_request", "params": {"requestId": 424_242}})
    yield message


seed("agent.cancel.01", _with_cancel_notes(_never))
seed("agent.cancel.02", _with_cancel_notes(_error))
seed("agent.cancel.03", _with_cancel_notes(_end_turn))
seed("agent.cancel.04", _with_cancel_notes(_stay_cancelled))
seed("agent.cancel.05", _with_cancel_notes(_cancel_after_idle_cancel))
seed("agent.cancel.06", edit_incoming(CANCEL, _answer_unknown_session))
seed("agent.cancel.07", _with_cancel_notes(_wrong_at_questions))
seed("agent.cancel.08", Fault(incoming=_disconnect_on_late_answer))
seed("agent.cancel.09", _with_cancel_notes(_answer_twice))
seed("agent.cancel.10", _with_cancel_notes(_not_at_once))
seed("agent.cancel.11", _on_cancel_request(_never_answer_cancelled))
seed("agent.cancel.12", edit_incoming("$/cancel_request", _answer_unknown_request))
seed("agent.cancel.13", edit_incoming(CANCEL, _cancels_all))
seed("agent.cancel.14", Fault(outgoing=_leaves_calls_open))
seed("agent.cancel.15", _with_cancel_notes(_update_after_cancel))
seed("agent.cancel.16", _on_cancel_request(_strange_number))
seed("agent.cancel.17", edit_incoming(CANCEL, _cancel_unknown_request))
