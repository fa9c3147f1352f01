"""Ids in the frames between rooms and a process they share: reading and rewriting them. No I/O."""

from __future__ import annotations

import asyncio
from typing import Any

import msgspec
from msgspec import UNSET, Raw, UnsetType

from dragoman.host.pool.transport import SharedTransport
from dragoman.wire.envelope import Envelope, Id, encode_error, encode_result
from dragoman.wire.frames import Frame

# Answers to requests of the agent whose room is gone. Permission requests have their own form.
PERMISSION_CANCELLED = b'{"outcome":{"outcome":"cancelled"}}'
SESSION_CLOSED_ERROR = b'{"code":-32800,"message":"the session is not open any more"}'
SESSION_TAKEN_ERROR = b'{"code":-32602,"message":"another room of this host already uses this session"}'
INITIALIZE_MISMATCH_ERROR = b'{"code":-32603,"message":"another room sent other initialize params"}'
MALFORMED_REPLY_ERROR = b'{"code":-32603,"message":"the answer of the agent cannot be read, or is too large"}'


class ForwardedRequest(msgspec.Struct, eq=False):
    """A request of a room that the process has not answered yet."""

    transport: SharedTransport
    id: Id
    method: str
    session: str | None
    ended: asyncio.Future[None] | None = None


class SharedCall(msgspec.Struct, eq=False):
    """A request that is sent once for all rooms: its params, who waits for the answer, and the answer."""

    params: bytes
    waiters: list[tuple[SharedTransport, Id]]
    result: Raw | None = None


encode = msgspec.json.Encoder().encode

Deliveries = dict[SharedTransport, list[Frame]]


def reply_soon(transport: SharedTransport, frame: bytes) -> None:
    """Answer a room after the current call returns: until then it has not registered its request."""
    asyncio.get_running_loop().call_soon(lambda: transport.deliver([frame]))


def add_frame(out: Deliveries, transports: list[SharedTransport], frame: Frame) -> None:
    """Add a frame for each of these transports."""
    for transport in transports:
        out.setdefault(transport, []).append(frame)


def reply_with_id(id: Id, envelope: Envelope) -> bytes:
    """Return the same answer under another id."""
    members = {name: value for name in ("result", "error") if (value := getattr(envelope, name)) is not UNSET}
    return encode({"jsonrpc": "2.0", "id": id, **members})


def raw_params(params: Raw | UnsetType) -> bytes | None:
    """Return params as bytes; None if there are none."""
    return None if isinstance(params, UnsetType) else bytes(params)


def can_close_sessions(initialize_result: Raw | None) -> bool:
    """Tell whether the initialize result of an agent offers session/close."""
    try:
        found: Any = None if initialize_result is None else msgspec.json.decode(initialize_result)
    except (msgspec.MsgspecError, UnicodeDecodeError):
        return False
    return any(_has_member(found, path) for path in CLOSE_CAPABILITIES)


# Where an agent offers session/close, in v1 and in v2, where it comes with sessions.
CLOSE_CAPABILITIES = (("agentCapabilities", "sessionCapabilities", "close"), ("capabilities", "session"))


def _has_member(found: Any, path: tuple[str, ...]) -> bool:
    for member in path:
        found = found.get(member) if isinstance(found, dict) else None
    return isinstance(found, dict) or found is True


# Messages about a session that is being opened wait for the answer that tells whose session it is
# (docs/protocol/peers.md#early-updates).
MAX_EARLY = 1000

EarlyMessage = tuple[str, Envelope, bytes]


class SessionOwners:
    """Which room has which session of one process."""

    def __init__(self) -> None:
        self._owners: dict[str, SharedTransport] = {}
        self._early: list[EarlyMessage] = []

    def claim(self, session: str, transport: SharedTransport) -> bool:
        """Give a session to this room, unless another has it. Return whether this room has it now."""
        return self._owners.setdefault(session, transport) is transport

    def release(self, session: str, transport: SharedTransport) -> None:
        """Take a session from a room."""
        if self._owners.get(session) is transport:
            del self._owners[session]

    def owner_of(self, session: str) -> SharedTransport | None:
        """Return the room that has a session."""
        return self._owners.get(session)

    def sessions_of(self, transport: SharedTransport) -> list[str]:
        """Return the sessions of a room."""
        return [session for session, owner in self._owners.items() if owner is transport]

    def hold_early(self, session: str, envelope: Envelope, frame: bytes) -> bool:
        """Keep a message about a session that no room has yet. Return False if too many are kept."""
        if len(self._early) >= MAX_EARLY:
            return False
        self._early.append((session, envelope, frame))
        return True

    def take_early(self) -> list[EarlyMessage]:
        """Return and clear the kept messages."""
        early, self._early = self._early, []
        return early


class SharedCalls:
    """The requests of one process that are sent once for all rooms."""

    def __init__(self) -> None:
        self._known: dict[str, SharedCall] = {}  # by method
        self._open: dict[int, tuple[str, SharedCall]] = {}  # by the number it was sent under

    def start_or_join(self, transport: SharedTransport, id: Id, method: str, params: bytes, number: int) -> bool:
        """Return True if the request must be sent under this number. Else it gets the answer of an earlier one."""
        call = self._known.get(method)
        if call is not None and call.params == params:
            if call.result is None:
                call.waiters.append((transport, id))
            else:
                reply_soon(transport, encode_result(id, call.result))
            return False
        if (
            call is not None and method == "initialize"
        ):  # the pool never lets this happen; still, no room may get another's answer
            reply_soon(transport, encode_error(id, INITIALIZE_MISMATCH_ERROR))
            return False
        self._known[method] = call = SharedCall(params, [(transport, id)])
        self._open[number] = method, call
        return True

    def resolve(self, envelope: Envelope, is_success: bool, out: Deliveries) -> bool:
        """Give an answer to all who wait for it. Return whether it was one of these requests."""
        if not isinstance(envelope.id, int) or envelope.id not in self._open:
            return False
        method, call = self._open.pop(envelope.id)
        if is_success and not isinstance(envelope.result, UnsetType):
            call.result = envelope.result
        elif self._known.get(method) is call:
            del self._known[method]
        for transport, id in call.waiters:
            add_frame(out, [transport], reply_with_id(id, envelope))
        call.waiters = []
        return True

    def cancel(self, transport: SharedTransport, id: Id | UnsetType) -> None:
        """Stop waiting for one answer, or for all without an id. Other rooms still wait."""
        is_any = isinstance(id, UnsetType)
        for call in self._known.values():
            call.waiters = [each for each in call.waiters if each[0] is not transport or not (is_any or each[1] == id)]

    def forget(self, method: str) -> None:
        """Drop an answer that is out of date."""
        self._known.pop(method, None)

    def result(self, method: str) -> Raw | None:
        """Return the answer to a method, if there is one."""
        known = self._known.get(method)
        return None if known is None else known.result
