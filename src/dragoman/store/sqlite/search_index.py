"""The index to search in: passages of the logs, and SQLite's full text over them.

Takes stretches of logs that were not looked at yet, gives hits. Reading a stretch and writing what was found are two
steps: only the second needs the lock of the file, and it is small. The last passage of a log may go on, so it is made
anew when there is more. Everything here can be made again from the logs; nothing else depends on it.
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

# Text that is indexed in one transaction, which a commit of entries may have to wait for: 256 Ki characters take about
# 30 ms. The last entry of a stretch may exceed it by as much again (FINDABLE). Characters.
SLICE = 256 * 1024

# Entries that are read for one transaction, with text or without: so that some progress is kept. Bytes.
READ = 16 * 1024 * 1024

# What a log counts at least, so that a transaction takes some hundred short ones and not thousands. Characters.
_SHORT = 512

_SEARCH_SQL = """
SELECT sessions.id, passages.first, passages.role, passages.text
  FROM search JOIN passages ON passages.id = search.rowid JOIN sessions ON sessions.number = passages.session
 WHERE search MATCH ?{} ORDER BY rank, passages.id DESC LIMIT ?
"""


class Stretch(NamedTuple):
    """What was found in a stretch of a log, and how far that log is indexed before and after it."""

    session_id: str
    number: int
    before: tuple[int, int]  # the last entry that was looked at, and the last of those that need no second look
    after: tuple[int, int]
    passages: list[Passage]


def index_next_session(connection: sqlite3.Connection) -> list[str]:
    """The sessions that have entries which are not indexed, the one that changed first first."""
    rows = connection.execute(
        "SELECT id FROM sessions JOIN progress ON progress.number = sessions.number "
        "WHERE scanned < entries AND expired_at IS NULL ORDER BY touched"
    ).fetchall()
    return [row[0].decode("utf-8", "replace") for row in rows if type(row[0]) is bytes]


def gather(connection: sqlite3.Connection, waiting: deque[str], is_wanted: Callable[[], bool]) -> list[Stretch]:
    """Read as much as is indexed in one transaction, of one session or of several; who is read to the end leaves."""
    found: list[Stretch] = []
    room = SLICE
    while waiting and room > 0 and is_wanted():
        try:
            kept = reading.find_session(connection, waiting[0])
        except ProtocolError:
            waiting.popleft()  # it was deleted or has expired meanwhile
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
    """A stretch of a log that has about so many characters of text, and how many it has."""
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
        sure = last  # a passage that has no end within this much is ended here
    before = (kept.scanned, kept.indexed)
    return Stretch(kept.log_summary.session_id, kept.number, before, (last, sure), found), size


def write(connection: sqlite3.Connection, stretches: list[Stretch]) -> list[str]:
    """Index what was read, within a transaction; gives the sessions that somebody else indexed meanwhile."""
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
    """The passages that hold all words, the best first."""
    wanted = parse_query(query)
    match = " AND ".join(map(str, wanted))
    where = (" AND sessions.id = ?", (session_id,)) if session_id is not None else ("", ())
    rows = connection.execute(_SEARCH_SQL.format(where[0]), (match, *where[1], max(limit, 0))).fetchall()
    hits = []
    for id, first, role, text in rows:
        if not (type(id) is type(role) is type(text) is bytes and type(first) is int):
            raise Damage("a passage is not what was written")
        shown, marks = snippet(wanted, text.decode())
        hits.append(Hit(session_id=id.decode(), seq=first, role=role.decode(), snippet=shown, marks=marks))
    return hits


def remove_session(connection: sqlite3.Connection, number: int) -> None:
    """Take a session out of the index."""
    connection.execute("DELETE FROM passages WHERE session = ?", (number,))


def rebuild_index(connection: sqlite3.Connection) -> None:
    """Begin anew: the index was damaged."""
    _reset_tables(connection)
    for what in ("TRIGGER passage_added", "TRIGGER passage_removed", "TABLE search", "TABLE passages"):
        connection.execute(f"DROP {what}")
    for statement in split_statements(SEARCH_TABLES):
        connection.execute(statement)
    connection.execute("UPDATE sessions SET scanned = 0, indexed = 0")


def _reset_tables(connection: sqlite3.Connection) -> None:
    """SQLite cannot even drop an index that it cannot open: give it the insides of a new one."""
    with closing(sqlite3.connect(":memory:")) as fresh:
        fresh.execute("CREATE VIRTUAL TABLE search USING fts5(text)")
        rows = fresh.execute("SELECT id, block FROM search_data").fetchall()
    for table in ("search_data", "search_idx", "search_docsize"):
        connection.execute(f"DELETE FROM {table}")
    connection.executemany("INSERT INTO search_data VALUES (?, ?)", rows)
