"""Clients that answer permission requests wrongly."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from tests.conformance.faults.edits import disconnect_on, edit_replies, fail_with, ignore_on, is_call
from tests.conformance.faults.fault import ClientFault, FaultContext, Json, seed

METHOD = "session/request_permission"
SELECTED = {"outcome": "selected"}


def _params(context: FaultContext, reply: Json) -> dict[str, Json]:
    """Return the params of the request that this answers."""
    for request in context.requests_in.values():
        if request.get("id") == reply.get("id") and "params" in request:
            return dict(request["params"])
    return {}


def _where(matches: Callable[[dict[str, Json]], bool], result: Json) -> ClientFault:
    """Answer requests that match with this result."""

    def edit_message(context: FaultContext, message: Json) -> Iterable[Json]:
        if "result" in message and matches(_params(context, message)):
            return [{**message, "result": result(message["result"]) if callable(result) else result}]
        return [message]

    return ClientFault(outgoing=edit_replies(METHOD, edit_message).outgoing)


def _refuses(matches: Callable[[dict[str, Json]], bool]) -> ClientFault:
    """Answer requests that match with an error."""

    def edit_message(context: FaultContext, message: Json) -> Iterable[Json]:
        return (
            fail_with(-32602, "Invalid params")(context, message) if matches(_params(context, message)) else [message]
        )

    return ClientFault(outgoing=edit_replies(METHOD, edit_message).outgoing)


def _kinds(request: dict[str, Json]) -> list[str]:
    options = request.get("options")
    return [option.get("kind", "") for option in options] if isinstance(options, list) else []


def _says_little(request: dict[str, Json]) -> bool:
    call = request.get("toolCall")
    return isinstance(call, dict) and "kind" not in call


def _picks(id: str) -> Json:
    return {"outcome": {**SELECTED, "optionId": id}}


def _trimmed(result: Json) -> Json:
    id = result["outcome"].get("optionId")
    return result if id is None else _picks(id.strip().lower())


def _flat(result: Json) -> Json:
    return dict(result["outcome"]) if result["outcome"].get("outcome") == "selected" else result


def _makes_up(matches: Callable[[dict[str, Json]], bool]) -> ClientFault:
    return _where(matches, _picks("allow_once"))


def _empty(context: FaultContext, message: Json) -> Iterable[Json]:
    if not _params(context, message).get("options"):
        return [{"jsonrpc": "2.0", "id": message["id"], "result": _picks("")}]
    return [message]


def _unfilled(context: FaultContext, message: Json) -> Iterable[Json]:
    return [{**message, "result": {"action": "accept", "content": {}}}]


def _agrees(context: FaultContext, message: Json) -> Iterable[Json]:
    link = _params(context, message).get("mode") == "url"
    return [{"jsonrpc": "2.0", "id": message["id"], "result": {"action": "accept"}} if link else message]


seed(
    "client.permission.01",
    _makes_up(lambda request: _kinds(request)[:1] == ["allow_once"] and len(_kinds(request)) == 3),
)
seed("client.permission.02", _where(lambda request: True, _flat))
seed("client.permission.03", _where(lambda request: True, _trimmed))
seed("client.permission.04", _refuses(lambda request: "defer" in _kinds(request)))
seed("client.permission.05", ClientFault(outgoing=edit_replies(METHOD, _empty).outgoing))
seed("client.permission.06", ignore_on(lambda message: isinstance(message, dict) and message.get("id") == "second"))
seed("client.permission.07", _refuses(_says_little))
seed("client.permission.08", _makes_up(lambda request: _kinds(request) == ["reject_once"]))
seed(
    "client.permission.09",
    edit_replies("elicitation/create", lambda _, m: [{**m, "result": {"action": "ok", "content": {"name": "A"}}}]),
)
seed("client.permission.10", edit_replies("elicitation/create", _unfilled))
seed("client.permission.11", edit_replies("elicitation/create", _agrees))
seed("client.permission.12", disconnect_on(is_call("elicitation/complete")))
