"""Faults in an agent's JSON-RPC."""

from __future__ import annotations

from collections.abc import Iterable

from dragoman.conformance.seeding import errors, hears, speaks, with_
from dragoman.conformance.twin import Json, Tape, seeded


def _number_for_text(_: Tape, message: Json) -> Iterable[Json]:
    id = message.get("id")
    yield {**message, "id": int(id)} if "method" not in message and isinstance(id, str) and id.isdigit() else message


def _answers(tape: Tape, message: Json) -> Iterable[Json]:
    tape.say({"jsonrpc": "2.0", "id": None, "error": {"code": -32601, "message": "Method not found"}})
    yield message


seeded("agent.rpc.01", speaks(_number_for_text))
seeded("agent.rpc.02", hears("no/such_notification", _answers))
seeded("agent.rpc.03", errors("no/such_method", with_(code=-32603)))
