"""Acknowledgements of a WebSocket client: a server with a small buffer does not wait for them."""

from __future__ import annotations

import asyncio

import pytest

from dragoman import Agent, Turn, connect
from dragoman.transport.remote import resume
from dragoman.transport.remote.server.limits import ServerLimits

TIMEOUT = 90.0  # seconds; it takes a tenth of one


def test_a_long_stream_passes_a_small_buffer_without_waiting_for_the_clock(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(resume, "ACK_DELAY", 3600.0)
    agent = Agent("talks")

    @agent.prompt
    async def answer(turn: Turn) -> None:
        for _ in range(500):
            await turn.say("x" * 1000)
            await asyncio.sleep(0)  # each as its own message

    async def run() -> str:
        async with (
            asyncio.timeout(TIMEOUT),
            agent.serve_http(limits=ServerLimits(buffered=128 * 1024)) as served,
            connect(served.url.replace("http", "ws", 1)) as remote,
        ):
            session = await remote.open_session("/")
            return await session.ask("talk")

    assert len(asyncio.run(run())) == 500_000
