"""The memory store keeps the contract of every store."""

from __future__ import annotations

from dragoman.store.memory import MemoryStore
from dragoman.testing import check_store


async def test_the_memory_store_passes_the_contract_checks() -> None:
    async def make() -> MemoryStore:
        return MemoryStore()

    await check_store(make)
