"""Rebuild a file whose damage SQLite reports: copy everything readable to a new file, which replaces the old one.

The path must not be in use. The old file is kept next to it.
"""

from __future__ import annotations

import os
import shutil
import sqlite3
from contextlib import closing
from typing import NamedTuple

from dragoman.errors import StoreFault
from dragoman.store.blocks import build_report, fill_gaps
from dragoman.store.contract import LogReport
from dragoman.store.sqlite import reading
from dragoman.store.sqlite.append import create_session, entry_row, save_summary
from dragoman.store.sqlite.errors import FAILURES, to_store_fault
from dragoman.store.sqlite.reading import StoredSession
from dragoman.store.sqlite.schema import ENTRIES_PER_SESSION, PAGE_SIZE, connect, lock_file, prepare_file
from dragoman.store.summary import LogSummary, fold_summary

# The offset of the page count in the first page (the SQLite file format, 1.3).
_PAGE_COUNT_OFFSET = 28

_WAL_SUFFIXES = ("-wal", "-shm")

# Columns that the first file version did not have.
_ADDED_COLUMNS = {"archived", "imported", "scanned", "indexed", "epoch", "node"}


class RebuildResult(NamedTuple):
    """The result of a rebuild."""

    reports: list[LogReport]
    damaged_path: str  # where the damaged file is now


def rebuild(path: str) -> RebuildResult:
    """Save the intact entries of a file; raise StoreFault if it is in use or nothing is readable."""
    path = os.path.abspath(path)
    if not os.path.exists(path):
        raise StoreFault("unusable", f"{path} does not exist; check the path")
    fresh, copy = f"{path}.new", f"{path}.copy"
    try:
        held = lock_file(path, exclusive=True)
    except OSError as error:
        raise to_store_fault(error, path) from error
    try:
        _remove(fresh)
        _remove(copy)
        prepare_file(fresh)
        with closing(_open_damaged(path, copy, fresh)) as old, closing(connect(fresh)) as new:
            reports = _copy_sessions(old, new)
        damaged_path = _unused_path(f"{path}.damaged")
        for end in _WAL_SUFFIXES:
            if os.path.exists(path + end):
                os.replace(path + end, damaged_path + end)
        os.replace(path, damaged_path)
        os.replace(fresh, path)
        return RebuildResult(reports, damaged_path)
    except (*FAILURES, OSError) as error:
        raise to_store_fault(error, path) from error
    finally:
        _remove(fresh)
        _remove(copy)
        os.close(held)


def _open_damaged(path: str, copy: str, fresh: str) -> sqlite3.Connection:
    """Open a copy of the damaged file, because SQLite would change the file itself."""
    _copy_file(path, copy)
    connection = _connect_lenient(copy)
    try:
        connection.execute("SELECT 1 FROM sessions, progress, entries LIMIT 1").fetchone()
        return connection
    except FAILURES:
        connection.close()
    # The first page locates everything, and is the same in every file made by the same migrations.
    _copy_file(path, copy)
    with open(fresh, "rb") as good, open(copy, "r+b") as bad:
        bad.write(good.read(PAGE_SIZE))
        bad.seek(_PAGE_COUNT_OFFSET)
        bad.write((os.path.getsize(path) // PAGE_SIZE).to_bytes(4, "big"))
    return _connect_lenient(copy)


def _copy_file(path: str, copy: str) -> None:
    _remove(copy)
    for end in ("", "-wal"):
        if os.path.exists(path + end):
            fd = os.open(copy + end, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
            with open(path + end, "rb") as source, open(fd, "wb") as target:
                shutil.copyfileobj(source, target)


def _connect_lenient(path: str) -> sqlite3.Connection:
    connection = sqlite3.connect(path, isolation_level=None)
    connection.text_factory = bytes
    connection.execute("PRAGMA writable_schema = ON")  # otherwise a truncated file is not read at all
    return connection


def _copy_sessions(old: sqlite3.Connection, new: sqlite3.Connection) -> list[LogReport]:
    reports = []
    new.execute("BEGIN IMMEDIATE")
    for kept in _list_sessions(old):
        id = kept.log_summary.session_id
        found = reading.read_range(old, kept, 1, kept.log_summary.entries)
        lines = fill_gaps(found.lines, found.lost)
        number = create_session(new, id)
        new.executemany(
            "INSERT INTO entries VALUES (?, ?, ?)", [entry_row(number, seq, line) for seq, line in enumerate(lines, 1)]
        )
        save_summary(new, number, fold_summary(id, lines))
        new.execute(
            "UPDATE sessions SET name = ?, forked_from = ?, imported = ?, epoch = ?, node = ?, expired_at = ? "
            "WHERE number = ?",
            (
                kept.log_summary.name,
                kept.log_summary.forked_from,
                min(kept.log_summary.imported, len(lines)),
                kept.log_summary.epoch,
                kept.log_summary.node,
                "" if kept.is_expired else None,
                number,
            ),
        )
        if not kept.is_expired:
            reports.append(build_report(id, kept.log_summary.entries, found.lost))
    new.execute("COMMIT")
    return reports


def _list_sessions(old: sqlite3.Connection) -> list[StoredSession]:
    """Return the sessions that can be listed, then those that only have entries."""
    listed: dict[int, StoredSession] = {}
    asked = _session_query(old)
    for order in ("number", "number DESC"):
        try:
            cursor = old.execute(f"{asked} ORDER BY sessions.{order}")
            while (row := cursor.fetchone()) is not None:
                kept = reading.parse_session_row(row)
                listed.setdefault(kept.number, kept)
        except FAILURES:
            continue  # read from the other end as far as possible
    ends = _last_seqs(old)
    for number, last in ends.items():
        if number not in listed:
            # The imported flag is lost with its row, so it counts as imported.
            head = LogSummary(session_id=f"recovered-{number}", entries=last, imported=last)
            listed[number] = StoredSession(number, head, False, 0, 0)
        elif last > listed[number].log_summary.entries:
            listed[number].log_summary.entries = last
    return _make_distinct(listed)


def _session_query(old: sqlite3.Connection) -> str:
    """Return the query of the session list, for a file of any version."""
    there = {row[1].decode() for row in old.execute("PRAGMA table_info(sessions)")}
    head = reading.SELECT_SESSIONS
    for column in _ADDED_COLUMNS - there:
        head = head.replace(column, "0")
    return head


def _make_distinct(listed: dict[int, StoredSession]) -> list[StoredSession]:
    ids: set[str] = set()
    names: set[str] = set()
    for number in sorted(listed):
        head = listed[number].log_summary
        if not head.session_id or head.session_id in ids:
            head.session_id = f"recovered-{number}"
        if head.name in names:
            head.name = None
        ids.add(head.session_id)
        names.update([head.name] if head.name else [])
    return [listed[number] for number in sorted(listed)]


def _last_seqs(old: sqlite3.Connection) -> dict[int, int]:
    """Return the last number of each session with entries, as far as they can be read."""
    ends: dict[int, int] = {}
    for sign, order in ((">", "ASC"), ("<", "DESC")):
        place = -1 if sign == ">" else 1 << 62
        while True:
            try:
                row = old.execute(
                    f"SELECT place FROM entries WHERE place {sign} ? ORDER BY place {order} LIMIT 1", (place,)
                ).fetchone()
                if row is None:
                    break
                number, seq = divmod(row[0], ENTRIES_PER_SESSION)
                if sign == ">":
                    last = old.execute(
                        "SELECT max(place) FROM entries WHERE place < ?", ((number + 1) * ENTRIES_PER_SESSION,)
                    )
                    seq = last.fetchone()[0] % ENTRIES_PER_SESSION
                ends[number] = max(seq, ends.get(number, 0))
                place = (number + 1) * ENTRIES_PER_SESSION - 1 if sign == ">" else number * ENTRIES_PER_SESSION
            except FAILURES:
                break
    return ends


def _remove(path: str) -> None:
    for end in ("", *_WAL_SUFFIXES):
        try:
            os.unlink(path + end)
        except FileNotFoundError:
            pass


def _unused_path(path: str) -> str:
    number = 1
    while os.path.exists(f"{path}-{number}"):
        number += 1
    return f"{path}-{number}"
