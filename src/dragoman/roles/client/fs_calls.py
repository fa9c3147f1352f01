"""The file calls of an agent, answered from the workspace: text (reference 1.12) and what goes beyond it (5.17).

Takes params, asks the loan for leave with the canonical path, and gives results. Work on files is done on threads.
Changes in what is watched are told to the agent until it, its session or the connection ends. Below is the workspace.
"""

from __future__ import annotations

import asyncio
import base64
import binascii
import os
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from msgspec import UNSET

from dragoman.dialect.side_data import int_or_none, side_data_meta, side_data_of
from dragoman.errors import Kind, ProtocolError
from dragoman.schema.fs import (
    ChangedParams,
    CreateDirectoryResult,
    DirectoryEntry,
    FileChange,
    FileToWrite,
    ListDirectoryResult,
    ReadBinaryFileResult,
    ReadTextFileResult,
    UnwatchResult,
    WatchResult,
    WriteBinaryFileResult,
    WriteFilesResult,
    WriteTextFileResult,
)

if TYPE_CHECKING:
    from dragoman.roles.client.workspace import AgentWorkspace
    from dragoman.workspace.files import Files
    from dragoman.workspace.watch import DirectoryWatch

# Watches of one agent: each may hold a hundred thousand names.
MAX_WATCHES = 16


class FileCalls:
    """Files of the sessions of one agent, and its watches."""

    def __init__(self, workspace: AgentWorkspace) -> None:
        self._workspace = workspace
        self._files: dict[str, tuple[list[str], Files]] = {}
        self._watches: dict[str, tuple[str, DirectoryWatch, asyncio.Task[None]]] = {}
        self._starting = 0
        self.missing_file_is_empty = False  # for agents that cannot bear to be told otherwise

    def methods(self, extensions: Mapping[str, bool]) -> dict[str, Callable[[Any], Any]]:
        """What is answered: text always, the rest as far as it is lent."""
        parts: dict[str, dict[str, Callable[[Any], Any]]] = {
            "binary": {"fs/read_binary_file": self._read_binary, "fs/write_binary_file": self._write_binary},
            "list": {"fs/list_directory": self._list_directory},
            "createDirectory": {"fs/create_directory": self._create_directory},
            "watch": {"fs/watch": self._watch, "fs/unwatch": self._unwatch},
            "atomic": {"fs/write_files": self._write_many},
        }
        served: dict[str, Callable[[Any], Any]] = {
            "fs/read_text_file": self._read_text,
            "fs/write_text_file": self._write_text,
        }
        for name, calls in parts.items():
            if extensions[name]:
                served |= calls
        return served

    def end_session(self, session_id: str) -> None:
        """Forget a session; what it watched is told no more."""
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

        lending = self._workspace.access
        lent = [*self._workspace.roots(session_id), *lending.extra_roots(session_id)]
        known = self._files.get(session_id)
        if known is None or known[0] != lent:  # a session may come back with other folders, and policy may change
            files = Files(lent, protected=lending.protected(lent), resolve=self._workspace.resolve_folder)
            known = self._files[session_id] = (lent, files)
        return known[1]

    async def _approved_files(self, operation: str, params: Any, method: str, **more: Any) -> Files:
        """The files that a call is about, once its use of a path is approved."""
        session = self._workspace.session_of(params)
        files = self._files_of(session)
        where = files.resolve(params.path)
        await self._workspace.require_approval(operation, where, session, named=params.path, call=method, **more)
        return files

    # --- text -------------------------------------------------------------------------------------------------

    async def _read_text(self, params: Any) -> ReadTextFileResult:
        files = await self._approved_files("read", params, "fs/read_text_file")
        encoding = side_data_of(params).get("encoding", "utf-8")
        try:
            page = await asyncio.to_thread(
                files.read_lines, params.path, params.line or None, int_or_none(params.limit), encoding
            )
        except ProtocolError as error:
            if self.missing_file_is_empty and error.kind == Kind.RESOURCE_NOT_FOUND:
                return ReadTextFileResult(content="")
            raise
        told = {"encoding": encoding, "totalLines": page.total_lines, "truncated": page.truncated}
        return ReadTextFileResult(content=page.text, meta=side_data_meta(params, told))

    async def _write_text(self, params: Any) -> WriteTextFileResult:
        files = await self._approved_files("write", params, "fs/write_text_file", text=params.content)
        wanted = side_data_of(params)
        written = await asyncio.to_thread(
            files.write_text,
            params.path,
            params.content,
            wanted.get("encoding", "utf-8"),
            create_directories=wanted.get("createDirectories", False),
            overwrite=wanted.get("overwrite", True),
        )
        told = {"bytesWritten": written.bytes_written, "created": written.created}
        return WriteTextFileResult(meta=side_data_meta(params, told))

    # --- bytes, folders, several files ------------------------------------------------------------------------

    async def _read_binary(self, params: Any) -> ReadBinaryFileResult:
        files = await self._approved_files("read", params, "fs/read_binary_file")
        piece = await asyncio.to_thread(
            files.read_bytes, params.path, int_or_none(params.offset), int_or_none(params.length)
        )
        data = base64.b64encode(piece.data).decode("ascii")
        return ReadBinaryFileResult(data=data, size=piece.size, truncated=piece.truncated or UNSET)

    async def _write_binary(self, params: Any) -> WriteBinaryFileResult:
        data = _decode_base64(params.data, "data")
        files = await self._approved_files("write", params, "fs/write_binary_file", data=data)
        written = await asyncio.to_thread(
            files.write_bytes,
            params.path,
            data,
            create_directories=params.create_directories is True,
            overwrite=params.overwrite is not False,
        )
        return WriteBinaryFileResult(bytes_written=written.bytes_written, created=written.created)

    async def _list_directory(self, params: Any) -> ListDirectoryResult:
        files = await self._approved_files("read", params, "fs/list_directory")
        found = await asyncio.to_thread(files.list, params.path, params.recursive is True, int_or_none(params.limit))
        entries = [
            DirectoryEntry(
                name=entry.name,
                type=entry.type,
                size=UNSET if entry.size is None else entry.size,
                modified_at=entry.modified_at,
            )
            for entry in found.entries
        ]
        return ListDirectoryResult(entries=entries, truncated=found.truncated or UNSET)

    async def _create_directory(self, params: Any) -> CreateDirectoryResult:
        files = await self._approved_files("write", params, "fs/create_directory")
        created = await asyncio.to_thread(files.make_directory, params.path, parents=params.parents is True)
        return CreateDirectoryResult(created=created)

    async def _write_many(self, params: Any) -> WriteFilesResult:
        """Leave is asked for each file before any is written."""
        session = self._workspace.session_of(params)
        files = self._files_of(session)
        wanted = [(file.path, _file_content(file, index)) for index, file in enumerate(params.files)]
        places = [files.resolve(path) for path, _ in wanted]
        for (path, content), where in zip(wanted, places, strict=True):
            what = {"text": content} if isinstance(content, str) else {"data": content}
            await self._workspace.require_approval("write", where, session, named=path, call="fs/write_files", **what)
        make = params.create_directories is True
        return WriteFilesResult(
            bytes_written=await asyncio.to_thread(files.write_many, wanted, create_directories=make)
        )

    # --- watching ---------------------------------------------------------------------------------------------

    async def _watch(self, params: Any) -> WatchResult:
        session = self._workspace.session_of(params)
        files = await self._approved_files("read", params, "fs/watch")
        if len(self._watches) + self._starting >= MAX_WATCHES:
            message = f"{MAX_WATCHES} folders are watched; end one of these watches first"
            raise ProtocolError(Kind.RATE_LIMITED, message, {"limit": MAX_WATCHES})
        self._starting += 1
        try:
            watch = await files.watch(params.path, params.recursive is True)
        finally:
            self._starting -= 1
        id = f"watch_{os.urandom(8).hex()}"
        task = asyncio.get_running_loop().create_task(self._notify_changes(id, session, watch))
        self._watches[id] = (session, watch, task)
        return WatchResult(watch_id=id)

    async def _notify_changes(self, id: str, session_id: str, watch: DirectoryWatch) -> None:
        """Tell the agent; while it reads slowly nothing more is told, and the watch merges what happens."""
        try:
            async for changes in watch:
                connection = self._workspace.connection()
                told = [FileChange(path=change.path, type=change.type) for change in changes]
                connection.notify("fs/changed", ChangedParams(watch_id=id, session_id=session_id, changes=told))
                if connection.transport.congested():
                    await connection.transport.drain()
        finally:
            watch.close()
            self._watches.pop(id, None)

    def _unwatch(self, params: Any) -> UnwatchResult:
        if params.watch_id not in self._watches:
            message = f"there is no watch {params.watch_id}; it ended or was never set here"
            raise ProtocolError(Kind.RESOURCE_NOT_FOUND, message, {"watchId": params.watch_id})
        self._stop_watch(params.watch_id)
        return UnwatchResult()

    def _stop_watch(self, id: str) -> None:
        _, watch, task = self._watches.pop(id)
        watch.close()
        task.cancel()


def _decode_base64(text: str, member: str) -> bytes:
    try:
        return base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        raise _invalid_params(member, "not base64") from None


def _file_content(file: FileToWrite, index: int) -> str | bytes:
    if isinstance(file.content, str) == isinstance(file.data, str):
        raise _invalid_params(f"files[{index}]", "either content or data")
    return file.content if isinstance(file.content, str) else _decode_base64(str(file.data), f"files[{index}].data")


def _invalid_params(path: str, message: str) -> ProtocolError:
    errors = [{"path": path, "message": message}]
    return ProtocolError(Kind.INVALID_PARAMS, f"{path}: {message}", {"errors": errors})
