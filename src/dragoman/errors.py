"""The error tree, and the kinds of protocol errors.

    DragomanError
      ProtocolError        an error that one peer sends the other; has a kind, not only a code
        Unsayable          a message that a dialect cannot express
        ForeignError       an error of another protocol, whose code and data are sent as they are
        StoreFault         the session store failed; the message says how, and what to do
      ConnectionFailed     the connection is lost
        TransportClosed    end of file, or the transport was closed
          AgentExited      the agent process ended; has its exit status and last stderr lines
        StartFailed        the agent could not be started
          SandboxUnavailable   this machine cannot provide the requested sandbox
          Unreachable      a remote agent cannot be reached, or refuses the connection
        WriteStalled       the peer read no bytes for too long
        Overloaded         more unread input than the hard limit
      ConfigFault          a user's file is invalid; names the file, the line and the key

Each dialect maps kinds to error codes; all other code uses kinds.
"""

from __future__ import annotations

import re
from typing import Any


class Kind:
    """The kinds of protocol errors: one meaning each, whatever code a dialect uses."""

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
    CONNECTION_LOST = "connection_lost"  # the answer was lost; raised locally, never sent by the peer


KINDS: tuple[str, ...] = tuple(value for name, value in vars(Kind).items() if name.isupper())


class DragomanError(Exception):
    """Base class of all errors that Dragoman raises."""


# Characters of a peer's error details that users see: a sentence or two, not a stack trace.
DETAILS = 500


class ProtocolError(DragomanError):
    """An error that one peer sends the other: a kind, a message that says what to do, and data."""

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
        """The message, followed by the peer's details: many send "Internal error" and put the reason there
        (docs/protocol/peers.md#missing-params).
        """
        details = self.data.get("details") if isinstance(self.data, dict) else None
        if not isinstance(details, str) or not details.strip() or details in self.message:
            return self.message
        return f"{self.message}: {details.strip()[:DETAILS]}"

    def __repr__(self) -> str:
        return f"ProtocolError({self.kind!r}, {self.message!r}, {self.data!r})"


class Unsayable(ProtocolError):
    """A dialect cannot express a message; the text names what."""

    def __init__(self, dialect: str, what: str) -> None:
        super().__init__(Kind.CAPABILITY_UNSUPPORTED, f"the {dialect} dialect cannot express {what}", {"what": what})
        self.what = what


class ForeignError(ProtocolError):
    """An error of another protocol that is carried by this one (MCP): its code and data are sent as they are."""

    def __init__(self, code: int, message: str, data: Any = None) -> None:
        super().__init__(Kind.INTERNAL_ERROR, message, data if isinstance(data, dict) else None, code=code)
        self.raw_data = data


class StoreFault(ProtocolError):
    """The session store failed; `why`: full, readonly, locked, io, damaged, moved, newer, unusable, away, fenced,
    taken, unknown.
    """

    def __init__(self, why: str, message: str) -> None:
        super().__init__(Kind.INTERNAL_ERROR, message, {"store": why})
        self.why = why


class ConnectionFailed(DragomanError):
    """The connection is lost; the message says why and names the peer."""


class TransportClosed(ConnectionFailed):
    """The peer closed the connection, or the transport was closed."""


# What to try with a program that does not speak ACP.
ACP_OPTION_HINT = "many agents speak ACP only with an option or a subcommand, such as --acp"

# Characters of a line that an error quotes.
MAX_QUOTE = 80

# Programs whose author may have forgotten agent.run(), in the words of a message of AgentExited.
_PYTHON_PEER = re.compile(r"agent (?:python|pypy|uv)[\w.]* |agent \S+\.py ")


class AgentExited(TransportClosed):
    """The agent process ended; `status` says how, `stderr` holds its last lines.

    `stdout` is the beginning of what it wrote that is no message, if it never answered initialize.
    """

    def __init__(self, message: str, *, status: int | None = None, stderr: str = "") -> None:
        super().__init__(message)
        self.status = status
        self.stderr = stderr
        self.stdout = ""

    @property
    def advice(self) -> str:
        """What to add about a program that ended without an explanation, and what to try; empty if it gave one."""
        if self.stderr.strip() or (self.status != 0 and not self.stdout):
            return ""
        if self.stdout:
            return f'; it wrote what is not ACP: "{self.stdout[:MAX_QUOTE]}"; {ACP_OPTION_HINT}'
        if _PYTHON_PEER.match(str(self)):
            return " without any output; does the program end with agent.run()?"
        return f" without any message; {ACP_OPTION_HINT}"


class StartFailed(ConnectionFailed):
    """The agent could not be started; the message says what to try."""


class SandboxUnavailable(StartFailed):
    """The requested sandbox is unavailable; nothing was started, and the message says what to do."""


class Unreachable(StartFailed):
    """A remote agent cannot be reached; `status` is its HTTP status, `is_passing` whether a retry may help."""

    def __init__(
        self, message: str, *, status: int | None = None, is_passing: bool = False, wait: float | None = None
    ) -> None:
        super().__init__(message)
        self.status = status
        self.is_passing = is_passing
        self.wait = wait  # seconds until a retry, if the server says so


class WriteStalled(ConnectionFailed):
    """The peer read no bytes for longer than the stall limit."""


class Overloaded(ConnectionFailed):
    """The unread input exceeds the hard limit."""


class ConfigFault(DragomanError):
    """A user's file is invalid; `faults` has one line for each problem."""

    def __init__(self, faults: list[str]) -> None:
        more = f" (and {len(faults) - 1} more)" if len(faults) > 1 else ""
        super().__init__(faults[0] + more)
        self.faults = faults
