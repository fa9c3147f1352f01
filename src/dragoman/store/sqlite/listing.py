"""List sessions in pages, the last changed first, and find one by name, id or the beginning of an id.

Uses indexes: the cost depends on what is listed, not on how many sessions there are.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Collection
from typing import Any

import msgspec

from dragoman.store.contract import Selection, Summary, parse_session_cursor
from dragoman.store.sqlite.reading import SELECT_SESSIONS, StoredSession, parse_session_row
from dragoman.store.summary import SHOWN_IDS, ambiguous_error, expired_error, missing_error

# The last character: greater than every beginning of an id with anything after it.
_LAST = "\U0010ffff"

# A session that has only a claim is not listed.
_LISTED = "expired_at IS NULL AND NOT (epoch > 0 AND coalesce(entries, 0) = 0 AND imported = 0 AND forked_from IS NULL)"

# With a limit and no ids, the order comes from the index of times, and only a page of it is read.
_SELECT_BY_TIME = SELECT_SESSIONS.replace(
    "FROM sessions LEFT JOIN progress ON progress.number = sessions.number",
    "FROM progress CROSS JOIN sessions ON sessions.number = progress.number",
)


def list_sessions(connection: sqlite3.Connection, wanted: Selection) -> list[Summary]:
    """Return the sessions that fit."""
    conditions = [_LISTED]
    values: list[str | int] = []
    if wanted.ids is not None:
        conditions.append("id IN (SELECT value FROM json_each(?))")
        values.append(_json(wanted.ids))
    if wanted.without:
        conditions.append("id NOT IN (SELECT value FROM json_each(?))")
        values.append(_json(wanted.without))
    if wanted.archived is not None:
        conditions.append("archived = ?")
        values.append(int(wanted.archived))
    if wanted.cwd is not None:
        conditions.append("cwd = ?")
        values.append(wanted.cwd)
    if wanted.after is not None:
        updated_at, session_id = parse_session_cursor(wanted.after)
        conditions.append("updated_at <= ? AND (updated_at < ? OR id < ?)")
        values += (updated_at, updated_at, session_id)
    is_page = wanted.limit is not None and wanted.ids is None
    query = f"{_SELECT_BY_TIME if is_page else SELECT_SESSIONS} WHERE {' AND '.join(conditions)}"
    query += " ORDER BY updated_at DESC, id DESC LIMIT ?"
    rows = connection.execute(query, (*values, -1 if wanted.limit is None else max(wanted.limit, 0))).fetchall()
    return [parse_session_row(row).log_summary.summary for row in rows]


def find(connection: sqlite3.Connection, name: str) -> Summary:
    """Find a session by id, name or the beginning of an id; raise session_not_found or session_expired."""
    for condition in ("id = ?", "name = ?"):
        found = _select(connection, condition, (name,), 1)
        if found and found[0].is_expired:
            raise expired_error(name)
        if found and not found[0].log_summary.is_blank:
            return found[0].log_summary.summary
    values = (name, name + _LAST)
    found = _select(connection, f"id >= ? AND id < ? AND {_LISTED}", values, SHOWN_IDS + 1) if name else []
    if len(found) > 1:
        raise ambiguous_error(name, [one.log_summary.session_id for one in found])
    if not found:
        raise missing_error(name)
    return found[0].log_summary.summary


def _select(connection: sqlite3.Connection, condition: str, values: Any, limit: int) -> list[StoredSession]:
    rows = connection.execute(f"{SELECT_SESSIONS} WHERE {condition} LIMIT ?", (*values, limit)).fetchall()
    return [parse_session_row(row) for row in rows]


def _json(ids: Collection[str]) -> str:
    return msgspec.json.encode(list(ids)).decode()
