"""Nodes as processes on a real PostgreSQL and a real nats-server: one is killed, one is paused beyond its lease."""

from __future__ import annotations

import asyncio
import signal
import time
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path

import pytest

from dragoman.errors import ConnectionFailed, ProtocolError
from dragoman.roles.client.session import ClientSession
from tests.host.fleet.node_process import LEASE, NodeProcess
from tests.host.fleet.test_heartbeat import is_running
from tests.host.memory_host import messages_of
from tests.store.nats.servers import Servers

# Waking a session: the lease, an agent's start, and a machine under load. Seconds.
WAKE_TIMEOUT = LEASE * 2 + 90


async def ask(session: ClientSession, text: str) -> str:
    """Ask, and again where the engine itself was too slow for this machine: such a prompt was refused, not run."""
    async with asyncio.timeout(WAKE_TIMEOUT):
        while True:
            try:
                return str(await session.ask(text))
            except ProtocolError as error:
                if not isinstance(error.data, dict) or error.data.get("store") != "away":
                    raise
                print(f"asked again: {error}")


@pytest.mark.item("FL-09")
@pytest.mark.item("FL-16")
async def test_a_node_is_paused_and_one_is_killed_and_the_session_goes_on(
    tmp_path: Path, postgres_url: Callable[[], str]
) -> None:
    url = postgres_url()
    with ExitStack() as stack:
        nodes = []
        for name in ("n1", "n2", "n3"):
            node = NodeProcess(tmp_path, name, url)
            stack.callback(node.end)
            nodes.append(node)
        first, second, third = nodes
        async with third.connect() as far:
            async with first.connect() as near:
                session = await near.open_session(str(tmp_path))
                assert await ask(session, "/echo one") == "one"
                distant = await far.load_session(session.id, str(tmp_path))
                assert await ask(distant, "/echo two") == "two"
                agents = first.agent_pids()
                assert agents, "its agent runs at the first node"
                paused = time.monotonic()
                first.kill(signal.SIGSTOP)
                assert await ask(distant, "/echo three") == "three"
                assert time.monotonic() - paused > LEASE * 0.5, "not before its lease was over"
                assert not any(map(is_running, agents)), "the agent of the paused node is dead"
                first.kill(signal.SIGCONT)
                try:
                    await ask(session, "/echo four")
                except (ProtocolError, ConnectionFailed):
                    pass  # it may be told that its node lost the session; it is not doubled in any case
            owners = [node for node in (second, third) if node.agent_pids()]
            for node in owners:
                if node is not third:
                    node.kill(signal.SIGKILL)
            assert await ask(distant, "/echo five") == "five"
            texts = [text for role, text in messages_of(distant) if role == "agent"]
            assert [text for text in texts if text != "four"] == ["one", "two", "three", "five"]
            assert texts.count("four") <= 1


async def test_two_nodes_on_nats_and_the_owner_is_killed(tmp_path: Path) -> None:
    pytest.importorskip("nats")
    servers = Servers(1)
    with ExitStack() as stack:
        stack.callback(servers.end)
        nodes = []
        for name in ("n1", "n2"):
            node = NodeProcess(tmp_path, name, servers.url(), "--labels", "shared:all=/", "--trust-engine")
            stack.callback(node.end)
            nodes.append(node)
        first, second = nodes
        async with first.connect() as near, second.connect() as far:
            session = await near.open_session(str(tmp_path))
            assert await ask(session, "/echo one") == "one"
            distant = await far.load_session(session.id, str(tmp_path))
            assert await ask(distant, "/echo two") == "two"
            first.kill(signal.SIGKILL)
            assert await ask(distant, "/echo three") == "three"
            texts = [text for role, text in messages_of(distant) if role == "agent"]
            assert texts == ["one", "two", "three"]
