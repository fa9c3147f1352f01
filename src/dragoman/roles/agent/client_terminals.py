"""Terminals as an agent uses them: the client's when it lends them, the agent's own when it does not.

The agent's own are confined to the session's folders exactly as a client would confine them. Above are turns; below
are the connection and the workspace.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any

import msgspec
from msgspec import UNSET

from dragoman.dialect.side_data import with_side_data
from dragoman.engine.connection import Connection
from dragoman.errors import DragomanError, Kind, ProtocolError
from dragoman.roles.agent.client_files import ClientFiles as ClientFiles
from dragoman.schema.mcp import NameValue
from dragoman.schema.terminal import (
    CreateTerminalParams,
    KillTerminalParams,
    ReleaseTerminalParams,
    TerminalOutputParams,
    WaitForExitParams,
)

# Some clients never answer a wait for a command that was killed (peers.md 30); its output then says how it ended.
WAIT_AFTER_KILL = 5.0

DEFAULT_SIGNAL = "SIGTERM"

# Signals that mean an end, which every client can be asked for.
TERMINATING_SIGNALS = frozenset({DEFAULT_SIGNAL, "SIGKILL", "SIGINT", "SIGHUP", "SIGQUIT"})


class CommandResult(msgspec.Struct, frozen=True, kw_only=True):
    """A command that ended: what it printed and how it ended."""

    output: str
    truncated: bool
    exit_code: int | None
    signal: str | None


class ClientTerminals:
    """Running commands in the session's folders."""

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
        command: str,
        args: Sequence[str] = (),
        *,
        cwd: str | None = None,
        env: Mapping[str, str] | None = None,
        output_byte_limit: int | None = None,
        size: tuple[int, int] | None = None,
        timeout: float | None = None,
    ) -> ClientTerminal:
        """Start a command; release the terminal when done with it (`async with` does).

        With a `size` (rows, columns) it runs in a real terminal, which a client must offer and its dialect can say.
        After `timeout` seconds it is ended: by the client where it can be told, else from here.
        """
        if not self.uses_client:
            real: dict[str, Any] = {} if size is None else {"pty": True, "rows": size[0], "columns": size[1]}
            own = await self._local_terminals().create(command, args, cwd, env, output_byte_limit, timeout, **real)
            return ClientTerminal(own.id, None, self._session_id, own)
        params = CreateTerminalParams(
            session_id=self._session_id,
            command=command,
            args=list(args),
            cwd=cwd or UNSET,
            env=[NameValue(name=name, value=value) for name, value in (env or {}).items()] or UNSET,
            output_byte_limit=UNSET if output_byte_limit is None else output_byte_limit,
        )
        if size is not None:
            params = self._with_pty(params, *size)
        is_told = timeout is not None and _speaks_draft(self._connection)
        if timeout is not None and is_told:
            params = with_side_data(params, timeout=round(timeout * 1000))
        result = await self._connection.request("terminal/create", params)
        late = None if is_told else timeout
        return ClientTerminal(result.terminal_id, self._connection, self._session_id, None, late)

    def _with_pty(self, params: CreateTerminalParams, rows: int, columns: int) -> CreateTerminalParams:
        """The same with a real terminal; what a peer says beside official v1 is not believed, so only in the draft."""
        if not _speaks_draft(self._connection) or not self._connection.offers(
            "client._meta.dragoman.terminal.interactive"
        ):
            raise ProtocolError(
                Kind.CAPABILITY_UNSUPPORTED,
                "the client has no interactive terminals to lend",
                {"capability": "terminal.interactive"},
            )
        told: CreateTerminalParams = with_side_data(params, interactive=True, rows=rows, columns=columns)
        return told

    async def run(self, command: str, args: Sequence[str] = (), **options: Any) -> CommandResult:
        """Run a command to its end and give what it printed."""
        async with await self.create(command, args, **options) as terminal:
            await terminal.wait()
            return await terminal.output()

    async def close(self) -> None:
        """End the agent's own terminals; the client ends its own."""
        if self._local is not None:
            await self._local.close()

    def _local_terminals(self) -> Any:
        if self._local is None:
            from dragoman.workspace.terminals import Terminals

            self._local = Terminals(self._roots)
        return self._local


class ClientTerminal:
    """One command running in a terminal of the client, or in one of our own."""

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
        with suppress(DragomanError):  # it has ended, or nobody is there any more
            await self.kill()

    async def __aenter__(self) -> ClientTerminal:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.release()

    async def output(self) -> CommandResult:
        """What it printed so far, and how it ended if it did."""
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
        """Wait for the end; its exit code, None when a signal ended it."""
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
        """End the command, by a signal or at once; its output stays until release.

        A client whose dialect has no words for signals ends it in its own way; one that is no end is refused there.
        """
        if self._connection is None:
            self._local.kill(signal, force)
            return
        wanted: dict[str, Any] = {} if signal == DEFAULT_SIGNAL else {"signal": signal}
        wanted |= {"force": True} if force else {}
        if not _speaks_draft(self._connection):
            if signal not in TERMINATING_SIGNALS:
                message = f"this client cannot be told to send {signal}; it only ends commands"
                raise ProtocolError(Kind.CAPABILITY_UNSUPPORTED, message, {"signal": signal})
            wanted = {}
        self._killed = signal in TERMINATING_SIGNALS
        asked = KillTerminalParams(session_id=self._session_id, terminal_id=self.id)
        await self._connection.request("terminal/kill", with_side_data(asked, **wanted) if wanted else asked)

    async def release(self) -> None:
        """Let go of the terminal; what still runs is ended."""
        if self._timeout_task is not None:
            self._timeout_task.cancel()
        if self._connection is None:
            await self._local.release()
        else:
            await self._request("terminal/release", ReleaseTerminalParams)

    async def _request(self, method: str, params: Any, timeout: float | None = None) -> Any:
        assert self._connection is not None
        asked = params(session_id=self._session_id, terminal_id=self.id)
        return await self._connection.request(method, asked, timeout=timeout)


def _speaks_draft(connection: Connection) -> bool:
    """Whether the client hears what official v1 has no words for."""
    return connection.codec is not None and connection.codec.dialect.name == "draft"
