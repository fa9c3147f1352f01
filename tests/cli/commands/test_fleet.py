"""`dragoman fleet` with two nodes as processes on a real PostgreSQL."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, suppress
from pathlib import Path

import pytest

from dragoman import ConnectionFailed, ProtocolError
from tests.cli.process import EVERYTHING, dragoman
from tests.host.fleet.node_process import NodeProcess
from tests.store.engines import postgres as postgres
from tests.store.engines import postgres_url as postgres_url


@pytest.fixture
def nodes(tmp_path: Path, postgres_url: Callable[[], str]) -> Iterator[list[NodeProcess]]:
    url = postgres_url()
    with ExitStack() as stack:
        started = []
        for name in ("n1", "n2"):
            started.append(NodeProcess(tmp_path, name, url))
            stack.callback(started[-1].end)
        yield started


async def test_status_drain_and_a_second_node_of_one_name(nodes: list[NodeProcess], tmp_path: Path) -> None:
    first, second = nodes
    status = json.loads(dragoman("fleet", "--json", "--store", first.store).stdout)
    assert [(node["node"], node["state"]) for node in status["nodes"]] == [("n1", "alive"), ("n2", "alive")]
    assert status["problems"] == []
    assert "acknowledged means" in str(status["engine"]["guarantees"])
    key = str(tmp_path / "key")
    again = dragoman(
        "serve",
        "--bind",
        "127.0.0.1:0",
        "--store",
        first.store,
        "--secrets-key",
        key,
        "--node",
        "n1",
        "--",
        *EVERYTHING,
    )
    assert again.returncode == 10
    assert "another node is called 'n1'" in again.stderr
    async with second.connect() as far:
        async with first.connect() as near:
            session = await near.open_session(str(tmp_path))
            assert await session.ask("/echo one") == "one"
            distant = await far.load_session(session.id, str(tmp_path))
            drained = dragoman("fleet", "drain", "n1", "--for", "60s", "--store", first.store)
            assert drained.returncode == 0, drained.stderr
            assert "n1 is drained" in drained.stdout
            with pytest.raises((ProtocolError, ConnectionFailed)):
                await near.open_session(str(tmp_path))
        assert await distant.ask("/echo two") == "two"
        assert second.agent_pids(), "it runs at the other node now"
        assert not first.agent_pids()
    shown = dragoman("fleet", "status", "--store", first.store).stdout
    assert "draining" in shown
    moved = dragoman("fleet", "move", session.id, "--to", "n9", "--cwd", "/srv", "--store", first.store)
    assert moved.returncode == 1
    assert "no living node 'n9'" in moved.stderr
    finished = dragoman("fleet", "finish-upgrade", "--store", first.store)
    assert "nothing to finish" in finished.stdout


def test_a_store_of_one_host_has_no_fleet(tmp_path: Path) -> None:
    done = dragoman("fleet", "--store", str(tmp_path / "one.db"))
    assert done.returncode == 2
    assert "is the store of one host" in done.stderr
    done = dragoman("serve", "--store", str(tmp_path / "one.db"), "--node", "n1", "--", *EVERYTHING)
    assert done.returncode == 2
    assert "--node needs a store of several hosts" in done.stderr


@pytest.mark.item("FL-22")
async def test_a_revoked_token_is_out_on_every_node(nodes: list[NodeProcess], tmp_path: Path) -> None:
    store = nodes[0].store
    token = dragoman("tokens", "create", "ben", "--role", "viewer", "--store", store).stdout.strip()
    remotes = []
    for node in nodes:
        context = node.connect(token=token)
        remotes.append((context, await context.__aenter__()))
    [row] = json.loads(dragoman("tokens", "--json", "--store", store).stdout)
    revoked = time.monotonic()
    assert dragoman("tokens", "revoke", row["id"], "--store", store).returncode == 0
    for context, remote in remotes:
        async with asyncio.timeout(60):
            await remote.connection.ended.wait()
        with suppress(ConnectionFailed):
            await context.__aexit__(None, None, None)
    assert time.monotonic() - revoked < 10 + 20, "10 s, and what a busy machine adds"
    for node in nodes:
        with pytest.raises(ConnectionFailed, match=r"401|token|revoked"):
            async with node.connect(token=token):
                pass
