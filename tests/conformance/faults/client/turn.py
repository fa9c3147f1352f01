"""Clients that crash or wait forever at the end of a turn."""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial

from tests.conformance.faults.edits import disconnect_on, edit_all_incoming, edit_all_outgoing, ignore_on
from tests.conformance.faults.fault import ClientFault, FaultContext, Json, seed


def result(message: Json) -> dict[str, Json]:
    """Return the result of an answer, or {}."""
    found = message.get("result") if isinstance(message, dict) else None
    return found if isinstance(found, dict) else {}


def _needs_text(context: FaultContext, message: Json) -> Iterable[Json]:
    """Wait on after a turn without text."""
    if message.get("method") == "session/update":
        context.notes["said"] = True
    return [] if "stopReason" in result(message) and "said" not in context.notes else [message]


def _ended_by(reason: str, message: Json) -> bool:
    return bool(result(message).get("stopReason") == reason)


for _number, _reason in {
    "01": "max_tokens",
    "02": "max_turn_requests",
    "03": "refusal",
    "05": "out_of_credits",
    "09": "error",
}.items():
    seed(f"client.turn.{_number}", disconnect_on(partial(_ended_by, _reason)))


def _uncalled(context: FaultContext, message: Json) -> Iterable[Json]:
    """Wait on when somebody else cancelled a turn."""
    return [] if result(message).get("stopReason") == "cancelled" and not context.notes.get("cancelled") else [message]


def _calls(context: FaultContext, message: Json) -> Iterable[Json]:
    if message.get("method") in ("session/cancel", "cancel"):
        context.notes["cancelled"] = True
    return [message]


seed(
    "client.turn.04",
    ClientFault(incoming=edit_all_incoming(_uncalled).incoming, outgoing=edit_all_outgoing(_calls).outgoing),
)
seed("client.turn.06", disconnect_on(lambda message: "usage" in result(message) and result(message)["usage"] is None))
seed("client.turn.07", disconnect_on(lambda message: "quota" in result(message)))
seed(
    "client.turn.08",
    ignore_on(lambda message: isinstance(message, dict) and message.get("error", {}).get("code") == -32603),
)
seed("client.turn.10", edit_all_incoming(_needs_text))
seed(
    "client.turn.11",
    disconnect_on(lambda message: isinstance(message, dict) and isinstance(message.get("error", {}).get("data"), list)),
)
seed(
    "client.turn.12",
    ignore_on(lambda message: isinstance(message, dict) and message.get("error", {}).get("code") == -32002),
)
