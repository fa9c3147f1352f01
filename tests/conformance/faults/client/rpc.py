"""Faults of JSON-RPC at a client."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from tests.conformance.faults.edits import (
    MessageEdit,
    answer_on,
    disconnect_on,
    edit_all_incoming,
    edit_all_outgoing,
    edit_outgoing,
    edit_replies,
    ignore_on,
    is_call,
)
from tests.conformance.faults.fault import ClientFault, FaultContext, Json, seed


def _with_id(edit: Callable[[Json], Json]) -> MessageEdit:
    def edit_message(_: FaultContext, message: Json) -> Iterable[Json]:
        yield {**message, "id": edit(message.get("id"))} if "method" not in message else message

    return edit_message


def _noisy(_: FaultContext, message: Json) -> Iterable[Json]:
    yield message
    if isinstance(message, dict) and message.get("method") == "session/new":
        yield b"opening a session now"


def _same_id(context: FaultContext, message: Json) -> Iterable[Json]:
    """The prompt has the id that initialize had."""
    if message.get("method") == "session/prompt":
        context.notes["prompt"] = message["id"]
        return [{**message, "id": _introduction(context)}]
    return [message]


def _introduction(context: FaultContext) -> Json:
    return next(each["id"] for each in context.requests_out.values() if each.get("method") == "initialize")


def _same_id_back(context: FaultContext, message: Json) -> Iterable[Json]:
    """Its own bookkeeping must still work, or it would never see the end of a turn."""
    if "method" not in message and "prompt" in context.notes and message.get("id") == _introduction(context):
        return [{**message, "id": context.notes["prompt"]}]
    return [message]


def _no_id(matches: Callable[[Json], bool]) -> ClientFault:
    """A client that takes such an error for the answer to its request."""

    def change(context: FaultContext, message: Json) -> Iterable[Json]:
        if isinstance(message, dict) and "error" in message and matches(message):
            last = list(context.requests_out.values())[-1]
            return [{**message, "id": last["id"]}]
        return (message,)

    return ClientFault(incoming=change)


def _mixed_up(context: FaultContext, message: Json) -> Iterable[Json]:
    """Take a request with the id of our open prompt for its answer."""
    prompts = [each["id"] for each in context.requests_out.values() if each.get("method") == "session/prompt"]
    if "method" in message and message.get("id") in prompts:
        return [{"jsonrpc": "2.0", "id": message["id"], "result": {"stopReason": "end_turn"}}]
    return [message]


def _second_answer(context: FaultContext, message: Json) -> Iterable[Json]:
    if "method" not in message and "id" in message:
        request = context.notes.setdefault("seen", [])
        if message["id"] in request:
            context.disconnect()
            return ()
        request.append(message["id"])
    return [message]


def _only_three(context: FaultContext, message: Json) -> Iterable[Json]:
    """Forget more than three requests at once."""
    if message.get("method") == "_vendor/many":
        context.notes["many"] = context.notes.get("many", 0) + 1
        if context.notes["many"] > 3:
            return []
    return [message]


def _forgives(context: FaultContext, message: Json) -> Iterable[Json]:
    """Ignore an error with an unknown code."""
    error = message.get("error")
    return [] if isinstance(error, dict) and error.get("code", 0) > 0 else [message]


def _loses_interest(context: FaultContext, message: Json) -> Iterable[Json]:
    """Never answer a cancelled request."""
    if "method" not in message and message.get("id") in context.notes.get("taken", []):
        return []
    return [message]


def _notes_taken(context: FaultContext, message: Json) -> Iterable[Json]:
    if isinstance(message, dict) and message.get("method") == "$/cancel_request":
        context.notes.setdefault("taken", []).append(message["params"]["requestId"])
    return [message]


def _batches(context: FaultContext, message: Json) -> Iterable[Json]:
    """Answer the parts of an array as if nothing were wrong."""
    if isinstance(message, list):
        for each in message:
            if "id" in each:
                context.send({"jsonrpc": "2.0", "id": each["id"], "result": None})
    return [message]


def _parse_error(context: FaultContext, message: Json) -> Iterable[Json]:
    if isinstance(message, bytes) and message.endswith(b'"id":'):
        context.send({"jsonrpc": "2.0", "id": 0, "error": {"code": -32603, "message": "Internal error"}})
    return [message]


def _accepts(_: FaultContext, message: Json) -> Iterable[Json]:
    yield {"jsonrpc": "2.0", "id": message["id"], "result": None}


def _stringly(_: FaultContext, message: Json) -> Iterable[Json]:
    yield {**message, "error": {**message["error"], "code": str(message["error"]["code"])}}


def _both(_: FaultContext, message: Json) -> Iterable[Json]:
    yield {**message, "result": None}


def _last(message: Json) -> bool:
    return isinstance(message, dict) and "method" in message and "id" in message and list(message)[-1] == "id"


def _grants(_: FaultContext, message: Json) -> Iterable[Json]:
    outcome = {"outcome": {"outcome": "cancelled"}}
    return [{"jsonrpc": "2.0", "id": message["id"], "result": outcome} if message["id"] == "mistyped" else message]


seed("client.rpc.01", edit_all_outgoing(lambda _, message: [{k: v for k, v in message.items() if k != "jsonrpc"}]))
seed("client.rpc.02", edit_outgoing(_noisy))
seed(
    "client.rpc.03",
    ClientFault(outgoing=edit_all_outgoing(_same_id).outgoing, incoming=edit_all_incoming(_same_id_back).incoming),
)
seed("client.rpc.04", ignore_on(is_call("craft/no_such_method")))
seed("client.rpc.05", edit_replies("_vendor/no_such_extension", _accepts))
seed("client.rpc.06", answer_on(is_call("qwen/notify/session/prompt-suggestion"), "none"))
seed("client.rpc.07", answer_on(is_call("_auth/status_update"), None))
seed("client.rpc.08", disconnect_on(lambda message: isinstance(message, bytes) and message.endswith(b"session/upda")))
seed("client.rpc.09", ClientFault(incoming=_parse_error))
seed("client.rpc.10", disconnect_on(lambda message: isinstance(message, int)))
seed("client.rpc.11", disconnect_on(lambda message: isinstance(message, list) and len(message) > 1))
seed("client.rpc.12", ClientFault(incoming=_batches))
seed("client.rpc.13", disconnect_on(lambda message: isinstance(message, dict) and message.get("id") == 987654))
seed("client.rpc.14", _no_id(lambda message: "id" not in message))
seed("client.rpc.15", _no_id(lambda message: "id" in message and message["id"] is None))
seed("client.rpc.16", edit_all_outgoing(_with_id(lambda id: id[:16] if isinstance(id, str) and len(id) > 30 else id)))
seed("client.rpc.17", edit_all_incoming(_mixed_up))
seed("client.rpc.18", ignore_on(_last))
seed("client.rpc.19", edit_all_incoming(_second_answer))
seed("client.rpc.20", edit_all_outgoing(_with_id(lambda id: int(id) if isinstance(id, str) and id.isdigit() else id)))
seed(
    "client.rpc.21",
    ignore_on(lambda message: isinstance(message, dict) and "method" in message and message.get("id", 1) == 0),
)
seed("client.rpc.22", ignore_on(lambda message: isinstance(message, dict) and "trace" in message))
seed("client.rpc.23", edit_replies("_vendor/question", _stringly))
seed("client.rpc.24", edit_replies("_dragoman/fence", _both))
seed(
    "client.rpc.25",
    ignore_on(
        lambda message: (
            isinstance(message, dict) and "id" in message and "method" in message and "params" not in message
        )
    ),
)
seed("client.rpc.26", edit_all_incoming(_only_three))
seed("client.rpc.27", edit_all_incoming(_forgives))
seed("client.rpc.28", ClientFault(incoming=_notes_taken, outgoing=edit_all_outgoing(_loses_interest).outgoing))
seed("client.rpc.29", answer_on(is_call("$/cancel_request"), None))
seed("client.rpc.30", edit_replies("session/request_permission", _grants))
