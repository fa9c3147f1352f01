"""Reading a log: many entries in one step, each held against its checksum, and the gaps found.

Takes a connection and a session, gives lines of JSON. A step gives hundreds of entries, joined by newlines: that is a
little cheaper than a row a step, and a checksum of each is all Python has to do. Where such a step fails or does not
add up, it is cut in halves until what is damaged stands alone.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from typing import NamedTuple
from zlib import crc32

from dragoman.store.sqlite.errors import FAILURES, corrupted, is_damage
from dragoman.store.sqlite.schema import SPAN
from dragoman.store.summary import Head, expired, missing

# Entries that one step gives.
AT_ONCE = 512

# Sessions larger than this are read one entry a step, for a step's text has a limit in SQLite. Bytes.
_LARGE = 256 * 1024 * 1024

# The columns of a Kept.
HEAD = (
    "SELECT sessions.number, expired_at, id, entries, size, turns, created_at, updated_at, name, title, prompted, "
    "agent, agent_session, cwd, forked_from, archived, imported, scanned, indexed FROM sessions "
    "LEFT JOIN progress ON progress.number = sessions.number"
)

_STEP = (
    "SELECT group_concat(entry, char(10)), group_concat(sum, ' '), count(*) FROM "
    "(SELECT entry, sum FROM entries WHERE place BETWEEN ? AND ? ORDER BY place)"
)

# How each line begins, before its number.
_NUMBERED = b'{"seq":'

_EACH = "SELECT place, entry, sum FROM entries WHERE place BETWEEN ? AND ? ORDER BY place"


class Kept(NamedTuple):
    """A session as the file has it."""

    number: int
    head: Head
    is_expired: bool
    scanned: int
    indexed: int


class Stretch(NamedTuple):
    """What could be read of a stretch of a log, and which numbers could not."""

    lines: list[bytes]
    lost: list[tuple[int, int]]


def find(connection: sqlite3.Connection, session_id: str) -> Kept:
    """A session by its id; session_not_found, session_expired."""
    row = connection.execute(f"{HEAD} WHERE id = ?", (session_id,)).fetchone()
    if row is None:
        raise missing(session_id)
    kept = kept_of(row)
    if kept.is_expired:
        raise expired(session_id)
    return kept


def known(connection: sqlite3.Connection) -> list[Kept]:
    """All sessions, expired ones too; the one that changed last first."""
    rows = connection.execute(f"{HEAD} ORDER BY touched DESC, sessions.number DESC").fetchall()
    return [kept_of(row) for row in rows]


def kept_of(row: tuple[object, ...]) -> Kept:
    """A row of the list of sessions."""
    number, expired_at, id, entries, size, turns, *texts, archived, imported, scanned, indexed = row
    created, updated, name, title, prompted, agent, peer, cwd, origin = map(_text, texts)
    head = Head(
        session_id=_text(id) or "",
        entries=_number(entries),
        size=_number(size),
        turns=_number(turns),
        created_at=created or "",
        updated_at=updated or "",
        name=name,
        title=title,
        prompted=prompted,
        agent=agent,
        agent_session=peer,
        cwd=cwd,
        forked_from=origin,
        archived=bool(archived),
        imported=_number(imported),
    )
    return Kept(_number(number), head, expired_at is not None, _number(scanned), _number(indexed))


def lines(
    connection: sqlite3.Connection, kept: Kept, after: int = 0, limit: int | None = None, *, intact: bool = False
) -> list[bytes]:
    """The entries above `after`; what is damaged is left out (`intact`) or session_corrupted."""
    first = max(after, 0) + 1
    last = kept.head.entries if limit is None else min(kept.head.entries, first - 1 + max(limit, 0))
    found = stretch(connection, kept, first, last)
    lost = list(found.lost)
    if last == kept.head.entries and _goes_on(connection, kept):
        lost.append((last + 1, last + 1))
    if lost and not intact:
        raise corrupted(kept.head.session_id, lost)
    return found.lines


def stretch(connection: sqlite3.Connection, kept: Kept, first: int, last: int) -> Stretch:
    """Everything from one number to another."""
    at_once = AT_ONCE if kept.head.size < _LARGE else 1
    found: list[bytes] = []
    lost: list[tuple[int, int]] = []
    for low in range(first, last + 1, at_once):
        for piece in _salvaged(connection, kept.number, low, min(last, low + at_once - 1)):
            if isinstance(piece, tuple):
                if lost and lost[-1][1] + 1 == piece[0]:
                    piece = (lost.pop()[0], piece[1])
                lost.append(piece)
            else:
                found += piece
    return Stretch(found, lost)


def each(connection: sqlite3.Connection, kept: Kept, first: int) -> Iterator[tuple[int, bytes]]:
    """The intact entries from a number on, with their numbers, one a step: whoever reads can stop at any of them."""
    base, last = kept.number * SPAN, kept.head.entries
    seq = first - 1
    try:
        for place, entry, sum in connection.execute(_EACH, (base + first, base + last)):
            if place <= base + seq:
                break  # the order of the file is damaged
            seq = place - base
            if type(entry) is bytes and crc32(entry) == sum and _are_in_order([entry], seq, seq):
                yield seq, entry
        else:
            return
    except FAILURES as error:
        if not _is_loss(error):
            raise
    for number in range(seq + 1, last + 1):
        for line in _step(connection, kept.number, number, number) or ():
            yield number, line


def _salvaged(
    connection: sqlite3.Connection, number: int, low: int, high: int
) -> Iterator[list[bytes] | tuple[int, int]]:
    """Lines, or a range that is lost, in order."""
    whole = _step(connection, number, low, high)
    if whole is not None:
        yield whole
    elif low == high:
        yield (low, high)
    else:
        middle = (low + high) // 2
        yield from _salvaged(connection, number, low, middle)
        yield from _salvaged(connection, number, middle + 1, high)


def _step(connection: sqlite3.Connection, number: int, low: int, high: int) -> list[bytes] | None:
    """The lines of a range, if all of it is as it was written."""
    base = number * SPAN
    try:
        joined, sums, count = connection.execute(_STEP, (base + low, base + high)).fetchone()
    except FAILURES as error:
        if not _is_loss(error):
            raise
        return None
    if count != high - low + 1 or type(joined) is not bytes or type(sums) is not bytes:
        return None
    found = joined.split(b"\n")
    if len(found) != count or (b"%d " * count) % tuple(map(crc32, found)) != sums + b" ":
        return None
    return found if _are_in_order(found, low, high) else None


def _are_in_order(lines: list[bytes], low: int, high: int) -> bool:
    """Whether each line has its own number: pages of a file that changed places give all entries, in a wrong order."""
    width = len(b"%d" % high)
    if width == len(b"%d" % low):  # all at once, which costs half as much
        start, end = len(_NUMBERED), len(_NUMBERED) + width + 1
        return b"".join([line[start:end] for line in lines]) == (b"%d," * len(lines)) % tuple(range(low, high + 1))
    return all(line.startswith(b"%b%d," % (_NUMBERED, seq)) for seq, line in enumerate(lines, low))


def _is_loss(error: BaseException) -> bool:
    """Whether an error says that an entry cannot be read, and not that nothing can be."""
    return is_damage(error) or isinstance(error, sqlite3.DataError)


def _goes_on(connection: sqlite3.Connection, kept: Kept) -> bool:
    """Whether there is an entry after the last one: then the list of sessions is what is damaged."""
    base = kept.number * SPAN
    try:
        row = connection.execute(
            "SELECT 1 FROM entries WHERE place > ? AND place < ? LIMIT 1", (base + kept.head.entries, base + SPAN)
        ).fetchone()
    except FAILURES as error:
        if not is_damage(error):
            raise
        return True
    return row is not None


def _text(value: object) -> str | None:
    return value.decode("utf-8", "replace") if isinstance(value, bytes) else None


def _number(value: object) -> int:
    return value if isinstance(value, int) else 0
