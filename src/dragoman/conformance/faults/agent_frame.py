"""Faults in an agent's lines. What only a reader of bytes would do wrong is known here by the probe's id."""

from __future__ import annotations

from collections.abc import Iterable

from dragoman.conformance.seeding import listens, speaks
from dragoman.conformance.twin import Fault, Json, Tape, seeded


def deaf_to(id: str) -> Fault:
    """Requests whose id begins so are lost."""

    def whole(_: Tape, message: Json) -> Iterable[Json]:
        if not str(message.get("id", "")).startswith(id):
            yield message

    return listens(whole)


def _noisy(tape: Tape, message: Json) -> Iterable[Json]:
    if tape.method(message) == "session/new":
        yield b"agent: opening a session"
    yield message


def _deaf_to_large(_: Tape, message: Json) -> Iterable[Json]:
    if len(str(message.get("params"))) < 900_000:
        yield message


def _shallow(tape: Tape, message: Json) -> Iterable[Json]:
    """What the probe nests is too deep for the reader here as well, and comes as bytes."""
    if isinstance(message, bytes) and b"[[[[" in message:
        tape.die()
    else:
        yield message


def _dies_of_bytes(tape: Tape, message: Json) -> Iterable[Json]:
    if isinstance(message, bytes) and b"\xff" in message:
        tape.die()
    else:
        yield message


def _latin(_: Tape, message: Json) -> Iterable[Json]:
    text = str(message)
    yield b'{"jsonrpc":"2.0","method":"_agent/log","params":{"text":"Dragom\xe1n"}}' if "Dragomán" in text else message


def _quiet_after_floods(tape: Tape, message: Json) -> Iterable[Json]:
    tape.notes["said"] = tape.notes.get("said", 0) + 1
    if "method" in message or tape.notes["said"] < 1000:
        yield message


seeded("agent.frame.01", speaks(_noisy))
seeded("agent.frame.02", deaf_to("in pieces"))
seeded("agent.frame.03", deaf_to("together 2"))
seeded("agent.frame.04", deaf_to("with CR"))
seeded("agent.frame.05", deaf_to("after empty"))
seeded("agent.frame.06", listens(_deaf_to_large))
seeded("agent.frame.07", Fault(hears=_shallow))
seeded("agent.frame.08", Fault(hears=_dies_of_bytes))
seeded("agent.frame.09", deaf_to("912"))
seeded("agent.frame.10", speaks(_latin))
seeded("agent.frame.11", Fault(stays=lambda tape: not tape.busy()))
seeded("agent.frame.12", Fault(stays=lambda tape: tape.busy()))
seeded("agent.frame.13", Fault(greets=b'{"jsonrpc":"2.0","method":"_agent/ready","params":{}}'))
seeded("agent.frame.14", speaks(_quiet_after_floods))
seeded("agent.frame.15", deaf_to("trickle"))
