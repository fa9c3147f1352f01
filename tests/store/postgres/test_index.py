"""Listing, finding and waking cost the same among many sessions as among few: the pages that PostgreSQL reads."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from bench.peers.engines import fill_index
from dragoman.store.contract import Selection
from dragoman.store.fleet import EngineOptions
from dragoman.store.postgres.engine import PostgresEngine, open_postgres


async def pages_read(
    engine: PostgresEngine, call: Callable[[], Awaitable[Any]], monkeypatch: pytest.MonkeyPatch
) -> int:
    """Return how many pages PostgreSQL looks at for the queries of a call."""
    database, original, total = engine.database, engine.database.fetch, 0

    async def explain(query: str, *values: Any) -> list[Any]:
        nonlocal total
        [(plan,)] = await original(f"EXPLAIN (ANALYZE, BUFFERS, FORMAT JSON) {query}", *values)
        root = json.loads(plan)[0]["Plan"]
        total += root["Shared Hit Blocks"] + root["Shared Read Blocks"]
        return await original(query, *values)

    with monkeypatch.context() as patch:
        patch.setattr(database, "fetch", explain)
        await call()
    return total


@pytest.mark.item("FL-29")
async def test_lists_and_lookups_read_no_more_among_three_times_as_many_sessions(
    postgres_url: Callable[[], str], monkeypatch: pytest.MonkeyPatch
) -> None:
    engine = await open_postgres(postgres_url(), EngineOptions(owner="owner"))
    store = engine.store
    counts: dict[str, list[int]] = {}
    [(id,)] = await engine.database.fetch("SELECT md5('500')")
    for sessions in (20_000, 60_000):
        await fill_index(engine, sessions)
        await store.rename(id, "roof")
        assert len(await store.sessions(Selection(of="ann", limit=100))) == 100
        for name, call in {
            "a user's list": lambda: store.sessions(Selection(of="ann", limit=100)),
            "the newest": lambda: store.sessions(Selection(limit=100)),
            "a name": lambda: store.find("roof"),
            "a prefix": lambda: store.find(id[:12]),
            "an owner": lambda: store.owner(id),
        }.items():
            counts.setdefault(name, []).append(await pages_read(engine, call, monkeypatch))
    await engine.close()
    for name, (few, many) in counts.items():
        assert many <= few * 1.4 + 10, f"{name}: {many} pages among 60,000 sessions, {few} among 20,000"
