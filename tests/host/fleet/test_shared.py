"""What counts across nodes: limits of a user, slow clients, an engine that is away."""

from __future__ import annotations

import asyncio
import json
import sys
import urllib.error
import urllib.request
from pathlib import Path

import msgspec
import pytest

from dragoman import ProtocolError
from dragoman.host.limits import HostLimits
from dragoman.store.local_fleet import local_engine
from dragoman.store.memory import MemoryStore
from dragoman.transport.remote.server.auth import Principal, Refused
from dragoman.transport.remote.server.http_transport import HttpServerTransport
from tests.host.fleet.memory_fleet import FAST, running_fleet
from tests.host.fleet.node_process import LEASE
from tests.host.fleet.run.nodes import ProxiedNode
from tests.host.memory_host import messages_of, open_session, until
from tests.store.postgres.server import Postgres


@pytest.mark.item("FL-23")
async def test_the_sessions_of_a_user_are_counted_at_all_nodes(tmp_path: Path) -> None:
    async with running_fleet(("n1", "n2"), limits=HostLimits(max_sessions=3)) as (first, second):
        async with first.client() as near, second.client() as far:
            for _ in range(2):
                await open_session(near, tmp_path)
            await until(lambda: second.fleet.sessions_elsewhere("ann") == 2)
            await open_session(far, tmp_path)
            with pytest.raises(ProtocolError, match="has 3 sessions awake"):
                await open_session(far, tmp_path)


@pytest.mark.item("FL-23")
async def test_the_connections_of_a_user_are_counted_at_all_nodes() -> None:
    async with running_fleet(("n1", "n2")) as (first, second):
        endpoint = second.app._endpoint
        endpoint.limits = msgspec.structs.replace(endpoint.limits, connections=2)
        async with first.client(), first.client():
            await until(lambda: second.fleet.connections_elsewhere("ann") == 2)
            transport = HttpServerTransport("a client", endpoint.limits)
            with pytest.raises(Refused, match="2 connections are the most for one user"):
                endpoint.open_connection(Principal(user="ann"), transport)
        await until(lambda: second.fleet.connections_elsewhere("ann") == 0)


@pytest.mark.item("FL-15")
async def test_a_slow_client_is_dropped_by_its_own_node_and_slows_nobody(tmp_path: Path) -> None:
    limits = HostLimits(max_unread_bytes=20_000)
    async with running_fleet(("n1", "n2"), limits=limits) as (first, second):
        async with first.client() as near, second.client() as far:
            session = await open_session(near, tmp_path)
            distant = await far.load_session(session.id, str(tmp_path))
            stuck = second.hosted.connect_as("ann", limit=1000)
            stuck.send(b'{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":1}}')
            await stuck.receive()
            load = {"sessionId": session.id, "cwd": str(tmp_path), "mcpServers": []}
            stuck.send(json.dumps({"jsonrpc": "2.0", "id": 2, "method": "session/load", "params": load}).encode())
            await until(lambda: len(second.distant(session.id).members) == 2)
            await session.ask("many 3000")  # the stuck client reads nothing of it
            await until(lambda: messages_of(distant) == messages_of(session))
            await until(lambda: len(second.distant(session.id).members) == 1)
            assert len(first.host.rooms[session.id].members) >= 2
            await until(lambda: len(first.host.rooms[session.id].members) == 2)


@pytest.mark.item("FL-28")
async def test_an_engine_that_is_away_fails_prompts_by_name_and_everything_goes_on_by_itself(
    tmp_path: Path, postgres: Postgres
) -> None:
    node = ProxiedNode("n1", tmp_path, postgres.folder, [sys.executable, "-m", "tests.host.fleet.run.impatient"])
    await node.start()
    try:
        assert node.process is not None
        base = node.process.url.removesuffix("/acp")

        def readiness() -> tuple[int, str]:
            try:
                with urllib.request.urlopen(f"{base}/readyz", timeout=30) as response:
                    return response.status, response.read().decode()
            except urllib.error.HTTPError as error:
                return error.code, error.read().decode()

        async with node.process.connect() as remote:
            session = await remote.open_session(str(tmp_path))
            assert await session.ask("/echo one") == "one@n1"
            node.engine_proxy.cut()
            second = asyncio.ensure_future(session.ask("/echo two"))
            async with asyncio.timeout(LEASE * 4 + 30):
                while (await asyncio.to_thread(readiness))[0] != 503:  # noqa: ASYNC110
                    await asyncio.sleep(0.1)
            assert "this node has no lease" in (await asyncio.to_thread(readiness))[1]
            assert not second.done(), "balancers know before the prompt fails"
            with pytest.raises(ProtocolError):
                await asyncio.wait_for(second, LEASE * 4 + 30)
            node.engine_proxy.mend()
            async with asyncio.timeout(LEASE * 4 + 30):
                while (await asyncio.to_thread(readiness))[0] != 200:  # noqa: ASYNC110
                    await asyncio.sleep(0.1)
            assert await asyncio.wait_for(session.ask("/echo three"), LEASE * 4 + 30) == "three@n1"
    finally:
        await node.stop()


@pytest.mark.item("FL-11")
async def test_metrics_show_replicas_that_disagree_and_sessions_of_nodes_that_are_away(tmp_path: Path) -> None:
    async def find_damage() -> list[str]:
        return ["stream DGM-LOG-00: a has 3 messages, b has 2 messages"]

    engine = local_engine("memory", MemoryStore(), ["nothing is stored"])
    engine.disagreements = find_damage
    said: list[str] = []
    async with running_fleet(("n1", "n2"), engine=engine, report=said.append, times=FAST) as (first, second):
        async with first.client() as near:
            await open_session(near, tmp_path)
            first.fleet.lease.renew_soon()
            await until(lambda: any(peer.info.state.get("awake") for peer in second.fleet._peers))
            first.die()
            await until(lambda: second.fleet.nodes_away())
            text = second.app.metrics.render()
            assert "dragoman_replica_disagreements 1\n" in text
            assert "dragoman_nodes_away 1\n" in text
            assert "dragoman_orphans 1\n" in text
            assert "the engine: stream DGM-LOG-00" in str(said)
