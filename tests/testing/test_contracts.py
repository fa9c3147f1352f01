"""The contract checks find what they are for: a sound thing passes, a broken one does not."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import pytest

from dragoman.store.contract import Draft, Entry
from dragoman.store.memory import MemoryStore
from dragoman.testing import check_store, check_transport
from dragoman.transport.memory import MemoryTransport, pair


def test_a_sound_pair_of_transports_passes() -> None:
    async def make() -> tuple[MemoryTransport, MemoryTransport]:
        return pair()

    asyncio.run(check_transport(make))


def test_a_transport_that_swaps_two_frames_is_found() -> None:
    class Swapping(MemoryTransport):
        async def receive(self) -> list[object]:  # type: ignore[override]
            frames = await super().receive()
            return [*reversed(frames[:2]), *frames[2:]]

    async def make() -> tuple[MemoryTransport, MemoryTransport]:
        left, right = pair()
        right.__class__ = Swapping
        return left, right

    with pytest.raises(AssertionError, match="out of order"):
        asyncio.run(check_transport(make))


def test_a_store_that_numbers_from_zero_is_found() -> None:
    class FromZero(MemoryStore):
        async def append(self, session_id: str, drafts: Sequence[Draft]) -> list[Entry]:
            entries = await super().append(session_id, drafts)
            return [
                Entry(seq=entry.seq - 1, kind=entry.kind, actor=entry.actor, time=entry.time, body=entry.body)
                for entry in entries
            ]

    async def make() -> MemoryStore:
        return FromZero()

    with pytest.raises(AssertionError, match="numbers"):
        asyncio.run(check_store(make))
