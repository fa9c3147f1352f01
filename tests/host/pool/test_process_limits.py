"""A host with real agents and a real store. One test for all, because agents take time to start."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from pathlib import Path
from typing import Any

import pytest

from dragoman import connect
from dragoman.config.config_file import NamedAgent
from dragoman.host.auth.roles import MemorySessionRoles
from dragoman.host.host import Host
from dragoman.roles.client.session import ClientSession
from dragoman.store.sqlite import SqliteStore
from dragoman.transport.memory import memory_pair
from dragoman.transport.remote.server.auth import Principal
from tests.host.auth.test_roles import denied, record_notifications
from tests.host.memory_host import Hosted, until

TIMEOUT = 90.0

# A 2025.1 agent behind clients of other dialects: nothing about it is official.
AGENT = NamedAgent(
    name="everything",
    command=sys.executable,
    args=("-m", "dragoman", "agent", "everything", "--dialect", "2025.1"),
    dialect="2025.1",
)


def agent_text(session: ClientSession) -> str:
    """Return what the agent said."""
    return "".join(message.text for message in session.transcript.messages if message.role == "agent")


def agents() -> set[int]:
    """Return the running agents that this process has started since the test began."""
    return running_agents() - EARLIER


# What a test of another folder may have left running in this process.
EARLIER: set[int] = set()


def running_agents() -> set[int]:
    """Return the children of this process that are agents."""
    found: set[int] = set()
    for task in Path("/proc/self/task").iterdir():
        found |= set(map(int, (task / "children").read_text().split()))
    return {pid for pid in found if is_agent(pid)}


def is_agent(pid: int) -> bool:
    words = Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
    return b"everything" in words and b"serve" not in words


def descriptors() -> set[str]:
    """Return the open descriptors of this process."""
    return set(os.listdir("/proc/self/fd"))


@pytest.mark.item("004-76")
async def test_two_clients_share_a_real_agent_that_is_killed_and_a_host_that_is_restarted(tmp_path: Path) -> None:
    async def scene() -> None:
        store = await SqliteStore.open(str(tmp_path / "log.db"))
        directory = MemorySessionRoles()
        received: list[tuple[str, Any]] = []
        host = Host([AGENT], store=store, session_roles=directory)
        hosted = Hosted(host, [], [])
        async with (
            hosted.client("ann", **record_notifications(received)) as ann,
            hosted.client("ann", dialect="crow") as ben,
        ):
            one = await ann.open_session(str(tmp_path))
            await one.ask("/stream 200 20")
            two = await ben.load_session(one.id, str(tmp_path))
            assert agent_text(two) == agent_text(one)
            processes = agents()
            assert len(processes) == 1
            running = asyncio.ensure_future(two.ask("/slow 60"))
            await until(lambda: any(name == "turn" and params["state"] == "started" for name, params in received[2:]))
            os.kill(min(processes), signal.SIGKILL)
            error = await denied(running)
            assert "SIGKILL" in error.message or "-9" in error.message or "killed" in error.message
            exited = next(params for name, params in received if name == "agent")
            assert exited["sessionId"] == one.id
            assert await two.ask("/echo back") == "back"
            await until(lambda: agent_text(one).endswith("back"))
            assert agent_text(one) == agent_text(two)
        await host.close()
        assert not agents()
        once = descriptors()
        host = Host([AGENT], store=store, session_roles=directory)
        hosted.host = host
        ours, theirs = memory_pair()
        serving = asyncio.ensure_future(host.serve_client(theirs, Principal(user="ann", is_local=True)))
        async with connect(ours, dialect="draft") as ann:
            again = await ann.load_session(one.id, str(tmp_path))
            assert agent_text(again) == agent_text(one)
            assert not agents()  # reading starts no agent
            assert await again.ask("/echo on") == "on"
        await host.close()
        await serving
        await asyncio.gather(*hosted.tasks)
        assert not agents()
        assert descriptors() <= once
        await store.close()

    before = descriptors()
    async with asyncio.timeout(TIMEOUT):
        await scene()
    assert len(descriptors()) <= len(before) + 1  # the watchdog's, which kills agents when we are killed
