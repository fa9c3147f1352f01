"""Reproduced defects of the official Python SDK, docs/protocol/peers.md#python-sdk: each is done right here."""

from __future__ import annotations

import asyncio
import os
import sys
from pathlib import Path
from typing import Any

import pytest

from dragoman import Agent, connect
from dragoman.testing import ScriptedPeer, connect_in_memory
from dragoman.transport.memory import memory_pair
from dragoman.wire.frames import LineSplitter
from tests.quirks.scripted import chunk, in_session, result, run, serve

AGENT = """
import os, sys
sys.stderr.write("x" * int(os.environ.get("NOISE", "0")))
sys.stderr.flush()
from dragoman import Agent
agent = Agent("child", version="1")

@agent.prompt
async def answer(turn):
    await turn.say(f"{os.getpid()} {os.environ.get('API_KEY')}")

agent.run()
"""


@pytest.fixture
def script(tmp_path: Path) -> str:
    """An agent of its own process, which says its pid and its API key."""
    path = tmp_path / "agent.py"
    path.write_text(AGENT)
    return str(path)


async def said_by(command: list[str], **options: Any) -> list[str]:
    async with connect(command, dialect="v1", **options) as agent:
        session = await agent.open_session("/")
        return (await session.ask("go")).split()


def test_a_flood_on_stderr_before_the_first_answer_blocks_nothing(script: str) -> None:
    """docs/protocol/peers.md#sdk-stderr"""
    pid, _ = run(said_by([sys.executable, script], env={"NOISE": "400000"}))
    assert int(pid)


def test_an_agent_behind_a_wrapper_ends_with_it(script: str) -> None:
    """docs/protocol/peers.md#sdk-wrapper"""
    pid, _ = run(said_by(["/bin/sh", "-c", f"{sys.executable} {script}; :"]))
    with pytest.raises(ProcessLookupError):
        os.kill(int(pid), 0)


async def test_update_handlers_run_one_after_the_other() -> None:
    """docs/protocol/peers.md#sdk-order: also when one of them waits, and all before the turn is over."""
    agent = Agent("talker", version="1")

    @agent.prompt
    async def answer(turn: Any) -> None:
        for number in range(20):
            await turn.say(str(number))

    seen: list[str] = []

    async def slow(update: Any) -> None:
        if not seen:
            await asyncio.sleep(0)
            await remote.request("session/list", {})
        seen.append(update.content.text)

    async with connect_in_memory(agent) as remote:
        session = await remote.open_session("/")
        session.on_update = slow
        async with session.prompt("go") as turn:
            await turn.wait()
        assert seen == [str(number) for number in range(20)]


@pytest.mark.parametrize("reason", ["tool_budget_exceeded", "", "END_TURN"])
async def test_an_unknown_stop_reason_is_returned_unchanged(reason: str) -> None:
    """docs/protocol/peers.md#sdk-stop-reason"""

    async def part(peer: ScriptedPeer) -> None:
        asked = await peer.expect(method="session/prompt")
        peer.send(chunk("text"))
        peer.send(result(asked, {"stopReason": reason}))

    async with in_session(part) as session:
        async with session.prompt("go") as turn:
            assert len([one async for one in turn]) == 1
        assert turn.stop_reason == reason


@pytest.mark.parametrize("version", [1, 2, 65535])
async def test_our_agent_answers_with_its_own_version(version: int) -> None:
    """docs/protocol/peers.md#sdk-version-echo"""
    ours, theirs = memory_pair()
    peer = ScriptedPeer(theirs)

    connection = Agent("one", version="1").start_connection(ours)
    answer = await peer.request(0, "initialize", {"protocolVersion": version, "clientCapabilities": {}})
    assert answer["result"]["protocolVersion"] == 1
    await connection.close()


def test_a_frame_over_the_limit_is_not_kept_in_memory() -> None:
    """docs/protocol/peers.md#sdk-large-message: of what is too large only both ends are kept."""
    splitter = LineSplitter(limit=1000)
    frames = [frame for _ in range(100) for frame in splitter.feed(b"x" * 100)]
    assert frames == []
    (skipped, kept) = splitter.feed(b"\n{}\n")
    assert not isinstance(skipped, bytes)
    assert skipped.size == 10_000
    assert len(skipped.head) + len(skipped.tail) <= 2 * 4096
    assert kept == b"{}"


def test_the_environment_reaches_the_agent(script: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """docs/protocol/peers.md#sdk-environment: keys in the user's shell are meant for the agents the user starts."""
    monkeypatch.setenv("API_KEY", "k1")
    assert run(said_by([sys.executable, script]))[1] == "k1"
    assert run(said_by([sys.executable, script], env={"API_KEY": "k2"}))[1] == "k2"


async def test_an_update_of_an_unknown_kind_reaches_the_application() -> None:
    """docs/protocol/peers.md#sdk-unknown-update"""

    async def part(peer: ScriptedPeer) -> None:
        asked = await peer.expect(method="session/prompt")
        params = {"sessionId": "s1", "update": {"sessionUpdate": "novelty", "n": 1}}
        peer.send({"jsonrpc": "2.0", "method": "session/update", "params": params})
        peer.send(result(asked, {"stopReason": "end_turn"}))
        await serve(peer, "session/prompt", {"stopReason": "end_turn"})

    async with in_session(part) as session:
        async with session.prompt("go") as turn:
            assert [one.raw["n"] for one in [one async for one in turn]] == [1]
        assert await session.ask("go") == ""
