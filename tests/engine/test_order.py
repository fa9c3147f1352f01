"""Order without deadlock: messages are delivered in wire order, whatever handlers wait for."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from dragoman import Agent, ConnectionFailed, connect
from dragoman.schema.content import TextContent
from dragoman.schema.update import AgentMessageChunk, SessionInfoUpdate
from dragoman.testing import connect_in_memory, disconnect, expect_request, fake_agent, send_notification, send_result
from dragoman.testing.scenario import Action

BOUND = 20.0


def talker(count: int) -> Agent:
    agent = Agent("talker", version="1")

    @agent.prompt
    async def answer(turn: Any) -> None:
        for number in range(count):
            await turn.say(f"{number} ")

    @agent.on("_ping")
    def ping(params: Any) -> Any:
        return {"pong": params}

    return agent


def run(work: Any) -> Any:
    async def bounded() -> Any:
        async with asyncio.timeout(BOUND):
            return await work

    return asyncio.run(bounded())


async def test_updates_are_delivered_in_order_and_before_the_result() -> None:
    async with connect_in_memory(talker(500)) as agent:
        session = await agent.open_session("/")
        seen = []
        async with session.prompt("go") as turn:
            async for update in turn:
                assert isinstance(update, AgentMessageChunk)
                assert isinstance(update.content, TextContent)
                seen.append(int(update.content.text))
        assert seen == list(range(500))
        assert turn.stop_reason == "end_turn"


async def test_a_notification_handler_that_awaits_its_peer_gets_the_answer_with_10000_updates_behind_it() -> None:
    """docs/protocol/peers.md#sdk-order: handlers run one after the other even when one of them waits."""

    async with connect_in_memory(talker(10_000)) as agent:
        session = await agent.open_session("/")
        seen: list[int] = []

        async def on_update(update: Any) -> None:
            number = int(update.content.text)
            if number in (0, 5000):
                assert await agent.request("_ping", {"n": number}) == {"pong": {"n": number}}
            seen.append(number)

        session.on_update = on_update
        async with session.prompt("go") as turn:
            await turn.wait()
        assert seen == list(range(10_000))


async def test_updates_before_the_answer_to_session_new_are_kept() -> None:
    """docs/protocol/peers.md#early-updates: copilot, crow, pydantic-acp and vibe send updates of a session before its
    client knows its id.
    """
    scenario = [
        expect_request("initialize"),
        send_result(protocolVersion=1),
        expect_request("session/new"),
        send_notification(
            "session/update", sessionId="s1", update={"sessionUpdate": "session_info_update", "title": "early"}
        ),
        send_result(sessionId="s1"),
    ]

    async with fake_agent(scenario) as early, connect(early.transport) as agent:
        session = await agent.open_session("/")
        assert session.title == "early"
        assert [type(update) for update in session.updates_outside_turns] == [SessionInfoUpdate]


async def test_late_updates_are_delivered_as_late() -> None:
    """docs/protocol/peers.md#updates-outside-turns: updates after the prompt was answered belong to no turn, and are
    not lost.
    """

    def chunk(text: str) -> Action:
        update = {"sessionUpdate": "agent_message_chunk", "content": {"type": "text", "text": text}}
        return send_notification("session/update", sessionId="s1", update=update)

    scenario = [
        expect_request("initialize"),
        send_result(protocolVersion=1),
        expect_request("session/new"),
        send_result(sessionId="s1"),
        expect_request("session/prompt"),
        chunk("in time"),
        send_result(stopReason="end_turn"),
        chunk("late"),
        expect_request("_done"),
        send_result({}),
    ]

    async with fake_agent(scenario) as late, connect(late.transport) as agent:
        session = await agent.open_session("/")
        async with session.prompt("go") as turn:
            in_time = [update.content.text async for update in turn]  # type: ignore[union-attr]
        await agent.request("_done", {})
        assert in_time == ["in time"]
        assert [update.content.text for update in session.updates_outside_turns] == ["late"]


async def test_a_late_notice_of_an_earlier_turn_takes_nothing_from_our_own() -> None:
    """A client that joins a session of a host is told which turn runs. Over HTTP that may come by another stream, after
    the beginning of the client's own turn.
    """

    def turn_notice(state: str, turn: str) -> Action:
        return send_notification("_dragoman/turn", sessionId="s1", state=state, turn=turn)

    def chunk(text: str) -> Action:
        update = {"sessionUpdate": "agent_message_chunk", "content": {"type": "text", "text": text}}
        return send_notification("session/update", sessionId="s1", update=update)

    scenario = [
        expect_request("initialize"),
        send_result(protocolVersion=1),
        expect_request("session/new"),
        send_result(sessionId="s1"),
        expect_request("session/prompt"),
        *(turn_notice("running", "theirs"), chunk("of theirs"), turn_notice("ended", "theirs")),
        *(turn_notice("started", "ours"), turn_notice("yours", "ours"), chunk("one")),
        *(turn_notice("running", "theirs"), chunk("two"), turn_notice("ended", "ours")),
        send_result(stopReason="end_turn"),
        expect_request("session/prompt"),
        *(turn_notice("running", "theirs"), chunk("of theirs"), turn_notice("ended", "theirs")),
        *(turn_notice("started", "ours again"), turn_notice("yours", "ours again"), chunk("three")),
        send_result(stopReason="end_turn"),
    ]

    async with fake_agent(scenario) as host, connect(host.transport) as agent:
        session = await agent.open_session("/")
        for expected in (["one", "two"], ["three"]):
            async with session.prompt("go") as turn:
                assert [update.content.text async for update in turn] == expected  # type: ignore[union-attr]


async def test_a_slow_reader_slows_the_agent_and_loses_nothing() -> None:
    async with connect_in_memory(talker(60_000), limit=256 * 1024) as agent:
        session = await agent.open_session("/")
        count = 0
        async with session.prompt("go") as turn:
            async for _ in turn:
                count += 1
                if count % 10_000 == 0:
                    await asyncio.sleep(0)
        assert count == 60_000


async def test_a_slow_reader_may_send_requests_while_updates_are_queued() -> None:
    async with connect_in_memory(talker(60_000), limit=64 * 1024) as agent:
        session = await agent.open_session("/")
        count = 0
        async with session.prompt("go") as turn:
            async for _ in turn:
                count += 1
                if count in (1, 30_000):
                    assert await agent.request("_ping", {}) == {"pong": {}}
        assert count == 60_000


async def test_pending_requests_fail_with_the_reason_when_the_peer_disconnects() -> None:
    scenario = [
        expect_request("initialize"),
        send_result(protocolVersion=1),
        expect_request("session/new"),
        disconnect(),
    ]
    async with fake_agent(scenario) as leaving, connect(leaving.transport) as agent:
        with pytest.raises(ConnectionFailed, match="the scenario says so"):
            await agent.open_session("/")
