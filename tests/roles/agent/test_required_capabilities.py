"""Required client capabilities: both ends check them at initialize (docs/protocol/draft.md#required-capabilities)."""

from __future__ import annotations

import asyncio

import pytest

from dragoman import Agent, ProtocolError, WorkspaceAccess, connect
from dragoman.testing import ScriptedPeer, connect_in_memory
from dragoman.transport.memory import memory_pair


@pytest.mark.item("004-42")
async def test_an_agent_refuses_a_client_that_lacks_what_it_requires_and_names_it() -> None:
    agent = Agent(
        "picky",
        version="1",
        dialect="draft",
        required_capabilities={"fs": {"read": True}, "terminal": {"create": True}},
    )
    ours, theirs = memory_pair()
    connection = agent.start_connection(theirs)
    peer = ScriptedPeer(ours)
    params = {
        "protocolVersion": 1,
        "clientInfo": {"name": "c", "version": "1"},
        "capabilities": {"fs": {"read": True, "write": True}},
    }
    answer = await peer.request(1, "initialize", params)
    assert answer["error"]["code"] == -32007
    assert answer["error"]["data"]["missing"] == ["terminal.create"]
    await connection.close()


@pytest.mark.item("004-42")
async def test_a_client_that_offers_what_is_required_is_told_what_that_is() -> None:
    agent = Agent("picky", version="1", dialect="draft", required_capabilities={"fs": {"read": True}})
    async with connect_in_memory(agent, dialect="draft", workspace=WorkspaceAccess()) as remote:
        side = (remote.initialize_result.meta or {})["dragoman"]
        assert side["requiredClientCapabilities"] == {"fs": {"read": True}}


@pytest.mark.item("004-42")
async def test_our_client_rejects_an_agent_that_requires_more_than_it_offers() -> None:
    ours, theirs = memory_pair()
    peer = ScriptedPeer(theirs)

    async def script() -> None:
        asked = await peer.expect(method="initialize")
        result = {
            "protocolVersion": 1,
            "agentInfo": {"name": "a", "version": "1"},
            "capabilities": {},
            "requiredClientCapabilities": {"fs": {"write": True}},
        }
        peer.send({"jsonrpc": "2.0", "id": asked["id"], "result": result})

    async with asyncio.TaskGroup() as group:
        group.create_task(script())
        with pytest.raises(ProtocolError, match=r"fs\.write"):
            async with connect(ours, dialect="draft"):
                pass
