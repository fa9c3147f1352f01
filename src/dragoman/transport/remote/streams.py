"""Choose the stream of an HTTP connection for each frame (docs/protocol/http.md#streams). No I/O.

An answer goes to the stream of its request's session; answers that open a session go to the connection's stream.
"""

from __future__ import annotations

from typing import Any

from msgspec import UnsetType

from dragoman.dialect.peek import FramePeek, opened_session, peek_frame, update_head
from dragoman.errors import ProtocolError
from dragoman.schema.methods import METHODS, methods_that
from dragoman.wire.envelope import Id

# Their answers come on the connection's stream, since the client may not have the session's yet
# (docs/protocol/http.md#streams).
OPENING_METHODS = methods_that("opens", "forks", "reopens", "attaches")

# Only valid for a session of this connection; the official servers refuse others with 404.
SESSION_METHODS = frozenset(row.name for row in METHODS.values() if row.needs_open_session)

# Above this many open requests the oldest are forgotten; their answers then take the connection's stream.
MAX_OPEN_REQUESTS = 4096


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
        if (head := update_head(frame)) is not None:
            self._update_prefix, self._update_session = head
            return self._update_session
        try:
            peek = peek_frame(frame)
        except ProtocolError:
            return None  # the client reports it
        if peek.method:
            if not isinstance(peek.named_id, UnsetType):  # it must not arrive before the request it cancels
                return self._agent_requests.get(peek.named_id)
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


def _remember(table: dict[Id, Any], id: Id, value: Any) -> None:
    table[id] = value
    if len(table) > MAX_OPEN_REQUESTS:
        del table[next(iter(table))]
