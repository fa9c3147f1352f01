"""The memory store keeps the contract of every store."""

from __future__ import annotations

from dragoman.store.fleet import Engine
from dragoman.store.local_fleet import local_engine
from dragoman.store.memory import MemoryStore
from dragoman.testing import check_fleet, check_store


async def test_the_memory_store_passes_the_contract_checks() -> None:
    async def make() -> MemoryStore:
        return MemoryStore()

    await check_store(make)


async def test_two_nodes_in_one_process_pass_the_fleet_checks() -> None:
    async def make() -> tuple[Engine, Engine]:
        engine = local_engine("memory", MemoryStore(), [])
        return engine, engine

    await check_fleet(make)
