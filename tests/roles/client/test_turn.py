"""A turn as its client sees it: it is sent once, its text can be read at any time, and wrong use is a named error."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

import pytest

from dragoman import Agent, Kind, ProtocolError, Turn
from dragoman.roles.client.session import ClientSession
from dragoman.roles.client.turn import ClientTurn
from dragoman.testing import connect_in_memory
from tests.roles.translated_pair import CWD


@asynccontextmanager
async def counting_session(version: int = 1) -> AsyncIterator[tuple[ClientSession, list[str]]]:
    """Yield a session with an agent that says three words, and the prompts that the agent got."""
    agent, prompts = Agent("counter"), list[str]()

    @agent.prompt
    async def count(turn: Turn) -> None:
        prompts.append(turn.text)
        if turn.text == "fail":
            raise ProtocolError(Kind.RATE_LIMITED, "come back later")
        for word in ("one ", "two ", "three"):
            await turn.say(word)
            await turn.think("hm")
            await asyncio.sleep(0)

    async with connect_in_memory(agent, version=version) as client:
        yield await client.open_session(CWD), prompts


async def test_the_text_of_a_turn_that_was_read_is_its_text_and_sends_nothing() -> None:
    async with counting_session() as (session, prompts):
        async with session.prompt("go") as turn:
            async for _ in turn:
                pass
            assert await turn.text() == "one two three"
        assert await turn.text() == "one two three"
        assert prompts == ["go"]


async def test_the_text_of_a_running_turn_waits_for_its_end() -> None:
    async with counting_session() as (session, prompts):
        async with session.prompt("go") as turn:
            assert await turn.text() == "one two three"
            assert turn.stop_reason == "end_turn"
        async with session.prompt("half") as turn:
            async for _ in turn:
                break
        assert await turn.text() == "one two three"
        assert prompts == ["go", "half"]


async def test_the_text_of_a_turn_that_failed_raises_its_error_again() -> None:
    async with counting_session() as (session, prompts):
        turn = session.prompt("fail")
        for _ in range(2):
            with pytest.raises(ProtocolError, match="come back later"):
                await turn.text()
        await session.ask("go")
        assert prompts == ["fail", "go"]


async def test_a_turn_that_was_sent_is_not_sent_again() -> None:
    async with counting_session() as (session, prompts):
        turn = session.prompt("go")
        await turn.text()
        with pytest.raises(ProtocolError, match=r"already sent; call session\.prompt again") as refused:
            async with turn:
                pass
        assert refused.value.kind == Kind.INVALID_STATE
        await session.ask("more")
        assert prompts == ["go", "more"]


async def read(turn: ClientTurn) -> None:
    async for _ in turn:
        pass


async def steer(turn: ClientTurn) -> None:
    turn.steer("more")


@pytest.mark.parametrize("use", [read, steer, ClientTurn.wait])
async def test_a_turn_that_was_not_sent_says_how_to_send_it(use: Callable[[ClientTurn], Awaitable[object]]) -> None:
    async with counting_session(version=2) as (session, _):
        with pytest.raises(ProtocolError, match=r"write: async with session\.prompt\(\.\.\.\) as turn") as refused:
            await asyncio.wait_for(use(session.prompt("go")), 60)
        assert refused.value.kind == Kind.INVALID_STATE


async def test_a_turn_that_is_over_takes_no_further_prompt() -> None:
    async with counting_session(version=2) as (session, _):
        turn = session.prompt("go")
        await turn.text()
        with pytest.raises(ProtocolError, match=r"the turn is over; start another one with session\.prompt") as refused:
            turn.steer("more")
        assert refused.value.kind == Kind.INVALID_STATE


async def test_what_a_client_cannot_do_without_a_store_is_an_error_of_dragoman() -> None:
    async with connect_in_memory(Agent("plain")) as client:
        with pytest.raises(ProtocolError, match="pass store to connect") as refused:
            await client.continue_session("notes")
        assert refused.value.kind == Kind.INVALID_STATE


async def test_a_printed_agent_session_or_turn_says_which_one_it_is() -> None:
    agent, prompts = Agent("shown"), list[str]()

    @agent.prompt
    async def show(turn: Turn) -> None:
        prompts.append(repr(turn))

    async with connect_in_memory(agent) as client:
        session = await client.open_session(CWD)
        async with session.prompt("go") as turn:
            assert repr(turn) == f"<ClientTurn of session {session.id}: running>"
            async for _ in turn:
                pass
        shown = [repr(client), repr(session), repr(turn), *prompts]
    assert shown == [
        "<RemoteAgent shown>",
        f"<ClientSession {session.id} in {CWD}>",
        f"<ClientTurn of session {session.id}: end_turn>",
        f"<Turn of session {session.id}: 'go'>",
    ]
