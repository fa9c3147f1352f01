"""Append a batch to logs in one transaction, numbered under the file lock. Runs in the writer's thread.

Statements insert many rows at once, which halves the cost. Sessions are cached until another process writes.
"""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Sequence
from typing import Any
from zlib import crc32

import msgspec

from dragoman.errors import Kind, ProtocolError
from dragoman.store.claims import check_append, no_claim
from dragoman.store.contract import Claim, EntryKind
from dragoman.store.sqlite import reading
from dragoman.store.sqlite.schema import ENTRIES_PER_SESSION
from dragoman.store.summary import LogSummary

# Rows per statement; each size is one prepared statement.
_STATEMENT_SIZES = (256, 64, 16, 4, 1)

# Cached sessions; with more active ones, all are looked up again now and then.
_MAX_CACHED = 4096

_ENTRY_SQL = {
    size: "INSERT OR ROLLBACK INTO entries VALUES " + ",".join(["(?,?,?)"] * size) for size in _STATEMENT_SIZES
}
_PROGRESS_SQL = {size: "REPLACE INTO progress VALUES " + ",".join(["(?,?,?,?,?)"] * size) for size in _STATEMENT_SIZES}

# The session columns besides its progress, named like the fields of LogSummary.
_SESSION_COLUMNS = ("turns", "created_at", "title", "prompted", "agent", "agent_session", "cwd", "archived")
_SESSION_SQL = f"UPDATE sessions SET {', '.join(f'{name} = ?' for name in _SESSION_COLUMNS)} WHERE number = ?"


class AppendRequest(msgspec.Struct, eq=False):
    """Drafts of one session that belong together."""

    session_id: str
    kinds_and_times: list[tuple[str, str]]  # kind and time of each
    texts: list[bytes]  # each as a JSON object without its number
    claim: Claim | None = None
    first: int = 0
    error: Exception | None = None


class LogWriter:
    """Writes the logs of a file on one connection."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection
        self._sessions: dict[str, tuple[int, LogSummary]] = {}
        self._version = -1
        self.ended_turns: set[str] = set()  # sessions in which a turn ended in the last batches

    def append(self, batch: Sequence[AppendRequest]) -> None:
        """Store a batch. An append that is refused gets an error; any other failure stores nothing."""
        connection = self._connection
        connection.execute("BEGIN IMMEDIATE")
        try:
            self._refresh_cache()
            rows: list[Any] = []
            touched: dict[str, tuple[int, LogSummary]] = {}
            for append in batch:
                try:
                    session = self._find_session(append)
                except ProtocolError as error:
                    append.error = error
                    continue
                touched[append.session_id] = session
                _number_entries(append, session, rows)
                if append.kinds_and_times[-1][0] == EntryKind.TURN_ENDED:
                    self.ended_turns.add(append.session_id)
            _insert_rows(connection, _ENTRY_SQL, rows, 3)
            now = time.time_ns()
            progress: list[Any] = []
            for number, head in touched.values():
                progress += (number, head.entries, head.size, head.updated_at, now)
                now += 1
                if head.is_changed:
                    _update_session(connection, number, head)
            _insert_rows(connection, _PROGRESS_SQL, progress, 5)
            connection.execute("COMMIT")
        except BaseException:
            self.clear_cache()
            if connection.in_transaction:
                connection.execute("ROLLBACK")
            raise

    def take_ended_turns(self) -> set[str]:
        """Return and clear the sessions in which a turn ended."""
        ended, self.ended_turns = self.ended_turns, set()
        return ended

    def clear_cache(self) -> None:
        """Clear the cache: another process changed sessions, or a change was rolled back."""
        self._sessions.clear()

    def _refresh_cache(self) -> None:
        """Clear the cache if another connection has written: SQLite counts that."""
        version = self._connection.execute("PRAGMA data_version").fetchone()[0]
        if version != self._version or len(self._sessions) > _MAX_CACHED:
            self._sessions.clear()
            self._version = version

    def _find_session(self, append: AppendRequest) -> tuple[int, LogSummary]:
        session_id = append.session_id
        session = self._sessions.get(session_id)
        if session is None:
            try:
                kept = reading.find_session(self._connection, session_id, blank=True)
                session = kept.number, kept.log_summary
            except ProtocolError as error:
                if error.kind != Kind.SESSION_NOT_FOUND:
                    raise
                check_append(no_claim(session_id), append.claim)
                session = create_session(self._connection, session_id), LogSummary(session_id=session_id)
            self._sessions[session_id] = session
        check_append(session[1].claim, append.claim)
        return session


def create_session(connection: sqlite3.Connection, session_id: str) -> int:
    """Create a session without entries; return its number."""
    row = connection.execute("INSERT INTO sessions (id) VALUES (?) RETURNING number", (session_id,)).fetchone()
    return int(row[0])


def save_summary(connection: sqlite3.Connection, number: int, log_summary: LogSummary) -> None:
    """Save the summary of a session."""
    _update_session(connection, number, log_summary)
    values = (number, log_summary.entries, log_summary.size, log_summary.updated_at, time.time_ns())
    connection.execute(_PROGRESS_SQL[1], values)


def _update_session(connection: sqlite3.Connection, number: int, log_summary: LogSummary) -> None:
    connection.execute(_SESSION_SQL, (*(getattr(log_summary, name) for name in _SESSION_COLUMNS), number))
    log_summary.is_changed = False


def entry_row(number: int, seq: int, line: bytes) -> tuple[int, str, int]:
    """Return the row of an entry."""
    return number * ENTRIES_PER_SESSION + seq, line.decode(), crc32(line)


def _number_entries(append: AppendRequest, session: tuple[int, LogSummary], rows: list[Any]) -> None:
    number, head = session
    seq = head.entries
    append.first = seq + 1
    base = number * ENTRIES_PER_SESSION
    for (kind, at), text in zip(append.kinds_and_times, append.texts, strict=True):
        seq += 1
        line = b'{"seq":%d,%s' % (seq, text[1:])
        head.add_entry(kind, at, line)
        rows += (base + seq, line.decode(), crc32(line))


def _insert_rows(connection: sqlite3.Connection, statements: dict[int, str], values: list[Any], width: int) -> None:
    place = 0
    for size, sql in statements.items():
        step = size * width
        while len(values) - place >= step:
            connection.execute(sql, values[place : place + step])
            place += step
