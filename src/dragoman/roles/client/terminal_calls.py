"""The terminal/* calls of an agent (docs/protocol/files-terminals.md#terminal-create)."""

from __future__ import annotations

import asyncio
import shlex
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from msgspec import UNSET

from dragoman.dialect.reshape import SIDE_DATA_KEY
from dragoman.dialect.side_data import int_or_none, side_data_meta, side_data_of
from dragoman.errors import Kind, ProtocolError
from dragoman.schema.terminal import (
    CreateTerminalResult,
    KillTerminalResult,
    ReleaseTerminalResult,
    TerminalExitStatus,
    TerminalOutputResult,
    WaitForExitResult,
)

if TYPE_CHECKING:
    from dragoman.roles.client.workspace import AgentWorkspace
    from dragoman.workspace.terminal import Terminal
    from dragoman.workspace.terminals import Terminals

# Open terminals of all sessions of one agent: each is a process tree.
MAX_TERMINALS = 32


class TerminalCalls:
    """The terminals of one agent's sessions."""

    def __init__(self, workspace: AgentWorkspace) -> None:
        self._workspace = workspace
        self._terminals: dict[str, Terminals] = {}
        limit = workspace.access.max_terminals
        self._max_terminals = MAX_TERMINALS if limit is None else limit

    def methods(self) -> dict[str, Callable[[Any], Any]]:
        """Return the handled methods."""
        return {
            "terminal/create": self._create,
            "terminal/output": self._output,
            "terminal/wait_for_exit": self._wait,
            "terminal/kill": self._kill,
            "terminal/release": self._release,
        }

    async def end_session(self, session_id: str) -> None:
        """Close the terminals of a session."""
        terminals = self._terminals.pop(session_id, None)
        if terminals is not None:
            await terminals.close()

    async def close(self) -> None:
        """Close all terminals."""
        await asyncio.gather(*(terminals.close() for terminals in self._terminals.values()))

    def _terminals_of(self, session_id: str) -> Terminals:
        if session_id not in self._terminals:
            from dragoman.config.paths import protect_user_files
            from dragoman.workspace.terminals import Terminals

            roots = self._workspace.roots(session_id)
            sandbox = protect_user_files(self._workspace.sandbox)
            self._terminals[session_id] = Terminals(
                roots, max_open=self._max_terminals, sandbox=sandbox, resolve=self._workspace.access.resolve_folder
            )
        return self._terminals[session_id]

    async def _create(self, params: Any) -> CreateTerminalResult:
        line = shlex.join([params.command, *(params.args or ())]) if params.args else params.command
        terminals = self._terminals_of(params.session_id)
        env = {pair.name: pair.value for pair in params.env or ()}
        options = side_data_of(params)
        pty = self._pty_options(options)
        folder = terminals.folder(params.cwd or None)
        await self._workspace.require_approval(
            "execute",
            line,
            params.session_id,
            env=env,
            cwd=folder,
            interactive=bool(pty),
            method="terminal/create",
        )
        self._check_limit()
        timeout = options.get("timeout")
        terminal = await terminals.create(
            params.command,
            params.args or (),
            folder,
            env,
            int_or_none(params.output_byte_limit),
            timeout / 1000 if isinstance(timeout, int | float) else None,
            separate_streams=options.get("streams") is True,
            is_resolved=True,
            **pty,
        )
        self._workspace.access.remember_terminal(terminal)
        return CreateTerminalResult(terminal_id=terminal.id, meta=side_data_meta(params, {"pid": terminal.pid}))

    def _pty_options(self, options: dict[str, Any]) -> dict[str, Any]:
        """Return the options of a pseudo-terminal if the agent asks for one."""
        if options.get("interactive") is not True:
            return {}
        if not self._workspace.access.interactive:
            raise ProtocolError(
                Kind.CAPABILITY_UNSUPPORTED,
                "this client does not offer interactive terminals; create one without interactive",
                {"capability": "terminal.interactive"},
            )
        sizes = {name: int_or_none(options.get(name)) for name in ("rows", "columns")}
        return {"pty": True, **{name: value for name, value in sizes.items() if value is not None}}

    def _check_limit(self) -> None:
        if sum(map(len, self._terminals.values())) >= self._max_terminals:
            message = f"{self._max_terminals} terminals are open; release one first"
            raise ProtocolError(Kind.RATE_LIMITED, message, {"limit": self._max_terminals})

    def _find_terminal(self, params: Any) -> Terminal:
        return self._terminals_of(params.session_id).get(params.terminal_id)

    def _output(self, params: Any) -> TerminalOutputResult:
        terminal = self._find_terminal(params)
        text, truncated, exit_ = terminal.output()
        status: Any = UNSET
        if exit_ is not None:
            status = TerminalExitStatus(exit_code=exit_.code, signal=exit_.signal)
        streams = terminal.streams()
        meta = {SIDE_DATA_KEY: {"streams": streams}} if streams else UNSET
        return TerminalOutputResult(output=text, truncated=truncated, exit_status=status, meta=meta)

    async def _wait(self, params: Any) -> WaitForExitResult:
        terminal = self._find_terminal(params)
        exit_ = await terminal.wait()
        meta = side_data_meta(params, {"timedOut": True}) if terminal.timed_out else UNSET
        return WaitForExitResult(exit_code=exit_.code, signal=exit_.signal, meta=meta)

    def _kill(self, params: Any) -> KillTerminalResult:
        options = side_data_of(params)
        killed = self._find_terminal(params).kill(options.get("signal", "SIGTERM"), bool(options.get("force", False)))
        return KillTerminalResult(meta=UNSET if killed else side_data_meta(params, {"killed": False}))

    async def _release(self, params: Any) -> ReleaseTerminalResult:
        await self._find_terminal(params).release()
        return ReleaseTerminalResult()
