"""Emulators on a connection: what their flows pass on, request and make up is answered like everything else."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from dragoman import connect
from dragoman.testing import ScriptedPeer
from dragoman.transport.memory import memory_pair
from tests.engine.raw_peer import call, result, run

WAIT = {"terminalId": "t", "timeout": 3_600_000}


@pytest.mark.parametrize("at_once", [True, False])
async def test_a_draft_agent_gets_an_exit_at_once_even_with_a_long_timeout(at_once: bool) -> None:
    def ended(_: Any) -> Any:
        return {"exitCode": 3}

    async def ends(_: Any) -> Any:
        await asyncio.sleep(0)
        return {"exitCode": 3}

    ours, theirs = memory_pair()
    peer = ScriptedPeer(theirs)

    async def script() -> None:
        asked = await peer.expect(method="initialize")
        info = {"agentInfo": {"name": "a", "version": "1"}, "capabilities": {}}
        peer.send(result(asked["id"], {"protocolVersion": 1, **info}))
        asked = await peer.expect(method="session/new")
        peer.send(result(asked["id"], {"sessionId": "s", "createdAt": "2025-01-01T00:00:00Z"}))
        assert (await peer.request(1, "terminal/create", {"command": "make"}))["result"]["terminalId"] == "t"
        answer = await peer.request(2, "terminal/wait_for_exit", WAIT)
        assert answer["result"]["exitCode"] == 3
        assert not answer["result"].get("timedOut")

    handlers = {
        "terminal/create": lambda _: {"terminalId": "t"},
        "terminal/output": lambda _: {"output": "", "truncated": False, "exitStatus": {"exitCode": 3}},
        "terminal/wait_for_exit": ended if at_once else ends,
    }
    async with asyncio.TaskGroup() as group:
        playing = group.create_task(script())
        async with connect(ours, dialect="draft", on=handlers) as agent:
            await agent.open_session("/")
            await playing


def test_an_update_with_an_id_is_answered_in_every_dialect() -> None:
    updates: dict[str, Any] = {
        "crow": {"sessionId": "s", "update": {"@type": "agent_message_text", "text": "x"}},
        "draft": {"sessionId": "s", "type": "agent_message_chunk", "data": {"content": "x"}},
        "2025.1": {"session_id": "s", "type": "agent_message_chunk", "data": {"text": "x"}},
    }
    introductions: dict[str, Any] = {
        "crow": {"protocol_version": 1, "agent_capabilities": {}, "agent_info": {"name": "a", "version": "1"}},
        "draft": {"protocolVersion": 1, "capabilities": {}, "agentInfo": {"name": "a", "version": "1"}},
        "2025.1": {"agent_info": {"name": "a", "version": "1"}, "capabilities": {}},
    }

    async def main(dialect: str) -> None:
        ours, theirs = memory_pair()
        peer = ScriptedPeer(theirs)

        async def script() -> None:
            asked = await peer.expect(method="initialize")
            peer.send(result(asked["id"], introductions[dialect]))
            peer.send(call(1, "session/update", updates[dialect]))
            answer = await peer.receive()
            assert answer["id"] == 1

        async with asyncio.TaskGroup() as group:
            playing = group.create_task(script())
            async with connect(ours, dialect=dialect, cwd="/"):
                await playing

    for dialect in updates:
        run(main(dialect))
