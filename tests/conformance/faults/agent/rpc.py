"""Faults in an agent's JSON-RPC."""

from __future__ import annotations

from collections.abc import Iterable

from tests.conformance.faults.edits import (
    edit_all_incoming,
    edit_all_outgoing,
    edit_errors,
    edit_incoming,
    edit_replies,
    with_,
    without,
)
from tests.conformance.faults.fault import Fault, FaultContext, Json, seed

UNKNOWN = "no/such_method"


def _number_for_text(_: FaultContext, message: Json) -> Iterable[Json]:
    id = message.get("id")
    yield {**message, "id": int(id)} if "method" not in message and isinstance(id, str) and id.isdigit() else message


def _answers(context: FaultContext, message: Json) -> Iterable[Json]:
    context.send({"jsonrpc": "2.0", "id": None, "error": {"code": -32601, "message": "Method not found"}})
    yield message


def _ids(wrong: Json, right: Json) -> Fault:
    """Answer one id as another."""

    def edit_message(context: FaultContext, message: Json) -> Iterable[Json]:
        matches = message.get("id") == right and context.method(message) == "session/new"
        yield {**message, "id": wrong} if matches else message

    return edit_all_outgoing(edit_message)


def _ignore_own_ids(context: FaultContext, message: Json) -> Iterable[Json]:
    ours = {asked["id"] for asked in context.requests_out.values()}
    if message.get("method") != UNKNOWN or message.get("id") not in ours:
        yield message


def disconnect_on_type(matches: type) -> Fault:
    """Disconnect on this line."""

    def change(context: FaultContext, message: Json) -> Iterable[Json]:
        if type(message) is matches:
            context.disconnect()
        else:
            yield message

    return Fault(incoming=change)


def _disconnect_on_partial_line(context: FaultContext, message: Json) -> Iterable[Json]:
    if isinstance(message, bytes) and b'"id": 902' in message:
        context.disconnect()
    else:
        yield message


def _disconnect_on_error_without_id(context: FaultContext, message: Json) -> Iterable[Json]:
    if message.get("id", 0) is None and "error" in message:
        context.disconnect()
    yield message


def _silent_about(code: int) -> Fault:
    def edit_message(_: FaultContext, message: Json) -> Iterable[Json]:
        if message.get("id", 0) is not None or message.get("error", {}).get("code") != code:
            yield message

    return edit_all_outgoing(edit_message)


def _refuse_unknown_members(_: FaultContext, message: Json) -> Iterable[Json]:
    """Refuse params with an unknown member."""
    yield {**message, "params": {}} if "memberOfTheFuture" in message else message


def _without_meta(_: FaultContext, message: Json) -> Iterable[Json]:
    yield {**message, "params": {}} if "_meta" in message["params"] else message


def _answers_answers(context: FaultContext, message: Json) -> Iterable[Json]:
    if message.get("id") == 904:
        context.send({"jsonrpc": "2.0", "id": 904, "error": {"code": -32600, "message": "Invalid request"}})
    yield message


def _where(holds: type | None, code: int) -> Fault:
    """Refuse prompts whose params are of this type with another code."""

    def edit_message(context: FaultContext, message: Json) -> Iterable[Json]:
        request = context.request(message)
        params = request.get("params")
        odd = params is None if holds is None else isinstance(params, holds)
        yield {**message, "error": {"code": code, "message": "Internal error"}} if odd else message

    return edit_replies("session/prompt", edit_message)


def _accepts_lists(context: FaultContext, message: Json) -> Iterable[Json]:
    if message.get("method") == "session/prompt" and isinstance(message.get("params"), list):
        context.send({"jsonrpc": "2.0", "id": message["id"], "result": {"stopReason": "end_turn"}})
    else:
        yield message


def _drop_seventh(_: FaultContext, message: Json) -> Iterable[Json]:
    if message["params"].get("number") != 7:
        yield message


def _require_member_order(_: FaultContext, message: Json) -> Iterable[Json]:
    if next(iter(message)) != "params":
        yield message


def _never_twice(context: FaultContext, message: Json) -> Iterable[Json]:
    count = context.notes["count"] = context.notes.get("count", 0) + (message.get("id") == 907)
    if message.get("id") != 907 or count == 1:
        yield message


def _result_and_error(_: FaultContext, message: Json) -> Iterable[Json]:
    yield {**message, "result": None}


def _answer_twice(context: FaultContext, message: Json) -> Iterable[Json]:
    yield message
    if context.method(message) == "session/new":
        yield message


def _unversioned(context: FaultContext, message: Json) -> Iterable[Json]:
    yield without("jsonrpc")(message) if context.method(message) == "session/new" else message


def _calls_its_own(context: FaultContext, message: Json) -> Iterable[Json]:
    if "hello there" in str(message):
        context.send({"jsonrpc": "2.0", "method": "agent/notify/suggestion", "params": {"text": "And then?"}})
    yield message


def _misreads_objects(context: FaultContext, message: Json) -> Iterable[Json]:
    if message.keys() == {"foo"}:
        context.send({"jsonrpc": "2.0", "id": None, "error": {"code": -32603, "message": "Internal error"}})
        return
    yield message


seed("agent.rpc.01", edit_all_outgoing(_number_for_text))
seed("agent.rpc.02", edit_incoming("no/such_notification", _answers))
seed("agent.rpc.03", edit_errors(UNKNOWN, with_(code=-32603)))
seed("agent.rpc.04", edit_all_outgoing(_unversioned))
seed("agent.rpc.05", edit_replies(UNKNOWN, _result_and_error))
seed("agent.rpc.06", edit_errors("session/prompt", with_(message={"text": "wrong"})))
seed("agent.rpc.07", edit_all_outgoing(_answer_twice))
seed("agent.rpc.08", _ids(None, 0))
seed("agent.rpc.09", edit_all_incoming(_ignore_own_ids))
seed("agent.rpc.10", disconnect_on_type(list))
seed("agent.rpc.11", _silent_about(-32600))
seed("agent.rpc.12", Fault(incoming=_disconnect_on_partial_line))
seed("agent.rpc.13", _silent_about(-32700))
seed("agent.rpc.14", disconnect_on_type(int))
seed("agent.rpc.15", edit_all_incoming(_refuse_unknown_members))
seed(
    "agent.rpc.16",
    edit_replies("_example.org/no_such_method", lambda _, m: [{"jsonrpc": "2.0", "id": m["id"], "result": None}]),
)
seed("agent.rpc.17", edit_incoming("session/new", _without_meta))
seed("agent.rpc.18", edit_all_incoming(_answers_answers))
seed("agent.rpc.19", edit_all_incoming(_disconnect_on_error_without_id))
seed("agent.rpc.20", _where(None, -32603))
seed("agent.rpc.21", edit_all_incoming(_accepts_lists))
seed("agent.rpc.22", edit_incoming(UNKNOWN, _drop_seventh))
seed("agent.rpc.23", edit_all_incoming(_require_member_order))
seed("agent.rpc.24", edit_incoming(UNKNOWN, _never_twice))
seed("agent.rpc.25", edit_errors("no/such_method_either", lambda _: {"code": -32601, "message": "Method not found"}))
seed("agent.rpc.26", _ids(float(2**53), 2**53 - 1))
seed("agent.rpc.27", edit_incoming("session/prompt", _calls_its_own))
seed("agent.rpc.28", edit_errors("session/load", with_(message="no session\nof that name")))
seed("agent.rpc.29", edit_all_incoming(_misreads_objects))
