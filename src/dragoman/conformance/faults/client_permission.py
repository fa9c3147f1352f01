"""Clients that answer questions wrongly."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from dragoman.conformance.client_seeding import deaf, dies, is_call
from dragoman.conformance.client_twin import ClientFault
from dragoman.conformance.seeding import fails, replies
from dragoman.conformance.twin import Json, Tape, seeded

METHOD = "session/request_permission"
SELECTED = {"outcome": "selected"}


def _params(tape: Tape, reply: Json) -> dict[str, Json]:
    """What was asked, for an answer to it."""
    for asked in tape.heard.values():
        if asked.get("id") == reply.get("id") and "params" in asked:
            return dict(asked["params"])
    return {}


def _where(meant: Callable[[dict[str, Json]], bool], result: Json) -> ClientFault:
    """Where such a thing was asked, this is the result."""

    def whole(tape: Tape, message: Json) -> Iterable[Json]:
        if "result" in message and meant(_params(tape, message)):
            return [{**message, "result": result(message["result"]) if callable(result) else result}]
        return [message]

    return ClientFault(says=replies(METHOD, whole).says)


def _refuses(meant: Callable[[dict[str, Json]], bool]) -> ClientFault:
    """Where such a thing was asked, it is an error."""

    def whole(tape: Tape, message: Json) -> Iterable[Json]:
        return fails(-32602, "Invalid params")(tape, message) if meant(_params(tape, message)) else [message]

    return ClientFault(says=replies(METHOD, whole).says)


def _kinds(asked: dict[str, Json]) -> list[str]:
    options = asked.get("options")
    return [option.get("kind", "") for option in options] if isinstance(options, list) else []


def _says_little(asked: dict[str, Json]) -> bool:
    call = asked.get("toolCall")
    return isinstance(call, dict) and "kind" not in call


def _picks(id: str) -> Json:
    return {"outcome": {**SELECTED, "optionId": id}}


def _trimmed(result: Json) -> Json:
    id = result["outcome"].get("optionId")
    return result if id is None else _picks(id.strip().lower())


def _flat(result: Json) -> Json:
    return dict(result["outcome"]) if result["outcome"].get("outcome") == "selected" else result


def _makes_up(meant: Callable[[dict[str, Json]], bool]) -> ClientFault:
    return _where(meant, _picks("allow_once"))


def _empty(tape: Tape, message: Json) -> Iterable[Json]:
    if not _params(tape, message).get("options"):
        return [{"jsonrpc": "2.0", "id": message["id"], "result": _picks("")}]
    return [message]


def _unfilled(tape: Tape, message: Json) -> Iterable[Json]:
    return [{**message, "result": {"action": "accept", "content": {}}}]


def _agrees(tape: Tape, message: Json) -> Iterable[Json]:
    link = _params(tape, message).get("mode") == "url"
    return [{"jsonrpc": "2.0", "id": message["id"], "result": {"action": "accept"}} if link else message]


seeded("client.permission.01", _makes_up(lambda asked: _kinds(asked)[:1] == ["allow_once"] and len(_kinds(asked)) == 3))
seeded("client.permission.02", _where(lambda asked: True, _flat))
seeded("client.permission.03", _where(lambda asked: True, _trimmed))
seeded("client.permission.04", _refuses(lambda asked: "defer" in _kinds(asked)))
seeded("client.permission.05", ClientFault(says=replies(METHOD, _empty).says))
seeded("client.permission.06", deaf(lambda message: isinstance(message, dict) and message.get("id") == "second"))
seeded("client.permission.07", _refuses(_says_little))
seeded("client.permission.08", _makes_up(lambda asked: _kinds(asked) == ["reject_once"]))
seeded(
    "client.permission.09",
    replies("elicitation/create", lambda _, m: [{**m, "result": {"action": "ok", "content": {"name": "A"}}}]),
)
seeded("client.permission.10", replies("elicitation/create", _unfilled))
seeded("client.permission.11", replies("elicitation/create", _agrees))
seeded("client.permission.12", dies(is_call("elicitation/complete")))
