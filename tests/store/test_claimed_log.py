"""A log under a claim: lost answers are settled, a former owner is stopped, and nobody is told too early."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import pytest

from dragoman.errors import ProtocolError, StoreFault
from dragoman.store import session_log
from dragoman.store.contract import Claim, Draft, Entry
from dragoman.store.memory import MemoryStore
from dragoman.store.session_log import SessionLog


class LosingStore(MemoryStore):
    """A store whose answers get lost: before the entries are stored, or afterwards."""

    def __init__(self, *losses: str) -> None:
        super().__init__()
        self.losses = list(losses)
        self.lost_settles = 0

    async def append(self, session_id: str, drafts: Sequence[Draft], *, claim: Claim | None = None) -> list[Entry]:
        loss = self.losses.pop(0) if self.losses else ""
        if loss == "before":
            raise StoreFault("unknown", "no answer")
        entries = await super().append(session_id, drafts, claim=claim)
        if loss == "after":
            raise StoreFault("unknown", "no answer")
        return entries

    async def settle(self, claim: Claim) -> Claim:
        settled = await super().settle(claim)
        if self.lost_settles:
            self.lost_settles -= 1
            raise StoreFault("unknown", "no answer")
        return settled


async def write(store: MemoryStore, texts: str) -> tuple[list[int], list[str]]:
    """Log each text as one append; return the numbers that were announced and the callbacks that ran."""
    numbers: list[int] = []
    delivered: list[str] = []
    log = SessionLog(store, "s", on_entries=lambda _, entries: numbers.extend(entry.seq for entry in entries))
    log.claim = await store.claim("s", "a", epoch=0)
    for text in texts:
        log.append("update", {"text": text}, then=lambda text=text: delivered.append(text))  # type: ignore[misc]
        await log.wait_stored()
    return numbers, delivered


@pytest.mark.parametrize("losses", [["before"], ["after"], ["", "after", "before", "after"], ["before"] * 3])
async def test_what_was_stored_without_an_answer_is_not_stored_twice(
    losses: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(session_log, "SETTLE_INTERVAL", 0.001)
    store = LosingStore(*losses)
    store.lost_settles = 2
    numbers, delivered = await write(store, "abc")
    assert [entry.body["text"] for entry in await store.read("s")] == ["a", "b", "c"]
    assert (numbers, delivered) == ([1, 2, 3], ["a", "b", "c"])


async def test_a_log_that_another_node_claimed_delivers_nothing_more() -> None:
    store, failures, delivered = MemoryStore(), list[ProtocolError](), list[str]()
    log = SessionLog(store, "s", on_failure=failures.append)
    log.claim = await store.claim("s", "a", epoch=0)
    await log.append_and_wait("update", {})
    await store.claim("s", "b", epoch=1)
    log.append("update", {}, then=lambda: delivered.append("told"))
    with pytest.raises(StoreFault, match="'b' owns") as caught:
        await log.wait_stored()
    assert caught.value.why == "fenced"
    assert failures
    assert not delivered
    assert len(await store.read("s")) == 1


async def test_an_owner_that_lost_its_answer_and_then_the_log_says_so() -> None:
    store = LosingStore("after")
    original = store.settle

    async def late(claim: Claim) -> Claim:
        await store.claim("s", "b", epoch=1)
        return await original(claim)

    store.settle = late  # type: ignore[method-assign]
    with pytest.raises(StoreFault) as caught:
        await write(store, "a")
    assert caught.value.why == "fenced"


async def test_a_store_that_never_answers_fails_after_a_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(session_log, "SETTLE_INTERVAL", 0.001)
    monkeypatch.setattr(session_log, "SETTLE_TIMEOUT", 0.02)
    store = LosingStore("before")

    async def away(_: Claim) -> Claim:
        await asyncio.sleep(0)
        raise StoreFault("away", "the database cannot be reached")

    monkeypatch.setattr(store, "settle", away)
    with pytest.raises(StoreFault, match="cannot be reached"):
        await write(store, "a")


@pytest.mark.parametrize("loss", ["before", "after"])
async def test_a_log_whose_entries_failed_without_an_answer_is_settled_before_the_next_append(
    loss: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(session_log, "SETTLE_INTERVAL", 0.001)
    monkeypatch.setattr(session_log, "SETTLE_TIMEOUT", 0.0)
    store, fenced = LosingStore(loss), list[ProtocolError]()
    log = SessionLog(store, "s")
    log.on_fenced = fenced.append
    log.claim = await store.claim("s", "a", epoch=0)
    store.lost_settles = 1
    with pytest.raises(StoreFault, match="no answer"):
        await log.append_and_wait("turn_started", {})
    log.clear_fault()
    if loss == "before":  # nothing was stored: its owner goes on
        await log.append_and_wait("update", {})
        assert not fenced
    else:  # its owner does not know an entry of its log, and must not write before it has read it
        with pytest.raises(StoreFault, match="thought to be lost") as caught:
            await log.append_and_wait("update", {})
        assert caught.value.why == "fenced"
        assert fenced
    assert len(await store.read("s")) == 1
