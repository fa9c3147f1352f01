"""Following an agent: the locations of its tool calls, as they arrive."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from dragoman import Agent, ConnectionFailed, Turn, connect
from dragoman.roles.client.follow import Location
from dragoman.schema.toolcall import ToolCallLocation
from dragoman.schema.update import ToolCallProgress
from dragoman.testing import ScriptedPeer, connect_in_memory
from dragoman.transport.memory import memory_pair
from tests.roles.translated_pair import CWD, TRANSLATED, translated

A, B = f"{CWD}/src/a.py", f"{CWD}/src/b.py"


def locating_agent() -> Agent:
    agent = Agent("wanderer", version="1")

    @agent.prompt
    async def wander(turn: Turn) -> None:
        async with turn.tool("Read", kind="read", id="c1", paths=[ToolCallLocation(path=A, line=3)]) as call:
            await call.add_text("found")
        places = [ToolCallLocation(path=B, line=7)]
        async with turn.tool("Edit", kind="edit", id="c2", paths=places) as call:
            await turn.send_update(ToolCallProgress(tool_call_id="c2", locations=places))  # said again: no news
            await call.ask_permission()

    return agent


TOLD = [Location(path=A, line=3, tool_call_id="c1"), Location(path=B, line=7, tool_call_id="c2")]


async def test_each_location_is_reported_once_in_order() -> None:
    async with connect_in_memory(locating_agent()) as remote:
        session = await remote.open_session(CWD)
        received: list[Location] = []
        session.on_location = received.append
        following = session.follow()
        await session.ask("go")
        assert received == TOLD
        assert [await anext(following), await anext(following)] == TOLD


@pytest.mark.item("004-37")
async def test_a_range_of_the_draft_arrives_whole() -> None:
    where = {"path": A, "line": 42, "column": 5, "endLine": 55, "endColumn": 2}

    async def script(peer: ScriptedPeer) -> None:
        asked = await peer.expect(method="initialize")
        info = {"protocolVersion": 1, "agentInfo": {"name": "a", "version": "1"}, "capabilities": {}}
        peer.send({"jsonrpc": "2.0", "id": asked["id"], "result": info})
        asked = await peer.expect(method="session/new")
        peer.send({"jsonrpc": "2.0", "id": asked["id"], "result": {"sessionId": "s"}})
        asked = await peer.expect(method="session/prompt")
        data = {"id": "tc_1", "tool": "fs/write_text_file", "input": {"path": A}, "location": where}
        params = {"sessionId": "s", "type": "tool_call", "data": data}
        peer.send({"jsonrpc": "2.0", "method": "session/update", "params": params})
        peer.send({"jsonrpc": "2.0", "id": asked["id"], "result": {"stopReason": "end_turn"}})

    ours, theirs = memory_pair()
    playing = asyncio.create_task(script(ScriptedPeer(theirs)))
    async with connect(ours, dialect="draft") as remote:
        session = await remote.open_session(CWD)
        following = session.follow()
        await session.ask("go")
        place = await anext(following)
    await playing
    assert place == Location(path=A, line=42, column=5, end_line=55, end_column=2, tool_call_id="tc_1")


@pytest.mark.item("004-37")
async def test_a_range_that_our_agent_names_is_the_drafts_location_on_the_wire() -> None:
    agent = Agent("pointer", version="1", dialect="draft")

    @agent.prompt
    async def point(turn: Turn) -> None:
        there = {"dragoman": {"column": 5, "endLine": 55, "endColumn": 2}}
        async with turn.tool("Edit", kind="edit", paths=[ToolCallLocation(path=A, line=42, meta=there)]):
            pass

    ours, theirs = memory_pair()
    serving = agent.start_connection(theirs)
    client = ScriptedPeer(ours)
    info = {"protocolVersion": 1, "clientInfo": {"name": "c", "version": "1"}, "capabilities": {}}
    await client.request(1, "initialize", info)
    made = await client.request(2, "session/new", {"workingDirectory": CWD})
    content = [{"type": "text", "text": "go"}]
    await client.request(3, "session/prompt", {"sessionId": made["result"]["sessionId"], "content": content})
    updates = [received["params"] for received in client.received if received.get("method") == "session/update"]
    (call,) = [update["data"] for update in updates if update["type"] == "tool_call"]
    assert call["location"] == {"path": A, "line": 42, "column": 5, "endLine": 55, "endColumn": 2}
    await serving.close()


@pytest.mark.parametrize(("client", "agent"), TRANSLATED)
async def test_locations_pass_a_translator(client: str, agent: str) -> None:
    async with translated(locating_agent(), client, agent) as remote:
        session = await remote.open_session(CWD)
        received: list[Location] = []
        session.on_location = received.append
        await session.ask("go")
        assert [(place.path, place.line) for place in received][:2] == [(A, 3), (B, 7)]


async def test_following_ends_with_the_session_and_when_it_is_closed() -> None:
    async def read(following: Any) -> list[Location]:
        return [place async for place in following]

    async with connect_in_memory(locating_agent()) as remote:
        session = await remote.open_session(CWD)
        closed, left = session.follow(), session.follow()
        closed.close()
        assert await read(closed) == []
        reading = asyncio.create_task(read(left))
        await session.ask("go")
        await remote.close_session(session.id)
        assert await reading == TOLD


async def test_following_ends_when_the_agent_exits() -> None:
    agent = Agent("mortal", version="1")
    ours, theirs = memory_pair()
    serving = agent.start_connection(theirs)

    @agent.prompt
    async def die(turn: Turn) -> None:
        await theirs.close("the end")
        await asyncio.Event().wait()

    async with connect(ours) as remote:
        session = await remote.open_session(CWD)
        following = session.follow()
        with pytest.raises(ConnectionFailed):
            await session.ask("go")
        assert [place async for place in following] == []
    await serving.close()
