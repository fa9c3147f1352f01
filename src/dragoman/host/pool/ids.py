"""What is read of the frames between rooms and a process they share, and what is said in its place. No I/O.

Takes envelopes and gives frames; who is who is decided in pier.py.
"""

from __future__ import annotations

import asyncio
from typing import Any

import msgspec
from msgspec import UNSET, Raw, UnsetType

from dragoman.host.pool.transport import SharedTransport
from dragoman.wire.envelope import Envelope, Id, encode_error, encode_result
from dragoman.wire.frames import Frame

# What a request is answered whose room is gone: to ask for leave has an answer of its own for that.
PERMISSION_CANCELLED = b'{"outcome":{"outcome":"cancelled"}}'
SESSION_CLOSED_ERROR = b'{"code":-32800,"message":"the session is not open any more"}'
SESSION_TAKEN_ERROR = b'{"code":-32602,"message":"another session of the host goes on with this one already"}'
INITIALIZE_MISMATCH_ERROR = b'{"code":-32603,"message":"others introduced themselves to this agent in other words"}'
MALFORMED_REPLY_ERROR = b'{"code":-32603,"message":"the answer of the agent cannot be read, or is too large"}'


class MessageIds(msgspec.Struct, rename="camel"):
    """What a message is about; crow calls a session otherwise in half of its messages."""

    session_id: str | UnsetType = UNSET
    request_id: Any = UNSET
    crow_session_id: str | UnsetType = msgspec.field(default=UNSET, name="session_id")


class CancelForm(msgspec.Struct, frozen=True, kw_only=True):
    """How a dialect says that a turn shall end."""

    method: str = "session/cancel"
    session_member: str = "sessionId"
    is_request: bool = False  # whether it is a request there


V1_CANCEL = CancelForm()
CROW_CANCEL = CancelForm(method="cancel", session_member="session_id", is_request=True)


class ForwardedRequest(msgspec.Struct, eq=False):
    """A request of a room that the process has not answered yet."""

    transport: SharedTransport
    id: Id
    method: str
    session: str | None
    ended: asyncio.Future[None] | None = None


class SharedCall(msgspec.Struct, eq=False):
    """A request that was said once for all: its words, who waits for the answer, and the answer."""

    params: bytes
    waiters: list[tuple[SharedTransport, Id]]
    result: Raw | None = None


encode = msgspec.json.Encoder().encode
_decode_ids = msgspec.json.Decoder(MessageIds).decode

Deliveries = dict[SharedTransport, list[Frame]]


def reply_soon(transport: SharedTransport, frame: bytes) -> None:
    """Answer a room from here: not while it still asks, or it would not know that it did."""
    asyncio.get_running_loop().call_soon(lambda: transport.deliver([frame]))


def add_frame(out: Deliveries, transports: list[SharedTransport], frame: Frame) -> None:
    """One more frame for these."""
    for berth in transports:
        out.setdefault(berth, []).append(frame)


def reply_with_id(id: Id, envelope: Envelope) -> bytes:
    """The same answer under another id."""
    members = {name: value for name in ("result", "error") if (value := getattr(envelope, name)) is not UNSET}
    return encode({"jsonrpc": "2.0", "id": id, **members})


def raw_params(params: Raw | UnsetType) -> bytes | None:
    """Params as they are said again."""
    return None if isinstance(params, UnsetType) else bytes(params)


def message_ids(params: Raw | bytes | UnsetType | None) -> MessageIds:
    """What a message is about, as far as it says so."""
    if params is None or isinstance(params, UnsetType):
        return MessageIds()
    try:
        found = _decode_ids(params)
    except (msgspec.MsgspecError, UnicodeDecodeError):  # the room that gets it says what is wrong with it
        return MessageIds()
    if isinstance(found.session_id, UnsetType):
        found.session_id = found.crow_session_id
    if not isinstance(found.request_id, int | str | float | None):
        found.request_id = UNSET
    return found


def can_close_sessions(initialize_result: Raw | None) -> bool:
    """Whether an agent that introduced itself so can close sessions."""
    try:
        found: Any = None if initialize_result is None else msgspec.json.decode(initialize_result)
    except (msgspec.MsgspecError, UnicodeDecodeError):
        return False
    for member in ("agentCapabilities", "sessionCapabilities", "close"):
        found = found.get(member) if isinstance(found, dict) else None
    return isinstance(found, dict) or found is True


# What an agent says of sessions that are being opened waits for the answer that tells whose they are (peers.md 13).
MAX_EARLY = 1000


# A session, and a message about it.
EarlyMessage = tuple[str, Envelope, bytes]


class SessionOwners:
    """The sessions of one process."""

    def __init__(self) -> None:
        self._owners: dict[str, SharedTransport] = {}
        self._early: list[EarlyMessage] = []

    def claim(self, session: str, transport: SharedTransport) -> bool:
        """Whether a session is this room's: it is from now on, unless it is another's."""
        return self._owners.setdefault(session, transport) is transport

    def release(self, session: str, transport: SharedTransport) -> None:
        """A room has a session no more."""
        if self._owners.get(session) is transport:
            del self._owners[session]

    def owner_of(self, session: str) -> SharedTransport | None:
        """Whose a session is."""
        return self._owners.get(session)

    def sessions_of(self, transport: SharedTransport) -> list[str]:
        """The sessions of a room."""
        return [session for session, owner in self._owners.items() if owner is transport]

    def hold_early(self, session: str, envelope: Envelope, frame: bytes) -> bool:
        """Keep what was said of a session that nobody has yet; whether there was room for it."""
        if len(self._early) >= MAX_EARLY:
            return False
        self._early.append((session, envelope, frame))
        return True

    def take_early(self) -> list[EarlyMessage]:
        """All that was kept, to be told now, or kept again."""
        early, self._early = self._early, []
        return early


# They introduce themselves in the same words, and log in as the same user.
SHARED_METHODS = frozenset({"initialize", "authenticate"})


class SharedCalls:
    """The requests of one process that are everybody's."""

    def __init__(self) -> None:
        self._known: dict[str, SharedCall] = {}  # by method
        self._open: dict[int, tuple[str, SharedCall]] = {}  # by the number it was said under

    def start_or_join(self, transport: SharedTransport, id: Id, method: str, params: bytes, number: int) -> bool:
        """Whether a room's request must be said, under this number; else it is answered with what others asked."""
        joint = self._known.get(method)
        if joint is not None and joint.params == params:
            if joint.result is None:
                joint.waiters.append((transport, id))
            else:
                reply_soon(transport, encode_result(id, joint.result))
            return False
        if joint is not None and method == "initialize":  # the pool keeps them apart; nobody must be taken for another
            reply_soon(transport, encode_error(id, INITIALIZE_MISMATCH_ERROR))
            return False
        self._known[method] = joint = SharedCall(params, [(transport, id)])
        self._open[number] = method, joint
        return True

    def resolve(self, envelope: Envelope, is_success: bool, out: Deliveries) -> bool:
        """Give an answer to all who wait for it; says whether it was one of these."""
        if not isinstance(envelope.id, int) or envelope.id not in self._open:
            return False
        method, joint = self._open.pop(envelope.id)
        if is_success and not isinstance(envelope.result, UnsetType):
            joint.result = envelope.result
        elif self._known.get(method) is joint:
            del self._known[method]
        for berth, id in joint.waiters:
            add_frame(out, [berth], reply_with_id(id, envelope))
        joint.waiters = []
        return True

    def cancel(self, transport: SharedTransport, id: Id | UnsetType) -> None:
        """A room does not need an answer any more, or (no id) none at all; the others still do."""
        is_any = isinstance(id, UnsetType)
        for joint in self._known.values():
            joint.waiters = [
                each for each in joint.waiters if each[0] is not transport or not (is_any or each[1] == id)
            ]

    def forget(self, method: str) -> None:
        """What was answered does not hold any more."""
        self._known.pop(method, None)

    def result(self, method: str) -> Raw | None:
        """What was answered, if anything."""
        known = self._known.get(method)
        return None if known is None else known.result
