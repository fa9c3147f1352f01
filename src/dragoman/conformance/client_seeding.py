"""Short ways to write a fault of a client: it breaks down at something, does not hear it, answers what it should not.

Beside `seeding`, whose edits of messages serve both sides; what is heard here may also be bytes that are no message.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from dragoman.conformance.client_twin import ClientFault
from dragoman.conformance.twin import Change, Json, Tape

Meant = Callable[[Json], bool]


def dies(meant: Meant) -> ClientFault:
    """A client that breaks down when it hears such a thing (a message, or bytes that are none)."""

    def change(tape: Tape, message: Json) -> Iterable[Json]:
        if meant(message):
            tape.die()
            return ()
        return (message,)

    return ClientFault(hears=change)


def deaf(meant: Meant) -> ClientFault:
    """A client that does not hear such messages."""
    return ClientFault(hears=lambda _, message: () if meant(message) else (message,))


def answers(meant: Meant, id: Json, **error: Json) -> ClientFault:
    """A client that answers what wants no answer."""

    def change(tape: Tape, message: Json) -> Iterable[Json]:
        if meant(message):
            said = {"jsonrpc": "2.0", "id": id, "error": {"code": -32603, "message": "Internal error", **error}}
            tape.say(said if id != "none" else {k: v for k, v in said.items() if k != "id"})
        return (message,)

    return ClientFault(hears=change)


def is_call(method: str) -> Meant:
    """Messages of this method."""
    return lambda message: isinstance(message, dict) and message.get("method") == method


def says(change: Change) -> ClientFault:
    """A client that says it otherwise."""
    return ClientFault(says=change)
