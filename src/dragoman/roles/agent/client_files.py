"""Files for an agent: those of the client, call by call as far as it offers them, local files otherwise.

Local files are confined to the session's folders, as a client would confine them.
"""

from __future__ import annotations

import asyncio
import base64
import binascii
import os
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

from msgspec import UNSET

from dragoman.dialect.side_data import with_side_data
from dragoman.engine.connection import Connection
from dragoman.errors import Kind, ProtocolError
from dragoman.roles.agent.author.arguments import path_text
from dragoman.schema import fs

if TYPE_CHECKING:
    from dragoman.roles.agent.client_watch import ClientWatch
    from dragoman.workspace.files import Files
    from dragoman.workspace.listing import Listing, ListingEntry


# The prefix of capabilities beyond text, in every dialect (docs/protocol/extensions.md#file-calls).
FS_EXTENSION_PREFIX = "client._meta.dragoman.fs."

# The encoding of official v1.
UTF_8 = "utf-8"

AnyPath = str | os.PathLike[str]
P = TypeVar("P", bound=AnyPath)


class ClientFiles:
    """The files in the session's folders, through the client or local."""

    def __init__(self, connection: Connection, session_id: str, roots: Sequence[str]) -> None:
        self._connection = connection
        self._session_id = session_id
        self._roots = list(roots)
        self._local: Files | None = None

    @property
    def uses_client(self) -> bool:
        """Whether text is read and written through the client."""
        return self._connection.offers("client.fs.readTextFile") and self._connection.offers("client.fs.writeTextFile")

    async def read(
        self, path: AnyPath, *, line: int | None = None, limit: int | None = None, encoding: str = UTF_8
    ) -> str:
        """Return the text of a file, or `limit` lines from `line` (1-based) on."""
        path = path_text(path)
        if not self._connection.offers("client.fs.readTextFile"):
            return await asyncio.to_thread(self._local_files().read_text, path, line, limit, encoding)
        is_plain = encoding == UTF_8
        if not is_plain and not self._sends_text_options("encoding"):
            from dragoman.workspace.text import decode, select_lines

            return select_lines(decode(await self.read_bytes(path), path, encoding), line, limit).text
        params = fs.ReadTextFileParams(
            session_id=self._session_id,
            path=path,
            line=UNSET if line is None else line,
            limit=UNSET if limit is None else limit,
        )
        params = params if is_plain else with_side_data(params, encoding=encoding)
        result = await self._connection.request("fs/read_text_file", params)
        return str(result.content)

    async def write(
        self,
        path: AnyPath,
        text: str,
        *,
        encoding: str = UTF_8,
        create_directories: bool = False,
        overwrite: bool = True,
    ) -> None:
        """Write this text to a file; create the file if it is missing.

        Not every dialect can carry `encoding`, `create_directories` and `overwrite=False`. A client that offers binary
        files then gets bytes; for others the call raises capability_unsupported.
        """
        path = path_text(path)
        if not isinstance(text, str):  # the encoder would write bytes as base64
            raise TypeError("files.write takes text; for bytes use files.write_bytes")
        options: Any = {"create_directories": create_directories, "overwrite": overwrite}
        if not self._connection.offers("client.fs.writeTextFile"):
            await asyncio.to_thread(self._local_files().write_text, path, text, encoding, **options)
            return
        side: dict[str, Any] = {} if encoding == UTF_8 else {"encoding": encoding}
        side |= {"createDirectories": True} if create_directories else {}
        side |= {} if overwrite else {"overwrite": False}
        if side and not self._sends_text_options(*side):
            from dragoman.workspace.text import encode

            await self.write_bytes(path, encode(text, path, encoding), **options)
            return
        params = fs.WriteTextFileParams(session_id=self._session_id, path=path, content=text)
        await self._connection.request("fs/write_text_file", with_side_data(params, **side) if side else params)

    def _sends_text_options(self, *options: str) -> bool:
        """Return whether the client's dialect can carry these options with text. Raise if bytes cannot do it either."""
        if self._connection.dialect.has_workspace_options:
            return True
        if not self._connection.offers(FS_EXTENSION_PREFIX + "binary"):
            what = ", ".join(options)
            message = (
                f"this client does not support {what}: its dialect cannot carry them, and it offers no binary files"
            )
            raise ProtocolError(Kind.CAPABILITY_UNSUPPORTED, message, {"capability": "fs.binary"})
        return False

    async def read_bytes(self, path: AnyPath, offset: int = 0, length: int | None = None) -> bytes:
        """Return `length` bytes of a file from `offset` on, or all; large files are read in several requests."""
        path = path_text(path)
        data = bytearray()
        while True:
            missing = None if length is None else length - len(data)
            chunk, is_more = await self._read_chunk(path, offset + len(data), missing)
            data += chunk
            if not is_more or not chunk or (length is not None and len(data) >= length):
                return bytes(data)

    async def _read_chunk(self, path: str, offset: int, length: int | None) -> tuple[bytes, bool]:
        if not self._connection.offers(FS_EXTENSION_PREFIX + "binary"):
            data, _, is_more = await asyncio.to_thread(self._local_files().read_bytes, path, offset, length)
            return data, is_more
        params = fs.ReadBinaryFileParams(
            session_id=self._session_id, path=path, offset=offset or UNSET, length=UNSET if length is None else length
        )
        result = await self._connection.request("fs/read_binary_file", params)
        try:
            return base64.b64decode(result.data, validate=True), result.truncated is True
        except (binascii.Error, ValueError):
            raise ProtocolError(Kind.INTERNAL_ERROR, f"the client sent {path} as invalid base64") from None

    async def write_bytes(
        self, path: AnyPath, data: bytes, *, create_directories: bool = False, overwrite: bool = True
    ) -> bool:
        """Write these bytes to a file; return whether the file is new."""
        path = path_text(path)
        if isinstance(data, str):
            raise TypeError("files.write_bytes takes bytes; for text use files.write")
        if not self._connection.offers(FS_EXTENSION_PREFIX + "binary"):
            written = await asyncio.to_thread(
                self._local_files().write_bytes, path, data, create_directories=create_directories, overwrite=overwrite
            )
            return written.created
        params = fs.WriteBinaryFileParams(
            session_id=self._session_id,
            path=path,
            data=base64.b64encode(data).decode("ascii"),
            create_directories=create_directories or UNSET,
            overwrite=UNSET if overwrite else False,
        )
        result = await self._connection.request("fs/write_binary_file", params)
        return bool(result.created)

    async def list(self, path: AnyPath, *, recursive: bool = False, limit: int | None = None) -> Listing:
        """Return the entries of a folder, with `recursive` of its subfolders too."""
        path = path_text(path)
        if not self._connection.offers(FS_EXTENSION_PREFIX + "list"):
            return await asyncio.to_thread(self._local_files().list, path, recursive, limit)
        params = fs.ListDirectoryParams(
            session_id=self._session_id,
            path=path,
            recursive=recursive or UNSET,
            limit=UNSET if limit is None else limit,
        )
        result = await self._connection.request("fs/list_directory", params)
        from dragoman.workspace.listing import Listing

        return Listing([_listing_entry(entry) for entry in result.entries], result.truncated is True)

    async def make_directory(self, path: AnyPath, *, parents: bool = False) -> bool:
        """Create a folder, with `parents` its missing parents too; return False if it existed."""
        path = path_text(path)
        if not self._connection.offers(FS_EXTENSION_PREFIX + "createDirectory"):
            return await asyncio.to_thread(self._local_files().make_directory, path, parents=parents)
        params = fs.CreateDirectoryParams(session_id=self._session_id, path=path, parents=parents or UNSET)
        result = await self._connection.request("fs/create_directory", params)
        return bool(result.created)

    async def write_many(self, files: Mapping[P, str | bytes], *, create_directories: bool = False) -> int:
        """Write all these files or none; return the number of bytes."""
        contents = [(path_text(path), content) for path, content in files.items()]
        if not self._connection.offers(FS_EXTENSION_PREFIX + "atomic"):
            local = self._local_files()
            return await asyncio.to_thread(local.write_many, contents, create_directories=create_directories)
        params = fs.WriteFilesParams(
            session_id=self._session_id,
            files=[_file_to_write(path, content) for path, content in contents],
            create_directories=create_directories or UNSET,
        )
        result = await self._connection.request("fs/write_files", params)
        return int(result.bytes_written)

    def watch(self, path: AnyPath, *, recursive: bool = False) -> ClientWatch:
        """Watch a folder or file: `async with turn.files.watch(path) as watch: async for changes in watch: ...`."""
        from dragoman.roles.agent.client_watch import ClientWatch

        local = None if self._connection.offers(FS_EXTENSION_PREFIX + "watch") else self._local_files()
        return ClientWatch(self._connection, self._session_id, path_text(path), recursive, local)

    def _local_files(self) -> Files:
        if self._local is None:
            from dragoman.workspace.files import Files

            self._local = Files(self._roots)
        return self._local


def _listing_entry(entry: Any) -> ListingEntry:
    from dragoman.workspace.listing import ListingEntry

    size = entry.size if isinstance(entry.size, int) else None
    return ListingEntry(entry.name, entry.type, size, entry.modified_at if isinstance(entry.modified_at, str) else "")


def _file_to_write(path: str, content: str | bytes) -> fs.FileToWrite:
    if isinstance(content, str):
        return fs.FileToWrite(path=path, content=content)
    return fs.FileToWrite(path=path, data=base64.b64encode(content).decode("ascii"))
