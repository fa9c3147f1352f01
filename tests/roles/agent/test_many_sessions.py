"""Several sessions and agents at once: each session gets its own agent's updates, and none blocks another."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager

import pytest

from dragoman import Agent, ClientSession, RemoteAgent, Turn
from dragoman.schema.permission import RequestPermissionParams
from dragoman.testing import connect_in_memory
from tests.roles.translated_pair import CWD, translated

COUNT = 20


class Repeater:
    """Agents that echo their prompt and then wait until every session has a turn."""

    def __init__(self, conversations: int) -> None:
        self.together = asyncio.Barrier(conversations)

    def agent(self) -> Agent:
        agent = Agent("repeater", version="1")

        @agent.prompt
        async def repeat(turn: Turn) -> None:
            for number in range(COUNT):
                await turn.say(f"{turn.text} {number};")
                await asyncio.sleep(0)
            await self.together.wait()
            await turn.say("end")

        return agent


async def converse(session: ClientSession, prompt: str) -> None:
    received = await session.ask(prompt)
    expected = "".join(f"{prompt} {number};" for number in range(COUNT)) + "end"
    assert received == expected
    assert [(message.role, message.text) for message in session.transcript.messages] == [
        ("user", prompt),
        ("agent", expected),
    ]


@asynccontextmanager
async def agents(repeater: Repeater) -> AsyncIterator[list[RemoteAgent]]:
    """Return three agents: in v1, in the draft, and behind a translator."""
    async with AsyncExitStack() as stack:
        yield [
            await stack.enter_async_context(connect_in_memory(repeater.agent())),
            await stack.enter_async_context(connect_in_memory(repeater.agent(), dialect="draft")),
            await stack.enter_async_context(translated(repeater.agent(), "v1", "crow")),
        ]


@pytest.mark.item("004-09")
async def test_six_sessions_of_three_agents_run_side_by_side_and_do_not_mix() -> None:
    async with agents(Repeater(6)) as remotes:
        sessions = [await remote.open_session(CWD) for remote in remotes for _ in range(2)]
        assert len({session.id for session in sessions}) == 6
        async with asyncio.TaskGroup() as group:
            for number, session in enumerate(sessions):
                group.create_task(converse(session, f"prompt {number}"))


@pytest.mark.item("004-09")
async def test_cancelling_one_session_does_not_affect_another() -> None:
    agent = Agent("patient", version="1")
    go_on = asyncio.Event()

    @agent.prompt
    async def wait(turn: Turn) -> None:
        await turn.say("working")
        await go_on.wait()
        await turn.say(" done")

    async with connect_in_memory(agent) as remote:
        one, other = await remote.open_session(CWD), await remote.open_session(CWD)
        async with one.prompt("a") as first, other.prompt("b") as second:
            await anext(aiter(first))
            await anext(aiter(second))
            one.cancel()
            assert (await first.wait()).stop_reason == "cancelled"
            assert not second.is_over
            go_on.set()
            assert (await second.wait()).stop_reason == "end_turn"
        assert other.transcript.messages[-1].text == "working done"


async def test_a_question_in_one_session_does_not_block_another() -> None:
    agent = Agent("asker", version="1")
    answered = asyncio.Event()

    @agent.prompt
    async def ask(turn: Turn) -> None:
        if turn.text == "ask":
            await turn.say("yes" if await turn.ask_permission("May I?") else "no")
        else:
            await turn.say("quick")

    async def permission(question: RequestPermissionParams) -> str | None:
        await answered.wait()
        return question.options[0].option_id

    async with connect_in_memory(agent, permission=permission) as remote:
        slow, quick = await remote.open_session(CWD), await remote.open_session(CWD)
        asking = asyncio.create_task(slow.ask("ask"))
        assert await quick.ask("go") == "quick"
        assert not asking.done()
        answered.set()
        assert await asking == "yes"
