"""Roles and tokens of a host in one SQLite file that only its owner can read.

Several processes may use the file at once, so `dragoman tokens` works while a host runs.
"""

from __future__ import annotations

import asyncio
import fcntl
import os
import sqlite3
import threading
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Self, TypeVar
from urllib.parse import quote

from dragoman.errors import StoreFault
from dragoman.host.auth.roles import ADMIN, check_role_name
from dragoman.store.sqlite.errors import FAILURES, to_store_fault
from dragoman.store.sqlite.schema import make_private, refuse_foreign_file

# Marks a file as one of these ("Door").
APPLICATION_ID = 0x446F6F72

# The version of the tables. A newer file is refused.
VERSION = 1

# How long to wait for another process that is writing. Seconds; a change takes milliseconds.
BUSY_TIMEOUT = 5.0

_TABLES = """
CREATE TABLE IF NOT EXISTS members (
  session TEXT NOT NULL,
  user    TEXT NOT NULL,
  role    TEXT NOT NULL,
  PRIMARY KEY (session, user)
) WITHOUT ROWID;
CREATE INDEX IF NOT EXISTS members_by_user ON members (user);
CREATE TABLE IF NOT EXISTS tokens (
  id      TEXT PRIMARY KEY,
  digest  BLOB NOT NULL,
  user    TEXT NOT NULL,
  role    TEXT NOT NULL,
  label   TEXT NOT NULL,
  session TEXT,
  maker   TEXT NOT NULL,
  created REAL NOT NULL,
  expires REAL,
  used    REAL,
  revoked REAL
) WITHOUT ROWID;
"""

T = TypeVar("T")


class HostDatabase:
    """The database of one host. `owner` is admin of every session that nobody else opened."""

    def __init__(self, path: str, owner: str = "") -> None:
        self.path = path
        self.owner = owner
        self._writer = _open_database(path)
        self._reader = _connect(path)  # its own, so that a read never waits behind a write
        self._write_lock = threading.Lock()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the file. Idempotent."""
        with self._write_lock:
            self._reader.close()
            self._writer.close()

    def fetch_rows(self, query: str, *values: Any) -> list[tuple[Any, ...]]:
        """Return the rows of a query. A read never waits for a writer."""
        return self._with_store_faults(lambda: self._reader.execute(query, values).fetchall())

    def execute(self, statement: str, *values: Any) -> int:
        """Write one change to disk. Return the number of rows."""
        with self._write_lock:
            return self._with_store_faults(lambda: self._writer.execute(statement, values).rowcount)

    def _with_store_faults(self, act: Callable[[], T]) -> T:
        try:
            return act()
        except (*FAILURES, OSError) as error:
            raise to_store_fault(error, self.path) from error

    # --- roles ------------------------------------------------------------------------------------------------

    async def role_of(self, user: str, session: str) -> str | None:
        """Return the role of a user in a session; None if they may not see it."""
        found = await self.members_of(session)
        if not found:
            return ADMIN if user and user == self.owner else None
        return found.get(user)

    async def set_creator(self, session: str, user: str) -> None:
        """Make the user who opened a session its admin, unless it has members already."""
        await self._write(
            "INSERT INTO members SELECT ?1, ?2, ?3 WHERE NOT EXISTS (SELECT 1 FROM members WHERE session = ?1)",
            session,
            user,
            ADMIN,
        )

    async def sessions_of(self, user: str) -> Mapping[str, str]:
        """Return the sessions that a user may see, with their role in each."""
        return dict(self.fetch_rows("SELECT session, role FROM members WHERE user = ?", user))

    async def sessions_closed_to(self, user: str) -> Collection[str]:
        """Return the sessions that have members, but not this user."""
        query = "SELECT session FROM members GROUP BY session HAVING NOT max(user = ?)"
        return [session for (session,) in self.fetch_rows(query, user)]

    async def members_of(self, session: str) -> Mapping[str, str]:
        """Return who may see a session, with their roles."""
        return dict(self.fetch_rows("SELECT user, role FROM members WHERE session = ?", session))

    async def set_role(self, session: str, user: str, role: str | None) -> None:
        """Set the role of a user in a session; None removes them."""
        if role is None:
            await self._write("DELETE FROM members WHERE session = ? AND user = ?", session, user)
            return
        check_role_name(role)
        if self.owner and not await self.members_of(session):
            await self.set_creator(session, self.owner)  # who keeps access to a session that was the owner's alone
        await self._write("INSERT OR REPLACE INTO members VALUES (?, ?, ?)", session, user, role)

    async def remove_session(self, session: str) -> None:
        """Remove the roles and share links of a deleted session."""
        await self._write("DELETE FROM members WHERE session = ?", session)
        await self._write("DELETE FROM tokens WHERE session = ?", session)

    async def _write(self, statement: str, *values: Any) -> None:
        # In a thread: a commit waits for the disk, and the event loop serves everybody.
        await asyncio.to_thread(self.execute, statement, *values)


@contextmanager
def lock_store(path: str) -> Iterator[None]:
    """Hold the lock of a session file. Raise StoreFault if another host has it: two would write into the same logs.

    It is a system lock: it ends with the process, and agents do not inherit it.
    """
    refuse_foreign_file(path)  # before a file is created next to it
    try:
        os.makedirs(os.path.dirname(path) or ".", mode=0o700, exist_ok=True)
        fd = os.open(f"{path}.serving", os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    except OSError as error:
        raise to_store_fault(error, path) from error
    try:
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            pid = os.read(fd, 32).decode("ascii", "replace").strip() or "still starting"
            raise StoreFault(
                "locked",
                f"another host (process {pid}) serves the sessions in {path}; use it, or another file with --store",
            ) from None
        try:
            os.ftruncate(fd, 0)
            os.pwrite(fd, f"{os.getpid()}\n".encode(), 0)
        except OSError as error:
            raise to_store_fault(error, path) from error
        yield
    finally:
        os.close(fd)  # this releases the lock


def _open_database(path: str) -> sqlite3.Connection:
    try:
        make_private(path, APPLICATION_ID)
        connection = _connect(path)
        try:
            _prepare(connection, path)
        except BaseException:
            connection.close()
            raise
        return connection
    except (*FAILURES, OSError) as error:
        raise to_store_fault(error, path) from error


def _connect(path: str) -> sqlite3.Connection:
    uri = f"file:{quote(os.path.abspath(path))}?mode=rw"
    return sqlite3.connect(uri, uri=True, timeout=BUSY_TIMEOUT, isolation_level=None, check_same_thread=False)


def _prepare(connection: sqlite3.Connection, path: str) -> None:
    connection.execute("PRAGMA journal_mode = WAL")
    connection.execute("PRAGMA synchronous = FULL")
    application = connection.execute("PRAGMA application_id").fetchone()[0]
    version = connection.execute("PRAGMA user_version").fetchone()[0]
    is_empty = connection.execute("SELECT count(*) FROM sqlite_schema").fetchone()[0] == 0
    if not is_empty and application not in (0, APPLICATION_ID):
        raise StoreFault("unusable", f"{path} is a database of another program; choose another folder")
    if version > VERSION:
        raise StoreFault("newer", f"{path} was written by a newer Dragoman; update this one")
    if version == VERSION:
        return
    # In one transaction, because another process may be creating the same file.
    connection.executescript(
        f"BEGIN IMMEDIATE; {_TABLES} PRAGMA application_id = {APPLICATION_ID}; PRAGMA user_version = {VERSION}; COMMIT;"
    )
