"""The contract checks pass correct transports and stores, and fail broken ones."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import pytest

from dragoman.store.contract import Claim, Draft, Entry, Summary
from dragoman.store.memory import MemoryStore
from dragoman.testing import Drop, check_store, check_transport, contracts, faulty
from dragoman.transport.base import Transport
from dragoman.transport.memory import MemoryTransport, memory_pair


async def test_a_correct_pair_of_transports_passes() -> None:
    async def make() -> tuple[MemoryTransport, MemoryTransport]:
        return memory_pair()

    await check_transport(make)


def test_a_transport_that_swaps_two_frames_fails() -> None:
    class Swapping(MemoryTransport):
        async def receive(self) -> list[object]:  # type: ignore[override]
            frames = await super().receive()
            return [*reversed(frames[:2]), *frames[2:]]

    async def make() -> tuple[MemoryTransport, MemoryTransport]:
        left, right = memory_pair()
        right.__class__ = Swapping
        return left, right

    with pytest.raises(AssertionError, match="out of order"):
        asyncio.run(check_transport(make))


def test_a_transport_that_loses_a_frame_fails_and_the_error_names_the_frame(monkeypatch: pytest.MonkeyPatch) -> None:
    async def make() -> tuple[Transport, Transport]:
        left, right = memory_pair()
        return faulty(left, sending=[Drop(at=3)]), right

    monkeypatch.setattr(contracts, "STEP_TIMEOUT", 0.3)
    message = (
        r"of 2000 that were sent, 1999 arrived within 0\.3 seconds; the first that is missing is number 3, .*\"n\":2"
    )
    with pytest.raises(AssertionError, match=message):
        asyncio.run(check_transport(make))


def test_a_transport_that_hangs_on_close_fails_and_the_error_names_the_step(monkeypatch: pytest.MonkeyPatch) -> None:
    class Hanging(MemoryTransport):
        async def close(self, reason: str = "") -> None:
            await asyncio.Event().wait()

    async def make() -> tuple[Transport, Transport]:
        left, right = memory_pair()
        left.__class__ = Hanging
        return left, right

    monkeypatch.setattr(contracts, "STEP_TIMEOUT", 0.3)
    with pytest.raises(AssertionError, match=r"close, twice, did not end within 0\.3 seconds"):
        asyncio.run(check_transport(make))


def test_a_store_that_numbers_from_zero_fails() -> None:
    class FromZero(MemoryStore):
        async def append(self, session_id: str, drafts: Sequence[Draft], *, claim: Claim | None = None) -> list[Entry]:
            entries = await super().append(session_id, drafts, claim=claim)
            return [
                Entry(seq=entry.seq - 1, kind=entry.kind, actor=entry.actor, time=entry.time, body=entry.body)
                for entry in entries
            ]

    async def make() -> MemoryStore:
        return FromZero()

    with pytest.raises(AssertionError, match="numbers"):
        asyncio.run(check_store(make))


def test_a_store_whose_forks_do_not_count_imported_entries_fails() -> None:
    class Forgetful(MemoryStore):
        async def fork(self, session_id: str, new_id: str, upto: int | None = None) -> Summary:
            await super().fork(session_id, new_id, upto)
            self._logs[new_id].log_summary.imported = 0
            return self._logs[new_id].log_summary.summary

    async def make() -> MemoryStore:
        return Forgetful()

    with pytest.raises(AssertionError, match="not listed as imported"):
        asyncio.run(check_store(make))
