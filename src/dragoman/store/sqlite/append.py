"""Writing logs: a batch of appends as one transaction, numbered under the lock of the file.

Takes encoded drafts of any number of sessions, gives the number of each first one. Statements take many rows at once,
which costs about half as much as one after the other. What is known of sessions is remembered while no other process
has written. Above is the writer, which decides what makes a batch; it runs in the writer's thread.
"""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Sequence
from typing import Any
from zlib import crc32

from dragoman.errors import Kind, ProtocolError
from dragoman.store.contract import EntryKind
from dragoman.store.sqlite import reading
from dragoman.store.sqlite.schema import SPAN
from dragoman.store.summary import Head

# How many rows a statement takes; each size is one prepared statement.
_SIZES = (256, 64, 16, 4, 1)

# Sessions that are remembered; with more at work at once all are looked up again now and then.
_REMEMBERED = 4096

_ENTRY_SQL = {size: "INSERT OR ROLLBACK INTO entries VALUES " + ",".join(["(?,?,?)"] * size) for size in _SIZES}
_PROGRESS_SQL = {size: "REPLACE INTO progress VALUES " + ",".join(["(?,?,?,?,?)"] * size) for size in _SIZES}


# What is known of a session besides its progress; columns have the names of what is in a Head.
_WRITTEN_DOWN = ("turns", "created_at", "title", "prompted", "agent", "agent_session", "cwd", "archived")
_SESSION_SQL = f"UPDATE sessions SET {', '.join(f'{name} = ?' for name in _WRITTEN_DOWN)} WHERE number = ?"


class Append:
    """Drafts of one session that belong together."""

    __slots__ = ("error", "first", "heads", "session_id", "texts")

    def __init__(self, session_id: str, heads: list[tuple[str, str]], texts: list[bytes]) -> None:
        self.session_id = session_id
        self.heads = heads  # kind and time of each
        self.texts = texts  # each as a JSON object without its number
        self.first = 0
        self.error: Exception | None = None


class Log:
    """The logs of a file, as one connection writes them."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection
        self._sessions: dict[str, tuple[int, Head]] = {}
        self._version = -1
        self.ended: set[str] = set()  # sessions in which a turn ended, as of the last batches

    def append(self, batch: Sequence[Append]) -> None:
        """Keep a batch; an append that cannot be made has an error, anything else that fails keeps none of them."""
        connection = self._connection
        connection.execute("BEGIN IMMEDIATE")
        try:
            self._look_again()
            rows: list[Any] = []
            touched: dict[str, tuple[int, Head]] = {}
            for append in batch:
                try:
                    session = self._session(append.session_id)
                except ProtocolError as error:
                    append.error = error
                    continue
                touched[append.session_id] = session
                _number(append, session, rows)
                if append.heads[-1][0] == EntryKind.TURN_ENDED:
                    self.ended.add(append.session_id)
            _insert(connection, _ENTRY_SQL, rows, 3)
            now = time.time_ns()
            progress: list[Any] = []
            for number, head in touched.values():
                progress += (number, head.entries, head.size, head.updated_at, now)
                now += 1
                if head.is_news:
                    _write_down(connection, number, head)
            _insert(connection, _PROGRESS_SQL, progress, 5)
            connection.execute("COMMIT")
        except BaseException:
            self.forget()
            if connection.in_transaction:
                connection.execute("ROLLBACK")
            raise

    def taken_ended(self) -> set[str]:
        """The sessions in which a turn ended since this was asked."""
        ended, self.ended = self.ended, set()
        return ended

    def forget(self) -> None:
        """Know nothing of any session: somebody else changed them, or a change was not kept."""
        self._sessions.clear()

    def _look_again(self) -> None:
        """Another connection may have written since: SQLite counts that."""
        version = self._connection.execute("PRAGMA data_version").fetchone()[0]
        if version != self._version or len(self._sessions) > _REMEMBERED:
            self._sessions.clear()
            self._version = version

    def _session(self, session_id: str) -> tuple[int, Head]:
        session = self._sessions.get(session_id)
        if session is None:
            try:
                kept = reading.find(self._connection, session_id)
                session = kept.number, kept.head
            except ProtocolError as error:
                if error.kind != Kind.SESSION_NOT_FOUND:
                    raise
                session = make(self._connection, session_id), Head(session_id=session_id)
            self._sessions[session_id] = session
        return session


def make(connection: sqlite3.Connection, session_id: str) -> int:
    """A new session without entries; gives its number."""
    row = connection.execute("INSERT INTO sessions (id) VALUES (?) RETURNING number", (session_id,)).fetchone()
    return int(row[0])


def save(connection: sqlite3.Connection, number: int, head: Head) -> None:
    """Write down all that is known of a session."""
    _write_down(connection, number, head)
    values = (number, head.entries, head.size, head.updated_at, time.time_ns())
    connection.execute(_PROGRESS_SQL[1], values)


def _write_down(connection: sqlite3.Connection, number: int, head: Head) -> None:
    connection.execute(_SESSION_SQL, (*(getattr(head, name) for name in _WRITTEN_DOWN), number))
    head.is_news = False


def row_of(number: int, seq: int, line: bytes) -> tuple[int, str, int]:
    """The row of an entry."""
    return number * SPAN + seq, line.decode(), crc32(line)


def _number(append: Append, session: tuple[int, Head], rows: list[Any]) -> None:
    number, head = session
    seq = head.entries
    append.first = seq + 1
    base = number * SPAN
    for (kind, at), text in zip(append.heads, append.texts, strict=True):
        seq += 1
        line = b'{"seq":%d,%s' % (seq, text[1:])
        head.note(kind, at, line)
        rows += (base + seq, line.decode(), crc32(line))


def _insert(connection: sqlite3.Connection, statements: dict[int, str], values: list[Any], width: int) -> None:
    place = 0
    for size, sql in statements.items():
        step = size * width
        while len(values) - place >= step:
            connection.execute(sql, values[place : place + step])
            place += step
