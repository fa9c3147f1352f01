"""Errors and ends of turns for the user: one line with advice, and the exit code."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Mapping

from dragoman.cli import exit_codes
from dragoman.cli.ui.terminal import TerminalOutput, sanitize, sanitize_line
from dragoman.config.paths import user_paths
from dragoman.errors import (
    AgentExited,
    ConnectionFailed,
    DragomanError,
    Kind,
    ProtocolError,
    SandboxUnavailable,
    StoreFault,
)

# Advice for arguments of the library, and for flags and commands.
_CLI_ADVICE: Mapping[str, str] = {
    "(tls=FILE)": "(dragoman hosts add NAME URL --ca FILE)",
    "(token=..., or a share link)": "(--token-file, DRAGOMAN_TOKEN, or dragoman hosts add NAME URL)",
    "or pass tls=False if the network is safe": "or through a tunnel of another kind",
}

# Refusals that can come from a host, from its server or from our own side, not only from the agent.
REFUSAL_KINDS = frozenset(
    {Kind.PERMISSION_DENIED, Kind.ACCESS_DENIED, Kind.RATE_LIMITED, Kind.TOO_LARGE, Kind.CAPABILITY_UNSUPPORTED}
)

# Members of the data of errors that only a host makes (host/access.py, host/agents.py).
_HOST_MARKS = frozenset({"interrupted", "moved", "agents"})

# Failures of the store that another folder does not have.
_BAD_FOLDER = frozenset({"full", "readonly", "io", "unusable"})


class HostAnswer(ProtocolError):
    """An error that the API of a host answers with: of the host itself, not of its agent."""


def with_cli_advice(text: str) -> str:
    """Return the text with advice that can be followed here."""
    for argument, advice in _CLI_ADVICE.items():
        text = text.replace(argument, advice)
    return text


def error_kind(error: DragomanError) -> str:
    """Return the kind of an error for --json."""
    if isinstance(error, StoreFault):
        return f"store_{error.why}"
    if isinstance(error, ProtocolError):
        return error.kind
    return "connection_failed" if isinstance(error, ConnectionFailed) else "usage"


def error_text(error: ProtocolError | ConnectionFailed) -> str:
    """Return one line for an error, with a hint where there is one; stderr of an agent that exited follows."""
    if isinstance(error, AgentExited):
        return sanitize(str(error)).replace("; stderr: ", "; stderr:\n") + sanitize_line(error.advice)
    if isinstance(error, ConnectionFailed):
        return sanitize(with_cli_advice(str(error)))
    if isinstance(error, StoreFault):
        return f"{sanitize(error.message)}; {_store_advice(error)}"
    if isinstance(error.data, dict) and "store" in error.data:  # of a host, or of an agent with a store
        return f"the session store failed ({sanitize(str(error.data['store']))}): {sanitize(error.explanation)}"
    who = "the host" if _is_of_host(error) else "the agent"
    answer = "the request was refused" if error.kind in REFUSAL_KINDS else f"{who} answered with an error"
    text = f"{answer} ({sanitize(error.kind)}): {sanitize(error.explanation)}"
    if error.kind == Kind.AUTH_REQUIRED:
        text = f"{text.rstrip('.')}; log in with the agent's own command first, or choose a login in: dragoman chat"
    if error.kind == Kind.INTERNAL_ERROR and not _is_of_host(error):
        text += "; --verbose shows what the agent writes to stderr"
    return text


def _is_of_host(error: ProtocolError) -> bool:
    """Return whether the host itself made an error, not its agent."""
    return isinstance(error, HostAnswer) or (isinstance(error.data, dict) and not _HOST_MARKS.isdisjoint(error.data))


def _store_advice(error: StoreFault) -> str:
    if error.why not in _BAD_FOLDER:
        return "use --no-store to run without storing the session"
    if not _is_state_writable():  # the audit log is there too, and is written also without a store
        return "set XDG_STATE_HOME to a folder that can be written"
    return "set XDG_STATE_HOME to another folder, or use --no-store to run without storing the session"


def _is_state_writable() -> bool:
    folder = user_paths().state
    try:
        os.makedirs(folder, mode=0o700, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder):
            return True
    except OSError:
        return False


def exit_code_of(error: ProtocolError | ConnectionFailed) -> int:
    """Return the exit code of an error."""
    if isinstance(error, SandboxUnavailable):
        return exit_codes.NO_SANDBOX
    if isinstance(error, ConnectionFailed):
        return exit_codes.DIED
    if isinstance(error, StoreFault):
        return exit_codes.NO_STORE
    return exit_codes.FAILED


def as_agent_exit(error: ProtocolError | ConnectionFailed) -> ProtocolError | ConnectionFailed:
    """Return AgentExited for a host's error that says that its agent exited; any other error as it is."""
    data = error.data if isinstance(error, ProtocolError) else None
    if not isinstance(data, dict) or data.get("agent") != "exited":
        return error
    message, _, _ = str(error).partition("; the next prompt starts")
    return AgentExited(message, status=data.get("status"), stderr=str(data.get("stderr", "")))


def report_turn_end(reason: str, terminal: TerminalOutput, refused_count: int = 0) -> int:
    """Return the exit code of a turn that ended; report an abnormal end."""
    code = exit_codes.BY_STOP_REASON.get(reason, exit_codes.FAILED)
    if code:
        terminal.diagnostics.write_line(f"the turn ended: {reason.replace('_', ' ')}", "yellow")
    return exit_codes.PERMISSION_REFUSED if code == exit_codes.OK and refused_count else code
