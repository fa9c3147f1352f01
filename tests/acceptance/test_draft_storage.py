"""docs/protocol/draft.md#load-session: stored sessions, and the three reasons why one cannot be loaded."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from dragoman import Agent, Turn
from dragoman.store.contract import Retention
from dragoman.store.sqlite.store import SqliteStore
from tests.acceptance.draft import Raw, open_session, prompted, run, serving


def echo(store: SqliteStore) -> Agent:
    """Return a draft agent with a store."""
    agent = Agent("keeper", version="1", dialect="draft", store=store)

    @agent.prompt
    async def answer(turn: Turn) -> None:
        await turn.say(f"you said {turn.text}")

    return agent


@pytest.mark.item("004-18")
def test_a_session_is_loaded_from_disk_and_a_failed_load_has_a_reason(tmp_path: Path) -> None:
    path = str(tmp_path / "sessions.db")

    async def before() -> list[str]:
        store = await SqliteStore.open(path)
        async with serving(echo(store)) as client:
            ids = [await open_session(client, tmp_path) for _ in range(3)]
            for id in ids:
                assert "result" in await prompted(client, id, "hello")
        await store.close()
        return ids

    async def refused(client: Raw, id: str) -> tuple[int, str]:
        error = await client.error("session/load", {"sessionId": id})
        return error["code"], error["data"]["kind"]

    async def after(sound: str, damaged: str, old: str) -> None:
        store = await SqliteStore.open(path)
        await store.rename(sound, "kept")
        await store.rename(damaged, "kept too")
        assert await store.expire(Retention(count=0), "2100-01-01T00:00:00Z") == [old]
        async with serving(echo(store)) as client:
            loaded = await client.result("session/load", {"sessionId": sound})
            assert loaded["sessionId"] == sound
            assert loaded["workingDirectory"] == str(tmp_path)
            assert loaded["messageCount"] == 2
            texts = [data["content"] for data in client.updates("agent_message_chunk")]
            assert texts == ["you said hello"]
            refusals = [await refused(client, id) for id in ("sess_nobody", old, damaged)]
            assert refusals == [
                (-32000, "session_not_found"),
                (-32000, "session_expired"),
                (-32000, "session_corrupted"),
            ]
        await store.close()

    sound, damaged, old = run(before())
    with closing(sqlite3.connect(path)) as file:
        file.execute(
            "UPDATE entries SET sum = sum + 1 WHERE entry LIKE '%\"opened\"%' AND entry LIKE ?", (f"%{damaged}%",)
        )
        file.commit()
    run(after(sound, damaged, old))
