"""The terminal calls of an agent, answered from the workspace (reference 1.12).

Takes params, asks the loan for leave with the command line, and gives results. All sessions of an agent share one bound
on how many are open. Below is the workspace.
"""

from __future__ import annotations

import asyncio
import shlex
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from msgspec import UNSET

from dragoman.dialect.reshape import SIDE
from dragoman.dialect.side_data import noted_for, number, side
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
    from dragoman.roles.client.workspace import Loan
    from dragoman.workspace.terminal import Terminal
    from dragoman.workspace.terminals import Terminals

# Terminals open at once, of all sessions of an agent: each is a process tree of the user's.
MAX_TERMINALS = 32


class TerminalCalls:
    """Terminals of the sessions of one agent."""

    def __init__(self, loan: Loan) -> None:
        self._loan = loan
        self._terminals: dict[str, Terminals] = {}
        told = loan.lending.max_terminals
        self._most = MAX_TERMINALS if told is None else told

    def served(self) -> dict[str, Callable[[Any], Any]]:
        """What is answered."""
        return {
            "terminal/create": self._create,
            "terminal/output": self._output,
            "terminal/wait_for_exit": self._wait,
            "terminal/kill": self._kill,
            "terminal/release": self._release,
        }

    async def end(self, session_id: str) -> None:
        """End every terminal of a session."""
        terminals = self._terminals.pop(session_id, None)
        if terminals is not None:
            await terminals.close()

    async def close(self) -> None:
        """End every terminal."""
        await asyncio.gather(*(terminals.close() for terminals in self._terminals.values()))

    def _open(self, session_id: str) -> Terminals:
        if session_id not in self._terminals:
            from dragoman.config.paths import closed
            from dragoman.workspace.terminals import Terminals

            roots = self._loan.roots(session_id)
            sandbox = closed(self._loan.sandbox)
            self._terminals[session_id] = Terminals(
                roots, max_open=self._most, sandbox=sandbox, resolve=self._loan.resolve
            )
        return self._terminals[session_id]

    async def _create(self, params: Any) -> CreateTerminalResult:
        line = shlex.join([params.command, *(params.args or ())]) if params.args else params.command
        terminals = self._open(params.session_id)
        env = {pair.name: pair.value for pair in params.env or ()}
        wanted = side(params)
        screen = self._screen(wanted)
        folder = terminals.folder(params.cwd or None)
        await self._loan.ask(
            "execute",
            line,
            params.session_id,
            env=env,
            cwd=folder,
            interactive=bool(screen),
            call="terminal/create",
        )
        self._check_room()
        timeout = wanted.get("timeout")
        terminal = await terminals.create(
            params.command,
            params.args or (),
            folder,
            env,
            number(params.output_byte_limit),
            timeout / 1000 if isinstance(timeout, int | float) else None,
            apart=wanted.get("streams") is True,
            is_resolved=True,
            **screen,
        )
        self._loan.lending.show(terminal)
        return CreateTerminalResult(terminal_id=terminal.id, meta=noted_for(params, {"pid": terminal.pid}))

    def _screen(self, wanted: dict[str, Any]) -> dict[str, Any]:
        """A real terminal, where the agent wants one."""
        if wanted.get("interactive") is not True:
            return {}
        if not self._loan.lending.interactive:
            raise ProtocolError(
                Kind.CAPABILITY_UNSUPPORTED,
                "this client has no interactive terminals; ask for a plain one",
                {"capability": "terminal.interactive"},
            )
        sizes = {name: number(wanted.get(name)) for name in ("rows", "columns")}
        return {"pty": True, **{name: value for name, value in sizes.items() if value is not None}}

    def _check_room(self) -> None:
        if sum(map(len, self._terminals.values())) >= self._most:
            message = f"{self._most} terminals are open; release one first"
            raise ProtocolError(Kind.RATE_LIMITED, message, {"limit": self._most})

    def _terminal(self, params: Any) -> Terminal:
        return self._open(params.session_id).get(params.terminal_id)

    def _output(self, params: Any) -> TerminalOutputResult:
        terminal = self._terminal(params)
        text, truncated, ended = terminal.output()
        status: Any = UNSET
        if ended is not None:
            status = TerminalExitStatus(exit_code=ended.code, signal=ended.signal)
        streams = terminal.streams()
        apart = {SIDE: {"streams": streams}} if streams else UNSET
        return TerminalOutputResult(output=text, truncated=truncated, exit_status=status, meta=apart)

    async def _wait(self, params: Any) -> WaitForExitResult:
        terminal = self._terminal(params)
        ended = await terminal.wait()
        late = noted_for(params, {"timedOut": True}) if terminal.timed_out else UNSET
        return WaitForExitResult(exit_code=ended.code, signal=ended.signal, meta=late)

    def _kill(self, params: Any) -> KillTerminalResult:
        wanted = side(params)
        killed = self._terminal(params).kill(wanted.get("signal", "SIGTERM"), bool(wanted.get("force", False)))
        return KillTerminalResult(meta=UNSET if killed else noted_for(params, {"killed": False}))

    async def _release(self, params: Any) -> ReleaseTerminalResult:
        await self._terminal(params).release()
        return ReleaseTerminalResult()
