"""The memory store keeps the contract of every store."""

from __future__ import annotations

import asyncio

from dragoman.store.memory import MemoryStore
from dragoman.testing import check_store


def test_the_memory_store_keeps_the_contract() -> None:
    async def make() -> MemoryStore:
        return MemoryStore()

    asyncio.run(check_store(make))
