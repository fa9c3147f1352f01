"""Terminals for an agent: those of the client if it offers them, local ones otherwise.

Local terminals are confined to the session's folders, as a client would confine them.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any

import msgspec
from msgspec import UNSET

from dragoman.dialect.side_data import with_side_data
from dragoman.engine.connection import Connection
from dragoman.errors import DragomanError, Kind, ProtocolError
from dragoman.roles.agent.author.arguments import check_environment, check_numbers, check_size, command_words, path_text
from dragoman.schema.mcp import NameValue
from dragoman.schema.terminal import (
    CreateTerminalParams,
    KillTerminalParams,
    ReleaseTerminalParams,
    TerminalOutputParams,
    WaitForExitParams,
)

# Some clients never answer a wait for a killed command (docs/protocol/peers.md#line-slices); its output then says how
# it ended. Seconds.
WAIT_AFTER_KILL = 5.0

DEFAULT_SIGNAL = "SIGTERM"

# Signals that end a command; every client can be asked for these.
TERMINATING_SIGNALS = frozenset({DEFAULT_SIGNAL, "SIGKILL", "SIGINT", "SIGHUP", "SIGQUIT"})


class CommandResult(msgspec.Struct, frozen=True, kw_only=True):
    """The output of a command and how it ended."""

    output: str
    truncated: bool
    exit_code: int | None
    signal: str | None


class ClientTerminals:
    """Run commands in the session's folders, through the client or locally."""

    def __init__(self, connection: Connection, session_id: str, roots: Sequence[str]) -> None:
        self._connection = connection
        self._session_id = session_id
        self._roots = list(roots)
        self._local: Any = None

    @property
    def uses_client(self) -> bool:
        """Whether commands run in the client's terminals."""
        return self._connection.offers("client.terminal")

    async def create(
        self,
        command: str | os.PathLike[str],
        args: Sequence[str | os.PathLike[str]] = (),
        *,
        cwd: str | os.PathLike[str] | None = None,
        env: Mapping[str, str] | None = None,
        output_byte_limit: int | None = None,
        size: tuple[int, int] | None = None,
        timeout: float | None = None,
    ) -> ClientTerminal:
        """Start a command. Release the terminal when done, or use it with `async with`.

        With a `size` (rows, columns) the command gets a pseudo-terminal, which the client and its dialect must support.
        After `timeout` seconds the command is killed: by the client if its dialect can carry the timeout, else by us.
        """
        command, args = command_words(command, args)
        cwd = None if cwd is None else path_text(cwd)
        env = check_environment(env)
        check_numbers(int, output_byte_limit=output_byte_limit)
        check_numbers(float, timeout=timeout)
        check_size("(rows, columns)", size)
        if not self.uses_client:
            pty: dict[str, Any] = {} if size is None else {"pty": True, "rows": size[0], "columns": size[1]}
            local = await self._local_terminals().create(command, args, cwd, env, output_byte_limit, timeout, **pty)
            return ClientTerminal(local.id, None, self._session_id, local)
        params = CreateTerminalParams(
            session_id=self._session_id,
            command=command,
            args=args,
            cwd=cwd or UNSET,
            env=[NameValue(name=name, value=value) for name, value in (env or {}).items()] or UNSET,
            output_byte_limit=UNSET if output_byte_limit is None else output_byte_limit,
        )
        if size is not None:
            params = self._with_pty(params, *size)
        sends_timeout = timeout is not None and self._connection.dialect.has_workspace_options
        if timeout is not None and sends_timeout:
            params = with_side_data(params, timeout=round(timeout * 1000))
        result = await self._connection.request("terminal/create", params)
        own_timeout = None if sends_timeout else timeout
        return ClientTerminal(result.terminal_id, self._connection, self._session_id, None, own_timeout)

    def _with_pty(self, params: CreateTerminalParams, rows: int, columns: int) -> CreateTerminalParams:
        """Return the params with a pseudo-terminal. Only the draft: side data next to v1 is not trusted."""
        if not self._connection.dialect.has_workspace_options or not self._connection.offers(
            "client._meta.dragoman.terminal.interactive"
        ):
            raise ProtocolError(
                Kind.CAPABILITY_UNSUPPORTED,
                "the client does not offer interactive terminals",
                {"capability": "terminal.interactive"},
            )
        interactive: CreateTerminalParams = with_side_data(params, interactive=True, rows=rows, columns=columns)
        return interactive

    async def run(
        self, command: str | os.PathLike[str], args: Sequence[str | os.PathLike[str]] = (), **options: Any
    ) -> CommandResult:
        """Run a command to its end and return its output."""
        async with await self.create(command, args, **options) as terminal:
            await terminal.wait()
            return await terminal.output()

    async def close(self) -> None:
        """Close the local terminals. The client closes its own."""
        if self._local is not None:
            await self._local.close()

    def _local_terminals(self) -> Any:
        if self._local is None:
            from dragoman.workspace.terminals import Terminals

            self._local = Terminals(self._roots)
        return self._local


class ClientTerminal:
    """One command running in a terminal of the client or a local one."""

    def __init__(
        self, id: str, connection: Connection | None, session_id: str, local: Any, timeout: float | None = None
    ) -> None:
        self.id = id
        self._connection = connection
        self._session_id = session_id
        self._local = local
        self._killed = False
        self._timeout_task = None if timeout is None else asyncio.create_task(self._kill_after(timeout))

    async def _kill_after(self, timeout: float) -> None:
        await asyncio.sleep(timeout)
        with suppress(DragomanError):  # the command has ended, or the client has disconnected
            await self.kill()

    async def __aenter__(self) -> ClientTerminal:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.release()

    async def output(self) -> CommandResult:
        """Return the output so far, and how the command ended if it did."""
        if self._connection is None:
            text, truncated, exit_ = self._local.output()
            code, signal = exit_ if exit_ is not None else (None, None)
            return CommandResult(output=text, truncated=truncated, exit_code=code, signal=signal)
        result = await self._request("terminal/output", TerminalOutputParams)
        status = result.exit_status or None
        return CommandResult(
            output=result.output,
            truncated=result.truncated,
            exit_code=(status.exit_code if status and status.exit_code is not UNSET else None),
            signal=(status.signal or None) if status else None,
        )

    async def wait(self) -> int | None:
        """Wait for the end; return the exit code, or None if a signal ended the command."""
        if self._connection is None:
            return (await self._local.wait()).code  # type: ignore[no-any-return]
        try:
            result = await self._request(
                "terminal/wait_for_exit", WaitForExitParams, WAIT_AFTER_KILL if self._killed else None
            )
        except ProtocolError as error:
            if not self._killed or error.kind != Kind.TIMEOUT:
                raise
            return (await self.output()).exit_code
        return None if result.exit_code is UNSET else result.exit_code

    async def kill(self, signal: str = DEFAULT_SIGNAL, *, force: bool = False) -> None:
        """Send a signal to the command, or kill it with `force`; its output stays until release.

        A client whose dialect cannot carry signals kills the command; signals that do not end it are rejected there.
        """
        if self._connection is None:
            self._local.kill(signal, force)
            return
        side: dict[str, Any] = {} if signal == DEFAULT_SIGNAL else {"signal": signal}
        side |= {"force": True} if force else {}
        if not self._connection.dialect.has_workspace_options:
            if signal not in TERMINATING_SIGNALS:
                message = f"this client cannot send {signal}; it can only end commands"
                raise ProtocolError(Kind.CAPABILITY_UNSUPPORTED, message, {"signal": signal})
            side = {}
        self._killed = signal in TERMINATING_SIGNALS
        params = KillTerminalParams(session_id=self._session_id, terminal_id=self.id)
        await self._connection.request("terminal/kill", with_side_data(params, **side) if side else params)

    async def release(self) -> None:
        """Release the terminal and kill the command if it still runs."""
        if self._timeout_task is not None:
            self._timeout_task.cancel()
        if self._connection is None:
            await self._local.release()
        else:
            await self._request("terminal/release", ReleaseTerminalParams)

    async def _request(self, method: str, kind: Any, timeout: float | None = None) -> Any:
        assert self._connection is not None
        params = kind(session_id=self._session_id, terminal_id=self.id)
        return await self._connection.request(method, params, timeout=timeout)
