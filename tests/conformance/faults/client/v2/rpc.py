"""Faults in the JSON-RPC of a v2 client."""

from __future__ import annotations

from collections.abc import Iterable

from tests.conformance.faults.edits import disconnect_on, ignore_on, is_call
from tests.conformance.faults.fault import ClientFault, FaultContext, Json, seed

ABSENT = "absent"


def _answer_id(id: Json) -> ClientFault:
    """Answer a request with this id with a result."""

    def change(context: FaultContext, message: Json) -> Iterable[Json]:
        if isinstance(message, dict) and "method" in message and message.get("id", ABSENT) == id:
            context.send({"jsonrpc": "2.0", "id": id, "result": {}})
            return ()
        return (message,)

    return ClientFault(incoming=change)


def _answer_method(context: FaultContext, message: Json) -> Iterable[Json]:
    if is_call("no/such_method")(message):
        context.send({"jsonrpc": "2.0", "id": message["id"], "result": {}})
        return ()
    return (message,)


def _shorten(_: FaultContext, message: Json) -> Iterable[Json]:
    is_reply = isinstance(message, dict) and message.get("id") == "question-7"
    return ({**message, "id": "question"} if is_reply else message,)


seed("client.v2rpc.01", _answer_id(None))
seed("client.v2rpc.02", _answer_id(1.5))
seed("client.v2rpc.03", ignore_on(lambda message: isinstance(message, list)))
seed("client.v2rpc.04", ClientFault(incoming=_answer_method))
seed("client.v2rpc.05", disconnect_on(is_call("_vendor/unknown_notification")))
seed("client.v2rpc.06", disconnect_on(lambda message: isinstance(message, dict) and message.get("id") == 3.5))
seed("client.v2rpc.07", ClientFault(outgoing=_shorten))
