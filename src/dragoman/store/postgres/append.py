"""Append to logs: one connection of a node writes, and everything that waits is one statement and one commit.

The statement compares the end and the owner of each log with what the writer knows, and skips those that differ.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from typing import Any

import msgspec

from dragoman.errors import ProtocolError, StoreFault
from dragoman.store.blocks import MAX_TAIL, Block, number_texts, split_blocks
from dragoman.store.claims import Fenced, check_append, no_claim
from dragoman.store.contract import Claim, EntryKind
from dragoman.store.postgres.database import MAX_TRIES, STATEMENT_TIMEOUT, Database
from dragoman.store.postgres.errors import is_conflict, is_lost, to_store_fault
from dragoman.store.postgres.reading import SELECT_HEADS, Head, parse_head
from dragoman.store.summary import LogSummary, closed_error, expired_error

# The most appends of one statement: so many share a commit, and the first does not wait for thousands.
MAX_BATCH = 512

# Sessions whose end the writer knows without asking; with more, all are looked up again.
MAX_CACHED = 20_000

# The columns of `sessions` that an entry can change, with their types.
_CHANGES = {
    "turns": "bigint", "created_at": "text", "title": "text", "prompted": "text", "agent": "text",
    "agent_session": "text", "cwd": "text", "archived": "boolean",
}  # fmt: skip

# Numbers come as texts (`_literal`): asyncpg looks long at each element of a list.
_HEADS = (
    "unnest($1::text::bigint[], $2::text::bigint[], $3::text::bigint[], $4::text::bigint[], $5::text::bigint[], "
    "$6::text[], $7::text[])"
)
_BLOCKS = (
    "unnest($8::text::bigint[], $9::text::bigint[], $10::text::int[], $11::text::bigint[], $12::text::bigint[], "
    "$13::bytea[])"
)

_APPEND = f"""
WITH heads AS (SELECT * FROM {_HEADS} AS t (number, expected, epoch, entries, size, node, updated_at)),
moved AS (
  UPDATE progress SET entries = heads.entries, size = heads.size, updated_at = heads.updated_at
  FROM heads WHERE progress.number = heads.number AND progress.entries = heads.expected
    AND progress.epoch = heads.epoch AND progress.node = heads.node
  RETURNING progress.number
),
stored AS (
  INSERT INTO blocks SELECT given.* FROM {_BLOCKS} AS given (session, first, count, epoch, sum, body)
  JOIN moved ON moved.number = given.session
)
"""

_APPEND_ONLY = f"{_APPEND} SELECT number FROM moved"

_APPEND_AND_CHANGE = f"""{_APPEND},
changed AS (
  UPDATE sessions SET {", ".join(f"{name} = given.{name}" for name in _CHANGES)}
  FROM unnest({", ".join(f"${at}::{kind}[]" for at, kind in enumerate(("bigint", *_CHANGES.values()), 14))})
    AS given (number, {", ".join(_CHANGES)})
  JOIN moved ON moved.number = given.number WHERE sessions.number = given.number
)
SELECT number FROM moved"""

_CREATE = """
WITH made AS (INSERT INTO sessions (id) SELECT unnest($1::text[]) ON CONFLICT DO NOTHING RETURNING number)
INSERT INTO progress (number) SELECT number FROM made
"""


class AppendRequest(msgspec.Struct, eq=False):
    """Drafts of one session that belong together, and who waits for them."""

    session_id: str
    kinds_and_times: list[tuple[str, str]]
    texts: list[bytes]
    claim: Claim | None
    future: asyncio.Future[int]  # the number of the first entry


class _Tail(msgspec.Struct):
    """What the writer knows of a log."""

    number: int
    log_summary: LogSummary
    blocks: int = 0  # written since its last page


class Writer:
    """Writes the appends of one node."""

    def __init__(self, database: Database, on_full_tail: Callable[[str, int], None]) -> None:
        """`on_full_tail` is called with a session and its number when its blocks should be joined."""
        self._database = database
        self._on_full_tail = on_full_tail
        self._connection: Any = None
        self._tails: dict[str, _Tail] = {}
        self._waiting: list[AppendRequest] = []
        self._task: asyncio.Task[None] | None = None
        self._is_closed = False

    def append(
        self, session_id: str, kinds_and_times: list[tuple[str, str]], texts: list[bytes], claim: Claim | None
    ) -> asyncio.Future[int]:
        """Store drafts; the result is the number of the first."""
        if self._is_closed:
            raise closed_error()
        future: asyncio.Future[int] = asyncio.get_running_loop().create_future()
        self._waiting.append(AppendRequest(session_id, kinds_and_times, texts, claim, future))
        if self._task is None:
            self._task = asyncio.get_running_loop().create_task(self._run())
        return future

    def forget(self, session_id: str) -> None:
        """Look a session up again before the next append: something else changed it."""
        self._tails.pop(session_id, None)

    async def close(self) -> None:
        """Store everything that waits, then disconnect."""
        self._is_closed = True
        if self._task is not None:
            await asyncio.gather(self._task, return_exceptions=True)
        await self._disconnect()

    async def _run(self) -> None:
        await asyncio.sleep(0)  # what other tasks append in this pass shares the statement
        try:
            while self._waiting:
                await self._store(self._take_batch())
        finally:
            self._task = None

    def _take_batch(self) -> list[AppendRequest]:
        """Take one append of each session that waits, in the order of their arrival."""
        batch: dict[str, AppendRequest] = {}
        rest = []
        for request in self._waiting:
            if request.session_id in batch or len(batch) >= MAX_BATCH:
                rest.append(request)
            else:
                batch[request.session_id] = request
        self._waiting = rest
        return list(batch.values())

    async def _store(self, batch: list[AppendRequest]) -> None:
        is_sent = False
        try:
            for _ in range(MAX_TRIES):
                is_sent = False
                connection = await self._connect()
                batch = await self._find_tails(connection, batch)  # those that failed are not tried again
                if not batch:
                    return
                is_sent = True
                try:
                    batch = await self._send(connection, batch)
                except Exception as error:
                    if not is_conflict(error):
                        raise
                    self._tails.clear()
                if not batch:
                    return
            raise StoreFault("locked", "other programs write to the same sessions all the time; try again")
        except Exception as error:
            self._tails.clear()
            if is_lost(error):
                await self._disconnect()
            fault = (
                error
                if isinstance(error, ProtocolError)
                else to_store_fault(error, self._database.where, is_writing=is_sent)
            )
            for request in batch:
                _fail(request, fault)

    async def _connect(self) -> Any:
        if self._connection is None or self._connection.is_closed():
            self._tails.clear()
            self._connection = await self._database.connect()
        return self._connection

    async def _disconnect(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None and not connection.is_closed():
            with suppress(Exception):
                await asyncio.wait_for(connection.close(), STATEMENT_TIMEOUT)
            connection.terminate()

    async def _find_tails(self, connection: Any, batch: Sequence[AppendRequest]) -> list[AppendRequest]:
        """Look up what is not known, create what does not exist, and fail those that may not append."""
        if len(self._tails) > MAX_CACHED:
            self._tails.clear()
        unknown = [request.session_id for request in batch if request.session_id not in self._tails]
        expired: set[str] = set()
        if unknown:
            expired = await self._load_tails(connection, unknown)
            missing = [
                request.session_id
                for request in batch
                if request.claim is None and request.session_id not in self._tails and request.session_id not in expired
            ]
            if missing:
                await connection.execute(_CREATE, missing)
                expired |= await self._load_tails(connection, missing)
        ready = []
        for request in batch:
            tail = self._tails.get(request.session_id)
            try:
                if request.session_id in expired:
                    raise expired_error(request.session_id)
                owner = no_claim(request.session_id) if tail is None else tail.log_summary.claim
                check_append(owner, request.claim)
                if tail is None:  # deleted since it was claimed
                    raise Fenced(owner)
                ready.append(request)
            except ProtocolError as error:
                # The owner that this writer knows may be an old one, so it is looked up again.
                self.forget(request.session_id)
                if isinstance(error, Fenced) and tail is not None and request.session_id not in unknown:
                    ready += await self._find_tails(connection, [request])
                else:
                    _fail(request, error)
        return ready

    async def _load_tails(self, connection: Any, ids: Sequence[str]) -> set[str]:
        """Load what the database has of these sessions; return the expired ones."""
        expired = set()
        for row in await connection.fetch(f"{SELECT_HEADS} WHERE id = ANY($1::text[])", list(ids)):
            head: Head = parse_head(row)
            if head.is_expired:
                expired.add(head.log_summary.session_id)
            else:
                self._tails[head.log_summary.session_id] = _Tail(head.number, head.log_summary)
        return expired

    async def _send(self, connection: Any, batch: Sequence[AppendRequest]) -> list[AppendRequest]:
        """Store a batch in one statement; return those whose log had changed, to be tried again."""
        rows: list[tuple[Any, ...]] = []
        blocks: list[tuple[Any, ...]] = []
        changes: list[tuple[Any, ...]] = []
        plans: list[tuple[AppendRequest, _Tail, LogSummary, int]] = []
        for request in sorted(batch, key=lambda request: self._tails[request.session_id].number):
            tail = self._tails[request.session_id]
            before, after = tail.log_summary, msgspec.structs.replace(tail.log_summary, is_changed=False)
            made = _plan_blocks(request, before, after)
            number = tail.number
            counts = (number, before.entries, before.epoch, after.entries, after.size)
            rows.append((*counts, before.node, clean_text(after.updated_at)))
            blocks += [(number, block.first, block.count, block.epoch, block.sum, block.body) for block in made]
            if after.is_changed:
                changes.append((number, *(clean_text(getattr(after, name)) for name in _CHANGES)))
            plans.append((request, tail, after, len(made)))
        *numbers, nodes, times = zip(*rows, strict=True)
        *places, bodies = zip(*blocks, strict=True)
        columns: list[Any] = [*map(_literal, numbers), nodes, times, *map(_literal, places), bodies]
        if changes:
            columns += [list(column) for column in zip(*changes, strict=True)]
        moved = {row[0] for row in await connection.fetch(_APPEND_AND_CHANGE if changes else _APPEND_ONLY, *columns)}
        again = []
        for request, tail, after, count in plans:
            if tail.number not in moved:
                self.forget(request.session_id)
                again.append(request)
                continue
            first = tail.log_summary.entries + 1
            tail.log_summary = after
            tail.blocks += count
            if request.kinds_and_times[-1][0] == EntryKind.TURN_ENDED or tail.blocks >= MAX_TAIL:
                tail.blocks = 0
                self._on_full_tail(request.session_id, tail.number)
            if not request.future.done():
                request.future.set_result(first)
        return again


def _plan_blocks(request: AppendRequest, before: LogSummary, after: LogSummary) -> list[Block]:
    """Return the blocks of an append, and bring the summary up to date."""
    lines = number_texts(request.texts, before.entries + 1)
    for (kind, at), line in zip(request.kinds_and_times, lines, strict=True):
        after.add_entry(kind, at, line)
    return split_blocks(before.entries + 1, before.epoch, lines)


def _literal(numbers: Iterable[int]) -> str:
    """Return numbers as PostgreSQL writes an array."""
    return "{" + ",".join(map(str, numbers)) + "}"


def clean_text(value: Any) -> Any:
    """Return a value as the database can keep it: its texts have no NUL."""
    return value.replace("\0", "\ufffd") if isinstance(value, str) else value


def _fail(request: AppendRequest, error: ProtocolError) -> None:
    if not request.future.done():
        # A new error for each waiter: one that is raised twice collects both tracebacks.
        copy = error.__class__.__new__(error.__class__, *error.args)
        copy.__dict__.update(error.__dict__)
        request.future.set_exception(copy)
