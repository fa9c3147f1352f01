"""A watch of files for an agent: through the client, or local. Imported when an agent opens its first watch."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import TYPE_CHECKING, Any

from dragoman.engine.connection import Connection
from dragoman.engine.incoming import make_handler
from dragoman.errors import ConnectionFailed, Kind, ProtocolError
from dragoman.schema import fs
from dragoman.workspace.snapshot import WatchChange, merge_changes, take_changes

if TYPE_CHECKING:
    from dragoman.workspace.files import Files
    from dragoman.workspace.watch import DirectoryWatch

# Changes returned at once.
MAX_CHANGES = 1000

# Unknown watches whose changes are kept, because they can arrive before the answer that names the watch.
MAX_EARLY_WATCHES = 16

FS_CHANGED = "fs/changed"


class ClientWatch:
    """A watch of a folder or file, as an async context manager."""

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
        dispatcher = _WatchDispatcher.for_connection(self._connection)
        params = fs.WatchParams(session_id=self._session_id, path=self._path, recursive=self._recursive)
        result = await self._connection.request("fs/watch", params)
        self._watch_id = str(result.watch_id)
        dispatcher.add(self._watch_id, self)
        return self

    async def __aexit__(self, *_: object) -> None:
        if self._local_watch is not None:
            self._local_watch.close()
            return
        _WatchDispatcher.for_connection(self._connection).remove(self._watch_id)
        try:
            await self._connection.request(
                "fs/unwatch", fs.UnwatchParams(session_id=self._session_id, watch_id=self._watch_id)
            )
        except ProtocolError as error:
            if error.kind != Kind.RESOURCE_NOT_FOUND:  # the watched path is gone, and the watch with it
                raise
        except ConnectionFailed:
            pass

    async def changes(self) -> list[WatchChange]:
        """Wait for the next changes and return them; empty when the watch has ended."""
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
        while changes := await self.changes():
            yield changes

    def receive(self, changes: list[WatchChange]) -> None:
        """Add changes that the client reported."""
        merge_changes(self._pending, changes)
        if self._pending:
            self._has_pending.set()


class _WatchDispatcher:
    """The watches of one connection, by id."""

    def __init__(self) -> None:
        self._watches: dict[str, ClientWatch] = {}
        self._early_changes: dict[str, list[WatchChange]] = {}

    @classmethod
    def for_connection(cls, connection: Connection) -> _WatchDispatcher:
        known = getattr(connection.handlers.get(FS_CHANGED), "dispatcher", None)
        if isinstance(known, cls):
            return known
        dispatcher = cls()
        handler = make_handler(dispatcher.receive)
        handler.dispatcher = dispatcher  # type: ignore[attr-defined]
        connection.handlers[FS_CHANGED] = handler
        return dispatcher

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
