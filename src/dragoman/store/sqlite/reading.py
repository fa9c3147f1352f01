"""Read a log: hundreds of entries per step, which is cheaper than one row per step, each verified by its checksum.

If a step fails or does not add up, it is halved until the damaged entry is isolated.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple
from zlib import crc32

from dragoman.store.sqlite.errors import FAILURES, corrupted_error, is_damage
from dragoman.store.sqlite.schema import ENTRIES_PER_SESSION
from dragoman.store.summary import LogSummary, expired_error, missing_error

# Entries per step.
BATCH_SIZE = 512

# Larger sessions are read one entry per step, because SQLite limits the text of a step. Bytes.
_LARGE_SESSION = 256 * 1024 * 1024


def _to_int(value: object) -> int:
    return value if isinstance(value, int) else 0


def _to_text(value: object) -> str | None:
    return value.decode("utf-8", "replace") if isinstance(value, bytes) else None


# The columns of a LogSummary, and how each is read from a file that may be damaged.
_SUMMARY_COLUMNS: dict[str, Callable[[object], Any]] = {
    **dict.fromkeys(("entries", "size", "turns", "imported", "epoch"), _to_int),
    **dict.fromkeys(("created_at", "updated_at", "node"), lambda value: _to_text(value) or ""),
    **dict.fromkeys(("name", "title", "prompted", "agent", "agent_session", "cwd", "forked_from"), _to_text),
    "archived": bool,
}

# The columns of a StoredSession.
SELECT_SESSIONS = (
    f"SELECT sessions.number, expired_at, scanned, indexed, id, {', '.join(_SUMMARY_COLUMNS)} FROM sessions "
    "LEFT JOIN progress ON progress.number = sessions.number"
)

_SELECT_RANGE = (
    "SELECT group_concat(entry, char(10)), group_concat(sum, ' '), count(*) FROM "
    "(SELECT entry, sum FROM entries WHERE place BETWEEN ? AND ? ORDER BY place)"
)

# How each line begins, before its number.
_NUMBERED = b'{"seq":'

_EACH = "SELECT place, entry, sum FROM entries WHERE place BETWEEN ? AND ? ORDER BY place"


class StoredSession(NamedTuple):
    """A session as the file has it."""

    number: int
    log_summary: LogSummary
    is_expired: bool
    scanned: int
    indexed: int


class LogRange(NamedTuple):
    """The readable lines of a range, and the numbers that cannot be read."""

    lines: list[bytes]
    lost: list[tuple[int, int]]


def find_session(connection: sqlite3.Connection, session_id: str, *, blank: bool = False) -> StoredSession:
    """Return a session by id; raise session_not_found or session_expired. With `blank`, also one with only a claim."""
    row = connection.execute(f"{SELECT_SESSIONS} WHERE id = ?", (session_id,)).fetchone()
    if row is None:
        raise missing_error(session_id)
    kept = parse_session_row(row)
    if kept.is_expired:
        raise expired_error(session_id)
    if kept.log_summary.is_blank and not blank:
        raise missing_error(session_id)
    return kept


def parse_session_row(row: tuple[object, ...]) -> StoredSession:
    """Parse a row of the session list."""
    number, expired_at, scanned, indexed, id, *values = row
    members = {name: read(value) for (name, read), value in zip(_SUMMARY_COLUMNS.items(), values, strict=True)}
    head = LogSummary(session_id=_to_text(id) or "", **members)
    return StoredSession(_to_int(number), head, expired_at is not None, _to_int(scanned), _to_int(indexed))


def read_lines(
    connection: sqlite3.Connection,
    session: StoredSession,
    after: int = 0,
    limit: int | None = None,
    *,
    intact: bool = False,
) -> list[bytes]:
    """Return the entries above `after`; damaged ones are left out (`intact`) or raise session_corrupted."""
    first = max(after, 0) + 1
    last = session.log_summary.entries if limit is None else min(session.log_summary.entries, first - 1 + max(limit, 0))
    found = read_range(connection, session, first, last)
    lost = list(found.lost)
    if last == session.log_summary.entries and _has_more_entries(connection, session):
        lost.append((last + 1, last + 1))
    if lost and not intact:
        raise corrupted_error(session.log_summary.session_id, lost)
    return found.lines


def read_range(connection: sqlite3.Connection, session: StoredSession, first: int, last: int) -> LogRange:
    """Return everything from one number to another."""
    at_once = BATCH_SIZE if session.log_summary.size < _LARGE_SESSION else 1
    found: list[bytes] = []
    lost: list[tuple[int, int]] = []
    for low in range(first, last + 1, at_once):
        for piece in _read_intact(connection, session.number, low, min(last, low + at_once - 1)):
            if isinstance(piece, tuple):
                if lost and lost[-1][1] + 1 == piece[0]:
                    piece = (lost.pop()[0], piece[1])
                lost.append(piece)
            else:
                found += piece
    return LogRange(found, lost)


def each(connection: sqlite3.Connection, kept: StoredSession, first: int) -> Iterator[tuple[int, bytes]]:
    """Return intact entries with their numbers, one per step, so that the caller can stop at any of them."""
    base, last = kept.number * ENTRIES_PER_SESSION, kept.log_summary.entries
    seq = first - 1
    try:
        for place, entry, sum in connection.execute(_EACH, (base + first, base + last)):
            if place <= base + seq:
                break  # the file's own order is damaged
            seq = place - base
            if type(entry) is bytes and crc32(entry) == sum and _are_in_order([entry], seq, seq):
                yield seq, entry
        else:
            return
    except FAILURES as error:
        if not _is_loss(error):
            raise
    for number in range(seq + 1, last + 1):
        for line in _read_batch(connection, kept.number, number, number) or ():
            yield number, line


def _read_intact(
    connection: sqlite3.Connection, number: int, low: int, high: int
) -> Iterator[list[bytes] | tuple[int, int]]:
    """Return lines, or lost ranges, in order."""
    whole = _read_batch(connection, number, low, high)
    if whole is not None:
        yield whole
    elif low == high:
        yield (low, high)
    else:
        middle = (low + high) // 2
        yield from _read_intact(connection, number, low, middle)
        yield from _read_intact(connection, number, middle + 1, high)


def _read_batch(connection: sqlite3.Connection, number: int, low: int, high: int) -> list[bytes] | None:
    """Return the lines of a range, if all of it is intact."""
    base = number * ENTRIES_PER_SESSION
    try:
        joined, sums, count = connection.execute(_SELECT_RANGE, (base + low, base + high)).fetchone()
    except FAILURES as error:
        if not _is_loss(error):
            raise
        return None
    if count != high - low + 1 or type(joined) is not bytes or type(sums) is not bytes:
        return None
    found = joined.split(b"\n")
    if len(found) != count or (b"%d " * count) % tuple(map(crc32, found)) != sums + b" ":
        return None
    return found if _are_in_order(found, low, high) else None


def _are_in_order(lines: list[bytes], low: int, high: int) -> bool:
    """Return whether each line has its own number: swapped pages give all entries, in the wrong order."""
    width = len(b"%d" % high)
    if width == len(b"%d" % low):  # all at once, at half the cost
        start, end = len(_NUMBERED), len(_NUMBERED) + width + 1
        return b"".join([line[start:end] for line in lines]) == (b"%d," * len(lines)) % tuple(range(low, high + 1))
    return all(line.startswith(b"%b%d," % (_NUMBERED, seq)) for seq, line in enumerate(lines, low))


def _is_loss(error: BaseException) -> bool:
    """Return whether an error concerns one entry and not the whole file."""
    return is_damage(error) or isinstance(error, sqlite3.DataError)


def _has_more_entries(connection: sqlite3.Connection, session: StoredSession) -> bool:
    """Return whether there are entries after the last one: then the session list is damaged."""
    base = session.number * ENTRIES_PER_SESSION
    try:
        row = connection.execute(
            "SELECT 1 FROM entries WHERE place > ? AND place < ? LIMIT 1",
            (base + session.log_summary.entries, base + ENTRIES_PER_SESSION),
        ).fetchone()
    except FAILURES as error:
        if not is_damage(error):
            raise
        return True
    return row is not None
