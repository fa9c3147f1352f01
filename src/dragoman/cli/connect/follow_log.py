"""The log of a session in a host, followed while one prompt runs: entries as they are kept, for `run --host --json`.

Takes whatever is heard of the session as a sign that there is more, reads it, and hands on what belongs to one's own
turn or to none; what others say in between is theirs. Above is visiting; below are the sessions of a host.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import suppress

from dragoman.cli.host_client.store import HostStore
from dragoman.errors import ConnectionFailed, ProtocolError
from dragoman.store.contract import Entry, EntryKind

# What is kept within a moment is read together: nobody sees the difference, and the host has less to do. Seconds.
BATCH_DELAY = 0.05

OnEntry = Callable[[str, Entry], None]


class LogFollower:
    """Reads one log as it grows."""

    def __init__(self, store: HostStore, on_entry: OnEntry, own_turn_id: Callable[[], str]) -> None:
        """`own` gives the id of one's own turn, and nothing until that has begun."""
        self._store = store
        self._on_entry = on_entry
        self._own_turn_id = own_turn_id
        self._session_id = ""
        self._last_seq = 0
        self._wakeup = asyncio.Event()
        self._held_entries: list[Entry] = []  # of turns that may turn out to be others'
        self._reader_task: asyncio.Task[None] | None = None

    def start(self, session_id: str, after: int) -> None:
        """Follow this session, from what comes after that entry."""
        self._session_id, self._last_seq = session_id, after
        self._reader_task = asyncio.create_task(self._run())
        self._wakeup.set()

    def wake(self) -> None:
        """Something was heard of the session."""
        self._wakeup.set()

    async def finish(self) -> None:
        """Read what is left: nothing more will be heard."""
        if self._reader_task is None:
            return
        self._reader_task.cancel()
        await asyncio.gather(self._reader_task, return_exceptions=True)
        await self._read_new_entries()
        for entry in self._held_entries:
            self._on_entry(self._session_id, entry)

    async def _run(self) -> None:
        while True:
            await self._wakeup.wait()
            self._wakeup.clear()
            await self._read_new_entries()
            await asyncio.sleep(BATCH_DELAY)

    async def _read_new_entries(self) -> None:
        # A session that was deleted, or that one may not look at any more, or a host that is gone: the prompt tells.
        with suppress(ProtocolError, ConnectionFailed):
            for entry in await self._store.read(self._session_id, self._last_seq):
                self._last_seq = entry.seq
                self._deliver(entry)

    def _deliver(self, entry: Entry) -> None:
        if entry.kind == EntryKind.MEMBER:
            return  # who comes and goes is no part of what is said
        own = self._own_turn_id()
        if not own and (entry.turn or self._held_entries):
            self._held_entries.append(entry)
            return
        for each in [*self._held_entries, entry]:
            if each.turn in (None, own):
                self._on_entry(self._session_id, each)
        self._held_entries.clear()
