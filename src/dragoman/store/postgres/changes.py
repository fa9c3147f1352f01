"""Changes of sessions besides appending: claims, names, forks, imports, deletion, expiry, pages, repair.

Each takes a connection inside a transaction of its own.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from dragoman.errors import Kind, ProtocolError
from dragoman.store.blocks import (
    MAX_PAGE_ENTRIES,
    Block,
    build_report,
    corrupted_error,
    fill_gaps,
    join_blocks,
    split_blocks,
)
from dragoman.store.claims import check_epoch, no_claim
from dragoman.store.contract import Claim, LogReport, Retention, Summary
from dragoman.store.postgres.append import clean_text
from dragoman.store.postgres.reading import SELECT_HEADS, Head, find_head, parse_head, read_range
from dragoman.store.summary import LogSummary, expired_error, expired_ids, fold_summary, taken_error

# How many ids of expired sessions are remembered, to report them as expired and not as unknown.
_MAX_TOMBSTONES = 10_000

# Everything that belongs to the number of a session.
_PARTS = {"blocks": "session", "pages": "session", "passages": "session", "states": "number"}

_SUMMARY_COLUMNS = ("turns", "created_at", "title", "prompted", "agent", "agent_session", "cwd", "archived")


# --- claims -----------------------------------------------------------------------------------------------------


async def owner(connection: Any, session_id: str, *, lock: bool = False) -> Claim:
    """Return the last claim of a log."""
    try:
        return (await find_head(connection, session_id, blank=True, lock=lock)).log_summary.claim
    except ProtocolError as error:
        if error.kind != Kind.SESSION_NOT_FOUND:
            raise
        return no_claim(session_id)


async def claim(connection: Any, session_id: str, node: str, epoch: int) -> Claim:
    """Claim a log after an epoch; create it if it is missing."""
    if epoch == 0:
        await _create(connection, session_id)  # does nothing if another node was faster
    last = await owner(connection, session_id, lock=True)
    check_epoch(last, epoch)
    query = (
        "UPDATE progress SET epoch = $2, node = $3 WHERE number = (SELECT number FROM sessions WHERE id = $1) "
        "RETURNING entries"
    )
    entries = await connection.fetchval(query, session_id, epoch + 1, node)
    return Claim(session_id=session_id, node=node, epoch=epoch + 1, seq=entries)


async def release(connection: Any, claim: Claim) -> None:
    """Give a log up, and remove it if nothing was stored in it."""
    last = await owner(connection, claim.session_id, lock=True)
    if (last.epoch, last.node) != (claim.epoch, claim.node):
        return
    head = await find_head(connection, claim.session_id, blank=True)
    await connection.execute("UPDATE progress SET node = '' WHERE number = $1", head.number)
    if head.is_blank:
        await delete(connection, claim.session_id)


async def _create(connection: Any, session_id: str) -> int | None:
    """Create a session without entries; return its number, None if the id is in use."""
    query = "INSERT INTO sessions (id) VALUES ($1) ON CONFLICT (id) DO NOTHING RETURNING number"
    number = await connection.fetchval(query, session_id)
    if number is not None:
        await connection.execute("INSERT INTO progress (number) VALUES ($1)", number)
    return None if number is None else int(number)


# --- names, forks, imports ----------------------------------------------------------------------------------------


async def rename(connection: Any, session_id: str, name: str | None) -> Summary:
    """Set or remove the name of a session."""
    head = await find_head(connection, session_id, lock=True)
    if name is not None:
        query = "SELECT id FROM sessions WHERE (name = $1 OR id = $1) AND id <> $2"
        by = await connection.fetchval(query, name, session_id)
        if by is not None:
            raise taken_error(name, by)
    await connection.execute("UPDATE sessions SET name = $2 WHERE number = $1", head.number, name)
    return (await find_head(connection, session_id)).log_summary.summary


async def fork(connection: Any, session_id: str, new_id: str, upto: int | None) -> Summary:
    """Create a log that starts with the entries of another."""
    origin = await find_head(connection, session_id)
    entries = origin.log_summary.entries if upto is None else min(max(upto, 0), origin.log_summary.entries)
    found = await read_range(connection, origin.number, 1, entries)
    if found.lost:
        raise corrupted_error(session_id, found.lost)
    number = await _create_new(connection, new_id)
    await _save_log(connection, number, fold_summary(new_id, found.lines), found.lines)
    imported = min(origin.log_summary.imported, entries)
    query = "UPDATE sessions SET forked_from = $2, imported = $3 WHERE number = $1"
    await connection.execute(query, number, session_id, imported)
    return (await find_head(connection, new_id)).log_summary.summary


async def begin_import(connection: Any, session_id: str, entries: int, forked_from: str | None = None) -> Summary:
    """Create an empty log whose first entries will be imported."""
    number = await _create_new(connection, session_id, expired=expired_error(session_id))
    query = "UPDATE sessions SET imported = $2, forked_from = $3 WHERE number = $1"
    await connection.execute(query, number, entries, forked_from)
    return (await find_head(connection, session_id, blank=True)).log_summary.summary


async def _create_new(connection: Any, session_id: str, *, expired: ProtocolError | None = None) -> int:
    number = await _create(connection, session_id)
    if number is not None:
        return number
    [row] = await connection.fetch(f"{SELECT_HEADS} WHERE id = $1", session_id)
    head = parse_head(row)
    if head.is_expired and expired is not None:
        raise expired
    if head.is_expired or not head.is_blank or head.log_summary.epoch:
        raise taken_error(session_id, session_id)
    return head.number


async def _save_log(connection: Any, number: int, head: LogSummary, lines: Sequence[bytes]) -> None:
    """Write the whole log of a session, as pages, and its summary."""
    pages = split_blocks(1, head.epoch, lines, entries=MAX_PAGE_ENTRIES)
    await _insert_pages(connection, number, pages)
    columns = ", ".join(f"{name} = ${at}" for at, name in enumerate(_SUMMARY_COLUMNS, 2))
    values = (clean_text(getattr(head, name)) for name in _SUMMARY_COLUMNS)
    await connection.execute(f"UPDATE sessions SET {columns} WHERE number = $1", number, *values)
    query = "UPDATE progress SET entries = $2, size = $3, updated_at = $4 WHERE number = $1"
    await connection.execute(query, number, head.entries, head.size, clean_text(head.updated_at))


async def _insert_pages(connection: Any, number: int, pages: Iterable[Block]) -> None:
    rows = [(number, page.first, page.count, page.epoch, page.sum, page.body) for page in pages]
    await connection.executemany("INSERT INTO pages VALUES ($1, $2, $3, $4, $5, $6)", rows)


# --- the end of a session -----------------------------------------------------------------------------------------


async def delete(connection: Any, session_id: str) -> bool:
    """Delete a session."""
    await connection.execute("DELETE FROM credentials WHERE session = $1", session_id)
    rows = await connection.fetch(f"{SELECT_HEADS} WHERE id = $1 FOR UPDATE", session_id)
    if not rows:
        return False
    head = parse_head(rows[0])
    await _delete_parts(connection, [head.number])
    for table in ("progress", "sessions"):
        await connection.execute(f"DELETE FROM {table} WHERE number = $1", head.number)
    return not head.is_expired and not head.is_blank


async def _delete_parts(connection: Any, numbers: list[int]) -> None:
    for table, column in _PARTS.items():
        await connection.execute(f"DELETE FROM {table} WHERE {column} = ANY($1::bigint[])", numbers)


async def expire(connection: Any, retention: Retention, now: str) -> list[str]:
    """Delete sessions that retention does not keep; remember their ids."""
    query = (
        "SELECT number, id, name, updated_at, size, entries FROM sessions JOIN progress USING (number) "
        "WHERE expired_at IS NULL ORDER BY updated_at DESC, id DESC"
    )
    numbers: dict[str, int] = {}
    known = []
    for number, id, name, updated_at, size, entries in await connection.fetch(query):
        numbers[id] = number
        known.append(Summary(session_id=id, name=name, updated_at=updated_at, bytes=size, entries=entries))
    gone = expired_ids(retention, known, now)
    expired = [numbers[id] for id in gone]
    await _delete_parts(connection, expired)
    await connection.execute("DELETE FROM credentials WHERE session = ANY($1::text[])", gone)
    await connection.execute(
        "UPDATE progress SET entries = 0, size = 0, epoch = epoch + 1, node = '' WHERE number = ANY($1::bigint[])",
        expired,
    )
    await connection.execute(
        "UPDATE sessions SET expired_at = $2, name = NULL, title = NULL, prompted = NULL, agent = NULL, "
        "agent_session = NULL, cwd = NULL, archived = false, imported = 0, scanned = 0, indexed = 0 "
        "WHERE number = ANY($1::bigint[])",
        expired,
        now,
    )
    old = "SELECT number FROM sessions WHERE expired_at IS NOT NULL ORDER BY expired_at DESC OFFSET $1"
    beyond = [row[0] for row in await connection.fetch(old, _MAX_TOMBSTONES)]
    for table in ("progress", "sessions"):
        await connection.execute(f"DELETE FROM {table} WHERE number = ANY($1::bigint[])", beyond)
    return gone


# --- pages and damage ---------------------------------------------------------------------------------------------


async def join_tail(connection: Any, number: int) -> int:
    """Join the blocks of a session to pages; return how many blocks these replace. A damaged tail stays as it is."""
    query = "SELECT first, count, epoch, sum, body FROM blocks WHERE session = $1 ORDER BY first FOR UPDATE"
    blocks = [Block(*row) for row in await connection.fetch(query, number)]
    if len(blocks) < 2:
        return 0
    pages: list[Block] = []
    for epoch in sorted({block.epoch for block in blocks}):
        same = [block for block in blocks if block.epoch == epoch]
        found = join_blocks(same, same[0].first, same[-1].last)
        if found.lost:
            return 0
        pages += split_blocks(same[0].first, epoch, found.lines, entries=MAX_PAGE_ENTRIES)
    await _insert_pages(connection, number, pages)
    query = "DELETE FROM blocks WHERE session = $1 AND first <= $2"
    await connection.execute(query, number, blocks[-1].first)
    return len(blocks)


async def verify_log(connection: Any, session_id: str) -> LogReport:
    """Return the intact and the lost ranges of a log."""
    head = await find_head(connection, session_id)
    last = await _last_seq(connection, head)
    return build_report(session_id, last, (await read_range(connection, head.number, 1, last)).lost)


async def repair(connection: Any, session_id: str) -> LogReport:
    """Replace entries that cannot be read, and fold the summary again."""
    head = await find_head(connection, session_id, lock=True)
    last = await _last_seq(connection, head)
    found = await read_range(connection, head.number, 1, last)
    if found.lost or last != head.log_summary.entries:
        lines = fill_gaps(found.lines, found.lost)
        await _delete_parts(connection, [head.number])
        folded = fold_summary(session_id, lines)
        folded.epoch = head.log_summary.epoch
        await _save_log(connection, head.number, folded, lines)
        await connection.execute("UPDATE sessions SET scanned = 0, indexed = 0 WHERE number = $1", head.number)
    return build_report(session_id, last, found.lost)


async def _last_seq(connection: Any, head: Head) -> int:
    """Return the last number of a log: as listed, or higher if there are more entries."""
    both = " UNION ALL ".join(f"SELECT first, count FROM {table} WHERE session = $1" for table in ("blocks", "pages"))
    found = await connection.fetchval(f"SELECT max(first + count - 1) FROM ({both}) AS parts", head.number)
    return max(head.log_summary.entries, found or 0)
