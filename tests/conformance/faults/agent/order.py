"""Faults in the order of an agent's messages."""

from __future__ import annotations

from collections.abc import Iterable

from tests.conformance.faults.agent.update import also_update
from tests.conformance.faults.edits import edit_all_incoming, edit_all_outgoing, edit_incoming
from tests.conformance.faults.fault import FaultContext, Json, seed

TEXT = {"type": "text", "text": "hello there"}


def _update_frame(session: str, kind: str) -> Json:
    params = {"sessionId": session, "update": {"sessionUpdate": kind, "content": TEXT}}
    return {"jsonrpc": "2.0", "method": "session/update", "params": params}


def _usage(session: str) -> Json:
    params = {"sessionId": session, "update": {"sessionUpdate": "usage_update", "used": 1, "size": 2}}
    return {"jsonrpc": "2.0", "method": "session/update", "params": params}


def _update_before_new_answer(context: FaultContext, message: Json) -> Iterable[Json]:
    if context.method(message) == "session/new" and "result" in message:
        yield _usage(message["result"]["sessionId"])
    yield message


def _last_chunk_after_answer(context: FaultContext, message: Json) -> Iterable[Json]:
    """Hold the last piece of a plain turn until its answer is sent."""
    held = context.notes.pop("held", None)
    is_chunk = context.is_running() and message.get("method") == "session/update" and "`/help` shows" in str(message)
    if is_chunk:
        context.notes["held"] = message
        return
    yield message
    if held is not None:
        yield held


def _without_request(context: FaultContext, message: Json) -> Iterable[Json]:
    yield message
    if context.method(message) == "session/new" and "result" in message and not context.notes.get("said"):
        context.notes["said"] = True
        yield _update_frame(message["result"]["sessionId"], "agent_message_chunk")


def _swapped(context: FaultContext, message: Json) -> Iterable[Json]:
    if "chunk 00007 " in str(message):
        context.notes["held"] = message
        return
    yield message
    if "chunk 00008 " in str(message) and "held" in context.notes:
        yield context.notes.pop("held")


def _ignore_requests_in_turn(context: FaultContext, message: Json) -> Iterable[Json]:
    waiting = any(each["method"] == "session/request_permission" for each in context.requests_out.values())
    if not (message.get("method") == "no/such_method" and context.is_running() and not waiting):
        yield message


def _waiting(context: FaultContext, message: Json) -> Iterable[Json]:
    waiting = [each for each in context.requests_out.values() if each["method"] == "session/request_permission"]
    collides = message.get("id") in {each["id"] for each in waiting}
    if not (message.get("method") == "no/such_method" and context.is_running() and waiting and not collides):
        yield message


def _update_before_fork_answer(context: FaultContext, message: Json) -> Iterable[Json]:
    if context.method(message) == "session/fork" and "result" in message:
        yield _update_frame(message["result"]["sessionId"], "user_message_chunk")
    yield message


def _not_in_a_turn(context: FaultContext, message: Json) -> Iterable[Json]:
    if not context.is_running():
        yield message


seed("agent.order.01", edit_all_outgoing(_update_before_new_answer))
seed("agent.order.02", edit_all_outgoing(_last_chunk_after_answer))
seed("agent.order.03", edit_all_outgoing(_without_request))
seed("agent.order.04", edit_all_outgoing(_swapped))
seed("agent.order.05", edit_all_incoming(_ignore_requests_in_turn))
seed("agent.order.06", also_update("hello there", {"sessionUpdate": "user_message_chunk", "content": TEXT}))
seed("agent.order.07", edit_all_outgoing(_update_before_fork_answer))
seed("agent.order.08", edit_all_incoming(_waiting))
seed("agent.order.09", edit_incoming("session/set_mode", _not_in_a_turn))
seed("agent.order.10", edit_incoming("session/new", _not_in_a_turn))
