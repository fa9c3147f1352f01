"""Clients that break down, or wait for ever, at the end of a turn."""

from __future__ import annotations

from collections.abc import Iterable

from dragoman.conformance.client_seeding import deaf, dies
from dragoman.conformance.client_twin import ClientFault
from dragoman.conformance.seeding import listens, speaks
from dragoman.conformance.twin import Json, Tape, seeded


def result(message: Json) -> dict[str, Json]:
    """The result of an answer, empty when it has none."""
    found = message.get("result") if isinstance(message, dict) else None
    return found if isinstance(found, dict) else {}


def _needs_text(tape: Tape, message: Json) -> Iterable[Json]:
    """A turn in which nothing was said is not over for it."""
    if message.get("method") == "session/update":
        tape.notes["said"] = True
    return [] if "stopReason" in result(message) and "said" not in tape.notes else [message]


for _number, _reason in {
    "01": "max_tokens",
    "02": "max_turn_requests",
    "03": "refusal",
    "05": "out_of_credits",
    "09": "error",
}.items():
    seeded(f"client.turn.{_number}", dies(lambda message, reason=_reason: result(message).get("stopReason") == reason))  # type: ignore[misc]


def _uncalled(tape: Tape, message: Json) -> Iterable[Json]:
    """Waits on when a turn was cancelled by somebody else."""
    return [] if result(message).get("stopReason") == "cancelled" and not tape.notes.get("cancelled") else [message]


def _calls(tape: Tape, message: Json) -> Iterable[Json]:
    if message.get("method") in ("session/cancel", "cancel"):
        tape.notes["cancelled"] = True
    return [message]


seeded("client.turn.04", ClientFault(hears=listens(_uncalled).hears, says=speaks(_calls).says))
seeded("client.turn.06", dies(lambda message: "usage" in result(message) and result(message)["usage"] is None))
seeded("client.turn.07", dies(lambda message: "quota" in result(message)))
seeded(
    "client.turn.08",
    deaf(lambda message: isinstance(message, dict) and message.get("error", {}).get("code") == -32603),
)
seeded("client.turn.10", listens(_needs_text))
seeded(
    "client.turn.11",
    dies(lambda message: isinstance(message, dict) and isinstance(message.get("error", {}).get("data"), list)),
)
seeded(
    "client.turn.12",
    deaf(lambda message: isinstance(message, dict) and message.get("error", {}).get("code") == -32002),
)
