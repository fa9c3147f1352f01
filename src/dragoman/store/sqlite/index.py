"""The index to search in: passages of the logs, and SQLite's full text over them.

Takes stretches of logs that were not looked at yet, gives hits. The last passage of a log may go on, so it is made
anew when there is more. Everything here can be made again from the logs; nothing else depends on it.
"""

from __future__ import annotations

import sqlite3
from contextlib import closing

from dragoman.store.contract import Hit
from dragoman.store.passages import passages
from dragoman.store.query import snippet, terms
from dragoman.store.sqlite import reading
from dragoman.store.sqlite.reading import Kept
from dragoman.store.sqlite.schema import SEARCH, statements

# Entries that are looked at in one go, between commits of others.
STRETCH = 4000

_FOUND = """
SELECT sessions.id, passages.first, passages.role, passages.text
  FROM search JOIN passages ON passages.id = search.rowid JOIN sessions ON sessions.number = passages.session
 WHERE search MATCH ?{} ORDER BY rank, passages.id DESC LIMIT ?
"""


def behind(connection: sqlite3.Connection) -> bool:
    """Index a stretch of one log that is behind, within a transaction; whether there may be more."""
    row = connection.execute(
        "SELECT id FROM sessions JOIN progress ON progress.number = sessions.number "
        "WHERE scanned < entries AND expired_at IS NULL ORDER BY touched LIMIT 1"
    ).fetchone()
    if row is None:
        return False
    catch_up(connection, row[0].decode())
    return True


def catch_up(connection: sqlite3.Connection, session_id: str) -> bool:
    """Index a stretch of this log, within a transaction; whether there is more of it."""
    kept = reading.find(connection, session_id)
    return _scan(connection, kept) < kept.head.entries


def _scan(connection: sqlite3.Connection, kept: Kept) -> int:
    """Gives the last number that was looked at."""
    count = STRETCH
    while True:
        last = min(kept.head.entries, kept.indexed + count)
        found = list(passages(reading.stretch(connection, kept, kept.indexed + 1, last).lines))
        if len(found) != 1 or last == kept.head.entries:
            break
        count *= 2  # one long passage: without its end there would be no getting on
    indexed = found[-1].first - 1 if found else last
    connection.execute("DELETE FROM passages WHERE session = ? AND first > ?", (kept.number, kept.indexed))
    connection.executemany(
        "INSERT INTO passages (session, first, role, text) VALUES (?, ?, ?, ?)",
        [(kept.number, passage.first, passage.role, passage.text) for passage in found],
    )
    connection.execute(
        "UPDATE sessions SET scanned = ?, indexed = ? WHERE number = ?", (last, max(indexed, kept.indexed), kept.number)
    )
    return last


def search(connection: sqlite3.Connection, query: str, limit: int, session_id: str | None) -> list[Hit]:
    """The passages that hold all words, the best first."""
    wanted = terms(query)
    match = " AND ".join(map(str, wanted))
    where = (" AND sessions.id = ?", (session_id,)) if session_id is not None else ("", ())
    rows = connection.execute(_FOUND.format(where[0]), (match, *where[1], max(limit, 0))).fetchall()
    hits = []
    for id, first, role, text in rows:
        shown, marks = snippet(wanted, text.decode())
        hits.append(Hit(session_id=id.decode(), seq=first, role=role.decode(), snippet=shown, marks=marks))
    return hits


def forget(connection: sqlite3.Connection, number: int) -> None:
    """Take a session out of the index."""
    connection.execute("DELETE FROM passages WHERE session = ?", (number,))


def renew(connection: sqlite3.Connection) -> None:
    """Begin anew: the index was damaged."""
    _empty(connection)
    for what in ("TRIGGER passage_added", "TRIGGER passage_removed", "TABLE search", "TABLE passages"):
        connection.execute(f"DROP {what}")
    for statement in statements(SEARCH):
        connection.execute(statement)
    connection.execute("UPDATE sessions SET scanned = 0, indexed = 0")


def _empty(connection: sqlite3.Connection) -> None:
    """SQLite cannot even drop an index that it cannot open: give it the insides of a new one."""
    with closing(sqlite3.connect(":memory:")) as fresh:
        fresh.execute("CREATE VIRTUAL TABLE search USING fts5(text)")
        rows = fresh.execute("SELECT id, block FROM search_data").fetchall()
    for table in ("search_data", "search_idx", "search_docsize"):
        connection.execute(f"DELETE FROM {table}")
    connection.executemany("INSERT INTO search_data VALUES (?, ?)", rows)
