"""Read sessions and their logs: summaries by id, pages of the list, and lines whose sums and numbers are checked."""

from __future__ import annotations

from typing import Any, NamedTuple

from dragoman.store.blocks import Block, LogRange, corrupted_error, join_blocks
from dragoman.store.contract import Selection, Summary, parse_session_cursor
from dragoman.store.postgres.database import Database
from dragoman.store.summary import (
    SHOWN_IDS,
    LogSummary,
    ambiguous_error,
    expired_error,
    missing_error,
)

# The columns of a LogSummary.
_COLUMNS = (
    "id, name, turns, created_at, title, prompted, agent, agent_session, cwd, forked_from, archived, imported, "
    "entries, size, updated_at, epoch, node"
)
_FIELDS = ["session_id", *_COLUMNS.split(", ")[1:]]

SELECT_HEADS = f"SELECT number, expired_at, {_COLUMNS} FROM sessions JOIN progress USING (number)"

# A session that only has a claim is not listed.
_LISTED = "expired_at IS NULL AND (entries > 0 OR imported > 0 OR forked_from IS NOT NULL)"

# The block or page that has the first wanted line, and those after it.
_SELECT_BLOCKS = " UNION ALL ".join(
    f"(SELECT first, count, epoch, sum, body FROM {table} WHERE session = $1 AND first <= $3 AND first >= coalesce("
    f"(SELECT max(first) FROM {table} WHERE session = $1 AND first <= $2), 0))"
    for table in ("pages", "blocks")
)


class Head(NamedTuple):
    """A session as the database has it."""

    number: int
    log_summary: LogSummary
    is_expired: bool

    @property
    def is_blank(self) -> bool:
        """Whether nothing was ever stored in it."""
        head = self.log_summary
        return not head.entries and not head.imported and head.forked_from is None


def parse_head(row: Any) -> Head:
    """Return the head in a row of SELECT_HEADS."""
    number, expired_at, *values = row
    return Head(number, LogSummary(**dict(zip(_FIELDS, values, strict=True))), expired_at is not None)


async def find_head(connection: Any, session_id: str, *, blank: bool = False, lock: bool = False) -> Head:
    """Return a session by id; raise session_not_found or session_expired. `lock` keeps others from changing it."""
    query = f"{SELECT_HEADS} WHERE id = $1" + (" FOR UPDATE" if lock else "")
    rows = await connection.fetch(query, session_id)
    head = parse_head(rows[0]) if rows else None
    if head is not None and head.is_expired:
        raise expired_error(session_id)
    if head is None or (head.is_blank and not blank):
        raise missing_error(session_id)
    return head


async def read_range(connection: Any, number: int, first: int, last: int) -> LogRange:
    """Return everything from one number to another that can be read."""
    if first > last:
        return LogRange([], [])
    rows = await connection.fetch(_SELECT_BLOCKS, number, first, last)
    return join_blocks([Block(*row) for row in rows], first, last)


async def read_lines(
    database: Database, session_id: str, after: int, limit: int | None, *, intact: bool
) -> list[bytes]:
    """Return the entries above `after`; what cannot be read is left out (`intact`) or raises session_corrupted."""
    first = max(after, 0) + 1
    lost: list[tuple[int, int]] = []
    for _ in range(2):  # a log that was deleted in between looks like one with gaps
        head = await find_head(database, session_id)
        entries = head.log_summary.entries
        last = entries if limit is None else min(entries, first - 1 + max(limit, 0))
        found = await read_range(database, head.number, first, last)
        lost = found.lost
        if not lost:
            return found.lines
    if not intact:
        raise corrupted_error(session_id, lost)
    return found.lines


async def list_sessions(database: Database, wanted: Selection, owner: str) -> list[Summary]:
    """Return the sessions that fit, the last changed first; `owner` also has those without members."""
    values: list[Any] = []

    def place(value: Any) -> str:
        values.append(value)
        return f"${len(values)}"

    tables, conditions = "sessions JOIN progress USING (number)", [_LISTED]
    if wanted.of is not None and wanted.of == owner != "":
        conditions.append(
            f"(NOT EXISTS (SELECT FROM members WHERE session = id) OR EXISTS (SELECT FROM members "
            f"WHERE session = id AND member = {place(wanted.of)}))"
        )
    elif wanted.of is not None:
        tables = "mine JOIN sessions ON id = mine.session JOIN progress USING (number)"
    if wanted.ids is not None:
        conditions.append(f"id = ANY({place(list(wanted.ids))}::text[])")
    if wanted.without:
        conditions.append(f"id <> ALL({place(list(wanted.without))}::text[])")
    if wanted.archived is not None:
        conditions.append(f"archived = {place(wanted.archived)}")
    if wanted.cwd is not None:
        conditions.append(f"cwd = {place(wanted.cwd)}")
    if wanted.after is not None:
        updated_at, session_id = (place(value) for value in parse_session_cursor(wanted.after))
        conditions.append(f"updated_at <= {updated_at} AND (updated_at < {updated_at} OR id < {session_id})")
    # The sessions of one user are found first: the order of time would lead through those of all others.
    mine = (
        f"WITH mine AS MATERIALIZED (SELECT session FROM members WHERE member = {place(wanted.of)}) "
        if tables.startswith("mine")
        else ""
    )
    limit = "" if wanted.limit is None else f" LIMIT {place(max(wanted.limit, 0))}"
    query = f"{mine}SELECT number, expired_at, {_COLUMNS} FROM {tables} WHERE {' AND '.join(conditions)}"
    rows = await database.fetch(f"{query} ORDER BY updated_at DESC, id DESC{limit}", *values)
    return [parse_head(row).log_summary.summary for row in rows]


async def find(database: Database, name: str) -> Summary:
    """Find a session by id, name or the beginning of an id; raise session_not_found or session_expired."""
    rows = await database.fetch(f"{SELECT_HEADS} WHERE id = $1 OR name = $1", name)
    heads = sorted(map(parse_head, rows), key=lambda head: head.log_summary.session_id != name)
    for head in heads:
        if head.is_expired:
            raise expired_error(name)
        if not head.is_blank:
            return head.log_summary.summary
    if not name:
        raise missing_error(name)
    query = f"{SELECT_HEADS} WHERE id >= $1 AND id < $2 AND {_LISTED} ORDER BY id LIMIT {SHOWN_IDS + 1}"
    heads = [parse_head(row) for row in await database.fetch(query, name, f"{name}\U0010ffff")]
    if len(heads) > 1:
        raise ambiguous_error(name, [head.log_summary.session_id for head in heads])
    if not heads:
        raise missing_error(name)
    return heads[0].log_summary.summary
