"""An agent and a client connected in memory: the whole protocol with no process, socket or sleep."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from dragoman.roles.agent.agent import Agent
from dragoman.roles.client.connect import connect
from dragoman.roles.client.remote_agent import RemoteAgent
from dragoman.transport.memory import memory_pair


@asynccontextmanager
async def joined(agent: Agent, *, limit: int | None = None, **options: Any) -> AsyncIterator[RemoteAgent]:
    """Connect a client to this agent; `options` are those of `connect`, `limit` bounds the bytes between them."""
    ours, theirs = memory_pair(limit)
    connection = agent.start_connection(theirs)
    try:
        async with connect(ours, **options) as remote:
            yield remote
    finally:
        await connection.close()
