"""Which stream of an HTTP connection a frame belongs to (reference 3.2), read from the frames themselves. No I/O.

Remembers which session each open request is about, so that its answer goes to that session's stream; answers that open
a session go to the connection's. Knows the spellings of a session id in every dialect, and no other part of them.
"""

from __future__ import annotations

from typing import Any

import msgspec
from msgspec import UNSET, Struct, UnsetType

from dragoman.errors import Kind, ProtocolError
from dragoman.wire.envelope import Id
from dragoman.wire.repair import repair

# Their answers come on the connection's stream, for the client may not have the session's yet (reference 3.2).
OPENING = frozenset({"session/new", "session/load", "session/resume", "session/fork", "session/attach"})

# These make sense only for a session that this connection has; the official servers refuse others with 404.
WITHIN = frozenset(
    {"session/prompt", "session/cancel", "session/set_mode", "session/set_config_option", "session/close"}
)

# Requests that were never answered are forgotten, the oldest first, past this many: their answers take the other way.
REMEMBERED = 4096

_UPDATE = b'{"jsonrpc":"2.0","method":"session/update","params":{"sessionId":"'


class _Named(Struct):
    sessionId: str | UnsetType | None = UNSET
    session_id: str | UnsetType | None = UNSET
    requestId: Id | UnsetType = UNSET


class _Said(Struct):
    id: Id | UnsetType = UNSET
    method: str | UnsetType | None = UNSET
    params: _Named | UnsetType | None = UNSET
    result: Any = UNSET


class Gist(Struct, frozen=True):
    """What routing needs to know of a frame."""

    id: Id | UnsetType = UNSET
    method: str = ""  # "" for an answer
    session: str | None = None  # named in its params
    about: Id | UnsetType = UNSET  # the request that it takes back


_decode = msgspec.json.Decoder(_Said).decode


class NotOne(ProtocolError):
    """A text that is not one message: a batch, or no object at all."""


def gist(frame: bytes) -> Gist:
    """What a frame is about; raises ProtocolError for what is no JSON, and NotOne for what is no object."""
    try:
        said = _decode(frame)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return _reread(frame)
    named = said.params
    method = said.method or ""
    if not isinstance(named, _Named):
        return Gist(said.id, method)
    return Gist(said.id, method, named.sessionId or named.session_id or None, named.requestId)


def _reread(frame: bytes) -> Gist:
    value = repair(frame)
    if isinstance(value, list):
        raise NotOne(Kind.CAPABILITY_UNSUPPORTED, "batches are not supported; send one message a request")
    if not isinstance(value, dict):
        raise NotOne(Kind.INVALID_REQUEST, "a message is a JSON object")
    params = value.get("params")
    params = params if isinstance(params, dict) else {}
    found = next((params[name] for name in ("sessionId", "session_id") if isinstance(params.get(name), str)), None)
    id, method = value.get("id", UNSET), value.get("method")
    is_id = isinstance(id, str | int | float | None | UnsetType) and not isinstance(id, bool)
    return Gist(id if is_id else None, method if isinstance(method, str) else "", found or None)


class Routing:
    """Which session each request of one connection is about, in both directions."""

    def __init__(self) -> None:
        self.known: set[str] = set()  # sessions that this connection has
        self.nameless: set[str] = set()  # of these, the ones that no answer will name: load and the like
        self.answered: str | None = None  # the session whose history ended with the last frame; the reader clears it
        self._theirs: dict[Id, tuple[str, str | None]] = {}  # the client's open requests: method and session
        self._ours: dict[Id, str | None] = {}
        self._head = b""  # how the last update began, and whose it was: most of a stream is alike
        self._session = ""

    def came(self, gist: Gist) -> None:
        """The client said this."""
        if gist.method in OPENING and gist.session is not None:
            self.known.add(gist.session)
            if gist.method != "session/fork":
                self.nameless.add(gist.session)
        if isinstance(gist.id, UnsetType):
            return
        if gist.method:
            _remember(self._theirs, gist.id, (gist.method, gist.session))
        else:
            self._ours.pop(gist.id, None)

    def goes(self, frame: bytes) -> str | None:
        """The session whose stream this frame of ours belongs to; None for the connection's."""
        if self._head and frame.startswith(self._head):
            return self._session
        if frame.startswith(_UPDATE):
            end = frame.find(b'"', len(_UPDATE))
            name = frame[len(_UPDATE) : end]
            if end > 0 and b"\\" not in name:
                self._head, self._session = frame[: end + 1], name.decode("utf-8", "replace")
                return self._session
        try:
            said = gist(frame)
        except ProtocolError:
            return None  # not ours to judge: the client will
        if said.method:
            if not isinstance(said.about, UnsetType):  # it must not overtake what it takes back
                return self._ours.get(said.about)
            if not isinstance(said.id, UnsetType):
                _remember(self._ours, said.id, said.session)
            return said.session
        if isinstance(said.id, UnsetType):
            return None
        method, session = self._theirs.pop(said.id, ("", None))
        if method not in OPENING:
            return session
        if (opened := _opened(frame)) is not None:
            self.known.add(opened)
        self.answered = opened or session
        return None


def _opened(frame: bytes) -> str | None:
    """The session that an answer names."""
    result = msgspec.json.decode(frame).get("result")
    if not isinstance(result, dict):
        return None
    found = result.get("sessionId") or result.get("session_id")
    return found if isinstance(found, str) else None


def _remember(table: dict[Id, Any], id: Id, value: Any) -> None:
    table[id] = value
    if len(table) > REMEMBERED:
        del table[next(iter(table))]
