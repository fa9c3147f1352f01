"""NATS JetStream keeps the contracts of a store and of a fleet: on one server, and on three."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Iterator

import pytest

from dragoman.errors import StoreFault
from dragoman.store.contract import Store
from dragoman.store.fleet import Engine, EngineOptions
from dragoman.store.nats import client
from dragoman.store.nats.client import NatsClient
from dragoman.store.urls import open_engine
from dragoman.testing import check_fleet, check_store
from tests.store.nats.servers import START_TIMEOUT, Servers

TRUST = EngineOptions(trusts_engine=True)

# How long a server may take for one answer on a loaded machine. Seconds.
REQUEST_TIMEOUT = 30.0


@pytest.fixture(scope="module", params=[1, 3], ids=["one server", "three servers"])
def servers(request: pytest.FixtureRequest) -> Iterator[Servers]:
    pytest.importorskip("nats")
    found = Servers(request.param)
    try:
        asyncio.run(wait_ready(found))
        yield found
    finally:
        found.end()


@pytest.fixture(autouse=True)
def patience(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let servers on a loaded machine take their time: what they do not answer is unknown, which is another test's."""
    monkeypatch.setattr(client, "REQUEST_TIMEOUT", REQUEST_TIMEOUT)


async def wait_ready(servers: Servers) -> None:
    """Wait until the cluster has a leader."""
    deadline = time.monotonic() + START_TIMEOUT
    while True:
        try:
            engine = await open_engine(servers.url(), TRUST)
            await engine.close()
            return
        except StoreFault:
            assert time.monotonic() < deadline, "the cluster did not elect a leader in time"
            await asyncio.sleep(0.2)


async def empty(servers: Servers) -> None:
    """Delete all streams: each check begins with nothing."""
    connection = NatsClient("test")
    await connection.connect([f"nats://127.0.0.1:{port}" for port in servers.ports])
    for name in ("DGM-META", "DGM-LOG-00"):
        await connection.call(f"STREAM.DELETE.{name}")
    await connection.close()


async def engines(servers: Servers) -> AsyncIterator[Engine]:
    await empty(servers)
    while True:
        yield await open_engine(servers.url(), TRUST)


@pytest.mark.item("FL-01")
async def test_nats_passes_the_checks_of_every_store(servers: Servers) -> None:
    async def make() -> Store:
        return (await anext(engines(servers))).store

    await check_store(make)


@pytest.mark.item("FL-04", "FL-05")
async def test_two_nodes_on_nats_pass_the_fleet_checks(servers: Servers) -> None:
    async def make() -> tuple[Engine, Engine]:
        both = engines(servers)
        return await anext(both), await anext(both)

    await check_fleet(make, rounds=8)
