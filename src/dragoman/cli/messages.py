"""Errors and ends of turns for the user: one line with advice, and the exit code."""

from __future__ import annotations

from collections.abc import Mapping

from dragoman.cli import exit_codes
from dragoman.cli.ui.terminal import TerminalOutput, sanitize
from dragoman.errors import AgentExited, ConnectionFailed, Kind, ProtocolError, SandboxUnavailable, StoreFault

# Advice for arguments of the library, and for flags and commands.
_CLI_ADVICE: Mapping[str, str] = {
    "(tls=FILE)": "(dragoman hosts add NAME URL --ca FILE)",
    "(token=..., or a share link)": "(--token-file, DRAGOMAN_TOKEN, or dragoman hosts add NAME URL)",
    "or say tls=False if the network is safe": "or through a tunnel of another kind",
}

# Refusals that can come from a host, from its server or from our own side, not only from the agent.
REFUSAL_KINDS = frozenset({Kind.PERMISSION_DENIED, Kind.ACCESS_DENIED, Kind.RATE_LIMITED, Kind.TOO_LARGE})


def with_cli_advice(text: str) -> str:
    """Return the text with advice that can be followed here."""
    for argument, advice in _CLI_ADVICE.items():
        text = text.replace(argument, advice)
    return text


def error_text(error: ProtocolError | ConnectionFailed) -> str:
    """Return one line for an error, with a hint where there is one; stderr of an agent that exited follows."""
    if isinstance(error, AgentExited):
        if error.status == 0 and not error.stderr.strip():
            return f"{sanitize(str(error))} without any output; does the program end with agent.run()?"
        return sanitize(str(error)).replace("; stderr: ", "; stderr:\n")
    if isinstance(error, ConnectionFailed):
        return sanitize(with_cli_advice(str(error)))
    if isinstance(error, StoreFault):
        return f"{sanitize(error.message)}; use --no-store to run without storing the session"
    who = "the request was refused" if error.kind in REFUSAL_KINDS else "the agent answered with an error"
    text = f"{who} ({sanitize(error.kind)}): {sanitize(error.explanation)}"
    if error.kind == Kind.AUTH_REQUIRED:
        text += "; log in with the agent's own command first, or with: dragoman chat"
    if error.kind == Kind.INTERNAL_ERROR:
        text += "; --verbose shows what the agent writes to stderr"
    return text


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
