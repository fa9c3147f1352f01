"""Follow the log of a session on a host while one prompt runs, for `run --host --json`.

Any activity of the session triggers a read; entries of our own turn or of no turn are passed on, those of other members
are not.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import suppress

from dragoman.cli.host_client.store import HostStore
from dragoman.errors import ConnectionFailed, ProtocolError
from dragoman.store.contract import Entry, EntryKind

# Entries of a short period are read together, which saves requests. Seconds.
BATCH_DELAY = 0.05

OnEntry = Callable[[str, Entry], None]


class LogFollower:
    """Reads one log as it grows."""

    def __init__(self, store: HostStore, on_entry: OnEntry, own_turn_id: Callable[[], str]) -> None:
        """`own_turn_id` returns the id of our own turn, empty until it has begun."""
        self._store = store
        self._on_entry = on_entry
        self._own_turn_id = own_turn_id
        self._session_id = ""
        self._last_seq = 0
        self._wakeup = asyncio.Event()
        self._held_entries: list[Entry] = []  # of turns that may belong to other members
        self._reader_task: asyncio.Task[None] | None = None

    def start(self, session_id: str, after: int) -> None:
        """Follow this session, after the entry with this number."""
        self._session_id, self._last_seq = session_id, after
        self._reader_task = asyncio.create_task(self._run())
        self._wakeup.set()

    def wake(self) -> None:
        """Note that something happened in the session."""
        self._wakeup.set()

    async def finish(self) -> None:
        """Read the remaining entries and stop."""
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
        # If the session was deleted, access was revoked or the host is gone, the prompt reports it.
        with suppress(ProtocolError, ConnectionFailed):
            for entry in await self._store.read(self._session_id, self._last_seq):
                self._last_seq = entry.seq
                self._deliver(entry)

    def _deliver(self, entry: Entry) -> None:
        if entry.kind == EntryKind.MEMBER:
            return  # members who join and leave are not part of the conversation
        own = self._own_turn_id()
        if not own and (entry.turn or self._held_entries):
            self._held_entries.append(entry)
            return
        for each in [*self._held_entries, entry]:
            if each.turn in (None, own):
                self._on_entry(self._session_id, each)
        self._held_entries.clear()
