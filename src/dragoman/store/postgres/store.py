"""The PostgreSQL store: the contract, implemented by the writer, the reader, the changes and the search index."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Mapping, Sequence
from typing import Any

import msgspec

from dragoman.errors import ProtocolError
from dragoman.schema.base import encode
from dragoman.store.blocks import draft_texts
from dragoman.store.claims import settle
from dragoman.store.contract import (
    ALL_SESSIONS,
    Claim,
    Draft,
    Entry,
    Feature,
    Hit,
    LogReport,
    Retention,
    SavedState,
    Selection,
    Summary,
    decode_entry,
    number_draft,
)
from dragoman.store.formats import FIRST_FORMAT
from dragoman.store.postgres import changes, reading, search_index
from dragoman.store.postgres.append import Writer
from dragoman.store.postgres.database import Database
from dragoman.store.sealing import Sealer
from dragoman.store.search import parse_query
from dragoman.store.summary import check_new_name, closed_error


class PostgresStore:
    """Logs in the tables of one database (contract: `Store`). `urls.open_engine` opens it."""

    features = frozenset({Feature.SEARCH, Feature.MEMBERS, Feature.SHARED})

    def __init__(self, database: Database, sealer: Sealer, owner: str = "") -> None:
        """`owner` may see every session that has no members. The database is open, and its tables exist."""
        self._database = database
        self._sealer = sealer
        self._owner = owner
        self.entry_format = FIRST_FORMAT  # of what is appended; all nodes of the fleet read it
        self._is_closed = False
        self._writer = Writer(database, self._on_full_tail)
        self._tasks: set[asyncio.Task[None]] = set()

    # --- the log ----------------------------------------------------------------------------------------------

    async def append(self, session_id: str, drafts: Sequence[Draft], *, claim: Claim | None = None) -> list[Entry]:
        self._check_open()
        texts = draft_texts(drafts, self.entry_format)
        if not texts:
            return []
        kinds_and_times = [(draft.kind, draft.time) for draft in drafts]
        first = await self._writer.append(session_id, kinds_and_times, texts, claim)
        return [number_draft(draft, seq) for seq, draft in enumerate(drafts, first)]

    async def read(
        self, session_id: str, after: int = 0, limit: int | None = None, *, intact: bool = False
    ) -> list[Entry]:
        return [decode_entry(line) for line in await self.lines(session_id, after, limit, intact=intact)]

    async def lines(
        self, session_id: str, after: int = 0, limit: int | None = None, *, intact: bool = False
    ) -> list[bytes]:
        return await reading.read_lines(self._database, session_id, after, limit, intact=intact)

    # --- claims and states ------------------------------------------------------------------------------------

    async def owner(self, session_id: str) -> Claim:
        return await changes.owner(self._database, session_id)

    async def claim(self, session_id: str, node: str, *, epoch: int) -> Claim:
        self._writer.forget(session_id)
        claim = await self._database.transact(lambda connection: changes.claim(connection, session_id, node, epoch))
        self._writer.forget(session_id)
        return claim

    async def settle(self, claim: Claim) -> Claim:
        return await settle(self, claim)

    async def release(self, claim: Claim) -> None:
        await self._database.transact(lambda connection: changes.release(connection, claim))
        self._writer.forget(claim.session_id)

    async def save_state(self, session_id: str, seq: int, state: bytes) -> None:
        head = await reading.find_head(self._database, session_id)
        await self._database.execute(
            "INSERT INTO states VALUES ($1, $2, $3) ON CONFLICT (number) DO UPDATE SET seq = $2, state = $3",
            head.number,
            seq,
            state,
        )

    async def saved_state(self, session_id: str) -> SavedState | None:
        head = await reading.find_head(self._database, session_id)
        rows = await self._database.fetch("SELECT seq, state FROM states WHERE number = $1", head.number)
        return SavedState(*rows[0]) if rows and 0 < rows[0][0] <= head.log_summary.entries else None

    # --- the list ---------------------------------------------------------------------------------------------

    async def sessions(self, wanted: Selection = ALL_SESSIONS) -> list[Summary]:
        return await reading.list_sessions(self._database, wanted, self._owner)

    async def find(self, name: str) -> Summary:
        return await reading.find(self._database, name)

    async def rename(self, session_id: str, name: str | None) -> Summary:
        wanted = None if name is None else check_new_name(name)
        return await self._database.transact(lambda connection: changes.rename(connection, session_id, wanted))

    async def fork(self, session_id: str, new_id: str, upto: int | None = None) -> Summary:
        summary = await self._database.transact(lambda connection: changes.fork(connection, session_id, new_id, upto))
        if credentials := await self.credentials(session_id):
            await self.keep_credentials(new_id, credentials)
        return summary

    async def begin_import(self, session_id: str, entries: int, *, forked_from: str | None = None) -> Summary:
        return await self._database.transact(
            lambda connection: changes.begin_import(connection, session_id, entries, forked_from)
        )

    async def delete(self, session_id: str) -> bool:
        deleted = await self._database.transact(lambda connection: changes.delete(connection, session_id))
        self._writer.forget(session_id)
        return deleted

    async def expire(self, retention: Retention, now: str) -> list[str]:
        expired = await self._database.transact(lambda connection: changes.expire(connection, retention, now))
        for session_id in expired:
            self._writer.forget(session_id)
        return expired

    # --- searching and damage ---------------------------------------------------------------------------------

    async def search(self, query: str, *, limit: int = 20, session_id: str | None = None) -> list[Hit]:
        """Return the passages that contain all words, after indexing everything logged so far."""
        self._check_open()
        parse_query(query)
        await search_index.catch_up(self._database)
        return await search_index.search(self._database, query, limit, session_id)

    async def verify(self, session_id: str) -> LogReport:
        return await self._database.transact(lambda connection: changes.verify_log(connection, session_id))

    async def repair(self, session_id: str) -> LogReport:
        report = await self._database.transact(lambda connection: changes.repair(connection, session_id))
        self._writer.forget(session_id)
        return report

    # --- credentials ------------------------------------------------------------------------------------------

    async def keep_credentials(self, session_id: str, credentials: Mapping[str, Any]) -> None:
        self._check_open()
        value = msgspec.json.decode(encode(dict(credentials)))
        if not value:
            await self._database.execute("DELETE FROM credentials WHERE session = $1", session_id)
            return
        await self._database.execute(
            "INSERT INTO credentials VALUES ($1, $2) ON CONFLICT (session) DO UPDATE SET sealed = $2",
            session_id,
            self._sealer.seal(value, session_id),
        )

    async def credentials(self, session_id: str) -> dict[str, Any]:
        rows = await self._database.fetch("SELECT sealed FROM credentials WHERE session = $1", session_id)
        return self._sealer.open(rows[0][0], session_id) if rows else {}

    # --- the end ----------------------------------------------------------------------------------------------

    async def probe(self) -> None:
        self._check_open()
        await self._database.execute("UPDATE meta SET value = '' WHERE key = 'probe'")

    async def close(self) -> None:
        """Store everything that waits, then disconnect. Pages and the index are left for the next time."""
        if self._is_closed:
            return
        self._is_closed = True
        await self._writer.close()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await self._database.close()

    def _check_open(self) -> None:
        if self._is_closed:
            raise closed_error()

    def _on_full_tail(self, session_id: str, number: int) -> None:
        self._spawn(self._tidy(number))

    async def _tidy(self, number: int) -> None:
        """Join the blocks of a turn to pages and index them. Both can be done later."""
        try:
            await self._database.transact(lambda connection: changes.join_tail(connection, number))
            while await search_index.index_session(self._database, number):
                pass
        except ProtocolError:
            pass

    def _spawn(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
