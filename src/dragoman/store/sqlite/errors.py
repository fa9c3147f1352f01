"""Turn errors of sqlite3 and the system into StoreFaults that say what to do."""

from __future__ import annotations

import errno
import sqlite3
from shlex import quote

from dragoman.errors import Kind, ProtocolError, StoreFault
from dragoman.store.blocks import describe_ranges

_BUSY = {sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED}
_DAMAGED = {sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB}
_READONLY = {sqlite3.SQLITE_READONLY, sqlite3.SQLITE_PERM, sqlite3.SQLITE_AUTH}

_FULL_ERRNO = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG}
_READONLY_ERRNO = {errno.EROFS, errno.EACCES, errno.EPERM}

# Errors of sqlite3 calls, and Python's failure to decode what SQLite returns from a damaged file.
FAILURES = (sqlite3.Error, UnicodeDecodeError)

REPAIR_HINT = "run `dragoman sessions repair`"


class Damage(sqlite3.DatabaseError):
    """The file holds something that was never written."""

    sqlite_errorcode = sqlite3.SQLITE_CORRUPT


def sqlite_code(error: BaseException) -> int:
    """Return the primary code of an SQLite error; 0 if it has none."""
    return (getattr(error, "sqlite_errorcode", None) or 0) & 0xFF


def is_busy(error: BaseException) -> bool:
    """Return whether another connection is writing."""
    return sqlite_code(error) in _BUSY


def is_damage(error: BaseException) -> bool:
    """Return whether an error means a damaged file."""
    if isinstance(error, UnicodeDecodeError):
        return True
    if sqlite_code(error):
        return sqlite_code(error) in _DAMAGED
    return isinstance(error, sqlite3.DatabaseError) and not isinstance(error, sqlite3.ProgrammingError)


def to_store_fault(error: BaseException, path: str) -> StoreFault:
    """Return the StoreFault for an error."""
    if isinstance(error, StoreFault):
        return error
    code = sqlite_code(error)
    number = error.errno if isinstance(error, OSError) else None
    if code == sqlite3.SQLITE_FULL or number in _FULL_ERRNO:
        return StoreFault("full", f"the disk of {path} is full; free some space, then try again")
    if code in _READONLY or number in _READONLY_ERRNO:
        return StoreFault("readonly", f"{path} cannot be written; change its permissions or use another folder")
    if code in _BUSY:
        return StoreFault("locked", f"{path} is locked by another program; try again when it has finished")
    if code in _DAMAGED or isinstance(error, UnicodeDecodeError):
        return damaged_fault(path)
    if code == sqlite3.SQLITE_CANTOPEN:
        return StoreFault("unusable", f"{path} cannot be opened; check that its folder exists and is yours")
    text = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
    return StoreFault("io", f"{path} cannot be used: {text}; nothing that was stored is lost")


def damaged_fault(path: str) -> StoreFault:
    """Return the error for a file that SQLite cannot read."""
    return StoreFault("damaged", f"{path} is damaged; {REPAIR_HINT} to save the intact entries")


def corrupted_error(session_id: str, lost: list[tuple[int, int]]) -> ProtocolError:
    """Return the error for a damaged log."""
    what = f"entries {describe_ranges(lost)} of" if lost else "the place of"
    return ProtocolError(
        Kind.SESSION_CORRUPTED,
        f"{what} session {session_id!r} cannot be read; run `dragoman sessions repair {quote(session_id)}`",
        {"sessionId": session_id, "lost": lost},
    )
