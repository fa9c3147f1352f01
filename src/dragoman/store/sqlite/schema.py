"""The file: its tables, its version, and its migrations. A new file is made by the same migrations as an old one.

An old file is copied before it is changed; a newer one is rejected unchanged.
"""

from __future__ import annotations

import fcntl
import os
import sqlite3
import time
from contextlib import closing
from urllib.parse import quote

from dragoman.errors import StoreFault
from dragoman.store.sqlite.errors import FAILURES, is_busy, to_store_fault

# The application id of our files ("Drag").
APPLICATION_ID = 0x44726167

# The search index, which can be rebuilt at any time.
SEARCH_TABLES = """
    CREATE TABLE passages (
      id      INTEGER PRIMARY KEY,
      session INTEGER NOT NULL,
      first   INTEGER NOT NULL,
      role    TEXT NOT NULL,
      text    TEXT NOT NULL
    );
    CREATE INDEX passages_of ON passages (session, first);
    CREATE VIRTUAL TABLE search USING fts5(
      text, content='passages', content_rowid='id', tokenize='unicode61 remove_diacritics 2');
    CREATE TRIGGER passage_added AFTER INSERT ON passages BEGIN
      INSERT INTO search(rowid, text) VALUES (new.id, new.text);
    END;
    CREATE TRIGGER passage_removed AFTER DELETE ON passages BEGIN
      INSERT INTO search(search, rowid, text) VALUES ('delete', old.id, old.text);
    END;
    """

# One migration per version: the first makes version 1 from an empty file.
MIGRATIONS: tuple[str, ...] = (
    """
    CREATE TABLE sessions (
      number      INTEGER PRIMARY KEY AUTOINCREMENT,
      id          TEXT NOT NULL UNIQUE,
      name        TEXT UNIQUE,
      turns       INTEGER NOT NULL DEFAULT 0,
      created_at  TEXT NOT NULL DEFAULT '',
      title       TEXT,
      prompted    TEXT,
      agent       TEXT,
      agent_session TEXT,
      cwd         TEXT,
      forked_from TEXT,
      expired_at  TEXT
    );
    CREATE TABLE progress (
      number      INTEGER PRIMARY KEY,
      entries     INTEGER NOT NULL,
      size        INTEGER NOT NULL,
      updated_at  TEXT NOT NULL,
      touched     INTEGER NOT NULL
    );
    CREATE TABLE entries (
      place INTEGER PRIMARY KEY,
      entry TEXT NOT NULL,
      sum   INTEGER NOT NULL
    );
    """,
    """
    ALTER TABLE sessions ADD COLUMN scanned INTEGER NOT NULL DEFAULT 0;
    ALTER TABLE sessions ADD COLUMN indexed INTEGER NOT NULL DEFAULT 0;
    """
    + SEARCH_TABLES,
    # Archived sessions from before this column are found in their logs, once.
    """
    ALTER TABLE sessions ADD COLUMN archived INTEGER NOT NULL DEFAULT 0;
    UPDATE sessions SET archived = coalesce((
      SELECT json_extract(entry, '$.body._meta.dragoman.archived') FROM entries
      WHERE place BETWEEN number * 1099511627776 AND (number + 1) * 1099511627776 - 1
        AND entry LIKE '%"session_info_update"%"archived":%' AND json_valid(entry)
        AND json_type(entry, '$.body._meta.dragoman.archived') IN ('true', 'false')
      ORDER BY place DESC LIMIT 1), 0);
    """,
    "ALTER TABLE sessions ADD COLUMN imported INTEGER NOT NULL DEFAULT 0;",
    # Claims of logs, folded states, and an order in which sessions are listed in pages.
    """
    ALTER TABLE sessions ADD COLUMN epoch INTEGER NOT NULL DEFAULT 0;
    ALTER TABLE sessions ADD COLUMN node TEXT NOT NULL DEFAULT '';
    CREATE TABLE states (
      number INTEGER PRIMARY KEY,
      seq    INTEGER NOT NULL,
      state  BLOB NOT NULL
    );
    CREATE INDEX progress_by_time ON progress (updated_at);
    """,
)

VERSION = len(MIGRATIONS)

# The page size of the file. Bytes.
PAGE_SIZE = 4096

# The header of an SQLite file (sqlite.org/fileformat2.html): how it begins, its size, the place of the application id,
# and the smallest page. Bytes.
_MAGIC = b"SQLite format 3\0"
_HEADER_SIZE = 100
_APPLICATION_ID_AT = slice(68, 72)
_SMALLEST_PAGE = 512

# How much of a file is read to tell whether it may be a store. The largest page of SQLite.
_HEAD_SIZE = 65536

# The entries of a session start at its number, shifted by this many bits; no log grows longer.
ENTRIES_PER_SESSION = 1 << 40

# How long a process waits for another one that writes. A commit takes milliseconds, even on slow disks; a longer one is
# stopped or stuck, and the user should know. Seconds.
BUSY_TIMEOUT = 10.0

# A write-ahead log that grew larger, during a long read for example, is truncated to this. Bytes.
_WAL_LIMIT = 64 * 1024 * 1024

# Delay between two attempts to create a file that another process is creating. Seconds.
_RETRY_INTERVAL = 0.01

_SYNCHRONOUS = {"full": "FULL", "normal": "NORMAL", "off": "OFF"}


def connect(path: str, durability: str = "full", *, timeout: float = BUSY_TIMEOUT) -> sqlite3.Connection:
    """Connect to a file of the right version; raise StoreFault if that fails."""
    try:
        connection = _connect(path, timeout)
        try:
            connection.execute("PRAGMA journal_mode = WAL")
            connection.execute(f"PRAGMA synchronous = {_SYNCHRONOUS[durability]}")
            connection.execute("PRAGMA fullfsync = ON")
            connection.execute(f"PRAGMA journal_size_limit = {_WAL_LIMIT}")
        except BaseException:
            connection.close()
            raise
        return connection
    except (*FAILURES, OSError) as error:
        raise to_store_fault(error, path) from error


def connect_to_read(path: str, durability: str = "full", *, timeout: float = BUSY_TIMEOUT) -> sqlite3.Connection:
    """Connect for reading only."""
    connection = connect(path, durability, timeout=timeout)
    connection.execute("PRAGMA query_only = ON")
    return connection


def prepare_file(path: str, *, timeout: float = BUSY_TIMEOUT) -> None:
    """Create or migrate the file; raise StoreFault if it is newer, not ours, damaged or not writable."""
    try:
        refuse_foreign_file(path)
        make_private(path)
        deadline = time.monotonic() + timeout
        while not _try_prepare(path, timeout):
            # Another process is creating the file, and SQLite does not wait for the switch to write-ahead logging.
            if time.monotonic() > deadline:
                raise StoreFault("locked", f"{path} is being created by another program that hangs; stop that program")
            time.sleep(_RETRY_INTERVAL)
    except (*FAILURES, OSError) as error:
        raise to_store_fault(error, path) from error


def _try_prepare(path: str, timeout: float) -> bool:
    with closing(_connect(path, timeout)) as connection:
        try:
            connection.execute("BEGIN")  # for a consistent view
            version = _check_version(connection, path)
            connection.execute("COMMIT")
            if version < VERSION:
                _migrate(connection, path, timeout)
        except sqlite3.OperationalError as error:
            if is_busy(error):
                return False
            raise
    return True


def lock_file(path: str, *, exclusive: bool = False) -> int:
    """Lock the file for this process, exclusively if `alone`; return a descriptor to close."""
    fd = os.open(f"{path}.lock", os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(fd, (fcntl.LOCK_EX if exclusive else fcntl.LOCK_SH) | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(fd)
        whom = "other programs use it; stop them" if exclusive else "it is being repaired; wait until that is done"
        raise StoreFault("locked", f"{path} cannot be used now: {whom}, then try again") from None
    except BaseException:
        os.close(fd)
        raise
    return fd


def _connect(path: str, timeout: float) -> sqlite3.Connection:
    uri = f"file:{quote(os.path.abspath(path))}?mode=rw"
    connection = sqlite3.connect(uri, uri=True, timeout=timeout, isolation_level=None, check_same_thread=False)
    connection.text_factory = bytes
    return connection


def refuse_foreign_file(path: str) -> None:
    """Raise StoreFault for a file that cannot be a store, before it or its folder is changed. One that may be a damaged
    store is left to SQLite.
    """
    try:
        fd = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:
        return  # it is not there, or the caller gets the same error
    try:
        head, size = os.read(fd, _HEAD_SIZE), os.fstat(fd).st_size
    except OSError:
        return
    finally:
        os.close(fd)
    # A store is made of pages, and the first one has the statements that created its tables.
    if not head or head.startswith(_MAGIC) or size % _SMALLEST_PAGE == 0 or b"CREATE TABLE" in head:
        return
    raise StoreFault("unusable", f"{path} is not a store of sessions; name another file, or move this one away")


def make_private(path: str, application_id: int = APPLICATION_ID) -> None:
    """Create a file and its folder, if needed, that only their owner can read. Leave files of other programs alone."""
    os.makedirs(os.path.dirname(path) or ".", mode=0o700, exist_ok=True)
    fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    try:
        head = os.pread(fd, _HEADER_SIZE, 0)
        is_ours = not head or head[_APPLICATION_ID_AT] == application_id.to_bytes(4, "big")
        if is_ours and os.fstat(fd).st_mode & 0o077:
            os.fchmod(fd, 0o600)
    finally:
        os.close(fd)


def _check_version(connection: sqlite3.Connection, path: str) -> int:
    version = int(connection.execute("PRAGMA user_version").fetchone()[0])
    application = int(connection.execute("PRAGMA application_id").fetchone()[0])
    is_empty = connection.execute("SELECT count(*) FROM sqlite_schema").fetchone()[0] == 0
    if not is_empty and application != APPLICATION_ID:
        raise StoreFault("unusable", f"{path} is a database of another program; choose another file")
    if version > VERSION:
        raise StoreFault(
            "newer",
            f"{path} was written by a newer Dragoman (format {version}, this one knows {VERSION}); update Dragoman",
        )
    return version


def _migrate(connection: sqlite3.Connection, path: str, timeout: float) -> None:
    connection.execute(f"PRAGMA page_size = {PAGE_SIZE}")  # only a new file accepts it
    connection.execute("PRAGMA journal_mode = WAL")
    connection.execute("PRAGMA synchronous = FULL")
    connection.execute("BEGIN IMMEDIATE")
    try:
        version = _check_version(connection, path)  # another process may have been faster
        if version < VERSION:
            if version > 0:
                _back_up(path, f"{path}.format-{version}", timeout)
            for step in MIGRATIONS[version:]:
                for statement in split_statements(step):
                    connection.execute(statement)
            connection.execute(f"PRAGMA application_id = {APPLICATION_ID}")
            connection.execute(f"PRAGMA user_version = {VERSION}")
        connection.execute("COMMIT")
    except BaseException:
        if connection.in_transaction:
            connection.execute("ROLLBACK")
        raise


def _back_up(path: str, to: str, timeout: float) -> None:
    """Copy the committed data; the migrating process holds the lock, so nothing changes meanwhile."""
    fd = os.open(to, os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    os.close(fd)
    with closing(_connect(path, timeout)) as source, closing(sqlite3.connect(to)) as copy:
        source.backup(copy)


def split_statements(script: str) -> list[str]:
    """Split a script into statements; a trigger contains semicolons."""
    found: list[str] = []
    part = ""
    for piece in script.split(";")[:-1]:
        part += piece + ";"
        if sqlite3.complete_statement(part):
            found.append(part.strip())
            part = ""
    return found
