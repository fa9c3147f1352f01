"""The search index: passages of the logs in an SQLite full-text table.

Reading a range of a log and writing its passages are two steps; only the second needs the file lock, and it is small.
The last passage of a log may continue, so it is replaced when there is more. The index can always be rebuilt from the
logs.
"""

from __future__ import annotations

import sqlite3
from collections import deque
from collections.abc import Callable
from contextlib import closing
from typing import NamedTuple

from dragoman.errors import ProtocolError
from dragoman.store.contract import Hit
from dragoman.store.search_query import parse_query, snippet
from dragoman.store.search_text import Joiner, Passage
from dragoman.store.sqlite import reading
from dragoman.store.sqlite.errors import Damage
from dragoman.store.sqlite.reading import StoredSession
from dragoman.store.sqlite.schema import SEARCH_TABLES, split_statements

# Text that is indexed per transaction, which other commits may have to wait for: 256 Ki characters take about 30 ms.
# The last entry of a range may exceed it by as much again. Characters.
SLICE = 256 * 1024

# Entries that are read per transaction, with or without text, so that progress is saved. Bytes.
READ = 16 * 1024 * 1024

# The minimum that a log counts, so that a transaction covers hundreds of short logs and not thousands. Characters.
_SHORT = 512

_SEARCH_SQL = """
SELECT sessions.id, passages.first, passages.role, passages.text
  FROM search JOIN passages ON passages.id = search.rowid JOIN sessions ON sessions.number = passages.session
 WHERE search MATCH ?{} ORDER BY rank, passages.id DESC LIMIT ?
"""


class Stretch(NamedTuple):
    """The passages of a range of a log, and how far that log is indexed before and after it."""

    session_id: str
    number: int
    before: tuple[int, int]  # the last entry that was read, and the last that is final
    after: tuple[int, int]
    passages: list[Passage]


def index_next_session(connection: sqlite3.Connection) -> list[str]:
    """Return the sessions with unindexed entries, the first changed first."""
    rows = connection.execute(
        "SELECT id FROM sessions JOIN progress ON progress.number = sessions.number "
        "WHERE scanned < entries AND expired_at IS NULL ORDER BY touched"
    ).fetchall()
    return [row[0].decode("utf-8", "replace") for row in rows if type(row[0]) is bytes]


def gather(connection: sqlite3.Connection, waiting: deque[str], is_wanted: Callable[[], bool]) -> list[Stretch]:
    """Read as much as one transaction indexes, of one or more sessions; remove sessions that are finished."""
    found: list[Stretch] = []
    room = SLICE
    while waiting and room > 0 and is_wanted():
        try:
            kept = reading.find_session(connection, waiting[0])
        except ProtocolError:
            waiting.popleft()  # deleted or expired meanwhile
            continue
        if kept.scanned < kept.log_summary.entries:
            stretch, size = _read(connection, kept, room, is_wanted)
            found.append(stretch)
            room -= max(size, _SHORT)
            if stretch.after[0] < kept.log_summary.entries:
                break
        waiting.popleft()
    return found


def _read(
    connection: sqlite3.Connection, kept: StoredSession, room: int, is_wanted: Callable[[], bool]
) -> tuple[Stretch, int]:
    """Read a range of a log with about so many characters of text; return it with its size."""
    joiner = Joiner()
    found: list[Passage] = []
    size = read = 0
    last = kept.indexed
    for seq, line in reading.each(connection, kept, kept.indexed + 1):
        last = seq
        finished = joiner.add(line)
        found += finished
        size += sum(len(passage.text) for passage in finished)
        read += len(line)
        if size + joiner.size >= room or read >= READ or not is_wanted():
            break
    else:
        last = kept.log_summary.entries
    size += joiner.size
    rest = joiner.rest()
    sure = rest[0].first - 1 if rest else last
    if last == kept.log_summary.entries or sure == kept.indexed:
        found += rest
    if last < kept.log_summary.entries and sure == kept.indexed:
        sure = last  # a passage that does not end within this range is ended here
    before = (kept.scanned, kept.indexed)
    return Stretch(kept.log_summary.session_id, kept.number, before, (last, sure), found), size


def write(connection: sqlite3.Connection, stretches: list[Stretch]) -> list[str]:
    """Index what was read, within a transaction; return the sessions that another process indexed meanwhile."""
    missed = []
    for stretch in stretches:
        changed = connection.execute(
            "UPDATE sessions SET scanned = ?, indexed = ? "
            "WHERE number = ? AND scanned = ? AND indexed = ? AND expired_at IS NULL",
            (*stretch.after, stretch.number, *stretch.before),
        ).rowcount
        if not changed:
            missed.append(stretch.session_id)
            continue
        sure = stretch.before[1]
        connection.execute("DELETE FROM passages WHERE session = ? AND first > ?", (stretch.number, sure))
        connection.executemany(
            "INSERT INTO passages (session, first, role, text) VALUES (?, ?, ?, ?)",
            [(stretch.number, passage.first, passage.role, passage.text) for passage in stretch.passages],
        )
    return missed


def search(connection: sqlite3.Connection, query: str, limit: int, session_id: str | None) -> list[Hit]:
    """Return the passages that contain all words, the best first."""
    wanted = parse_query(query)
    match = " AND ".join(map(str, wanted))
    where = (" AND sessions.id = ?", (session_id,)) if session_id is not None else ("", ())
    rows = connection.execute(_SEARCH_SQL.format(where[0]), (match, *where[1], max(limit, 0))).fetchall()
    hits = []
    for id, first, role, text in rows:
        if not (type(id) is type(role) is type(text) is bytes and type(first) is int):
            raise Damage("a passage is damaged")
        shown, marks = snippet(wanted, text.decode())
        hits.append(Hit(session_id=id.decode(), seq=first, role=role.decode(), snippet=shown, marks=marks))
    return hits


def remove_slice(connection: sqlite3.Connection, session_id: str) -> bool:
    """Remove part of a session from the index, in a transaction; return whether there is more."""
    row = connection.execute("SELECT number FROM sessions WHERE id = ?", (session_id,)).fetchone()
    if row is None:
        return False
    # If the session is not deleted after all, it is indexed again.
    connection.execute("UPDATE sessions SET scanned = 0, indexed = 0 WHERE number = ? AND scanned > 0", row)
    removed: list[tuple[int]] = []
    budget = SLICE
    for id, size in connection.execute("SELECT id, length(text) FROM passages WHERE session = ? ORDER BY first", row):
        removed.append((id,))
        budget -= max(size or 0, _SHORT)
        if budget <= 0:
            break
    connection.executemany("DELETE FROM passages WHERE id = ?", removed)
    return budget <= 0


def remove_session(connection: sqlite3.Connection, number: int) -> None:
    """Remove a session from the index."""
    connection.execute("DELETE FROM passages WHERE session = ?", (number,))


def rebuild_index(connection: sqlite3.Connection) -> None:
    """Rebuild a damaged index."""
    _reset_tables(connection)
    for what in ("TRIGGER passage_added", "TRIGGER passage_removed", "TABLE search", "TABLE passages"):
        connection.execute(f"DROP {what}")
    for statement in split_statements(SEARCH_TABLES):
        connection.execute(statement)
    connection.execute("UPDATE sessions SET scanned = 0, indexed = 0")


def _reset_tables(connection: sqlite3.Connection) -> None:
    """Replace the internals of the index with a new one's: SQLite cannot drop an index that it cannot open."""
    with closing(sqlite3.connect(":memory:")) as fresh:
        fresh.execute("CREATE VIRTUAL TABLE search USING fts5(text)")
        rows = fresh.execute("SELECT id, block FROM search_data").fetchall()
    for table in ("search_data", "search_idx", "search_docsize"):
        connection.execute(f"DELETE FROM {table}")
    connection.executemany("INSERT INTO search_data VALUES (?, ?)", rows)
