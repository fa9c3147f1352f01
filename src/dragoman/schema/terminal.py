"""Terminals that a client runs for an agent (docs/protocol/files-terminals.md#terminal-create), and the draft's pushed
output (docs/protocol/extensions.md#pushed-output).
"""

from __future__ import annotations

from dragoman.schema.base import UNSET, Maybe, Model
from dragoman.schema.mcp import NameValue


class CreateTerminalParams(Model, kw_only=True):
    """terminal/create."""

    session_id: str
    command: str
    args: Maybe[list[str]] = UNSET
    env: Maybe[list[NameValue]] = UNSET
    cwd: Maybe[str] = UNSET
    output_byte_limit: Maybe[int] = UNSET


class CreateTerminalResult(Model, kw_only=True):
    """The terminal that was started."""

    terminal_id: str


class TerminalOutputParams(Model, kw_only=True):
    """terminal/output towards the client: what has been written so far?"""

    session_id: str
    terminal_id: str


class TerminalExitStatus(Model, kw_only=True):
    """How a command ended."""

    exit_code: Maybe[int] = UNSET
    signal: Maybe[str] = UNSET


class TerminalOutputResult(Model, kw_only=True):
    """Output so far; `exit_status` only once the command has ended."""

    output: str
    truncated: bool
    exit_status: Maybe[TerminalExitStatus] = UNSET


class WaitForExitParams(Model, kw_only=True):
    """terminal/wait_for_exit."""

    session_id: str
    terminal_id: str


class WaitForExitResult(Model, kw_only=True):
    """How the command ended."""

    exit_code: Maybe[int] = UNSET
    signal: Maybe[str] = UNSET


class KillTerminalParams(Model, kw_only=True):
    """terminal/kill: end the command, keep the terminal."""

    session_id: str
    terminal_id: str


class KillTerminalResult(Model, kw_only=True):
    """The command was told to end."""


class ReleaseTerminalParams(Model, kw_only=True):
    """terminal/release: end the command and forget the terminal."""

    session_id: str
    terminal_id: str


class ReleaseTerminalResult(Model, kw_only=True):
    """The terminal is gone."""


class PushOutputParams(Model, kw_only=True):
    """terminal/output towards the agent, in the draft: a piece of output, unasked."""

    session_id: str
    terminal_id: str
    data: str
    stream: Maybe[str] = UNSET


class PushOutputResult(Model, kw_only=True):
    """The piece arrived."""

    received: Maybe[bool] = UNSET


class CancelTerminalParams(Model, kw_only=True):
    """terminal/cancel: end the command of a terminal that the agent runs."""

    session_id: str
    terminal_id: str


class CancelTerminalResult(Model, kw_only=True):
    """The agent ends the command."""
