"""Files as an agent uses them: the client's, call by call as far as it lends them, the agent's own otherwise.

The agent's own are confined to the session's folders exactly as a client would confine them. Text, bytes, listings,
folders, watches, several files at once. Above are turns; below are the connection and the workspace.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import TYPE_CHECKING, Any

from dragoman.engine.connection import Connection
from dragoman.engine.handler import make_handler
from dragoman.errors import ConnectionFailed, Kind, ProtocolError
from dragoman.schema.fs import UnwatchParams, WatchParams
from dragoman.workspace.snapshot import WatchChange, merge_changes, take_changes

if TYPE_CHECKING:
    from dragoman.workspace.files import Files
    from dragoman.workspace.watch import DirectoryWatch

import base64
import binascii
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from msgspec import UNSET

from dragoman.dialect.side_data import with_side_data
from dragoman.schema.fs import (
    CreateDirectoryParams,
    FileToWrite,
    ListDirectoryParams,
    ReadBinaryFileParams,
    ReadTextFileParams,
    WriteBinaryFileParams,
    WriteFilesParams,
    WriteTextFileParams,
)

if TYPE_CHECKING:  # loaded when used: an agent that never lists or watches starts without them
    from dragoman.workspace.files import Files
    from dragoman.workspace.listing import Listing, ListingEntry

# What a client offers beyond text is named here, in every dialect (reference 5.17).
FS_EXTENSION_PREFIX = "client._meta.dragoman.fs."

# What official v1 takes for granted.
UTF_8 = "utf-8"


class ClientFiles:
    """The files in the session's folders."""

    def __init__(self, connection: Connection, session_id: str, roots: Sequence[str]) -> None:
        self._connection = connection
        self._session_id = session_id
        self._roots = list(roots)
        self._local: Files | None = None

    @property
    def uses_client(self) -> bool:
        """Whether text is read and written through the client."""
        return self._connection.offers("client.fs.readTextFile") and self._connection.offers("client.fs.writeTextFile")

    async def read(self, path: str, *, line: int | None = None, limit: int | None = None, encoding: str = UTF_8) -> str:
        """The text of a file, or `limit` lines from `line` (1-based) on."""
        if not self._connection.offers("client.fs.readTextFile"):
            return await asyncio.to_thread(self._local_files().read_text, path, line, limit, encoding)
        is_plain = encoding == UTF_8
        if not is_plain and not self._sends_text_options("encoding"):
            from dragoman.workspace.text import decode, select_lines

            return select_lines(decode(await self.read_bytes(path), path, encoding), line, limit).text
        params = ReadTextFileParams(
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
        path: str,
        text: str,
        *,
        encoding: str = UTF_8,
        create_directories: bool = False,
        overwrite: bool = True,
    ) -> None:
        """Make the file hold exactly this text; it is created when missing.

        An encoding, missing folders, and that a file which is there stays as it is, not every client can be told; where
        it takes bytes, those say it, and elsewhere it is refused.
        """
        options: Any = {"create_directories": create_directories, "overwrite": overwrite}
        if not self._connection.offers("client.fs.writeTextFile"):
            await asyncio.to_thread(self._local_files().write_text, path, text, encoding, **options)
            return
        wanted: dict[str, Any] = {} if encoding == UTF_8 else {"encoding": encoding}
        wanted |= {"createDirectories": True} if create_directories else {}
        wanted |= {} if overwrite else {"overwrite": False}
        if wanted and not self._sends_text_options(*wanted):
            from dragoman.workspace.text import encode

            await self.write_bytes(path, encode(text, path, encoding), **options)
            return
        params = WriteTextFileParams(session_id=self._session_id, path=path, content=text)
        await self._connection.request("fs/write_text_file", with_side_data(params, **wanted) if wanted else params)

    def _sends_text_options(self, *options: str) -> bool:
        """Whether the client is told these with text; else its bytes must do, and where it has none nothing can."""
        speech = self._connection.codec
        if speech is not None and speech.dialect.name == "draft":
            return True
        if not self._connection.offers(FS_EXTENSION_PREFIX + "binary"):
            what = ", ".join(options)
            message = f"this client cannot be told {what}: it speaks no dialect with words for it, and lends no bytes"
            raise ProtocolError(Kind.CAPABILITY_UNSUPPORTED, message, {"capability": "fs.binary"})
        return False

    async def read_bytes(self, path: str, offset: int = 0, length: int | None = None) -> bytes:
        """The bytes of a file from `offset` on: `length` of them, or all; large files come in several pieces."""
        found = bytearray()
        while True:
            wanted = None if length is None else length - len(found)
            data, is_more = await self._read_chunk(path, offset + len(found), wanted)
            found += data
            if not is_more or not data or (length is not None and len(found) >= length):
                return bytes(found)

    async def _read_chunk(self, path: str, offset: int, length: int | None) -> tuple[bytes, bool]:
        if not self._connection.offers(FS_EXTENSION_PREFIX + "binary"):
            data, _, is_more = await asyncio.to_thread(self._local_files().read_bytes, path, offset, length)
            return data, is_more
        params = ReadBinaryFileParams(
            session_id=self._session_id, path=path, offset=offset or UNSET, length=UNSET if length is None else length
        )
        result = await self._connection.request("fs/read_binary_file", params)
        try:
            return base64.b64decode(result.data, validate=True), result.truncated is True
        except (binascii.Error, ValueError):
            raise ProtocolError(Kind.INTERNAL_ERROR, f"the client sent {path} as something that is no base64") from None

    async def write_bytes(
        self, path: str, data: bytes, *, create_directories: bool = False, overwrite: bool = True
    ) -> bool:
        """Make the file hold exactly these bytes; whether it is new."""
        if not self._connection.offers(FS_EXTENSION_PREFIX + "binary"):
            written = await asyncio.to_thread(
                self._local_files().write_bytes, path, data, create_directories=create_directories, overwrite=overwrite
            )
            return written.created
        params = WriteBinaryFileParams(
            session_id=self._session_id,
            path=path,
            data=base64.b64encode(data).decode("ascii"),
            create_directories=create_directories or UNSET,
            overwrite=UNSET if overwrite else False,
        )
        result = await self._connection.request("fs/write_binary_file", params)
        return bool(result.created)

    async def list(self, path: str, *, recursive: bool = False, limit: int | None = None) -> Listing:
        """What lies in a folder, and with `recursive` below it."""
        if not self._connection.offers(FS_EXTENSION_PREFIX + "list"):
            return await asyncio.to_thread(self._local_files().list, path, recursive, limit)
        params = ListDirectoryParams(
            session_id=self._session_id,
            path=path,
            recursive=recursive or UNSET,
            limit=UNSET if limit is None else limit,
        )
        result = await self._connection.request("fs/list_directory", params)
        from dragoman.workspace.listing import Listing

        return Listing([_listing_entry(entry) for entry in result.entries], result.truncated is True)

    async def make_directory(self, path: str, *, parents: bool = False) -> bool:
        """Make a folder, and those before it with `parents`; False when it was there."""
        if not self._connection.offers(FS_EXTENSION_PREFIX + "createDirectory"):
            return await asyncio.to_thread(self._local_files().make_directory, path, parents=parents)
        params = CreateDirectoryParams(session_id=self._session_id, path=path, parents=parents or UNSET)
        result = await self._connection.request("fs/create_directory", params)
        return bool(result.created)

    async def write_many(self, files: Mapping[str, str | bytes], *, create_directories: bool = False) -> int:
        """Write all these files or none; gives the number of bytes."""
        if not self._connection.offers(FS_EXTENSION_PREFIX + "atomic"):
            own, wanted = self._local_files(), list(files.items())
            return await asyncio.to_thread(own.write_many, wanted, create_directories=create_directories)
        params = WriteFilesParams(
            session_id=self._session_id,
            files=[_file_to_write(path, content) for path, content in files.items()],
            create_directories=create_directories or UNSET,
        )
        result = await self._connection.request("fs/write_files", params)
        return int(result.bytes_written)

    def watch(self, path: str, *, recursive: bool = False) -> ClientWatch:
        """Watch a folder or file: `async with turn.files.watch(path) as watch: async for changes in watch: ...`."""

        own = None if self._connection.offers(FS_EXTENSION_PREFIX + "watch") else self._local_files()
        return ClientWatch(self._connection, self._session_id, path, recursive, own)

    def _local_files(self) -> Files:
        if self._local is None:
            from dragoman.workspace.files import Files

            self._local = Files(self._roots)
        return self._local


def _listing_entry(entry: Any) -> ListingEntry:
    from dragoman.workspace.listing import ListingEntry

    size = entry.size if isinstance(entry.size, int) else None
    return ListingEntry(entry.name, entry.type, size, entry.modified_at if isinstance(entry.modified_at, str) else "")


def _file_to_write(path: str, content: str | bytes) -> FileToWrite:
    if isinstance(content, str):
        return FileToWrite(path=path, content=content)
    return FileToWrite(path=path, data=base64.b64encode(content).decode("ascii"))


# Changes given at once.
MAX_CHANGES = 1000


# Watches whose first changes may come before the answer that names them; more are nobody's.
MAX_EARLY_WATCHES = 16


FS_CHANGED = "fs/changed"


class ClientWatch:
    """One watch; enter it to begin, leave it to end."""

    def __init__(
        self, connection: Connection, session_id: str, path: str, recursive: bool, local_files: Files | None
    ) -> None:
        self._connection = connection
        self._session_id = session_id
        self._path = path
        self._recursive = recursive
        self._local_files = local_files
        self._local_watch: DirectoryWatch | None = None
        self._watch_id = ""
        self._pending: dict[str, str] = {}
        self._has_pending = asyncio.Event()

    async def __aenter__(self) -> ClientWatch:
        if self._local_files is not None:
            self._local_watch = await self._local_files.watch(self._path, self._recursive)
            return self
        inbox = _WatchDispatcher.for_connection(self._connection)
        params = WatchParams(session_id=self._session_id, path=self._path, recursive=self._recursive)
        result = await self._connection.request("fs/watch", params)
        self._watch_id = str(result.watch_id)
        inbox.add(self._watch_id, self)
        return self

    async def __aexit__(self, *_: object) -> None:
        if self._local_watch is not None:
            self._local_watch.close()
            return
        _WatchDispatcher.for_connection(self._connection).remove(self._watch_id)
        try:
            await self._connection.request(
                "fs/unwatch", UnwatchParams(session_id=self._session_id, watch_id=self._watch_id)
            )
        except ProtocolError as error:
            if error.kind != Kind.RESOURCE_NOT_FOUND:  # what was watched is gone, and the watch with it
                raise
        except ConnectionFailed:
            pass

    async def changes(self) -> list[WatchChange]:
        """The next changes, waiting for them; empty once there will be none."""
        if self._local_watch is not None:
            return await self._local_watch.next_changes()
        while not self._pending and not self._connection.ended.is_set():
            self._has_pending.clear()
            waits = [asyncio.ensure_future(event.wait()) for event in (self._has_pending, self._connection.ended)]
            try:
                await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
            finally:
                for wait in waits:
                    wait.cancel()
        return list(take_changes(self._pending, MAX_CHANGES))

    async def __aiter__(self) -> AsyncIterator[list[WatchChange]]:
        while told := await self.changes():
            yield told

    def receive(self, changes: list[WatchChange]) -> None:
        """Changes that the client tells of."""
        merge_changes(self._pending, changes)
        if self._pending:
            self._has_pending.set()


class _WatchDispatcher:
    """Who is told of the changes that come over one connection."""

    def __init__(self) -> None:
        self._watches: dict[str, ClientWatch] = {}
        self._early_changes: dict[str, list[WatchChange]] = {}

    @classmethod
    def for_connection(cls, connection: Connection) -> _WatchDispatcher:
        """The inbox of a connection, which answers fs/changed from its first watch on."""
        known = getattr(connection.handlers.get(FS_CHANGED), "inbox", None)
        if isinstance(known, cls):
            return known
        inbox = cls()
        handler = make_handler(inbox.receive)
        handler.inbox = inbox  # type: ignore[attr-defined]
        connection.handlers[FS_CHANGED] = handler
        return inbox

    def add(self, id: str, watch: ClientWatch) -> None:
        self._watches[id] = watch
        watch.receive(self._early_changes.pop(id, []))

    def remove(self, id: str) -> None:
        self._watches.pop(id, None)

    def receive(self, params: Any) -> None:
        changes = [WatchChange(change.path, change.type) for change in params.changes]
        watch = self._watches.get(params.watch_id)
        if watch is not None:
            watch.receive(changes)
        elif len(self._early_changes) < MAX_EARLY_WATCHES:
            self._early_changes.setdefault(params.watch_id, []).extend(changes[:MAX_CHANGES])
