"""Connect a test to an agent: a client in memory, or a scripted client that plays a scenario."""

from __future__ import annotations

import os
import shlex
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Any

from dragoman.roles.agent.agent import Agent
from dragoman.roles.client.connect import connect
from dragoman.roles.client.remote_agent import RemoteAgent
from dragoman.testing.scenario import Expectation, Step
from dragoman.testing.scripted_peer import TIMEOUT, ScriptedClient
from dragoman.transport.base import Transport
from dragoman.transport.memory import memory_pair
from dragoman.transport.process.transport import spawn

Target = Agent | str | Sequence[str] | Transport
Wrap = Callable[[Transport], Transport]


@asynccontextmanager
async def connect_in_memory(agent: Agent, *, limit: int | None = None, **options: Any) -> AsyncIterator[RemoteAgent]:
    """Connect a client to this agent; `options` are those of `connect`, `limit` bounds the bytes between them."""
    if not isinstance(agent, Agent):
        raise TypeError(f"connect_in_memory takes an Agent, not {agent!r:.80}; for a command, use: connect(...)")
    ours, theirs = memory_pair(limit)
    connection = agent.start_connection(theirs)
    try:
        async with connect(ours, **options) as remote:
            yield remote
    finally:
        await connection.close()


@asynccontextmanager
async def scripted_client(
    target: Target,
    *,
    cwd: str | os.PathLike[str] | None = None,
    env: Mapping[str, str] | None = None,
    timeout: float = TIMEOUT,
    wrap: Wrap | None = None,
) -> AsyncIterator[ScriptedClient]:
    """Connect a scripted client to an agent under test: an Agent, a command, a list of arguments, or a transport.

    `wrap` wraps the transport, to add faults or to record it.
    """
    transport: Transport
    serving = None
    if isinstance(target, Agent):
        transport, theirs = memory_pair()
        serving = target.start_connection(theirs)
    elif isinstance(target, str | Sequence):
        transport = await spawn(shlex.split(target) if isinstance(target, str) else list(target), cwd=cwd, env=env)
    else:
        transport = target
    wrapped = wrap(transport) if wrap else transport
    try:
        yield ScriptedClient(wrapped, timeout)
    finally:
        await wrapped.close("the test is over")
        if serving is not None:
            await serving.close()


async def run_scenario(
    target: Target, scenario: Sequence[Step], *, ignore: Sequence[Expectation] = (), **options: Any
) -> dict[str, Any]:
    """Play a scenario as the client of an agent under test; raises ScenarioFailed if the agent deviates.

    `options` are those of `scripted_client`. Return the values of the scenario's variables.
    """
    async with scripted_client(target, **options) as client:
        return await client.run_scenario(scenario, ignore=ignore)
