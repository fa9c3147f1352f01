"""The whole error tree, and the kinds of errors that travel between peers.

    DragomanError
      ProtocolError        an error one peer tells the other; has a kind, never a bare number
        Unsayable          a message that a dialect has no words for
        StoreFault         the place where sessions are kept fails; says how, and what to do
      ConnectionFailed     the connection is no longer there
        TransportClosed    the bytes ended (end of file, close)
          AgentExited      the agent process ended; carries its exit reason and last stderr lines
        StartFailed        the agent could not be started
          SandboxUnavailable   a sandbox was asked for and cannot be had on this machine
          Unreachable      a remote agent that cannot be reached, or does not let us in
        WriteStalled       the peer took no bytes for too long
        Overloaded         more unread input than the hard limit
      ConfigFault          a file of the user's that cannot be used as it is; names the file, the line and the key

Numbers belong to the dialects (each has its column); everything above speaks of kinds.
"""

from __future__ import annotations

from typing import Any


class Kind:
    """The kinds of protocol errors: one meaning each, whatever number a dialect gives them."""

    PARSE_ERROR = "parse_error"
    INVALID_REQUEST = "invalid_request"
    METHOD_NOT_FOUND = "method_not_found"
    INVALID_PARAMS = "invalid_params"
    INTERNAL_ERROR = "internal_error"
    AUTH_REQUIRED = "auth_required"
    SESSION_NOT_FOUND = "session_not_found"
    RESOURCE_NOT_FOUND = "resource_not_found"
    PERMISSION_DENIED = "permission_denied"
    ACCESS_DENIED = "access_denied"
    INVALID_STATE = "invalid_state"
    CAPABILITY_UNSUPPORTED = "capability_unsupported"
    UNSUPPORTED_VERSION = "unsupported_version"
    CANCELLED = "cancelled"
    RATE_LIMITED = "rate_limited"
    TIMEOUT = "timeout"
    SESSION_EXPIRED = "session_expired"
    SESSION_CORRUPTED = "session_corrupted"
    TOO_LARGE = "too_large"
    CONNECTION_LOST = "connection_lost"  # the answer was lost on the way; said by our own end, never by the peer


KINDS: tuple[str, ...] = tuple(value for name, value in vars(Kind).items() if name.isupper())


class DragomanError(Exception):
    """Everything Dragoman raises on purpose."""


# As much of a peer's details as people are shown: a sentence or two, not a stack. Characters.
DETAILS = 500


class ProtocolError(DragomanError):
    """An error that one peer tells the other: a kind, a message that says what to do, and data."""

    def __init__(
        self, kind: str, message: str = "", data: dict[str, Any] | None = None, *, code: int | None = None
    ) -> None:
        super().__init__(message or kind.replace("_", " "))
        self.kind = kind
        self.message = message or kind.replace("_", " ").capitalize()
        self.data = data
        self.code = code

    @property
    def explanation(self) -> str:
        """The message, with the peer's details: many say "Internal error" and the reason beside it (peers.md 10)."""
        details = self.data.get("details") if isinstance(self.data, dict) else None
        if not isinstance(details, str) or not details.strip() or details in self.message:
            return self.message
        return f"{self.message}: {details.strip()[:DETAILS]}"

    def __repr__(self) -> str:
        return f"ProtocolError({self.kind!r}, {self.message!r}, {self.data!r})"


class Unsayable(ProtocolError):
    """A dialect has no words for this message; the message names what could not be said."""

    def __init__(self, dialect: str, what: str) -> None:
        super().__init__(Kind.CAPABILITY_UNSUPPORTED, f"the {dialect} dialect cannot say {what}", {"what": what})
        self.what = what


class StoreFault(ProtocolError):
    """The place where sessions are kept fails; `why`: full, readonly, locked, io, damaged, moved, newer, unusable."""

    def __init__(self, why: str, message: str) -> None:
        super().__init__(Kind.INTERNAL_ERROR, message, {"store": why})
        self.why = why


class ConnectionFailed(DragomanError):
    """The connection is no longer there; the message says why and names the peer."""


class TransportClosed(ConnectionFailed):
    """The peer's bytes ended, or the transport was closed."""


class AgentExited(TransportClosed):
    """The agent process ended; `status` says how, `stderr` holds its last lines."""

    def __init__(self, message: str, *, status: int | None = None, stderr: str = "") -> None:
        super().__init__(message)
        self.status = status
        self.stderr = stderr


class StartFailed(ConnectionFailed):
    """The agent could not be started; the message says what to try."""


class SandboxUnavailable(StartFailed):
    """A sandbox cannot be had as it was asked for; nothing was started, and the message says what to do."""


class Unreachable(StartFailed):
    """A remote agent cannot be reached; `status` is its HTTP answer, `is_passing` whether trying again may help."""

    def __init__(
        self, message: str, *, status: int | None = None, is_passing: bool = False, wait: float | None = None
    ) -> None:
        super().__init__(message)
        self.status = status
        self.is_passing = is_passing
        self.wait = wait  # seconds, where the server says how long


class WriteStalled(ConnectionFailed):
    """The peer took no bytes for longer than the stall limit."""


class Overloaded(ConnectionFailed):
    """More input arrived unread than the hard limit allows."""


class ConfigFault(DragomanError):
    """A file of the user's that cannot be used as it is; `faults` has one line for each thing that is wrong."""

    def __init__(self, faults: list[str]) -> None:
        more = f" (and {len(faults) - 1} more)" if len(faults) > 1 else ""
        super().__init__(faults[0] + more)
        self.faults = faults
