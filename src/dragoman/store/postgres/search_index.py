"""The search index: passages of logs with their words as a tsvector that has the same words as every other store.

A session is indexed at the end of a turn and before a search, from where the last time ended.
"""

from __future__ import annotations

from typing import Any

from dragoman.store.contract import Hit
from dragoman.store.postgres.append import clean_text
from dragoman.store.postgres.database import Database
from dragoman.store.postgres.reading import read_range
from dragoman.store.search import Joiner, Passage, Term, fold_words, matches, parse_query, snippet

# Entries that one transaction indexes.
STEP = 2000

# Positions that PostgreSQL keeps in a tsvector; words beyond them are found, but not as part of a phrase.
_MAX_POSITION = 16383

# The longest word that is indexed. Characters; PostgreSQL takes 2 KiB.
_MAX_WORD = 400


async def index_session(database: Database, number: int) -> bool:
    """Index some entries of a session; return whether there are more."""

    async def index(connection: Any) -> bool:
        query = (
            "SELECT indexed, entries FROM sessions JOIN progress USING (number) "
            "WHERE number = $1 AND expired_at IS NULL FOR UPDATE OF sessions"
        )
        row = await connection.fetchrow(query, number)
        if row is None or row["indexed"] >= row["entries"]:
            return False
        # The last passage may go on, so it is indexed again from its first entry.
        query = "SELECT max(first) FROM passages WHERE session = $1 AND first <= $2"
        start = await connection.fetchval(query, number, row["indexed"]) or 1
        last = min(row["entries"], row["indexed"] + STEP)
        found = await read_range(connection, number, start, last)
        joiner = Joiner()
        passages = [passage for line in found.lines for passage in joiner.add(line)] + joiner.rest()
        await connection.execute("DELETE FROM passages WHERE session = $1 AND first >= $2", number, start)
        await connection.executemany(
            "INSERT INTO passages VALUES ($1, $2, $3, $4, $5, $6::text::tsvector)", _rows(number, passages)
        )
        await connection.execute("UPDATE sessions SET indexed = $2, scanned = $2 WHERE number = $1", number, last)
        return bool(last < row["entries"])

    return await database.transact(index)


async def catch_up(database: Database) -> None:
    """Index everything that is not indexed yet."""
    query = "SELECT number FROM sessions JOIN progress USING (number) WHERE indexed < entries AND expired_at IS NULL"
    for row in await database.fetch(query):
        while await index_session(database, row["number"]):
            pass


def _rows(number: int, passages: list[Passage]) -> list[tuple[Any, ...]]:
    parts: dict[int, int] = {}
    rows = []
    for passage in passages:
        part = parts[passage.first] = parts.get(passage.first, -1) + 1
        text = clean_text(passage.text)
        rows.append((number, passage.first, part, passage.role, text, _vector(text)))
    return rows


def _vector(text: str) -> str:
    words = fold_words(text)
    return " ".join(f"'{word[:_MAX_WORD]}':{min(at, _MAX_POSITION)}" for at, word in enumerate(words, 1))


def _query(terms: list[Term]) -> str:
    def lexeme(word: str, is_prefix: bool) -> str:
        return f"'{word[:_MAX_WORD]}'" + (":*" if is_prefix else "")

    def phrase(term: Term) -> str:
        *whole, last = term.words
        return " <-> ".join([*(lexeme(word, False) for word in whole), lexeme(last, term.is_prefix)])

    return " & ".join(f"({phrase(term)})" for term in terms)


async def search(database: Database, query: str, limit: int, session_id: str | None) -> list[Hit]:
    """Return the passages that contain all words of a query, the best first."""
    terms = parse_query(query)
    condition = "" if session_id is None else "AND id = $3"
    rows = await database.fetch(
        "SELECT id, first, role, text FROM passages JOIN sessions ON number = session, "
        "(SELECT $1::text::tsquery AS q) AS asked "
        f"WHERE words @@ q {condition} ORDER BY ts_rank(words, q) DESC, number DESC, first LIMIT $2",
        _query(terms),
        max(limit, 0),
        *([] if session_id is None else [session_id]),
    )
    hits = []
    for id, first, role, text in rows:
        if matches(terms, text):
            shown, marks = snippet(terms, text)
            hits.append(Hit(session_id=id, seq=first, role=role, snippet=shown, marks=marks))
    return hits
