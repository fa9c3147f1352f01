"""What a client lends an agent: files and terminals in the session's folders, each use approved.

Turns fs and terminal calls into uses of the workspace. Every use is a Question first; whoever built the client says yes
or no. Above is the client; below is the workspace, which confines. What a command does once started is not confined.
"""

from __future__ import annotations

import asyncio
import shlex
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any

import msgspec
from msgspec import UNSET

from dragoman.dialect.shape import SIDE
from dragoman.engine.handler import Handler, answering
from dragoman.errors import Kind, ProtocolError
from dragoman.schema.fs import ReadTextFileResult, WriteTextFileResult
from dragoman.schema.initialize import ClientCapabilities, FileSystemCapabilities
from dragoman.schema.terminal import (
    CreateTerminalResult,
    KillTerminalResult,
    ReleaseTerminalResult,
    TerminalExitStatus,
    TerminalOutputResult,
    WaitForExitResult,
)

if TYPE_CHECKING:
    from dragoman.workspace.terminal import Terminal

# Terminals that can still be shown: as many as may be open at once. The oldest fall away.
SHOWN = 32


class Question(msgspec.Struct, frozen=True, kw_only=True):
    """What an agent wants leave for: an operation on a resource, in a session."""

    operation: str  # read | write | execute
    resource: str  # the resolved path, or the command line
    session_id: str
    text: str | None = None  # what is to be written
    env: dict[str, str] = {}  # what is set for the command besides our own environment
    named: str = ""  # the path as the agent gave it


Approve = Callable[[Question], Awaitable[bool] | bool]


def allow_all(_: Question) -> bool:
    """Approve everything inside the session's folders."""
    return True


class Lending:
    """Files and terminals that a client lends, and who approves their use."""

    def __init__(
        self,
        *,
        files: bool = True,
        terminals: bool = True,
        approve: Approve = allow_all,
        protected: Callable[[list[str]], list[str]] = lambda _: [],
    ) -> None:
        self._lends_files = files
        self._lends_terminals = terminals
        self._approve = approve
        self._protected = protected  # what is never written among a session's folders
        self._files: dict[str, Any] = {}
        self._terminals: dict[str, Any] = {}
        self._shown: dict[str, Terminal] = {}
        self._roots: Callable[[str], list[str]] = lambda _: []
        self.missing_file_is_empty = False  # for agents that cannot bear to be told otherwise

    def capabilities(self) -> ClientCapabilities:
        """What the agent is told."""
        return ClientCapabilities(
            fs=FileSystemCapabilities(read_text_file=self._lends_files, write_text_file=self._lends_files),
            terminal=self._lends_terminals,
        )

    def handlers(self, roots: Callable[[str], list[str]]) -> dict[str, Handler]:
        """The handlers of what is lent; `roots` gives a session's folders."""
        self._roots = roots
        served: dict[str, Callable[[Any], Any]] = {}
        if self._lends_files:
            served |= {"fs/read_text_file": self._read, "fs/write_text_file": self._write}
        if self._lends_terminals:
            served |= {
                "terminal/create": self._create,
                "terminal/output": self._output,
                "terminal/wait_for_exit": self._wait,
                "terminal/kill": self._kill,
                "terminal/release": self._release,
            }
        return {method: answering(function) for method, function in served.items()}

    def terminal(self, id: str) -> Terminal | None:
        """A terminal by its id, to show what it wrote; also for a while after the agent released it."""
        return self._shown.get(id)

    async def close(self) -> None:
        """End every terminal."""
        await asyncio.gather(*(terminals.close() for terminals in self._terminals.values()))

    async def _leave_for(self, question: Question) -> None:
        approved = self._approve(question)
        if not (await approved if isinstance(approved, Awaitable) else approved):
            raise ProtocolError(
                Kind.PERMISSION_DENIED, f"the user did not allow to {question.operation} {question.resource}"
            )

    # --- files ------------------------------------------------------------------------------------------------

    def _open_files(self, session_id: str) -> Any:
        if session_id not in self._files:
            from dragoman.workspace.files import Files

            roots = self._roots(session_id)
            self._files[session_id] = Files(roots, protected=self._protected(roots))
        return self._files[session_id]

    async def _read(self, params: Any) -> ReadTextFileResult:
        files = self._open_files(params.session_id)
        where = files.resolve(params.path)
        await self._leave_for(
            Question(operation="read", resource=where, session_id=params.session_id, named=params.path)
        )
        encoding = _side(params).get("encoding", "utf-8")
        try:
            page = await asyncio.to_thread(
                files.read_page, params.path, params.line or None, _number(params.limit), encoding
            )
        except ProtocolError as error:
            if self.missing_file_is_empty and error.kind == Kind.RESOURCE_NOT_FOUND:
                return ReadTextFileResult(content="")
            raise
        side = {"encoding": encoding, "totalLines": page.total_lines, "truncated": page.truncated}
        return ReadTextFileResult(content=page.text, meta=_noted(params, side))

    async def _write(self, params: Any) -> WriteTextFileResult:
        files = self._open_files(params.session_id)
        where = files.resolve(params.path)
        await self._leave_for(
            Question(
                operation="write",
                resource=where,
                session_id=params.session_id,
                text=params.content,
                named=params.path,
            )
        )
        side = _side(params)
        written = await asyncio.to_thread(
            files.write_text,
            params.path,
            params.content,
            side.get("encoding", "utf-8"),
            create_directories=side.get("createDirectories", False),
            overwrite=side.get("overwrite", True),
        )
        told = {"bytesWritten": written.bytes_written, "created": written.created}
        return WriteTextFileResult(meta=_noted(params, told))

    # --- terminals --------------------------------------------------------------------------------------------

    def _open_terminals(self, session_id: str) -> Any:
        if session_id not in self._terminals:
            from dragoman.workspace.terminals import Terminals

            self._terminals[session_id] = Terminals(self._roots(session_id))
        return self._terminals[session_id]

    async def _create(self, params: Any) -> CreateTerminalResult:
        line = shlex.join([params.command, *(params.args or ())]) if params.args else params.command
        terminals = self._open_terminals(params.session_id)
        env = {pair.name: pair.value for pair in params.env or ()}
        await self._leave_for(Question(operation="execute", resource=line, session_id=params.session_id, env=env))
        side = _side(params)
        timeout = side.get("timeout")
        terminal = await terminals.create(
            params.command,
            params.args or (),
            params.cwd or None,
            env,
            _number(params.output_byte_limit),
            timeout / 1000 if isinstance(timeout, int | float) else None,
            apart=side.get("streams") is True,
        )
        self._shown[terminal.id] = terminal
        if len(self._shown) > SHOWN:
            del self._shown[next(iter(self._shown))]
        return CreateTerminalResult(terminal_id=terminal.id, meta=_noted(params, {"pid": terminal.pid}))

    def _terminal(self, params: Any) -> Any:
        return self._open_terminals(params.session_id).get(params.terminal_id)

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
        late = _noted(params, {"timedOut": True}) if terminal.timed_out else UNSET
        return WaitForExitResult(exit_code=ended.code, signal=ended.signal, meta=late)

    def _kill(self, params: Any) -> KillTerminalResult:
        side = _side(params)
        killed = self._terminal(params).kill(side.get("signal", "SIGTERM"), bool(side.get("force", False)))
        return KillTerminalResult(meta=UNSET if killed else _noted(params, {"killed": False}))

    async def _release(self, params: Any) -> ReleaseTerminalResult:
        await self._terminal(params).release()
        return ReleaseTerminalResult()


def _side(params: Any) -> dict[str, Any]:
    meta = params.meta or {}
    side = meta.get(SIDE)
    return side if isinstance(side, dict) else {}


def _noted(params: Any, told: dict[str, Any]) -> Any:
    """Side data for a peer whose dialect wants it; official answers stay official."""
    return {SIDE: told} if _side(params) else UNSET


def _number(value: Any) -> int | None:
    return value if isinstance(value, int) else None
