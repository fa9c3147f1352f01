"""A node that was overtaken and does not know it yet: its clients lose nothing, get nothing twice, and plain errors."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from dragoman import ProtocolError
from dragoman.store.contract import Claim, Draft
from tests.host.fleet.memory_fleet import Node, running_fleet
from tests.host.fleet.test_ownership import CHUNK, prompts_in, send_prompt
from tests.host.memory_host import messages_of, open_session, until


async def overtake(node: Node, session: str) -> Claim:
    """Claim a session for another node, which its owner is not told."""
    store = node.host.store
    return await store.claim(session, node.name, epoch=(await store.owner(session)).epoch)


async def test_a_prompt_that_an_overtaken_node_could_not_store_runs_once_at_the_new_owner(tmp_path: Path) -> None:
    async with running_fleet(("n1", "n2")) as (first, second):
        async with first.client() as near:
            session = await open_session(near, tmp_path)
            await overtake(second, session.id)
            assert (await send_prompt(near, session.id, "one")).stop_reason == "end_turn"
            assert second.owns(session.id)
            assert prompts_in(await second.host.store.read(session.id)) == ["one"]
            assert messages_of(session)[-1] == ("agent", "heard one")


async def test_an_interrupted_turn_says_what_happened_and_what_to_do(tmp_path: Path) -> None:
    async with running_fleet(("n1", "n2")) as (first, second):
        async with first.client() as near:
            session = await open_session(near, tmp_path)
            running = send_prompt(near, session.id, "wait gate")
            await until(lambda: "waiting" in str(messages_of(session)))
            await overtake(second, session.id)
            first.hosted.agents[-1].gates["gate"].set()  # type: ignore[attr-defined]
            with pytest.raises(
                ProtocolError, match=r"this turn was interrupted: node n2 runs this session now"
            ) as found:
                await running
            assert "look there before you send the prompt again" in found.value.message
            assert session.id not in found.value.message
            assert found.value.data is not None
            assert found.value.data["interrupted"] is True
            assert prompts_in(await second.host.store.read(session.id)) == ["wait gate"], "it is not repeated"


async def test_a_client_that_knows_more_than_an_overtaken_node_gets_nothing_twice(tmp_path: Path) -> None:
    async with running_fleet(("n1", "n2")) as (first, second):
        async with first.client() as near, first.client() as again:
            session = await open_session(near, tmp_path)
            known = first.host.rooms[session.id].state.seq
            claim = await overtake(second, session.id)
            draft = Draft(kind="update", actor="agent", time="2026-01-01T00:00:00Z", body=CHUNK)
            await second.host.store.append(session.id, [draft] * 3, claim=claim)
            received: list[bytes] = []

            def tap(_: Any, frame: bytes) -> tuple[bool, None]:
                received.append(frame)
                return False, None

            again.connection.tap = tap
            params = {"sessionId": session.id, "cwd": str(tmp_path), "mcpServers": []}
            await again.request("session/load", {**params, "_meta": {"dragoman": {"cursor": known + 3}}})
            assert first.owns(session.id), "it does not know yet"
            await asyncio.wait_for(send_prompt(near, session.id, "one"), 60)
            await again.request("session/list", {})  # its answer comes after everything that was sent before
            await until(lambda: b"heard one" in b"".join(received))
            assert b"sent by the first node" not in b"".join(received)
            assert str(messages_of(session)).count("sent by the first node") == 3, "the other client had not got them"
