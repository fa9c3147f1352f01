"""`$/cancel_request`: a sender may cancel its request, and still gets its one answer."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from dragoman import Agent, connect
from dragoman.errors import Kind, ProtocolError
from dragoman.schema.session import LoadSessionParams
from dragoman.testing import ScriptedPeer, connect_in_memory
from dragoman.transport.memory import memory_pair
from tests.engine.raw_peer import call, note, result


async def forever(_: Any) -> Any:
    await asyncio.Event().wait()


def waiting_agent() -> Agent:
    agent = Agent("waits", version="1", dialect="v1")
    agent.on("_wait")(forever)

    @agent.prompt
    async def answer(turn: Any) -> None:
        await turn.say("begun")
        await asyncio.Event().wait()

    return agent


@pytest.mark.parametrize("id", [7, "seven", 0])
@pytest.mark.parametrize("in_one_read", [True, False])
async def test_a_client_cancels_a_request(id: Any, in_one_read: bool) -> None:
    ours, theirs = memory_pair()
    connection = waiting_agent().start_connection(ours, report=lambda _: None)
    peer = ScriptedPeer(theirs)
    await peer.request("i", "initialize", {"protocolVersion": 1, "clientCapabilities": {}})
    peer.send(call(id, "_wait", {}))
    if not in_one_read:
        await peer.request("between", "session/list", {})
    peer.send(note("$/cancel_request", {"requestId": "another"}))
    peer.send(note("$/cancel_request", {"requestId": id}))
    await peer.expect(id=id, error={"code": -32800, "data": {"kind": "cancelled"}})
    peer.send(note("$/cancel_request", {"requestId": id}))  # too late: nothing happens
    assert "result" in await peer.request("after", "session/list", {})
    assert len([received for received in peer.received if received.get("id") == id]) == 1
    await connection.close()


async def test_an_agent_cancels_a_request() -> None:
    ours, theirs = memory_pair()
    peer = ScriptedPeer(theirs)

    async def script() -> None:
        asked = await peer.expect(method="initialize")
        peer.send(result(asked["id"], {"protocolVersion": 1}))
        peer.send(call(7, "_wait", {}))
        peer.send(note("$/cancel_request", {"requestId": 7}))
        await peer.expect(id=7, error={"code": -32800, "data": {"kind": "cancelled"}})

    async with asyncio.TaskGroup() as group:
        playing = group.create_task(script())
        async with connect(ours, dialect="v1", on={"_wait": forever}):
            await playing


async def test_a_cancelled_request_ends_the_other_side_s_handler() -> None:
    begun, ended = asyncio.Event(), asyncio.Event()
    agent = Agent("waits", version="1")

    @agent.on("_wait")
    async def wait(_: Any) -> None:
        begun.set()
        try:
            await asyncio.Event().wait()
        finally:
            ended.set()

    async with connect_in_memory(agent) as remote:
        asking = asyncio.create_task(remote.request("_wait", {}))
        await begun.wait()
        asking.cancel()
        await ended.wait()
        with pytest.raises(ProtocolError) as caught:
            await remote.request("_wait", {}, timeout=0.01)
        assert caught.value.kind == Kind.TIMEOUT


@pytest.mark.parametrize(
    ("dialect", "introduction", "is_notified"),
    [
        ("v1", {"protocolVersion": 1, "agentCapabilities": {"loadSession": True}}, True),
        ("draft", {"protocolVersion": 1, "capabilities": {"loadSession": True}}, False),
    ],
)
async def test_a_request_that_an_emulator_observes_is_cancelled_like_any_other(
    dialect: str, introduction: dict[str, Any], is_notified: bool
) -> None:
    """The peer is notified if its dialect can express it; its late answer is expected."""

    ours, theirs = memory_pair()
    peer = ScriptedPeer(theirs)
    reports: list[str] = []

    async def script() -> None:
        asked = await peer.expect(method="initialize")
        peer.send(result(asked["id"], {"agentInfo": {"name": "a", "version": "1"}, **introduction}))
        asked = await peer.expect(method="session/load")
        if is_notified:
            await peer.expect(method="$/cancel_request", params={"requestId": asked["id"]})
        await peer.expect(method="_after")  # and nothing before it
        peer.send(result(asked["id"], {}))
        peer.send(result(peer.received[-1]["id"], {}))

    async with asyncio.TaskGroup() as group:
        playing = group.create_task(script())
        async with connect(ours, dialect=dialect, report=reports.append) as agent:
            params = LoadSessionParams(session_id="s", cwd="/", mcp_servers=[])
            with pytest.raises(ProtocolError) as caught:
                await agent.request("session/load", params, timeout=0.05)
            assert caught.value.kind == Kind.TIMEOUT
            await agent.request("_after", {})
            connection = agent.connection
            assert not connection.sender.has_pending_requests(excluding="")
            assert connection.sender.emulation is not None
            assert not connection.sender.emulation.outgoing_runs
            await playing
    assert not [text for text in reports if "never sent" in text]


async def test_a_prompt_without_an_id_is_a_turn_that_can_be_cancelled() -> None:
    ours, theirs = memory_pair()
    connection = waiting_agent().start_connection(ours, report=lambda _: None)
    peer = ScriptedPeer(theirs)
    await peer.request(1, "initialize", {"protocolVersion": 1, "clientCapabilities": {}})
    opened = await peer.request(2, "session/new", {"cwd": "/", "mcpServers": []})
    session = opened["result"]["sessionId"]
    prompt = {"sessionId": session, "prompt": [{"type": "text", "text": "go"}]}
    peer.send(note("session/prompt", prompt))
    await peer.expect(method="session/update")
    await peer.request(3, "session/list", {})
    peer.send(note("session/cancel", {"sessionId": session}))
    await peer.request(4, "session/delete", {"sessionId": session})
    await peer.request(5, "session/list", {})
    assert [received.get("id") for received in peer.received[-3:]] == [3, 4, 5]
    await connection.close()


async def test_a_prompt_and_its_cancel_in_one_read_end_the_turn() -> None:
    """The client may cancel before the agent has run at all."""

    ours, theirs = memory_pair()
    connection = waiting_agent().start_connection(ours, report=lambda _: None)
    peer = ScriptedPeer(theirs)
    await peer.request(1, "initialize", {"protocolVersion": 1, "clientCapabilities": {}})
    opened = await peer.request(2, "session/new", {"cwd": "/", "mcpServers": []})
    session = opened["result"]["sessionId"]
    peer.send(call(3, "session/prompt", {"sessionId": session, "prompt": [{"type": "text", "text": "go"}]}))
    peer.send(note("session/cancel", {"sessionId": session}))
    await peer.expect(method="session/update")
    await peer.expect(id=3, result={"stopReason": "cancelled"})
    await connection.close()
