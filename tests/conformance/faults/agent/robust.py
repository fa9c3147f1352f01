"""Faults of an agent under hostile input."""

from __future__ import annotations

from collections.abc import Iterable

from tests.conformance.faults.edits import edit_all_incoming, edit_incoming
from tests.conformance.faults.fault import Fault, FaultContext, Json, seed


def _disconnect_in_flood(context: FaultContext, message: Json) -> Iterable[Json]:
    context.notes["flood"] = context.notes.get("flood", 0) + 1
    if context.notes["flood"] == 400:
        context.disconnect()
    yield message


def _disconnect_on_second_answer(context: FaultContext, message: Json) -> Iterable[Json]:
    if "method" not in message:
        request = context.notes.setdefault("answers", [])
        if message.get("id") in request:
            context.disconnect()
        request.append(message.get("id"))
    yield message


def _short_names(_: FaultContext, message: Json) -> Iterable[Json]:
    if len(str(message.get("method"))) < 50_000:
        yield message


def _plain_texts(_: FaultContext, message: Json) -> Iterable[Json]:
    if "\\x07" not in repr(message["params"]):
        yield message


def _accept_empty_session(context: FaultContext, message: Json) -> Iterable[Json]:
    if message["params"].get("sessionId") == "":
        context.send({"jsonrpc": "2.0", "id": message["id"], "result": {"stopReason": "end_turn"}})
    else:
        yield message


def _disconnect_after_cancels(context: FaultContext, message: Json) -> Iterable[Json]:
    context.notes["cancels"] = context.notes.get("cancels", 0) + 1
    if context.notes["cancels"] == 40:
        context.disconnect()
    yield message


def _disconnect_on_text(part: bytes) -> Fault:
    """Disconnect on a line with this in it, raw or parsed."""

    def on_incoming(context: FaultContext, message: Json) -> Iterable[Json]:
        if part.decode() in repr(message):
            context.disconnect()
        yield message

    return Fault(incoming=on_incoming)


def _answers_nonsense(context: FaultContext, message: Json) -> Iterable[Json]:
    if not isinstance(message["params"].get("sessionId"), str):
        context.send({"jsonrpc": "2.0", "id": None, "result": {}})
    yield message


def _limit_sessions(context: FaultContext, message: Json) -> Iterable[Json]:
    context.notes["sessions"] = context.notes.get("sessions", 0) + 1
    if context.notes["sessions"] < 10:
        yield message
    else:
        error = {"code": -32603, "message": "too many sessions"}
        context.send({"jsonrpc": "2.0", "id": message["id"], "error": error})


seed("agent.robust.01", edit_incoming("_flood/notification", _disconnect_in_flood))
seed("agent.robust.02", edit_all_incoming(_disconnect_on_second_answer))
seed("agent.robust.03", edit_all_incoming(_short_names))
seed("agent.robust.04", edit_incoming("session/prompt", _plain_texts))
seed("agent.robust.05", edit_incoming("session/prompt", _accept_empty_session))
seed("agent.robust.06", edit_incoming("session/cancel", _disconnect_after_cancels))
seed("agent.robust.08", _disconnect_on_text(b"922"))
seed("agent.robust.09", _disconnect_on_text(b"99999999999999999999"))
seed("agent.robust.10", edit_incoming("session/cancel", _answers_nonsense))
seed("agent.robust.11", edit_incoming("session/new", _limit_sessions))
seed("agent.robust.12", _disconnect_on_text(b"'method': 5"))
