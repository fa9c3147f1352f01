"""Terminals as an agent uses them: the client's when it lends them, the agent's own when it does not.

The agent's own are confined to the session's folders exactly as a client would confine them. Above are turns; below
are the connection and the workspace.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec
from msgspec import UNSET

from dragoman.dialect.beside import noted
from dragoman.engine.connection import Connection
from dragoman.errors import Kind, ProtocolError
from dragoman.roles.lent_files import LentFiles as LentFiles
from dragoman.schema.mcp import NameValue
from dragoman.schema.terminal import (
    CreateTerminalParams,
    KillTerminalParams,
    ReleaseTerminalParams,
    TerminalOutputParams,
    WaitForExitParams,
)

# Some clients never answer a wait for a command that was killed (peers.md 30); its output then says how it ended.
KILLED = 5.0


class Finished(msgspec.Struct, frozen=True, kw_only=True):
    """A command that ended: what it printed and how it ended."""

    output: str
    truncated: bool
    exit_code: int | None
    signal: str | None


class LentTerminals:
    """Running commands in the session's folders."""

    def __init__(self, connection: Connection, session_id: str, roots: Sequence[str]) -> None:
        self._connection = connection
        self._session = session_id
        self._roots = list(roots)
        self._own: Any = None

    @property
    def lent(self) -> bool:
        """Whether commands run in the client's terminals."""
        return self._connection.offers("client.terminal")

    async def create(
        self,
        command: str,
        args: Sequence[str] = (),
        *,
        cwd: str | None = None,
        env: Mapping[str, str] | None = None,
        limit: int | None = None,
        size: tuple[int, int] | None = None,
    ) -> LentTerminal:
        """Start a command; release the terminal when done with it (`async with` does).

        With a `size` (rows, columns) it runs in a real terminal, which a client must offer and its dialect can say.
        """
        if not self.lent:
            real: dict[str, Any] = {} if size is None else {"pty": True, "rows": size[0], "columns": size[1]}
            own = await self._terminals().create(command, args, cwd, env, limit, **real)
            return LentTerminal(own.id, None, self._session, own)
        params = CreateTerminalParams(
            session_id=self._session,
            command=command,
            args=list(args),
            cwd=cwd or UNSET,
            env=[NameValue(name=name, value=value) for name, value in (env or {}).items()] or UNSET,
            output_byte_limit=UNSET if limit is None else limit,
        )
        if size is not None:
            params = self._interactive(params, *size)
        result = await self._connection.request("terminal/create", params)
        return LentTerminal(result.terminal_id, self._connection, self._session, None)

    def _interactive(self, params: CreateTerminalParams, rows: int, columns: int) -> CreateTerminalParams:
        """The same with a real terminal; what a peer says beside official v1 is not believed, so only in the draft."""
        speech = self._connection.speech
        said = speech is not None and speech.dialect.name == "draft"
        if not said or not self._connection.offers("client._meta.dragoman.terminal.interactive"):
            raise ProtocolError(
                Kind.CAPABILITY_UNSUPPORTED,
                "the client has no interactive terminals to lend",
                {"capability": "terminal.interactive"},
            )
        told: CreateTerminalParams = noted(params, interactive=True, rows=rows, columns=columns)
        return told

    async def run(self, command: str, args: Sequence[str] = (), **options: Any) -> Finished:
        """Run a command to its end and give what it printed."""
        async with await self.create(command, args, **options) as terminal:
            await terminal.wait()
            return await terminal.output()

    async def close(self) -> None:
        """End the agent's own terminals; the client ends its own."""
        if self._own is not None:
            await self._own.close()

    def _terminals(self) -> Any:
        if self._own is None:
            from dragoman.workspace.terminals import Terminals

            self._own = Terminals(self._roots)
        return self._own


class LentTerminal:
    """One command running in a terminal of the client, or in one of our own."""

    def __init__(self, id: str, connection: Connection | None, session_id: str, own: Any) -> None:
        self.id = id
        self._connection = connection
        self._session = session_id
        self._own = own
        self._killed = False

    async def __aenter__(self) -> LentTerminal:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.release()

    async def output(self) -> Finished:
        """What it printed so far, and how it ended if it did."""
        if self._connection is None:
            text, truncated, exit_ = self._own.output()
            code, signal = exit_ if exit_ is not None else (None, None)
            return Finished(output=text, truncated=truncated, exit_code=code, signal=signal)
        result = await self._ask("terminal/output", TerminalOutputParams)
        status = result.exit_status or None
        return Finished(
            output=result.output,
            truncated=result.truncated,
            exit_code=(status.exit_code if status and status.exit_code is not UNSET else None),
            signal=(status.signal or None) if status else None,
        )

    async def wait(self) -> int | None:
        """Wait for the end; its exit code, None when a signal ended it."""
        if self._connection is None:
            return (await self._own.wait()).code  # type: ignore[no-any-return]
        try:
            result = await self._ask("terminal/wait_for_exit", WaitForExitParams, KILLED if self._killed else None)
        except ProtocolError as error:
            if not self._killed or error.kind != Kind.TIMEOUT:
                raise
            return (await self.output()).exit_code
        return None if result.exit_code is UNSET else result.exit_code

    async def kill(self) -> None:
        """End the command; its output stays until release."""
        if self._connection is None:
            self._own.kill()
        else:
            self._killed = True
            await self._ask("terminal/kill", KillTerminalParams)

    async def release(self) -> None:
        """Let go of the terminal; what still runs is ended."""
        if self._connection is None:
            await self._own.release()
        else:
            await self._ask("terminal/release", ReleaseTerminalParams)

    async def _ask(self, method: str, params: Any, timeout: float | None = None) -> Any:
        assert self._connection is not None
        asked = params(session_id=self._session, terminal_id=self.id)
        return await self._connection.request(method, asked, timeout=timeout)
