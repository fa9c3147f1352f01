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
OPENING_METHODS = frozenset({"session/new", "session/load", "session/resume", "session/fork", "session/attach"})

# These make sense only for a session that this connection has; the official servers refuse others with 404.
SESSION_METHODS = frozenset(
    {"session/prompt", "session/cancel", "session/set_mode", "session/set_config_option", "session/close"}
)

# Requests that were never answered are forgotten, the oldest first, past this many: their answers take the other way.
MAX_OPEN_REQUESTS = 4096

_UPDATE_PREFIX = b'{"jsonrpc":"2.0","method":"session/update","params":{"sessionId":"'


class _RoutedParams(Struct):
    sessionId: str | UnsetType | None = UNSET
    session_id: str | UnsetType | None = UNSET
    requestId: Id | UnsetType = UNSET


class _RoutedMessage(Struct):
    id: Id | UnsetType = UNSET
    method: str | UnsetType | None = UNSET
    params: _RoutedParams | UnsetType | None = UNSET
    result: Any = UNSET


class FramePeek(Struct, frozen=True):
    """What routing needs to know of a frame."""

    id: Id | UnsetType = UNSET
    method: str = ""  # "" for an answer
    session: str | None = None  # named in its params
    cancelled_id: Id | UnsetType = UNSET  # the request that it takes back


_decode = msgspec.json.Decoder(_RoutedMessage).decode


class NotOneMessage(ProtocolError):
    """A text that is not one message: a batch, or no object at all."""


def peek_frame(frame: bytes) -> FramePeek:
    """What a frame is about; raises ProtocolError for what is no JSON, and NotOne for what is no object."""
    try:
        said = _decode(frame)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return _peek_lenient(frame)
    named = said.params
    method = said.method or ""
    if not isinstance(named, _RoutedParams):
        return FramePeek(said.id, method)
    return FramePeek(said.id, method, named.sessionId or named.session_id or None, named.requestId)


def _peek_lenient(frame: bytes) -> FramePeek:
    value = repair(frame)
    if isinstance(value, list):
        raise NotOneMessage(Kind.CAPABILITY_UNSUPPORTED, "batches are not supported; send one message a request")
    if not isinstance(value, dict):
        raise NotOneMessage(Kind.INVALID_REQUEST, "a message is a JSON object")
    params = value.get("params")
    params = params if isinstance(params, dict) else {}
    found = next((params[name] for name in ("sessionId", "session_id") if isinstance(params.get(name), str)), None)
    id, method = value.get("id", UNSET), value.get("method")
    is_id = isinstance(id, str | int | float | None | UnsetType) and not isinstance(id, bool)
    return FramePeek(id if is_id else None, method if isinstance(method, str) else "", found or None)


class StreamRouter:
    """Which session each request of one connection is about, in both directions."""

    def __init__(self) -> None:
        self.known_sessions: set[str] = set()  # sessions that this connection has
        self.unnamed_sessions: set[str] = set()  # of these, the ones that no answer will name: load and the like
        self.history_ended: str | None = (
            None  # the session whose history ended with the last frame; the reader clears it
        )
        self._client_requests: dict[Id, tuple[str, str | None]] = {}  # the client's open requests: method and session
        self._agent_requests: dict[Id, str | None] = {}
        self._update_prefix = b""  # how the last update began, and whose it was: most of a stream is alike
        self._update_session = ""

    def note_client_frame(self, peek: FramePeek) -> None:
        """The client said this."""
        if peek.method in OPENING_METHODS and peek.session is not None:
            self.known_sessions.add(peek.session)
            if peek.method != "session/fork":
                self.unnamed_sessions.add(peek.session)
        if isinstance(peek.id, UnsetType):
            return
        if peek.method:
            _remember(self._client_requests, peek.id, (peek.method, peek.session))
        else:
            self._agent_requests.pop(peek.id, None)

    def session_of(self, frame: bytes) -> str | None:
        """The session whose stream this frame of ours belongs to; None for the connection's."""
        if self._update_prefix and frame.startswith(self._update_prefix):
            return self._update_session
        if frame.startswith(_UPDATE_PREFIX):
            end = frame.find(b'"', len(_UPDATE_PREFIX))
            name = frame[len(_UPDATE_PREFIX) : end]
            if end > 0 and b"\\" not in name:
                self._update_prefix, self._update_session = frame[: end + 1], name.decode("utf-8", "replace")
                return self._update_session
        try:
            said = peek_frame(frame)
        except ProtocolError:
            return None  # not ours to judge: the client will
        if said.method:
            if not isinstance(said.cancelled_id, UnsetType):  # it must not overtake what it takes back
                return self._agent_requests.get(said.cancelled_id)
            if not isinstance(said.id, UnsetType):
                _remember(self._agent_requests, said.id, said.session)
            return said.session
        if isinstance(said.id, UnsetType):
            return None
        method, session = self._client_requests.pop(said.id, ("", None))
        if method not in OPENING_METHODS:
            return session
        if (opened := _opened_session(frame)) is not None:
            self.known_sessions.add(opened)
        self.history_ended = opened or session
        return None


def _opened_session(frame: bytes) -> str | None:
    """The session that an answer names."""
    result = msgspec.json.decode(frame).get("result")
    if not isinstance(result, dict):
        return None
    found = result.get("sessionId") or result.get("session_id")
    return found if isinstance(found, str) else None


def _remember(table: dict[Id, Any], id: Id, value: Any) -> None:
    table[id] = value
    if len(table) > MAX_OPEN_REQUESTS:
        del table[next(iter(table))]
