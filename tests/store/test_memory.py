"""The memory store keeps the contract of every store."""

from __future__ import annotations

from dragoman.store.memory import MemoryStore
from dragoman.testing import check_store


async def test_the_memory_store_keeps_the_contract() -> None:
    async def make() -> MemoryStore:
        return MemoryStore()

    await check_store(make)
