"""The SQLite store: the contract, implemented by the writer, the reader and the index.

Writes and reads have a thread each, with its own connection, so neither blocks the event loop or the other.
"""

from __future__ import annotations

import asyncio
import os
import sqlite3
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from tempfile import TemporaryFile
from typing import Any, TypeVar

import msgspec

from dragoman.errors import ProtocolError
from dragoman.schema.base import encode
from dragoman.store.blocks import draft_texts
from dragoman.store.claims import settle
from dragoman.store.contract import (
    ALL_SESSIONS,
    LOCAL_FEATURES,
    Claim,
    Draft,
    Entry,
    Hit,
    LogReport,
    Retention,
    SavedState,
    Selection,
    Summary,
    decode_entry,
    number_draft,
)
from dragoman.store.credentials import CredentialsFile
from dragoman.store.search import parse_query
from dragoman.store.sqlite import changes, listing, reading, search_index
from dragoman.store.sqlite.append import AppendRequest
from dragoman.store.sqlite.errors import FAILURES, corrupted_error, is_damage, to_store_fault
from dragoman.store.sqlite.schema import BUSY_TIMEOUT, connect, connect_to_read, lock_file, prepare_file
from dragoman.store.sqlite.search_index import Indexer
from dragoman.store.sqlite.writer import Writer
from dragoman.store.summary import check_new_name, check_no_user, closed_error

T = TypeVar("T")

# The free space that a store needs: what a few prompts and their answers take. Bytes.
MIN_FREE_BYTES = 128 * 1024


class SqliteStore:
    """Logs in one SQLite file, credentials in a file next to it (contract: `Store`). Open it with `open(path)`."""

    features = LOCAL_FEATURES

    def __init__(self, path: str, *, durability: str = "full", timeout: float = BUSY_TIMEOUT) -> None:
        """`durability`: "full" survives a power cut, "normal" may lose the last moments, "off" promises nothing.

        `timeout` is how long a call waits for another process that writes. Blocks briefly; raises StoreFault.
        """
        self.path = os.path.abspath(path)
        self._credentials_file = CredentialsFile(f"{self.path}.credentials")
        self._closed = False
        prepare_file(self.path, timeout=timeout)
        try:
            self._lock_fd = lock_file(self.path)
        except OSError as error:
            raise to_store_fault(error, self.path) from error
        try:
            self._connection = connect_to_read(self.path, durability, timeout=timeout)
            self._writer = Writer(
                lambda: connect(self.path, durability, timeout=timeout),
                self.path,
                lambda ended: self._indexer.note(ended),
            )
            self._indexer = Indexer(
                lambda: connect_to_read(self.path, durability, timeout=timeout), self.path, self._writer.put_later
            )
        except BaseException:
            os.close(self._lock_fd)
            raise
        self._reader_pool = ThreadPoolExecutor(1, thread_name_prefix="dragoman-store-reader")

    @classmethod
    async def open(cls, path: str, *, durability: str = "full", timeout: float = BUSY_TIMEOUT) -> SqliteStore:
        """Open or create a file, without blocking the event loop."""
        return await asyncio.to_thread(cls, path, durability=durability, timeout=timeout)

    # --- the log ----------------------------------------------------------------------------------------------

    async def append(self, session_id: str, drafts: Sequence[Draft], *, claim: Claim | None = None) -> list[Entry]:
        self._check_open()
        texts = draft_texts(drafts)
        if not texts:
            return []
        seq = await self._writer.submit(
            AppendRequest(session_id, [(draft.kind, draft.time) for draft in drafts], texts, claim)
        )
        return [number_draft(draft, number) for number, draft in enumerate(drafts, seq)]

    async def read(
        self, session_id: str, after: int = 0, limit: int | None = None, *, intact: bool = False
    ) -> list[Entry]:
        def entries(connection: sqlite3.Connection) -> list[Entry]:
            return [*map(decode_entry, _read_lines(connection, session_id, after, limit, intact))]

        return await self._read(entries, session_id)

    async def lines(
        self, session_id: str, after: int = 0, limit: int | None = None, *, intact: bool = False
    ) -> list[bytes]:
        return await self._read(
            lambda connection: _read_lines(connection, session_id, after, limit, intact), session_id
        )

    # --- the list ---------------------------------------------------------------------------------------------

    async def sessions(self, wanted: Selection = ALL_SESSIONS) -> list[Summary]:
        check_no_user(wanted)
        return await self._read(lambda connection: listing.list_sessions(connection, wanted))

    async def find(self, name: str) -> Summary:
        return await self._read(lambda connection: listing.find(connection, name))

    async def rename(self, session_id: str, name: str | None) -> Summary:
        wanted = None if name is None else check_new_name(name)
        return await self._write(lambda connection: changes.rename(connection, session_id, wanted))

    async def fork(self, session_id: str, new_id: str, upto: int | None = None) -> Summary:
        summary = await self._write(lambda connection: changes.fork(connection, session_id, new_id, upto))
        await asyncio.to_thread(self._credentials_file.copy, session_id, new_id)
        return summary

    async def begin_import(self, session_id: str, entries: int, *, forked_from: str | None = None) -> Summary:
        return await self._write(lambda connection: changes.begin_import(connection, session_id, entries, forked_from))

    async def delete(self, session_id: str) -> bool:
        self._check_open()
        await self._call_credentials(self._credentials_file.delete, [session_id])
        await self._remove_from_index(session_id)
        return await self._write(lambda connection: changes.delete(connection, session_id))

    async def expire(self, retention: Retention, now: str) -> list[str]:
        for session_id in await self._read(lambda connection: changes.expiring(connection, retention, now)):
            await self._remove_from_index(session_id)
        expired = await self._write(lambda connection: changes.expire(connection, retention, now))
        await self._call_credentials(self._credentials_file.delete, expired)
        return expired

    # --- claims and states ------------------------------------------------------------------------------------

    async def owner(self, session_id: str) -> Claim:
        return await self._read(lambda connection: changes.owner(connection, session_id))

    async def claim(self, session_id: str, node: str, *, epoch: int) -> Claim:
        return await self._write(lambda connection: changes.claim(connection, session_id, node, epoch))

    async def settle(self, claim: Claim) -> Claim:
        return await settle(self, claim)

    async def release(self, claim: Claim) -> None:
        await self._write(lambda connection: changes.release(connection, claim))

    async def save_state(self, session_id: str, seq: int, state: bytes) -> None:
        await self._write(lambda connection: changes.save_state(connection, session_id, SavedState(seq, state)))

    async def saved_state(self, session_id: str) -> SavedState | None:
        return await self._read(lambda connection: changes.saved_state(connection, session_id))

    # --- searching --------------------------------------------------------------------------------------------

    async def search(self, query: str, *, limit: int = 20, session_id: str | None = None) -> list[Hit]:
        """Return the passages that contain all words, after indexing everything logged so far."""
        self._check_open()
        parse_query(query)
        try:
            await self._indexer.catch_up()
            return await self._read(lambda connection: search_index.search(connection, query, limit, session_id))
        except ProtocolError as error:
            if getattr(error, "why", "") != "damaged":
                raise
        await self._write(search_index.rebuild_index)
        await self._indexer.catch_up()
        return await self._read(lambda connection: search_index.search(connection, query, limit, session_id))

    async def _remove_from_index(self, session_id: str) -> None:
        """Remove a session from the index in parts, with other commits in between: a large one takes long."""
        while await self._write(lambda connection: search_index.remove_slice(connection, session_id)):
            pass

    # --- damage -----------------------------------------------------------------------------------------------

    async def verify(self, session_id: str) -> LogReport:
        return await self._read(lambda connection: changes.verify_log(connection, session_id), session_id)

    async def repair(self, session_id: str) -> LogReport:
        """Replace lost entries; a file that SQLite cannot write needs `rebuild`."""
        return await self._write(lambda connection: changes.repair(connection, session_id))

    async def check_file(self) -> None:
        """Raise StoreFault (damaged) if the file needs `rebuild`."""
        await self._read(changes.check_file)

    # --- credentials ------------------------------------------------------------------------------------------

    async def keep_credentials(self, session_id: str, credentials: Mapping[str, Any]) -> None:
        self._check_open()
        await self._call_credentials(
            self._credentials_file.save, session_id, msgspec.json.decode(encode(dict(credentials)))
        )

    async def credentials(self, session_id: str) -> dict[str, Any]:
        self._check_open()
        return await self._call_credentials(self._credentials_file.read, session_id)

    # --- the end ----------------------------------------------------------------------------------------------

    async def probe(self) -> None:
        self._check_open()
        try:
            await asyncio.to_thread(_check_free_space, os.path.dirname(self.path))
        except OSError as error:
            raise to_store_fault(error, self.path) from error
        await self._write(changes.touch)

    async def close(self) -> None:
        """Store everything submitted, then close the file. Unindexed entries are left for the next time."""
        if self._closed:
            return
        self._closed = True
        await self._indexer.close()
        await self._writer.close()
        await asyncio.to_thread(self._reader_pool.shutdown)
        self._connection.close()
        os.close(self._lock_fd)

    def _check_open(self) -> None:
        if self._closed:
            raise closed_error()

    async def _write(self, work: Callable[[sqlite3.Connection], T]) -> T:
        self._check_open()
        result: T = await self._writer.submit(work)
        return result

    async def _read(self, work: Callable[[sqlite3.Connection], T], session_id: str | None = None) -> T:
        self._check_open()
        return await asyncio.get_running_loop().run_in_executor(self._reader_pool, self._snapshot, work, session_id)

    def _snapshot(self, work: Callable[[sqlite3.Connection], T], session_id: str | None) -> T:
        """Open a read transaction: a consistent view."""
        connection = self._connection
        try:
            connection.execute("BEGIN")
            try:
                return work(connection)
            finally:
                if connection.in_transaction:
                    connection.execute("ROLLBACK")  # nothing to commit, and SQLite refuses to after damage
        except FAILURES as error:
            if session_id is not None and is_damage(error):
                raise corrupted_error(session_id, []) from error
            raise to_store_fault(error, self.path) from error

    async def _call_credentials(self, call: Callable[..., T], *args: Any) -> T:
        try:
            return await asyncio.to_thread(call, *args)
        except OSError as error:
            raise to_store_fault(error, self._credentials_file.path) from error


def _check_free_space(folder: str) -> None:
    """Raise OSError if there is no space for a few prompts."""
    with TemporaryFile(dir=folder, buffering=0) as file:
        view = memoryview(bytes(MIN_FREE_BYTES))
        while view:
            view = view[file.write(view) :]


def _read_lines(
    connection: sqlite3.Connection, session_id: str, after: int, limit: int | None, intact: bool
) -> list[bytes]:
    return reading.read_lines(connection, reading.find_session(connection, session_id), after, limit, intact=intact)
