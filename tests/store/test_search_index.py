"""Indexing: it never delays an append, runs in small slices, and continues where it stopped."""

from __future__ import annotations

import asyncio
import random
import threading
from collections import deque
from collections.abc import Awaitable, Callable
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from dragoman.errors import ProtocolError
from dragoman.store import search as passages_module
from dragoman.store.contract import Draft, Retention
from dragoman.store.search import FINDABLE, MAX_PASSAGE, split_passages
from dragoman.store.sqlite import SqliteStore, reading, search_index
from dragoman.store.sqlite.append import LogWriter
from dragoman.store.sqlite.schema import ENTRIES_PER_SESSION
from dragoman.store.sqlite.writer import YIELDS

# No wait of these tests is longer. Seconds.
TIMEOUT = 60


def text_update(text: str) -> Draft:
    body = {"sessionUpdate": "agent_message_chunk", "content": {"type": "text", "text": text}}
    return Draft(kind="update", actor="agent", time="2026-01-01T00:00:00Z", body=body)


END = Draft(kind="turn_ended", actor="agent", time="2026-01-01T00:00:00Z", body={"stopReason": "end_turn"})

LARGE = "many words " * (FINDABLE // 11 + 1)


async def until(is_so: Callable[[], Awaitable[bool]]) -> None:
    async with asyncio.timeout(TIMEOUT):
        while not await is_so():  # noqa: ASYNC110 (another thread does it)
            await asyncio.sleep(0.001)


class Gate:
    """Records what the writer does, in order, and holds the first slice until it is let through."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.order: list[str] = []
        self.sizes: list[int] = []
        self.begun = threading.Event()
        self.released = threading.Event()
        write, append = search_index.write, LogWriter.append

        def gated(connection: Any, stretches: list[search_index.Stretch]) -> list[str]:
            self.order.append("slice")
            self.sizes.append(sum(len(passage.text) for stretch in stretches for passage in stretch.passages))
            self.begun.set()
            assert self.released.wait(TIMEOUT)
            return write(connection, stretches)

        def noted(log: LogWriter, batch: Any) -> None:
            append(log, batch)
            self.order += [one.session_id for one in batch]

        monkeypatch.setattr(search_index, "write", gated)
        monkeypatch.setattr(LogWriter, "append", noted)

    async def wait(self) -> None:
        assert await asyncio.to_thread(self.begun.wait, TIMEOUT)


async def test_an_append_runs_before_the_next_slice_of_a_large_log(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    gate = Gate(monkeypatch)

    store = await SqliteStore.open(str(tmp_path / "s.db"), durability="off")
    await store.append("large", [*(text_update(LARGE) for _ in range(8)), END])
    await gate.wait()
    appends = []
    for number in range(3):
        appends.append(asyncio.ensure_future(store.append(f"other-{number}", [text_update("hello")])))
        await asyncio.sleep(0)  # each is handed over by itself

    async def handed_over() -> bool:
        return store._writer._inbox.qsize() >= 1 and not store._writer._unsent

    await until(handed_over)
    gate.released.set()
    await asyncio.gather(*appends)
    assert gate.order[:2] == ["large", "slice"]
    assert gate.order[2:5] == ["other-0", "other-1", "other-2"], "an append waited for more than one slice"
    assert len(await store.search("words", limit=100)) > 8
    await store.close()
    assert len(gate.sizes) >= 8
    assert max(gate.sizes) <= search_index.SLICE + FINDABLE


async def test_low_priority_work_lets_other_work_go_first_up_to_a_limit(tmp_path: Path) -> None:
    order: list[str] = []
    begun, released = threading.Event(), threading.Event()

    def hold(_: Any) -> None:
        begun.set()
        assert released.wait(TIMEOUT)

    store = await SqliteStore.open(str(tmp_path / "s.db"), durability="off")
    held = asyncio.ensure_future(store._write(hold))
    assert await asyncio.to_thread(begun.wait, TIMEOUT)
    later = store._writer.put_later(lambda _: order.append("later"))
    others = [asyncio.ensure_future(store._write(lambda _: order.append("other"))) for _ in range(3 * YIELDS)]

    async def handed_over() -> bool:
        return store._writer._inbox.qsize() == 2 and not store._writer._unsent

    await until(handed_over)
    released.set()
    await asyncio.gather(held, *others, asyncio.wrap_future(later))
    # The work that held everything up was the first of those that went before.
    assert order.index("later") == YIELDS - 1
    await store.close()


async def test_logs_are_read_and_decoded_outside_the_writers_thread(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    begun, released = threading.Event(), threading.Event()

    class Slow(passages_module.Joiner):
        def add(self, line: bytes) -> list[passages_module.Passage]:
            begun.set()
            assert released.wait(TIMEOUT)
            return super().add(line)

    monkeypatch.setattr(search_index, "Joiner", Slow)

    store = await SqliteStore.open(str(tmp_path / "s.db"), durability="off")
    await store.append("large", [text_update("needle"), END])
    assert await asyncio.to_thread(begun.wait, TIMEOUT)
    async with asyncio.timeout(TIMEOUT):
        await store.append("other", [text_update("hello")])
        assert len(await store.read("other")) == 1
    released.set()
    assert len(await store.search("needle")) == 1
    await store.close()


def test_a_store_closes_without_waiting_for_the_index_which_continues_later(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = str(tmp_path / "s.db")

    async def write() -> None:
        gate = Gate(monkeypatch)
        store = await SqliteStore.open(path, durability="off")
        await store.append("large", [*(text_update(LARGE) for _ in range(8)), text_update("needle"), END])
        await gate.wait()
        closing = asyncio.ensure_future(store.close())
        await asyncio.sleep(0)
        with pytest.raises(ProtocolError, match="closed"):
            await store.append("large", [text_update("too late")])
        gate.released.set()
        async with asyncio.timeout(TIMEOUT):
            await closing
        assert gate.order == ["large", "slice"]
        monkeypatch.undo()

    async def go_on() -> None:
        store = await SqliteStore.open(path, durability="off")
        assert await store._read(search_index.unindexed_sessions) == ["large"]
        await store.append("other", [text_update("hello"), END])

        async def is_done() -> bool:
            return not await store._read(search_index.unindexed_sessions)

        await until(is_done)
        assert [hit.session_id for hit in await store.search("needle")] == ["large"]
        await store.close()

    asyncio.run(write())
    asyncio.run(go_on())


async def test_a_search_is_answered_while_appends_come_without_a_pause(tmp_path: Path) -> None:
    store = await SqliteStore.open(str(tmp_path / "s.db"), durability="off")
    await store.append("large", [text_update(LARGE) for _ in range(4)])
    waiting: set[asyncio.Future[Any]] = set()
    search = asyncio.ensure_future(store.search("words", limit=1))
    async with asyncio.timeout(TIMEOUT):
        while not search.done():  # the writer always has something to commit
            while len(waiting) < 8:
                waiting.add(asyncio.ensure_future(store.append("other", [text_update("hello")])))
            _, waiting = await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
    assert len(await search) == 1
    await asyncio.gather(*waiting)
    await store.close()


async def test_many_short_sessions_are_indexed_in_few_transactions(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    gate = Gate(monkeypatch)
    gate.released.set()

    store = await SqliteStore.open(str(tmp_path / "s.db"), durability="off")
    await asyncio.gather(*(store.append(f"s{number}", [text_update(f"word{number} here")]) for number in range(1000)))
    assert len(await store.search("here", limit=2000)) == 1000
    assert [hit.session_id for hit in await store.search("word777")] == ["s777"]
    await store.close()
    assert len(gate.sizes) <= 4


async def test_turns_in_quick_succession_are_indexed_together_and_a_search_does_not_wait_for_the_pause(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(search_index, "PAUSE", float(TIMEOUT))
    gate = Gate(monkeypatch)
    gate.released.set()
    store = await SqliteStore.open(str(tmp_path / "s.db"), durability="off")
    await store.append("first", [text_update("some words"), END])
    await gate.wait()
    for number in range(20):
        await store.append(f"session-{number}", [text_update("more words"), END])
    async with asyncio.timeout(TIMEOUT / 2):
        found = await store.search("words", limit=100)
    await store.close()
    assert len(found) == 21
    assert gate.order.count("slice") == 2


@pytest.mark.parametrize("how", ["delete", "expire"])
async def test_a_large_session_leaves_the_index_in_slices(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, how: str
) -> None:
    left: list[int] = []
    remove_session, remove_slice = search_index.remove_session, search_index.remove_slice

    def count(connection: Any) -> int:
        return int(connection.execute("SELECT count(*) FROM passages").fetchone()[0])

    def counted_slice(connection: Any, session_id: str) -> bool:
        more = remove_slice(connection, session_id)
        left.append(count(connection))
        return more

    def last(connection: Any, number: int) -> None:
        assert count(connection) == 1, "much is left for the last transaction"
        remove_session(connection, number)

    monkeypatch.setattr(search_index, "remove_slice", counted_slice)
    monkeypatch.setattr(search_index, "remove_session", last)
    store = await SqliteStore.open(str(tmp_path / "s.db"), durability="off")
    await store.append("large", [text_update(LARGE) for _ in range(8)])
    await store.append("other", [text_update("many others")])
    assert len(await store.search("many", limit=1000)) > 60
    if how == "delete":
        assert await store.delete("large")
    else:
        assert await store.expire(Retention(count=1), "2026-01-01T00:00:00Z") == ["large"]
    assert [hit.session_id for hit in await store.search("many")] == ["other"]
    await store.close()
    steps = [before - after for before, after in pairwise(left)]
    assert len(steps) >= 7
    assert max(steps) <= search_index.SLICE // MAX_PASSAGE + 1


async def test_text_at_the_end_of_a_huge_entry_is_stored_but_not_indexed(tmp_path: Path) -> None:
    store = await SqliteStore.open(str(tmp_path / "s.db"), durability="off")
    text = "first " + "x" * FINDABLE + " last"
    await store.append("one", [text_update(text)])
    assert len(await store.search("first")) == 1
    assert await store.search("last") == []
    assert (await store.read("one"))[0].body["content"]["text"] == text
    await store.close()


async def test_passages_are_the_same_wherever_indexing_was_interrupted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(passages_module, "MAX_PASSAGE", 60)
    monkeypatch.setattr(passages_module, "FINDABLE", 200)
    monkeypatch.setattr(search_index, "SLICE", 100)
    dice = random.Random("where indexing stops")

    def next_draft() -> Draft:
        kind = dice.choice(["agent_message_chunk"] * 8 + ["agent_thought_chunk", "usage_update", "tool_call", "new"])
        if kind == "new":
            return Draft(kind="prompt", actor="user", time="t", body={"prompt": [{"type": "text", "text": "go on"}]})
        text = dice.choice([" ", "word", "wo rd ", "x" * 30, "long " * dice.choice([1, 20, 60])])
        body = {"sessionUpdate": kind, "title": text, "content": {"type": "text", "text": text}}
        return Draft(kind="update", actor="agent", time="t", body=body)

    store = await SqliteStore.open(str(tmp_path / "s.db"), durability="off")
    for _ in range(40):
        await store.append("one", [next_draft() for _ in range(dice.randint(1, 30))])
        await store.search("word")
    rows = await store._read(
        lambda connection: connection.execute("SELECT first, role, text FROM passages ORDER BY id").fetchall()
    )
    expected = [(found.first, found.role, found.text) for found in split_passages(await store.lines("one"))]
    assert [(first, role.decode(), text.decode()) for first, role, text in rows] == expected
    await store.close()


async def test_entries_indexed_by_another_process_are_not_indexed_twice(tmp_path: Path) -> None:
    store = await SqliteStore.open(str(tmp_path / "s.db"), durability="off")
    await store.append("one", [text_update("needle")])
    stale = await store._read(lambda connection: search_index.gather(connection, deque(["one"]), lambda: True))
    await store.append("one", [text_update(" thread")])
    assert len(await store.search("needle")) == 1
    assert await store._write(lambda connection: search_index.write(connection, stale)) == ["one"]
    assert [hit.snippet for hit in await store.search("needle")] == ["needle thread"]
    await store.delete("one")
    assert await store._write(lambda connection: search_index.write(connection, stale)) == ["one"]
    await store.close()


async def test_a_damaged_entry_is_not_indexed_and_the_rest_is_found(tmp_path: Path) -> None:
    store = await SqliteStore.open(str(tmp_path / "s.db"), durability="off")
    await store.append("one", [text_update(f"word{number} ") for number in range(10)])

    def damage(connection: Any) -> None:
        place = reading.find_session(connection, "one").number * ENTRIES_PER_SESSION
        connection.execute("UPDATE entries SET sum = sum + 1 WHERE place = ?", (place + 4,))
        connection.execute("DELETE FROM entries WHERE place IN (?, ?)", (place + 6, place + 10))

    await store._write(damage)
    assert [len(await store.search(f"word{number}")) for number in range(10)] == [1, 1, 1, 0, 1, 0, 1, 1, 1, 0]
    assert await store._read(search_index.unindexed_sessions) == []
    await store.close()
