"""The log of a session in a host, followed while one prompt runs: entries as they are kept, for `run --host --json`.

Takes whatever is heard of the session as a sign that there is more, reads it, and hands on what belongs to one's own
turn or to none; what others say in between is theirs. Above is visiting; below are the sessions of a host.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import suppress

from dragoman.cli.host_client.store import Borrowed
from dragoman.errors import ConnectionFailed, ProtocolError
from dragoman.store.contract import Entry, EntryKind

# What is kept within a moment is read together: nobody sees the difference, and the host has less to do. Seconds.
TOGETHER = 0.05

OnEntry = Callable[[str, Entry], None]


class Following:
    """Reads one log as it grows."""

    def __init__(self, store: Borrowed, on_entry: OnEntry, own: Callable[[], str]) -> None:
        """`own` gives the id of one's own turn, and nothing until that has begun."""
        self._store = store
        self._on_entry = on_entry
        self._own = own
        self._session = ""
        self._after = 0
        self._more = asyncio.Event()
        self._held: list[Entry] = []  # of turns that may turn out to be others'
        self._reader: asyncio.Task[None] | None = None

    def begin(self, session: str, after: int) -> None:
        """Follow this session, from what comes after that entry."""
        self._session, self._after = session, after
        self._reader = asyncio.create_task(self._read())
        self._more.set()

    def stir(self) -> None:
        """Something was heard of the session."""
        self._more.set()

    async def finish(self) -> None:
        """Read what is left: nothing more will be heard."""
        if self._reader is None:
            return
        self._reader.cancel()
        await asyncio.gather(self._reader, return_exceptions=True)
        await self._take()
        for entry in self._held:
            self._on_entry(self._session, entry)

    async def _read(self) -> None:
        while True:
            await self._more.wait()
            self._more.clear()
            await self._take()
            await asyncio.sleep(TOGETHER)

    async def _take(self) -> None:
        # A session that was deleted, or that one may not look at any more, or a host that is gone: the prompt tells.
        with suppress(ProtocolError, ConnectionFailed):
            for entry in await self._store.read(self._session, self._after):
                self._after = entry.seq
                self._pass(entry)

    def _pass(self, entry: Entry) -> None:
        if entry.kind == EntryKind.MEMBER:
            return  # who comes and goes is no part of what is said
        own = self._own()
        if not own and (entry.turn or self._held):
            self._held.append(entry)
            return
        for each in [*self._held, entry]:
            if each.turn in (None, own):
                self._on_entry(self._session, each)
        self._held.clear()
