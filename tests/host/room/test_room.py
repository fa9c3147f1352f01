"""A session with several clients in it: all see the same, in one order."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from tests.host.memory_host import hosting, opened, said, until


async def test_one_client_opens_and_prompts_as_with_any_agent(tmp_path: Path) -> None:

    async with hosting() as hosted, hosted.client() as ann:
        session = await opened(ann, tmp_path)
        assert await session.ask("hello") == "heard hello"
        assert hosted.house.rooms[session.id].is_awake


@pytest.mark.item("004-76")
async def test_a_second_client_joins_live_and_both_see_the_same(tmp_path: Path) -> None:

    async with hosting() as hosted, hosted.client("ann") as ann, hosted.client("ann") as ben:
        one = await opened(ann, tmp_path)
        await one.ask("first")
        async with one.prompt("wait gate") as turn:
            await until(lambda: ("agent", "waiting for gate") in said(one))
            two = await ben.load(one.id, str(tmp_path))
            assert said(two) == [("user", "first"), ("agent", "heard first"), ("user", "wait gate"),
                                 ("agent", "waiting for gate")]  # fmt: skip
            hosted.agents[-1].gates["gate"].set()  # type: ignore[attr-defined]
            await turn.wait()
        await two.ask("third")
        await until(lambda: said(one)[-1] == ("agent", "heard third"))
        assert said(one) == said(two)


async def test_a_question_goes_to_all_who_may_answer_and_the_first_answer_wins(tmp_path: Path) -> None:

    asked: list[str] = []
    slow = asyncio.Event()

    async def late(params: object) -> str | None:
        asked.append("ann")
        await slow.wait()
        return None

    async def prompt(params: object) -> str:
        asked.append("ben")
        return params.options[0].option_id  # type: ignore[attr-defined, no-any-return]

    async with (
        hosting() as hosted,
        hosted.client("ann", permission=late) as ann,
        hosted.client("ann", permission=prompt) as ben,
    ):
        one = await opened(ann, tmp_path)
        await ben.resume(one.id, str(tmp_path))
        assert await one.ask("ask") == "yes"
        assert sorted(asked) == ["ann", "ben"]
        assert not hosted.room.questions.are_open


async def test_who_prompts_is_not_told_its_own_words(tmp_path: Path) -> None:

    heard: list[object] = []
    async with hosting() as hosted, hosted.client() as ann:
        session = await opened(ann, tmp_path)
        session.on_update = heard.append
        await session.ask("hello")
    assert [type(update).__name__ for update in heard] == ["AgentMessageChunk"]
