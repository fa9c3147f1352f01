"""Faults in how a v2 agent cancels."""

from __future__ import annotations

from collections.abc import Iterable

from tests.conformance.faults.edits import with_
from tests.conformance.faults.fault import Fault, FaultContext, Json, seed
from tests.conformance.faults.v2_edits import (
    PROMPT,
    answer_with,
    drop_update,
    during,
    edit_answer,
    edit_state,
    edit_update,
    on_request,
    only,
    prompts,
)

CANCEL, WITHDRAW = "session/cancel", "$/cancel_request"
SLOW, ASK, WAIT, ENDLESS = "/slow", "/ask", "/wait", "/terminal sleep"


def _was_cancelled(context: FaultContext, _: Json = None) -> bool:
    return any(each["method"] == CANCEL for each in context.notifications_in)


def _update(session: str, **update: Json) -> Json:
    return {"jsonrpc": "2.0", "method": "session/update", "params": {"sessionId": session, "update": update}}


def _internal(_: FaultContext, message: Json) -> Json:
    is_cancelled = message.get("error", {}).get("code") == -32800
    return {**message, "error": {"code": -32603, "message": "Internal error"}} if is_cancelled else message


def _tell_idle(context: FaultContext, message: Json) -> Iterable[Json]:
    if prompts(context)[-1:] and prompts(context)[-1].startswith("hello"):
        session = message["params"]["sessionId"]
        context.send(_update(session, sessionUpdate="state_update", state="idle", stopReason="cancelled"))
    return (message,)


def _late_answer(context: FaultContext, message: Json) -> Iterable[Json]:
    is_answer = isinstance(message, dict) and "result" in message and "method" not in message
    if is_answer and _was_cancelled(context):
        session = next(each["params"]["sessionId"] for each in context.requests_out.values() if "params" in each)
        context.send(_update(session, sessionUpdate="session_info_update", title="Thank you"))
    return (message,)


def _cancel_all(context: FaultContext, message: Json) -> Iterable[Json]:
    yield message
    sessions = {each["params"]["sessionId"] for each in context.requests_in.values() if each.get("method") == PROMPT}
    for session in sessions - {message["params"]["sessionId"]}:
        yield {**message, "params": {"sessionId": session}}


def _is_open(context: FaultContext, message: Json) -> bool:
    open = [each.get("id") for each in context.open.values()]
    return message["params"].get("requestId") in open


def _cancel_work(context: FaultContext, message: Json) -> Iterable[Json]:
    if _is_open(context, message):
        return (message,)
    prompt = next(each for each in context.requests_in.values() if each.get("id") == message["params"]["requestId"])
    return ({"jsonrpc": "2.0", "method": CANCEL, "params": {"sessionId": prompt["params"]["sessionId"]}},)


def _is_cancelled(update: Json) -> bool:
    return bool(update.get("status") == "cancelled")


def _is_known(context: FaultContext, message: Json) -> bool:
    return message["params"]["toolCallId"] != "no-such-call" and during("/tour")(context, message)


ERROR = {"code": -32603, "message": "cancelled"}

seed("agent.v2cancel.01", on_request(CANCEL, lambda *_: (), only(SLOW)))
seed("agent.v2cancel.02", edit_state("idle", with_(stopReason="end_turn"), only(SLOW)))
seed("agent.v2cancel.03", drop_update("tool_call_update", only(SLOW), _is_cancelled))
seed("agent.v2cancel.04", edit_answer(PROMPT, _internal, _was_cancelled))
seed("agent.v2cancel.05", on_request(CANCEL, _tell_idle))
seed("agent.v2cancel.06", on_request(PROMPT, lambda *_: (), _was_cancelled))
seed("agent.v2cancel.07", on_request(CANCEL, lambda *_: (), during(ASK)))
seed(
    "agent.v2cancel.08",
    Fault(outgoing=lambda _, m: () if isinstance(m, dict) and m.get("method") == WITHDRAW else (m,)),
)
seed("agent.v2cancel.09", Fault(incoming=_late_answer))
seed("agent.v2cancel.10", on_request(CANCEL, _cancel_all))
seed("agent.v2cancel.11", on_request(WITHDRAW, lambda *_: (), _is_open))
seed("agent.v2cancel.12", on_request(WITHDRAW, _cancel_work))
seed("agent.v2cancel.13", edit_state("idle", with_(error=ERROR), only(SLOW)))
seed("agent.v2cancel.14", edit_update("tool_call_update", with_(status="failed"), during(WAIT), _is_cancelled))
seed("agent.v2cancel.15", edit_state("idle", with_(stopReason="cancelled"), during(WAIT)))
seed("agent.v2cancel.16", answer_with("tool_call/cancel", {}, lambda _, m: m["params"]["toolCallId"] == "no-such-call"))
seed(
    "agent.v2cancel.17",
    answer_with("terminal/cancel", {}, lambda _, m: m["params"]["terminalId"] == "no-such-terminal"),
)
seed("agent.v2cancel.18", answer_with("tool_call/cancel", {}, _is_known))
seed("agent.v2cancel.19", drop_update("terminal_update", during(ENDLESS), lambda update: "exitStatus" in update))
