"""What a ledger is: a dialect's memory of one connection, and the effects its flows ask for.

A ledger has a table of flows for what comes in and one for what goes out. A flow is a generator over vocabulary
messages: it yields effects, gets their answers, and what it returns is the answer to the message it took. It does
no I/O and has no clock; the engine carries the effects out, in wire order. A method without a flow passes untouched.
What need only be remembered of an answer is heeded, which costs no flow.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping
from typing import Any, ClassVar

import msgspec

from dragoman.dialect.text_chunk import Chunk
from dragoman.schema.initialize import InitializeParams, InitializeResult
from dragoman.schema.side import Side


class Pass(msgspec.Struct, frozen=True):
    """Let the message go on its way, with these params; answered with its result when it is a request."""

    params: Any


class SendNotification(msgspec.Struct, frozen=True):
    """Send the peer a notification."""

    method: str
    params: Any


class SendRequest(msgspec.Struct, frozen=True):
    """Send the peer a request; answered with its result."""

    method: str
    params: Any


class Deliver(msgspec.Struct, frozen=True):
    """Hand our own side a call as if the peer had made it; a request is answered with its result."""

    method: str
    params: Any
    request: bool = True


class Sleep(msgspec.Struct, frozen=True):
    """Go on after this many seconds."""

    seconds: float


class Wait(msgspec.Struct, frozen=True):
    """Go on when `Wake` names the same key; answered with the value that `Wake` brings."""

    key: str


class Wake(msgspec.Struct, frozen=True):
    """Let the flow that waits for this key go on; answered with whether one was waiting."""

    key: str
    value: Any = None


class Start(msgspec.Struct, frozen=True):
    """Start another flow beside this one; nobody waits for it."""

    flow: Generator[Any, Any, Any]


class NotifyUser(msgspec.Struct, frozen=True):
    """Tell the user something: a decision taken for the peer, or what could not be said."""

    text: str


Effect = Pass | SendNotification | SendRequest | Deliver | Sleep | Wait | Wake | Start | NotifyUser
Flow = Generator[Any, Any, Any]
FlowMaker = Callable[[Any, Any], Flow]
ResultObserver = Callable[[Any, Any], None]


class EmulatorSettings(msgspec.Struct, frozen=True, kw_only=True):
    """What a ledger is told when its connection starts."""

    cwd: str
    permission: str = "ask"  # ask | allow | deny: for peers that cannot be asked
    now: Callable[[], str]  # ISO 8601 time of day, for members like createdAt
    new_id: Callable[[], str]  # a fresh session id, for dialects whose clients choose it


class Emulator:
    """A ledger with nothing to remember; each dialect that needs more has its own, for its own side.

    `peer` is the side the other end plays: a ledger for a 2025.1 client has `peer = Side.CLIENT`.
    """

    incoming: ClassVar[Mapping[str, FlowMaker]] = {}
    outgoing: ClassVar[Mapping[str, FlowMaker]] = {}
    result_observers: ClassVar[Mapping[str, ResultObserver]] = {}  # answers to our requests that are only taken note of
    unannounced_capabilities: ClassVar[frozenset[str]] = (
        frozenset()
    )  # gates that are open without the peer having said so

    def __init__(self, peer_side: Side, settings: EmulatorSettings) -> None:
        self.peer_side = peer_side
        self.settings = settings

    def note_initialize(self, params: InitializeParams) -> None:
        """The client introduced itself on this connection."""

    def note_initialize_result(self, result: InitializeResult) -> None:
        """The agent introduced itself on this connection."""

    def pass_chunk(self, chunk: Chunk) -> Chunk | None:
        """A bare piece of text on its short way, as it goes on; None when the flow of updates has to see it."""
        flows = self.incoming if self.peer_side is Side.AGENT else self.outgoing
        return None if "session/update" in flows else chunk
