"""The state of a connection and its sessions: which method is allowed when
(docs/protocol/dialects.md#y2025-states).
"""

from __future__ import annotations

from dragoman.errors import Kind, ProtocolError
from dragoman.schema.methods import find_method
from dragoman.schema.side import Side

IDLE, PROCESSING = "idle", "processing"

_STATE_ERRORS = {
    "session/prompt": "a turn is already running in this session; cancel it or wait for its end",
}


class Lifecycle:
    """The state of one connection."""

    __slots__ = ("_early_extensions", "is_initialized", "sessions")

    def __init__(self, *, early_extensions: bool = True) -> None:
        """`early_extensions`: whether extensions are allowed before initialize."""
        self._early_extensions = early_extensions
        self.is_initialized = False
        self.sessions: dict[str, str] = {}

    def check_allowed(self, method: str, session: str | None = None) -> None:
        """Raise invalid_state unless this method is allowed now."""
        row = find_method(Side.AGENT, method)
        is_early = row.before_initialize if row is not None else self._early_extensions and method.startswith("_")
        if not self.is_initialized and not is_early:
            raise ProtocolError(Kind.INVALID_STATE, f"{method} came before initialize; send initialize first")
        if self.is_initialized and method == "initialize":
            raise ProtocolError(Kind.INVALID_STATE, "this connection is initialized already; open a new one")
        state = self.sessions.get(session) if session is not None else None
        if row is not None and row.needs_idle and state == PROCESSING:
            reason = _STATE_ERRORS.get(method, f"the session is {state}")
            raise ProtocolError(Kind.INVALID_STATE, reason, {"sessionId": session, "state": state})

    def open_session(self, session: str) -> None:
        """Add a session, idle."""
        self.sessions[session] = IDLE

    def begin_turn(self, session: str) -> None:
        """Mark the session as processing."""
        self.sessions[session] = PROCESSING

    def end_turn(self, session: str) -> None:
        """Mark the session as idle."""
        if session in self.sessions:
            self.sessions[session] = IDLE

    def close_session(self, session: str) -> None:
        """Remove the session."""
        self.sessions.pop(session, None)


def gate_error(method: str, gate: str, who: str) -> ProtocolError:
    """Return the error for a method that needs a capability which its receiver does not offer."""
    capability = gate.partition(".")[2]
    message = f"{method} needs the capability {capability}, which this {who} does not offer"
    return ProtocolError(Kind.CAPABILITY_UNSUPPORTED, message, {"method": method, "capability": capability})
