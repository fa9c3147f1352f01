"""Changes of sessions besides appending: rename, fork, delete, expire, repair.

Each is one transaction of the writer.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable

from dragoman.errors import Kind, ProtocolError
from dragoman.store.blocks import build_report, fill_gaps
from dragoman.store.claims import check_epoch, no_claim
from dragoman.store.contract import Claim, LogReport, Retention, SavedState, Summary
from dragoman.store.sqlite import reading, search_index
from dragoman.store.sqlite.append import create_session, entry_row, save_summary
from dragoman.store.sqlite.errors import Damage
from dragoman.store.sqlite.reading import StoredSession
from dragoman.store.sqlite.schema import ENTRIES_PER_SESSION
from dragoman.store.summary import LogSummary, expired_error, expired_ids, fold_summary, taken_error

# How many ids of expired sessions are remembered, to report them as expired and not as unknown.
_MAX_TOMBSTONES = 10_000


def rename(connection: sqlite3.Connection, session_id: str, name: str | None) -> Summary:
    """Set or remove the name of a session."""
    kept = reading.find_session(connection, session_id)
    if name is not None:
        query = "SELECT id FROM sessions WHERE (name = ?1 OR id = ?1) AND id <> ?2"
        row = connection.execute(query, (name, session_id)).fetchone()
        if row is not None:
            raise taken_error(name, row[0].decode("utf-8", "replace"))
    connection.execute("UPDATE sessions SET name = ? WHERE number = ?", (name, kept.number))
    return reading.find_session(connection, session_id).log_summary.summary


def fork(connection: sqlite3.Connection, session_id: str, new_id: str, upto: int | None) -> Summary:
    """Create a log that starts with the entries of another."""
    origin = reading.find_session(connection, session_id)
    if connection.execute("SELECT 1 FROM sessions WHERE id = ?", (new_id,)).fetchone() is not None:
        raise taken_error(new_id, new_id)
    lines = reading.read_lines(connection, origin, 0, upto)
    number = create_session(connection, new_id)
    head = fold_summary(new_id, lines)
    connection.execute(
        "INSERT INTO entries SELECT place + ?, entry, sum FROM entries WHERE place BETWEEN ? AND ?",
        (
            (number - origin.number) * ENTRIES_PER_SESSION,
            origin.number * ENTRIES_PER_SESSION + 1,
            origin.number * ENTRIES_PER_SESSION + len(lines),
        ),
    )
    save_summary(connection, number, head)
    connection.execute(
        "UPDATE sessions SET forked_from = ?, imported = ? WHERE number = ?",
        (session_id, min(origin.log_summary.imported, len(lines)), number),
    )
    return reading.find_session(connection, new_id).log_summary.summary


def begin_import(
    connection: sqlite3.Connection, session_id: str, entries: int, forked_from: str | None = None
) -> Summary:
    """Create an empty log whose first entries will be imported."""
    row = connection.execute("SELECT expired_at FROM sessions WHERE id = ?", (session_id,)).fetchone()
    if row is not None:
        raise taken_error(session_id, session_id) if row[0] is None else expired_error(session_id)
    number = create_session(connection, session_id)
    save_summary(connection, number, LogSummary(session_id=session_id))
    connection.execute(
        "UPDATE sessions SET imported = ?, forked_from = ? WHERE number = ?", (entries, forked_from, number)
    )
    return reading.find_session(connection, session_id).log_summary.summary


def delete(connection: sqlite3.Connection, session_id: str) -> bool:
    """Delete a session."""
    row = connection.execute("SELECT number, expired_at FROM sessions WHERE id = ?", (session_id,)).fetchone()
    if row is None:
        return False
    _delete_entries(connection, row[0])
    connection.execute("DELETE FROM sessions WHERE number = ?", (row[0],))
    return row[1] is None


def touch(connection: sqlite3.Connection) -> None:
    """Write the file's version again: a write that changes nothing."""
    [version] = connection.execute("PRAGMA user_version").fetchone()
    connection.execute(f"PRAGMA user_version = {version}")


def expire(connection: sqlite3.Connection, retention: Retention, now: str) -> list[str]:
    """Delete sessions that retention does not keep; remember their ids."""
    kept = {one.log_summary.session_id: one for one in _newest_first(connection)}
    gone = _expired(kept.values(), retention, now)
    for session_id in gone:
        _delete_entries(connection, kept[session_id].number)
        connection.execute(
            "UPDATE sessions SET expired_at = ?, name = NULL, title = NULL, prompted = NULL, agent = NULL, "
            "agent_session = NULL, cwd = NULL, archived = 0, imported = 0, scanned = 0, indexed = 0 WHERE number = ?",
            (now, kept[session_id].number),
        )
    connection.execute(
        "DELETE FROM sessions WHERE number IN (SELECT number FROM sessions WHERE expired_at IS NOT NULL "
        "ORDER BY expired_at DESC LIMIT -1 OFFSET ?)",
        (_MAX_TOMBSTONES,),
    )
    return gone


def expiring(connection: sqlite3.Connection, retention: Retention, now: str) -> list[str]:
    """Return the sessions that `expire` would delete now."""
    return _expired(_newest_first(connection), retention, now)


def _newest_first(connection: sqlite3.Connection) -> list[StoredSession]:
    query = f"{reading.SELECT_SESSIONS} WHERE expired_at IS NULL ORDER BY updated_at DESC, id DESC"
    return [reading.parse_session_row(row) for row in connection.execute(query).fetchall()]


def _expired(sessions: Iterable[StoredSession], retention: Retention, now: str) -> list[str]:
    return expired_ids(retention, [one.log_summary.summary for one in sessions], now)


def _delete_entries(connection: sqlite3.Connection, number: int) -> None:
    connection.execute(
        "DELETE FROM entries WHERE place BETWEEN ? AND ?",
        (number * ENTRIES_PER_SESSION, (number + 1) * ENTRIES_PER_SESSION - 1),
    )
    for table in ("progress", "states"):
        connection.execute(f"DELETE FROM {table} WHERE number = ?", (number,))
    search_index.remove_session(connection, number)


# --- claims and states ----------------------------------------------------------------------------------------


def owner(connection: sqlite3.Connection, session_id: str) -> Claim:
    """Return the last claim of a log."""
    try:
        return reading.find_session(connection, session_id, blank=True).log_summary.claim
    except ProtocolError as error:
        if error.kind != Kind.SESSION_NOT_FOUND:
            raise
        return no_claim(session_id)


def claim(connection: sqlite3.Connection, session_id: str, node: str, epoch: int) -> Claim:
    """Claim a log after an epoch; create it if it is missing."""
    check_epoch(last := owner(connection, session_id), epoch)
    connection.execute(
        "INSERT INTO sessions (id, epoch, node) VALUES (?1, ?2, ?3) "
        "ON CONFLICT (id) DO UPDATE SET epoch = ?2, node = ?3",
        (session_id, epoch + 1, node),
    )
    return Claim(session_id=session_id, node=node, epoch=epoch + 1, seq=last.seq)


def release(connection: sqlite3.Connection, claim: Claim) -> None:
    """Give a log up, and remove it if nothing was stored in it."""
    last = owner(connection, claim.session_id)
    if (last.epoch, last.node) == (claim.epoch, claim.node):
        connection.execute("UPDATE sessions SET node = '' WHERE id = ?", (claim.session_id,))
        if reading.find_session(connection, claim.session_id, blank=True).log_summary.is_blank:
            delete(connection, claim.session_id)


def save_state(connection: sqlite3.Connection, session_id: str, saved: SavedState) -> None:
    """Keep the state of a session."""
    number = reading.find_session(connection, session_id).number
    connection.execute("REPLACE INTO states VALUES (?, ?, ?)", (number, saved.seq, saved.state))


def saved_state(connection: sqlite3.Connection, session_id: str) -> SavedState | None:
    """Return the state of a session that was kept last."""
    kept = reading.find_session(connection, session_id)
    row = connection.execute("SELECT seq, state FROM states WHERE number = ?", (kept.number,)).fetchone()
    if row is None or not isinstance(row[1], bytes) or not 0 < row[0] <= kept.log_summary.entries:
        return None
    return SavedState(row[0], row[1])


# --- damage ---------------------------------------------------------------------------------------------------


def verify_log(connection: sqlite3.Connection, session_id: str) -> LogReport:
    """Return the intact and the lost ranges of a log."""
    kept = reading.find_session(connection, session_id)
    last = _last_seq(connection, kept)
    return build_report(session_id, last, reading.read_range(connection, kept, 1, last).lost)


def check_file(connection: sqlite3.Connection) -> None:
    """Raise Damage if SQLite's check of the file fails."""
    [found] = connection.execute("PRAGMA quick_check(1)").fetchone()
    if found != b"ok":
        raise Damage("SQLite's check of the file failed")


def _last_seq(connection: sqlite3.Connection, session: StoredSession) -> int:
    """Return the last number of a log: as listed, or higher if there are more entries."""
    base = session.number * ENTRIES_PER_SESSION
    row = connection.execute(
        "SELECT max(place) FROM entries WHERE place BETWEEN ? AND ?", (base, base + ENTRIES_PER_SESSION - 1)
    ).fetchone()
    return max(session.log_summary.entries, (row[0] or base) - base)


def repair(connection: sqlite3.Connection, session_id: str) -> LogReport:
    """Replace entries that cannot be read, and rebuild the summary."""
    kept = reading.find_session(connection, session_id)
    last = _last_seq(connection, kept)
    found = reading.read_range(connection, kept, 1, last)
    lines = fill_gaps(found.lines, found.lost)
    base = kept.number * ENTRIES_PER_SESSION
    for low, high in found.lost:
        connection.execute("DELETE FROM entries WHERE place BETWEEN ? AND ?", (base + low, base + high))
        rows = [entry_row(kept.number, seq, lines[seq - 1]) for seq in range(low, high + 1)]
        try:
            connection.executemany("INSERT INTO entries VALUES (?, ?, ?)", rows)
        except sqlite3.IntegrityError as error:
            raise Damage("an entry exists but cannot be found") from error
    if found.lost and reading.read_range(connection, kept, 1, last).lost:
        raise Damage("entries cannot be read")  # the file's own order is damaged
    if found.lost or last != kept.log_summary.entries:
        save_summary(connection, kept.number, fold_summary(session_id, lines))
        search_index.remove_session(connection, kept.number)
        connection.execute("UPDATE sessions SET scanned = 0, indexed = 0 WHERE number = ?", (kept.number,))
        connection.execute("DELETE FROM states WHERE number = ?", (kept.number,))
    return build_report(session_id, last, found.lost)
