"""What is read of the frames between rooms and a process they share, and what is said in its place. No I/O.

Takes envelopes and gives frames; who is who is decided in pier.py.
"""

from __future__ import annotations

import asyncio
from typing import Any

import msgspec
from msgspec import UNSET, Raw, UnsetType

from dragoman.host.pool.transport import Berth
from dragoman.wire.envelope import Envelope, Id, say_error, say_result
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


# What an agent says of sessions that are being opened waits for the answer that tells whose they are (peers.md 13).
EARLY = 1000


# A session, and a message about it.
Early = tuple[str, Envelope, bytes]


class Moorings:
    """The sessions of one process."""

    def __init__(self) -> None:
        self._owners: dict[str, Berth] = {}
        self._early: list[Early] = []

    def claim(self, session: str, berth: Berth) -> bool:
        """Whether a session is this room's: it is from now on, unless it is another's."""
        return self._owners.setdefault(session, berth) is berth

    def release(self, session: str, berth: Berth) -> None:
        """A room has a session no more."""
        if self._owners.get(session) is berth:
            del self._owners[session]

    def owner(self, session: str) -> Berth | None:
        """Whose a session is."""
        return self._owners.get(session)

    def of(self, berth: Berth) -> list[str]:
        """The sessions of a room."""
        return [session for session, owner in self._owners.items() if owner is berth]

    def keep(self, session: str, envelope: Envelope, frame: bytes) -> bool:
        """Keep what was said of a session that nobody has yet; whether there was room for it."""
        if len(self._early) >= EARLY:
            return False
        self._early.append((session, envelope, frame))
        return True

    def early(self) -> list[Early]:
        """All that was kept, to be told now, or kept again."""
        early, self._early = self._early, []
        return early


# They introduce themselves in the same words, and log in as the same user.
JOINT = frozenset({"initialize", "authenticate"})


class Joints:
    """The requests of one process that are everybody's."""

    def __init__(self) -> None:
        self._known: dict[str, Joint] = {}  # by method
        self._open: dict[int, tuple[str, Joint]] = {}  # by the number it was said under

    def ask(self, berth: Berth, id: Id, method: str, params: bytes, number: int) -> bool:
        """Whether a room's request must be said, under this number; else it is answered with what others asked."""
        joint = self._known.get(method)
        if joint is not None and joint.params == params:
            if joint.result is None:
                joint.waiting.append((berth, id))
            else:
                soon(berth, say_result(id, joint.result))
            return False
        if joint is not None and method == "initialize":  # the pool keeps them apart; nobody must be taken for another
            soon(berth, say_error(id, OTHERWISE))
            return False
        self._known[method] = joint = Joint(params, [(berth, id)])
        self._open[number] = method, joint
        return True

    def answered(self, envelope: Envelope, fine: bool, out: Out) -> bool:
        """Give an answer to all who wait for it; says whether it was one of these."""
        if not isinstance(envelope.id, int) or envelope.id not in self._open:
            return False
        method, joint = self._open.pop(envelope.id)
        if fine and not isinstance(envelope.result, UnsetType):
            joint.result = envelope.result
        elif self._known.get(method) is joint:
            del self._known[method]
        for berth, id in joint.waiting:
            put(out, [berth], under(id, envelope))
        joint.waiting = []
        return True

    def withdraw(self, berth: Berth, id: Id | UnsetType) -> None:
        """A room does not need an answer any more, or (no id) none at all; the others still do."""
        is_any = isinstance(id, UnsetType)
        for joint in self._known.values():
            joint.waiting = [each for each in joint.waiting if each[0] is not berth or not (is_any or each[1] == id)]

    def forget(self, method: str) -> None:
        """What was answered does not hold any more."""
        self._known.pop(method, None)

    def result(self, method: str) -> Raw | None:
        """What was answered, if anything."""
        known = self._known.get(method)
        return None if known is None else known.result
