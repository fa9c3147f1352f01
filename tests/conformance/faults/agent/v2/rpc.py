"""Faults in the JSON-RPC of a v2 agent."""

from __future__ import annotations

from collections.abc import Iterable

from tests.conformance.faults.edits import edit_errors, edit_incoming, with_, without
from tests.conformance.faults.fault import Fault, FaultContext, Json, seed
from tests.conformance.faults.v2_edits import answer_with, edit_answer, params_have

RESULT: Json = {"sessions": []}


def _null_id(context: FaultContext, message: Json) -> Iterable[Json]:
    if isinstance(message, dict) and "method" in message and message.get("id", 0) is None:
        context.send({"jsonrpc": "2.0", "id": None, "result": RESULT})
        return ()
    return (message,)


def _fraction(context: FaultContext, message: Json) -> Iterable[Json]:
    if isinstance(message, dict) and message.get("id") == 1.5:
        context.send({"jsonrpc": "2.0", "id": 1.5, "result": RESULT})
        return ()
    return (message,)


def _take_apart(_: FaultContext, message: Json) -> Iterable[Json]:
    return message if isinstance(message, list) and message else (message,)


def _ignore_empty(_: FaultContext, message: Json) -> Iterable[Json]:
    return () if message == [] else (message,)


def _stop(context: FaultContext, message: Json) -> Iterable[Json]:
    if isinstance(message, dict) and message.get("id") == 2.5:
        context.notes["stopped"] = True
    return () if context.notes.get("stopped") else (message,)


def _text_id(_: FaultContext, message: Json) -> Iterable[Json]:
    is_reply = isinstance(message, dict) and "method" not in message and message.get("id") == -7
    return ({**message, "id": "-7"} if is_reply else message,)


def _answer_noise(context: FaultContext, message: Json) -> Iterable[Json]:
    if isinstance(message, bytes):
        context.send({"jsonrpc": "2.0", "id": 9, "error": {"code": -32700, "message": "Parse error"}})
        return ()
    return (message,)


def _answer_notification(context: FaultContext, message: Json) -> Iterable[Json]:
    context.send({"jsonrpc": "2.0", "id": None, "error": {"code": -32601, "message": "Method not found"}})
    return (message,)


def _internal(_: FaultContext, message: Json) -> Json:
    return {**message, "error": {**message["error"], "code": -32603}} if "error" in message else message


def _mute(_: FaultContext, message: Json) -> Json:
    return {**message, "error": without("message")(message["error"])} if "error" in message else message


seed("agent.v2rpc.01", Fault(incoming=_null_id))
seed("agent.v2rpc.02", Fault(incoming=_fraction))
seed("agent.v2rpc.03", Fault(incoming=_take_apart))
seed("agent.v2rpc.04", Fault(incoming=_ignore_empty))
seed("agent.v2rpc.05", Fault(incoming=_stop))
seed("agent.v2rpc.06", Fault(outgoing=_text_id))
seed("agent.v2rpc.07", edit_errors("no/such_method", with_(code=-32600)))
seed("agent.v2rpc.08", edit_errors("_example.org/unknown", with_(code=-32000)))
seed("agent.v2rpc.09", answer_with("session/load", {}))
seed("agent.v2rpc.10", answer_with("session/set_mode", {}))
seed("agent.v2rpc.11", answer_with("authenticate", {}))
seed("agent.v2rpc.12", edit_incoming("no/such_notification", _answer_notification))
seed("agent.v2rpc.13", Fault(incoming=_answer_noise))
seed("agent.v2rpc.14", edit_answer("session/prompt", _internal, lambda _, m: m["params"] == {}))
seed("agent.v2rpc.15", edit_answer("session/resume", _mute, params_have(sessionId=5)))
