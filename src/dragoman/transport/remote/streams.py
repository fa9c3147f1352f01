"""Choose the stream of an HTTP connection for each frame (docs/protocol/http.md#streams). No I/O.

Remembers the session of each open request, so that its answer goes to that session's stream; answers that open a
session go to the connection's stream.
"""

from __future__ import annotations

from typing import Any

import msgspec
from msgspec import UNSET, Struct, UnsetType

from dragoman.errors import Kind, ProtocolError
from dragoman.schema.methods import METHODS, methods_that
from dragoman.wire.envelope import Id
from dragoman.wire.repair import repair

# Their answers come on the connection's stream, since the client may not have the session's yet
# (docs/protocol/http.md#streams).
OPENING_METHODS = methods_that("opens", "forks", "reopens", "attaches")

# Only valid for a session of this connection; the official servers refuse others with 404.
SESSION_METHODS = frozenset(row.name for row in METHODS.values() if row.needs_open_session)

# Above this many open requests the oldest are forgotten; their answers then take the connection's stream.
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
    session: str | None = None  # from its params
    cancelled_id: Id | UnsetType = UNSET  # the request that it cancels


_decode = msgspec.json.Decoder(_RoutedMessage).decode


class NotOneMessage(ProtocolError):
    """A text that is not one message: a batch, or no object at all."""


def peek_frame(frame: bytes) -> FramePeek:
    """Peek at a frame; raise ProtocolError when it is not JSON, and NotOneMessage when it is no object."""
    try:
        message = _decode(frame)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return _peek_lenient(frame)
    params = message.params
    method = message.method or ""
    if not isinstance(params, _RoutedParams):
        return FramePeek(message.id, method)
    return FramePeek(message.id, method, params.sessionId or params.session_id or None, params.requestId)


def _peek_lenient(frame: bytes) -> FramePeek:
    value = repair(frame)
    if isinstance(value, list):
        raise NotOneMessage(Kind.CAPABILITY_UNSUPPORTED, "batches are not supported; send one message a request")
    if not isinstance(value, dict):
        raise NotOneMessage(Kind.INVALID_REQUEST, "a message is a JSON object")
    params = value.get("params")
    params = params if isinstance(params, dict) else {}
    session = next((params[name] for name in ("sessionId", "session_id") if isinstance(params.get(name), str)), None)
    id, method = value.get("id", UNSET), value.get("method")
    is_id = isinstance(id, str | int | float | None | UnsetType) and not isinstance(id, bool)
    return FramePeek(id if is_id else None, method if isinstance(method, str) else "", session or None)


class StreamRouter:
    """Remembers the session of each request of one connection, in both directions."""

    def __init__(self) -> None:
        self.known_sessions: set[str] = set()  # sessions of this connection
        self.unnamed_sessions: set[str] = set()  # those of them that no answer will name: load and the like
        self.history_ended: str | None = (
            None  # the session whose history ended with the last frame; the reader clears it
        )
        self._client_requests: dict[Id, tuple[str, str | None]] = {}  # the client's open requests: method and session
        self._agent_requests: dict[Id, str | None] = {}
        self._update_prefix = b""  # how the last update began, and its session: most updates of a stream begin alike
        self._update_session = ""

    def note_client_frame(self, peek: FramePeek) -> None:
        """Note a frame of the client."""
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
        """Return the session whose stream this frame of ours belongs to; None for the connection's."""
        if self._update_prefix and frame.startswith(self._update_prefix):
            return self._update_session
        if frame.startswith(_UPDATE_PREFIX):
            end = frame.find(b'"', len(_UPDATE_PREFIX))
            name = frame[len(_UPDATE_PREFIX) : end]
            if end > 0 and b"\\" not in name:
                self._update_prefix, self._update_session = frame[: end + 1], name.decode("utf-8", "replace")
                return self._update_session
        try:
            peek = peek_frame(frame)
        except ProtocolError:
            return None  # the client reports it
        if peek.method:
            if not isinstance(peek.cancelled_id, UnsetType):  # it must not arrive before the request it cancels
                return self._agent_requests.get(peek.cancelled_id)
            if not isinstance(peek.id, UnsetType):
                _remember(self._agent_requests, peek.id, peek.session)
            return peek.session
        if isinstance(peek.id, UnsetType):
            return None
        method, session = self._client_requests.pop(peek.id, ("", None))
        if method not in OPENING_METHODS:
            return session
        if (new_session := opened_session(frame)) is not None:
            self.known_sessions.add(new_session)
        self.history_ended = new_session or session
        return None


def opened_session(frame: bytes) -> str | None:
    """Return the session that an answer names."""
    result = parse_object(frame).get("result")
    session = (result.get("sessionId") or result.get("session_id")) if isinstance(result, dict) else None
    return session if isinstance(session, str) else None


def parse_object(text: bytes) -> dict[str, Any]:
    """Return a JSON object; {} for anything else."""
    try:
        value = msgspec.json.decode(text)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return {}
    return value if isinstance(value, dict) else {}


def _remember(table: dict[Id, Any], id: Id, value: Any) -> None:
    table[id] = value
    if len(table) > MAX_OPEN_REQUESTS:
        del table[next(iter(table))]
