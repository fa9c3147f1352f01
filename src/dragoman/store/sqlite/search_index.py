"""The search index: passages of the logs in an SQLite full-text table, and the thread that keeps it up to date.

Reading a range of a log and writing its passages are two steps; only the second needs the file lock, and it is small.
"""

from __future__ import annotations

import asyncio
import sqlite3
import threading
import time
from collections import Counter, deque
from collections.abc import Callable
from concurrent.futures import Future
from contextlib import closing
from functools import partial
from queue import Empty, SimpleQueue
from typing import NamedTuple

from dragoman.errors import ProtocolError
from dragoman.store.contract import Hit
from dragoman.store.search import Joiner, Passage, parse_query, snippet
from dragoman.store.sqlite import reading
from dragoman.store.sqlite.errors import Damage, to_store_fault
from dragoman.store.sqlite.reading import StoredSession
from dragoman.store.sqlite.schema import SEARCH_TABLES, split_statements
from dragoman.store.sqlite.writer import Work
from dragoman.store.summary import closed_error

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
    """The passages of a range of a log, and how far that log is indexed before and after it.

    The last passage of a log may continue, so it is replaced when there is more.
    """

    session_id: str
    number: int
    before: tuple[int, int]  # the last entry that was read, and the last that is final
    after: tuple[int, int]
    passages: list[Passage]


def unindexed_sessions(connection: sqlite3.Connection) -> list[str]:
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


# --- the thread -----------------------------------------------------------------------------------------------

# Passes a transaction to the writer.
Hand = Callable[[Work], "Future[list[str]]"]

# A range is read again if another process indexed it meanwhile; limited, because a damaged file may report that every
# time.
TRIES = 8

# The least time between two rounds of indexing: turns that end in quick succession are indexed together, so that a
# busy host does not index during every turn. A search does not wait for it. Seconds.
PAUSE = 1.0


class Indexer:
    """The indexing thread and its queue.

    It takes sessions in which a turn ended, and searches that wait. It reads on its own connection; the writer runs its
    small transactions after all other work. What is left at the close is indexed by the next process that needs it.
    """

    def __init__(self, connect: Callable[[], sqlite3.Connection], path: str, hand: Hand) -> None:
        """`connect` returns a connection to read with."""
        self._connect = connect
        self._path = path
        self._hand = hand
        self._inbox: SimpleQueue[set[str] | Future[None] | None] = SimpleQueue()
        self._closed = False
        self._connection: sqlite3.Connection | None = connect()
        self._is_behind = True  # an earlier process may have left work
        self._thread = threading.Thread(target=self._run, name="dragoman-store-index", daemon=True)
        self._thread.start()

    def note(self, session_ids: set[str]) -> None:
        """Report that a turn ended in these sessions. Thread-safe; does not block."""
        self._inbox.put(session_ids)

    async def catch_up(self) -> None:
        """Return when everything logged before this call is indexed; raise StoreFault."""
        if self._closed:
            raise closed_error()
        done: Future[None] = Future()
        self._inbox.put(done)
        await asyncio.wrap_future(done)

    async def close(self) -> None:
        """Stop after the current entry or transaction. Call before the writer ends."""
        self._closed = True
        self._inbox.put(None)
        await asyncio.to_thread(self._thread.join)

    # --- the thread's side ------------------------------------------------------------------------------------

    def _run(self) -> None:
        ended: set[str] = set()  # sessions in which a turn ended since the last round
        due = 0.0
        while True:
            try:
                wanted = self._inbox.get(timeout=max(0.0, due - time.monotonic()) if ended else None)
            except Empty:
                self._index(ended)
                ended, due = set(), time.monotonic() + PAUSE
                continue
            if wanted is None:
                break
            if isinstance(wanted, set):
                ended |= wanted
            elif wanted.set_running_or_notify_cancel():
                self._answer(wanted)
        if self._connection is not None:
            self._connection.close()

    def _index(self, session_ids: set[str]) -> None:
        try:
            self._catch_up(None if self._is_behind else session_ids)
        except ProtocolError:
            pass  # retried and reported by the next search

    def _answer(self, done: Future[None]) -> None:
        try:
            self._catch_up(None)
            if self._closed:
                raise closed_error()
        except ProtocolError as error:
            done.set_exception(error)
        else:
            done.set_result(None)

    def _catch_up(self, session_ids: set[str] | None) -> None:
        """Index these sessions, or all that are behind, up to their current end."""
        tries: Counter[str] = Counter()
        try:
            if self._connection is None:
                self._connection = self._connect()
            waiting = deque(unindexed_sessions(self._connection) if session_ids is None else session_ids)
            while waiting and not self._closed:
                found = self._read(self._connection, waiting)
                if found and not self._closed:
                    missed = self._hand(partial(write, stretches=found)).result()
                    tries.update(missed)
                    waiting += [session_id for session_id in missed if tries[session_id] < TRIES]
        except ProtocolError:
            self._drop_connection()
            raise
        except Exception as error:
            self._drop_connection()
            raise to_store_fault(error, self._path) from error
        if session_ids is None:
            self._is_behind = False

    def _read(self, connection: sqlite3.Connection, waiting: deque[str]) -> list[Stretch]:
        connection.execute("BEGIN")
        try:
            return gather(connection, waiting, lambda: not self._closed)
        finally:
            if connection.in_transaction:
                connection.execute("ROLLBACK")  # it only reads

    def _drop_connection(self) -> None:
        """Close a connection that failed; a new one is opened later."""
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.close()
