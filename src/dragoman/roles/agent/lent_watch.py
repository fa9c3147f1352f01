"""A folder that an agent has watched: by the client when it offers to, by the agent itself otherwise.

Takes fs/changed of a connection, by the ids of watches, and gives batches of changes to whoever asks. What nobody has
read yet is merged, so each path is told once. Ends with the connection. Above are lent files; below the workspace.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import TYPE_CHECKING, Any

from dragoman.engine.connection import Connection
from dragoman.engine.handler import answering
from dragoman.errors import ConnectionFailed, Kind, ProtocolError
from dragoman.schema.fs import UnwatchParams, WatchParams
from dragoman.workspace.snapshot import Change, merged, taken

if TYPE_CHECKING:
    from dragoman.workspace.files import Files
    from dragoman.workspace.watch import Watch

# Changes given at once.
MAX_CHANGES = 1000

# Watches whose first changes may come before the answer that names them; more are nobody's.
EARLY = 16

CHANGED = "fs/changed"


class LentWatch:
    """One watch; enter it to begin, leave it to end."""

    def __init__(self, connection: Connection, session_id: str, path: str, recursive: bool, own: Files | None) -> None:
        self._connection = connection
        self._session = session_id
        self._path = path
        self._recursive = recursive
        self._files = own
        self._own: Watch | None = None
        self._id = ""
        self._waiting: dict[str, str] = {}
        self._news = asyncio.Event()

    async def __aenter__(self) -> LentWatch:
        if self._files is not None:
            self._own = await self._files.watch(self._path, self._recursive)
            return self
        inbox = _Inbox.of(self._connection)
        params = WatchParams(session_id=self._session, path=self._path, recursive=self._recursive)
        result = await self._connection.request("fs/watch", params)
        self._id = str(result.watch_id)
        inbox.add(self._id, self)
        return self

    async def __aexit__(self, *_: object) -> None:
        if self._own is not None:
            self._own.close()
            return
        _Inbox.of(self._connection).remove(self._id)
        try:
            await self._connection.request("fs/unwatch", UnwatchParams(session_id=self._session, watch_id=self._id))
        except ProtocolError as error:
            if error.kind != Kind.RESOURCE_NOT_FOUND:  # what was watched is gone, and the watch with it
                raise
        except ConnectionFailed:
            pass

    async def changes(self) -> list[Change]:
        """The next changes, waiting for them; empty once there will be none."""
        if self._own is not None:
            return await self._own.changes()
        while not self._waiting and not self._connection.ended.is_set():
            self._news.clear()
            waits = [asyncio.ensure_future(event.wait()) for event in (self._news, self._connection.ended)]
            try:
                await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
            finally:
                for wait in waits:
                    wait.cancel()
        return list(taken(self._waiting, MAX_CHANGES))

    async def __aiter__(self) -> AsyncIterator[list[Change]]:
        while told := await self.changes():
            yield told

    def receive(self, changes: list[Change]) -> None:
        """Changes that the client tells of."""
        merged(self._waiting, changes)
        if self._waiting:
            self._news.set()


class _Inbox:
    """Who is told of the changes that come over one connection."""

    def __init__(self) -> None:
        self._watches: dict[str, LentWatch] = {}
        self._early: dict[str, list[Change]] = {}

    @classmethod
    def of(cls, connection: Connection) -> _Inbox:
        """The inbox of a connection, which answers fs/changed from its first watch on."""
        known = getattr(connection.handlers.get(CHANGED), "inbox", None)
        if isinstance(known, cls):
            return known
        inbox = cls()
        handler = answering(inbox.receive)
        handler.inbox = inbox  # type: ignore[attr-defined]
        connection.handlers[CHANGED] = handler
        return inbox

    def add(self, id: str, watch: LentWatch) -> None:
        self._watches[id] = watch
        watch.receive(self._early.pop(id, []))

    def remove(self, id: str) -> None:
        self._watches.pop(id, None)

    def receive(self, params: Any) -> None:
        changes = [Change(change.path, change.type) for change in params.changes]
        watch = self._watches.get(params.watch_id)
        if watch is not None:
            watch.receive(changes)
        elif len(self._early) < EARLY:
            self._early.setdefault(params.watch_id, []).extend(changes[:MAX_CHANGES])
