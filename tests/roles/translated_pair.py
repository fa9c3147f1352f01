"""Our client and our agent, connected directly or through a translator, with a time limit."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Coroutine
from contextlib import asynccontextmanager
from typing import Any

from dragoman import Agent, RemoteAgent, connect
from dragoman.roles.client.dial import Dialer
from dragoman.roles.proxy.relay import Relay
from dragoman.transport.memory import memory_pair

BOUND = 20.0
CWD = "/home/user/project"

# Client and agent of two dialects each: what a feature must bear on the way through the vocabulary.
TRANSLATED = [("draft", "v1"), ("v1", "draft")]


def run(work: Coroutine[Any, Any, None]) -> None:
    """Run a test's coroutine with a time limit."""

    async def bounded() -> None:
        async with asyncio.timeout(BOUND):
            await work

    asyncio.run(bounded())


@asynccontextmanager
async def translated(agent: Agent, client: str, dialect: str, **options: Any) -> AsyncIterator[RemoteAgent]:
    """Return our client in one dialect, connected through a translator to our agent in another."""
    outside, front = memory_pair()
    back, inside = memory_pair()
    agent.dialect = dialect
    serving = agent.start_connection(inside)
    dial = Dialer(back, dialect=dialect, cwd=CWD)
    relay = Relay(front, dial, client_dialect=client, report=lambda _: None)
    running = asyncio.create_task(relay.run())
    try:
        async with connect(outside, dialect=client, cwd=CWD, **options) as remote:
            yield remote
    finally:
        await outside.close()
        await running
        await serving.close()
