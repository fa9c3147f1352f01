"""The emulator contract: a dialect's memory of one connection, and the effects of its flows.

An emulator has one table of flows for incoming and one for outgoing methods. A flow is a generator over vocabulary
messages: it yields effects, receives their results, and returns the answer to its message. It does no I/O and has no
clock; the engine executes the effects in wire order. A method without a flow passes unchanged. Result observers only
note an answer, without the cost of a flow.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping
from typing import Any, ClassVar, Protocol

import msgspec

from dragoman.dialect.text_chunk import Chunk
from dragoman.errors import ProtocolError
from dragoman.schema.initialize import InitializeParams, InitializeResult
from dragoman.schema.side import Side


class Pass(msgspec.Struct, frozen=True):
    """Pass the message on with these params; gives the result if it is a request."""

    params: Any


class SendNotification(msgspec.Struct, frozen=True):
    """Send the peer a notification."""

    method: str
    params: Any


class SendRequest(msgspec.Struct, frozen=True):
    """Send the peer a request; gives its result."""

    method: str
    params: Any


class Deliver(msgspec.Struct, frozen=True):
    """Deliver a call to our own side as if the peer had made it; gives the result of a request."""

    method: str
    params: Any
    request: bool = True


class Sleep(msgspec.Struct, frozen=True):
    """Continue after this many seconds."""

    seconds: float


class Wait(msgspec.Struct, frozen=True):
    """Continue when `Wake` names the same key; gives the value of `Wake`."""

    key: str


class Wake(msgspec.Struct, frozen=True):
    """Continue the flow that waits for this key; gives whether one was waiting."""

    key: str
    value: Any = None


class Start(msgspec.Struct, frozen=True):
    """Start another flow in parallel; nobody waits for it. `Stop` can end it by its name."""

    flow: Generator[Any, Any, Any]
    name: str = ""


class Stop(msgspec.Struct, frozen=True):
    """Cancel a started flow and what it waits for; nothing happens if it has ended."""

    name: str


class AllowReply(msgspec.Struct, frozen=True):
    """Let any flow answer the request of this flow by a `Reply` with this key, before this flow ends."""

    key: str


class Reply(msgspec.Struct, frozen=True):
    """Answer a request now; what its own flow returns later is dropped."""

    key: str
    result: Any = None
    error: ProtocolError | None = None


class NotifyUser(msgspec.Struct, frozen=True):
    """Notify the user: a decision made for the peer, or something that could not be expressed."""

    text: str


Effect = (
    Pass
    | SendNotification
    | SendRequest
    | Deliver
    | Sleep
    | Wait
    | Wake
    | Start
    | Stop
    | AllowReply
    | Reply
    | NotifyUser
)
Flow = Generator[Any, Any, Any]
FlowMaker = Callable[[Any, Any], Flow]
ResultObserver = Callable[[Any, Any], None]


class SessionIds(Protocol):
    """Where the agents' ids of sessions whose ids a client chose outlive the connection."""

    def find(self, cwd: str, chosen: str) -> str | None:
        """Return the agent's id of a session in this folder; None if it is unknown."""

    def add(self, cwd: str, chosen: str, session: str) -> None:
        """Keep the agent's id of a session; never raises."""


class EmulatorSettings(msgspec.Struct, frozen=True, kw_only=True):
    """Settings of an emulator, given when its connection starts."""

    cwd: str
    permission: str = "ask"  # ask | allow | deny: for peers that cannot be asked
    shows_switches: bool = False  # whether our client shows boolean options, where its dialect cannot announce it
    now: Callable[[], str]  # returns the ISO 8601 time, for members like createdAt
    new_id: Callable[[], str]  # returns a new session id, for dialects whose clients choose it
    joins_prompts: bool = False  # our agent takes prompts into a running turn
    session_ids: SessionIds | None = None  # None: the ids that a client chose end with the connection


class Emulator:
    """An emulator without memory; a dialect that needs more has one for each side.

    `peer` is the role of the other end: an emulator for a 2025.1 client has `peer = Side.CLIENT`.
    """

    incoming: ClassVar[Mapping[str, FlowMaker]] = {}
    outgoing: ClassVar[Mapping[str, FlowMaker]] = {}
    result_observers: ClassVar[Mapping[str, ResultObserver]] = {}  # results of our requests that are only noted
    unannounced_capabilities: ClassVar[frozenset[str]] = (
        frozenset()
    )  # capabilities that count as present without being announced

    def __init__(self, peer_side: Side, settings: EmulatorSettings) -> None:
        self.peer_side = peer_side
        self.settings = settings

    def note_initialize(self, params: InitializeParams) -> None:
        """Note the client's initialize."""

    def note_initialize_result(self, result: InitializeResult) -> None:
        """Note the agent's initialize result."""

    def flush(self, session_id: str) -> Flow | None:
        """Return the flow that sends what the emulator still collects for a session; None if it collects nothing."""
        return None

    def pass_chunk(self, chunk: Chunk) -> Chunk | None:
        """Return a plain text chunk to pass on; None if the flow of updates must see it."""
        flows = self.incoming if self.peer_side is Side.AGENT else self.outgoing
        return None if "session/update" in flows else chunk
