"""The fs/* and terminal/* calls of an agent: text (docs/protocol/files-terminals.md#read), other file calls
(docs/protocol/extensions.md#file-calls) and terminals (docs/protocol/files-terminals.md#terminal-create).
"""

from __future__ import annotations

import asyncio
import base64
import binascii
import os
import shlex
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from functools import partial
from typing import TYPE_CHECKING, Any

from msgspec import UNSET

from dragoman.dialect.reshape import SIDE_DATA_KEY
from dragoman.dialect.side_data import int_or_none, side_data_meta, side_data_of
from dragoman.errors import Kind, ProtocolError
from dragoman.schema import fs
from dragoman.schema.initialize import Implementation
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
    from dragoman.workspace.files import Files
    from dragoman.workspace.terminal import Terminal
    from dragoman.workspace.terminals import Terminals
    from dragoman.workspace.watch import DirectoryWatch


# Bytes of a file that are read to compare them in a question; nobody reads a longer comparison.
MAX_CURRENT = 512 * 1024

# Watches of one agent; each may hold a hundred thousand names.
MAX_WATCHES = 16


class FileCalls:
    """The files of one agent's sessions, and its watches."""

    def __init__(self, workspace: AgentWorkspace) -> None:
        self._workspace = workspace
        self._files: dict[str, tuple[list[str], Files]] = {}
        self._watches: dict[str, tuple[str, DirectoryWatch, asyncio.Task[None]]] = {}
        self._starting = 0
        self.missing_file_is_empty = False  # for agents that give up on an error

    def methods(self, extensions: Mapping[str, bool]) -> dict[str, Callable[[Any], Any]]:
        """Return the handled methods: text always, others if they are offered."""
        parts: dict[str, dict[str, Callable[[Any], Any]]] = {
            "binary": {"fs/read_binary_file": self._read_binary, "fs/write_binary_file": self._write_binary},
            "list": {"fs/list_directory": self._list_directory},
            "createDirectory": {"fs/create_directory": self._create_directory},
            "watch": {"fs/watch": self._watch, "fs/unwatch": self._unwatch},
            "atomic": {"fs/write_files": self._write_many},
        }
        methods: dict[str, Callable[[Any], Any]] = {
            "fs/read_text_file": self._read_text,
            "fs/write_text_file": self._write_text,
        }
        for name, calls in parts.items():
            if extensions[name]:
                methods |= calls
        return methods

    def end_session(self, session_id: str) -> None:
        """Forget a session and stop its watches."""
        self._files.pop(session_id, None)
        for id, (session, *_) in list(self._watches.items()):
            if session == session_id:
                self._stop_watch(id)

    def close(self) -> None:
        """Stop every watch."""
        for id in list(self._watches):
            self._stop_watch(id)

    def _files_of(self, session_id: str) -> Files:
        from dragoman.workspace.files import Files

        access = self._workspace.access
        roots = [*self._workspace.roots(session_id), *access.extra_roots(session_id)]
        known = self._files.get(session_id)
        if known is None or known[0] != roots:  # folders and policy can change
            files = Files(roots, protected=access.protected(roots), resolve=self._workspace.access.resolve_folder)
            known = self._files[session_id] = (roots, files)
        return known[1]

    async def _approved_files(self, operation: str, params: Any, method: str, **more: Any) -> Files:
        """Return the files of a call's session, after its use of the path is approved: the path leads nowhere else."""
        session = self._workspace.session_of(params)
        files = self._files_of(session)
        path = files.resolve(params.path)
        approved = {params.path: path}
        if more:  # what the user is shown is not read by the session, so nothing follows it
            more["read_current"] = partial(_current_text, files.with_approved(approved), params.path)
        files = files.with_approved(approved, self._workspace.members.tracker(session, files.roots))
        await self._workspace.require_approval(
            operation, path, session, requested_path=params.path, method=method, **more
        )
        return files

    def _writing(self, files: Files, params: Any) -> AbstractAsyncContextManager[None]:
        """Return the block in which the approved file of a call is written: no other session may write it."""
        paths = [files.approved_path(params.path)]
        return self._workspace.members.writing(self._workspace.session_of(params), paths)

    # --- text -------------------------------------------------------------------------------------------------

    async def _read_text(self, params: Any) -> fs.ReadTextFileResult:
        files = await self._approved_files("read", params, "fs/read_text_file")
        encoding = side_data_of(params).get("encoding", "utf-8")
        try:
            place = (params.path, params.line or None, int_or_none(params.limit), encoding)
            selection = files.read_lines_at_once(*place)
            if selection is None:
                selection = await asyncio.to_thread(files.read_lines, *place)
        except ProtocolError as error:
            if self.missing_file_is_empty and error.kind == Kind.RESOURCE_NOT_FOUND:
                return fs.ReadTextFileResult(content="")
            raise
        side = {"encoding": encoding, "totalLines": selection.total_lines, "truncated": selection.truncated}
        return fs.ReadTextFileResult(content=selection.text, meta=side_data_meta(params, side))

    async def _write_text(self, params: Any) -> fs.WriteTextFileResult:
        files = await self._approved_files("write", params, "fs/write_text_file", text=params.content)
        options = side_data_of(params)
        async with self._writing(files, params):
            written = await asyncio.to_thread(
                files.write_text,
                params.path,
                params.content,
                options.get("encoding", "utf-8"),
                create_directories=options.get("createDirectories", False),
                overwrite=options.get("overwrite", True),
            )
        side = {"bytesWritten": written.bytes_written, "created": written.created}
        return fs.WriteTextFileResult(meta=side_data_meta(params, side))

    # --- bytes, folders, several files ------------------------------------------------------------------------

    async def _read_binary(self, params: Any) -> fs.ReadBinaryFileResult:
        files = await self._approved_files("read", params, "fs/read_binary_file")
        chunk = await asyncio.to_thread(
            files.read_bytes, params.path, int_or_none(params.offset), int_or_none(params.length)
        )
        data = base64.b64encode(chunk.data).decode("ascii")
        return fs.ReadBinaryFileResult(data=data, size=chunk.size, truncated=chunk.truncated or UNSET)

    async def _write_binary(self, params: Any) -> fs.WriteBinaryFileResult:
        data = _decode_base64(params.data, "data")
        files = await self._approved_files("write", params, "fs/write_binary_file", data=data)
        async with self._writing(files, params):
            written = await asyncio.to_thread(
                files.write_bytes,
                params.path,
                data,
                create_directories=params.create_directories is True,
                overwrite=params.overwrite is not False,
            )
        return fs.WriteBinaryFileResult(bytes_written=written.bytes_written, created=written.created)

    async def _list_directory(self, params: Any) -> fs.ListDirectoryResult:
        files = await self._approved_files("read", params, "fs/list_directory")
        listing = await asyncio.to_thread(files.list, params.path, params.recursive is True, int_or_none(params.limit))
        entries = [
            fs.DirectoryEntry(
                name=entry.name,
                type=entry.type,
                size=UNSET if entry.size is None else entry.size,
                modified_at=entry.modified_at,
            )
            for entry in listing.entries
        ]
        return fs.ListDirectoryResult(entries=entries, truncated=listing.truncated or UNSET)

    async def _create_directory(self, params: Any) -> fs.CreateDirectoryResult:
        files = await self._approved_files("write", params, "fs/create_directory")
        created = await asyncio.to_thread(files.make_directory, params.path, parents=params.parents is True)
        return fs.CreateDirectoryResult(created=created)

    async def _write_many(self, params: Any) -> fs.WriteFilesResult:
        """Handle fs/write_files."""
        session = self._workspace.session_of(params)
        contents = [(file.path, _file_content(file, index)) for index, file in enumerate(params.files)]
        create = params.create_directories is True
        return fs.WriteFilesResult(bytes_written=await self.write_batch(session, contents, create_directories=create))

    async def write_batch(self, session: str, contents: Sequence[tuple[str, str | bytes]], **options: Any) -> int:
        """Write all files or none, after every one is approved; `options` are those of Files.write_many."""
        files = self._files_of(session)
        paths = [files.resolve(path) for path, _ in contents]
        approved = {path: real for (path, _), real in zip(contents, paths, strict=True)}
        shown = files.with_approved(approved)
        files = files.with_approved(approved, self._workspace.members.tracker(session, files.roots))
        for (requested, content), path in zip(contents, paths, strict=True):
            what = {"text": content} if isinstance(content, str) else {"data": content}
            await self._workspace.require_approval(
                "write",
                path,
                session,
                requested_path=requested,
                method="fs/write_files",
                read_current=partial(_current_text, shown, requested),
                **what,
            )
        async with self._workspace.members.writing(session, paths):
            return await asyncio.to_thread(partial(files.write_many, contents, **options))

    # --- watching ---------------------------------------------------------------------------------------------

    async def _watch(self, params: Any) -> fs.WatchResult:
        session = self._workspace.session_of(params)
        files = await self._approved_files("read", params, "fs/watch")
        if len(self._watches) + self._starting >= MAX_WATCHES:
            message = f"the limit of {MAX_WATCHES} watches is reached; end one first"
            raise ProtocolError(Kind.RATE_LIMITED, message, {"limit": MAX_WATCHES})
        self._starting += 1
        try:
            watch = await files.watch(params.path, params.recursive is True)
        finally:
            self._starting -= 1
        id = f"watch_{os.urandom(8).hex()}"
        task = asyncio.get_running_loop().create_task(self._notify_changes(id, session, watch))
        self._watches[id] = (session, watch, task)
        return fs.WatchResult(watch_id=id)

    async def _notify_changes(self, id: str, session_id: str, watch: DirectoryWatch) -> None:
        """Send changes to the agent. While it reads slowly, nothing is sent and the watch merges changes."""
        try:
            async for changes in watch:
                connection = self._workspace.connection()
                batch = [fs.FileChange(path=change.path, type=change.type) for change in changes]
                connection.notify("fs/changed", fs.ChangedParams(watch_id=id, session_id=session_id, changes=batch))
                if connection.transport.congested():
                    await connection.transport.drain()
        finally:
            watch.close()
            self._watches.pop(id, None)

    def _unwatch(self, params: Any) -> fs.UnwatchResult:
        if params.watch_id not in self._watches:
            message = f"unknown watch {params.watch_id}; it may have ended"
            raise ProtocolError(Kind.RESOURCE_NOT_FOUND, message, {"watchId": params.watch_id})
        self._stop_watch(params.watch_id)
        return fs.UnwatchResult()

    def _stop_watch(self, id: str) -> None:
        _, watch, task = self._watches.pop(id)
        watch.close()
        task.cancel()


def _current_text(files: Files, path: str) -> str | None:
    """Return the text of a file, to show what a write changes; None if there is none."""
    try:
        return files.read_bytes(path, 0, MAX_CURRENT).data.decode("utf-8", "replace")
    except ProtocolError:
        return None


def _decode_base64(text: str, member: str) -> bytes:
    try:
        return base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        raise _invalid_params(member, "not base64") from None


def _file_content(file: fs.FileToWrite, index: int) -> str | bytes:
    if isinstance(file.content, str) == isinstance(file.data, str):
        raise _invalid_params(f"files[{index}]", "either content or data")
    return file.content if isinstance(file.content, str) else _decode_base64(str(file.data), f"files[{index}].data")


def _command_line(command: str, argv: list[str], line: Any) -> str:
    """Return the command as the agent gave it. A shell that we put around its line is not a shell that it asked for."""
    if argv[0] != command:
        return command
    return line if isinstance(line, str) and argv == ["/bin/sh", "-c", line] else shlex.join(argv)


def _invalid_params(path: str, message: str) -> ProtocolError:
    errors = [{"path": path, "message": message}]
    return ProtocolError(Kind.INVALID_PARAMS, f"{path}: {message}", {"errors": errors})


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
        from dragoman.workspace.terminals import build_argv

        argv = build_argv(params.command, params.args or ())
        options = side_data_of(params)
        line = _command_line(params.command, argv, options.get("line"))
        terminals = self._terminals_of(params.session_id)
        env = {pair.name: pair.value for pair in params.env or ()}
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
        if sum(map(len, self._terminals.values())) >= self._max_terminals:
            message = f"{self._max_terminals} terminals are open; release one first"
            raise ProtocolError(Kind.RATE_LIMITED, message, {"limit": self._max_terminals})
        timeout = options.get("timeout")
        members = self._workspace.members
        async with members.starting_command(params.session_id, terminals.roots, line, folder) as follow:
            terminal = await terminals.create(
                argv[0],
                argv[1:],
                folder,
                env,
                int_or_none(params.output_byte_limit),
                timeout / 1000 if isinstance(timeout, int | float) else None,
                separate_streams=options.get("streams") is True,
                is_resolved=True,
                **pty,
            )
            follow(terminal)
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


# These agents read a file before they write it and give up on any error, so they could never create a file
# (docs/protocol/peers.md#missing-files). Other clients return an empty file too.
_MISSING_FILE_IS_EMPTY = frozenset({"gemini-cli"})


def missing_file_is_empty(agent: Implementation | None) -> bool:
    """Return whether reading a missing file must return an empty one for this agent."""
    return agent is not None and agent.name in _MISSING_FILE_IS_EMPTY
