"""A session with several clients: all see the same, in the same order."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from tests.host.memory_host import messages_of, open_session, running_host, until


async def test_one_client_opens_and_prompts_as_with_any_agent(tmp_path: Path) -> None:
    async with running_host() as hosted, hosted.client() as ann:
        session = await open_session(ann, tmp_path)
        assert await session.ask("hello") == "heard hello"
        assert hosted.host.rooms[session.id].agent.is_running


@pytest.mark.item("004-76")
async def test_a_second_client_joins_live_and_both_see_the_same(tmp_path: Path) -> None:
    async with running_host() as hosted, hosted.client("ann") as ann, hosted.client("ann") as ben:
        one = await open_session(ann, tmp_path)
        await one.ask("first")
        async with one.prompt("wait gate") as turn:
            await until(lambda: ("agent", "waiting for gate") in messages_of(one))
            two = await ben.load_session(one.id, str(tmp_path))
            assert messages_of(two) == [("user", "first"), ("agent", "heard first"), ("user", "wait gate"),
                                 ("agent", "waiting for gate")]  # fmt: skip
            hosted.agents[-1].gates["gate"].set()  # type: ignore[attr-defined]
            await turn.wait()
        await two.ask("third")
        await until(lambda: messages_of(one)[-1] == ("agent", "heard third"))
        assert messages_of(one) == messages_of(two)


async def test_a_question_is_sent_to_all_who_may_answer_and_the_first_answer_wins(tmp_path: Path) -> None:
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
        running_host() as hosted,
        hosted.client("ann", permission=late) as ann,
        hosted.client("ann", permission=prompt) as ben,
    ):
        one = await open_session(ann, tmp_path)
        await ben.resume_session(one.id, str(tmp_path))
        assert await one.ask("ask") == "yes"
        assert sorted(asked) == ["ann", "ben"]
        assert not hosted.room.questions.has_open


async def test_a_prompt_is_not_echoed_to_its_sender(tmp_path: Path) -> None:
    received: list[object] = []
    async with running_host() as hosted, hosted.client() as ann:
        session = await open_session(ann, tmp_path)
        session.on_update = received.append
        await session.ask("hello")
    assert [type(update).__name__ for update in received] == ["AgentMessageChunk"]
