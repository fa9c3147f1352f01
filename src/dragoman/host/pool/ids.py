"""What is read of the frames between rooms and a process they share, and what is said in its place. No I/O.

Takes envelopes and gives frames; who is who is decided in pier.py.
"""

from __future__ import annotations

import asyncio
from typing import Any

import msgspec
from msgspec import UNSET, Raw, UnsetType

from dragoman.host.pool.transport import Berth
from dragoman.wire.envelope import Envelope, Id
from dragoman.wire.frames import Frame

# What a request is answered whose room is gone: to ask for leave has an answer of its own for that.
NO_LEAVE = b'{"outcome":{"outcome":"cancelled"}}'
GONE = b'{"code":-32800,"message":"the session is not open any more"}'
TAKEN = b'{"code":-32602,"message":"another session of the host goes on with this one already"}'
OTHERWISE = b'{"code":-32603,"message":"others introduced themselves to this agent in other words"}'
UNREADABLE = b'{"code":-32603,"message":"the answer of the agent cannot be read, or is too large"}'


class Named(msgspec.Struct, rename="camel"):
    """What a message is about; crow calls a session otherwise in half of its messages."""

    session_id: str | UnsetType = UNSET
    request_id: Any = UNSET
    in_crow: str | UnsetType = msgspec.field(default=UNSET, name="session_id")


class Words(msgspec.Struct, frozen=True, kw_only=True):
    """How a dialect says that a turn shall end."""

    cancel: str = "session/cancel"
    session: str = "sessionId"
    is_asked: bool = False  # whether it is a request there


V1 = Words()
CROW = Words(cancel="cancel", session="session_id", is_asked=True)


class Call(msgspec.Struct, eq=False):
    """A request of a room that the process has not answered yet."""

    berth: Berth
    id: Id
    method: str
    session: str | None
    over: asyncio.Future[None] | None = None


class Joint(msgspec.Struct, eq=False):
    """A request that was said once for all: its words, who waits for the answer, and the answer."""

    params: bytes
    waiting: list[tuple[Berth, Id]]
    result: Raw | None = None


encode = msgspec.json.Encoder().encode
_read_named = msgspec.json.Decoder(Named).decode

Out = dict[Berth, list[Frame]]


def soon(berth: Berth, frame: bytes) -> None:
    """Answer a room from here: not while it still asks, or it would not know that it did."""
    asyncio.get_running_loop().call_soon(lambda: berth.deliver([frame]))


def put(out: Out, berths: list[Berth], frame: Frame) -> None:
    """One more frame for these."""
    for berth in berths:
        out.setdefault(berth, []).append(frame)


def under(id: Id, envelope: Envelope) -> bytes:
    """The same answer under another id."""
    members = {name: value for name in ("result", "error") if (value := getattr(envelope, name)) is not UNSET}
    return encode({"jsonrpc": "2.0", "id": id, **members})


def raw(params: Raw | UnsetType) -> bytes | None:
    """Params as they are said again."""
    return None if isinstance(params, UnsetType) else bytes(params)


def about(params: Raw | bytes | UnsetType | None) -> Named:
    """What a message is about, as far as it says so."""
    if params is None or isinstance(params, UnsetType):
        return Named()
    try:
        found = _read_named(params)
    except (msgspec.MsgspecError, UnicodeDecodeError):  # the room that gets it says what is wrong with it
        return Named()
    if isinstance(found.session_id, UnsetType):
        found.session_id = found.in_crow
    if not isinstance(found.request_id, int | str | float | None):
        found.request_id = UNSET
    return found


def closes(introduction: Raw | None) -> bool:
    """Whether an agent that introduced itself so can close sessions."""
    try:
        found: Any = None if introduction is None else msgspec.json.decode(introduction)
    except (msgspec.MsgspecError, UnicodeDecodeError):
        return False
    for member in ("agentCapabilities", "sessionCapabilities", "close"):
        found = found.get(member) if isinstance(found, dict) else None
    return isinstance(found, dict) or found is True
