"""What a host does while nothing can be kept, and when there is room again."""

from __future__ import annotations

import asyncio
import errno
import json
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from dragoman.errors import StoreFault
from dragoman.host.auth.database import lock_store
from dragoman.host.http.app import HostApp
from dragoman.store import upkeep
from dragoman.store.contract import Draft, Entry
from dragoman.store.memory import MemoryStore
from dragoman.store.sqlite import SqliteStore
from dragoman.store.upkeep import MonitoredStore
from tests.host.auth.test_roles import denied
from tests.host.http.test_app import Caller
from tests.host.memory_host import hosting, opened, said, until


class Disk(MemoryStore):
    """A store on a disk that can be full, or not answer."""

    def __init__(self) -> None:
        super().__init__()
        self.is_full = False
        self.answers = asyncio.Event()
        self.answers.set()
        self.probes = 0

    def check(self) -> None:
        if self.is_full:
            raise StoreFault("full", "there is no room for more in /secret/place; free some space")

    async def append(self, session_id: str, drafts: Sequence[Draft]) -> list[Entry]:
        self.check()
        return await super().append(session_id, drafts)

    async def probe(self) -> None:
        self.probes += 1
        await self.answers.wait()
        self.check()


async def nothing(_: set[str]) -> None: ...


async def test_a_host_is_not_ready_while_nothing_can_be_kept_and_recovers_by_itself(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(upkeep, "RETRY_INTERVAL", 0.01)

    disk, reports = Disk(), list[str]()
    async with hosting(store=disk, report=reports.append) as hosted, hosted.client("ann") as ann:
        ask = Caller(HostApp(hosted.house, local=None))
        one = await opened(ann, tmp_path)
        assert (await ask("GET", "/readyz")).json == {"status": "ready"}
        turn = asyncio.ensure_future(one.ask("wait gate"))
        await until(lambda: said(one)[-1:] == [("agent", "waiting for gate")])
        disk.is_full = True
        hosted.agents[-1].gates["gate"].set()  # type: ignore[attr-defined]
        assert "no room" in (await denied(turn)).message
        refused = await ask("GET", "/readyz")
        assert (refused.status, refused.json["reason"]) == (503, "there is no room for more")
        assert "no room" in (await denied(one.ask("more"))).message
        assert [entry.kind for entry in await disk.read(one.id)][-1] != "turn_ended"
        disk.is_full = False
        await until(lambda: hosted.room.standing.turn is None)
        last = (await disk.read(one.id))[-1]
        assert (last.kind, last.body["error"]["kind"]) == ("turn_ended", "interrupted")
        assert last.turn is not None
        await until(lambda: reports[-1] == "sessions can be kept again")
        assert (await ask("GET", "/readyz")).status == 200
        assert await one.ask("and on") == "heard and on"
        kinds = [entry.kind for entry in await disk.read(one.id)]
        assert kinds.count("turn_started") == kinds.count("turn_ended") == 2


async def test_a_host_whose_file_was_moved_away_acknowledges_nothing_and_is_not_ready(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(upkeep, "RETRY_INTERVAL", 0.01)
    monkeypatch.setattr(upkeep, "CHECK_INTERVAL", 0.0)
    path, elsewhere = tmp_path / "s.db", tmp_path / "elsewhere"

    store, reports = await SqliteStore.open(str(path)), list[str]()
    async with hosting(store=store, report=reports.append) as hosted, hosted.client("ann") as ann:
        ask = Caller(HostApp(hosted.house, local=None))
        one = await opened(ann, tmp_path)
        assert await one.ask("first") == "heard first"
        assert (await ask("GET", "/readyz")).status == 200
        path.rename(elsewhere)
        refused = await ask("GET", "/readyz")
        assert (refused.status, refused.json["reason"]) == (503, "the file of the store is not where it was")
        assert "put it back" in (await denied(one.ask("second"))).message
        elsewhere.rename(path)
        await until(lambda: reports[-1:] == ["sessions can be kept again"])
        assert (await ask("GET", "/readyz")).status == 200
        assert await one.ask("third") == "heard third"
        prompts = [entry.body for entry in await store.read(one.id) if entry.kind == "prompt"]
        assert [prompt["prompt"][0]["text"] for prompt in prompts] == ["first", "third"]
    await store.close()


async def test_whoever_prompts_first_when_there_is_room_finds_the_turn_before_it_over(tmp_path: Path) -> None:

    disk = Disk()
    async with hosting(store=disk) as hosted, hosted.client("ann") as ann:
        one = await opened(ann, tmp_path)
        turn = asyncio.ensure_future(one.ask("wait gate"))
        await until(lambda: said(one)[-1:] == [("agent", "waiting for gate")])
        disk.is_full = True
        hosted.agents[-1].gates["gate"].set()  # type: ignore[attr-defined]
        await denied(turn)
        disk.is_full = False
        assert await one.ask("on") == "heard on"
        turns = [(entry.kind, entry.turn) for entry in await disk.read(one.id) if entry.kind.startswith("turn_")]
        assert [kind for kind, _ in turns] == ["turn_started", "turn_ended"] * 2
        assert turns[0][1] == turns[1][1] != turns[2][1] == turns[3][1]


async def test_however_often_anybody_asks_little_is_written(monkeypatch: pytest.MonkeyPatch) -> None:

    disk = Disk()
    store = MonitoredStore(disk, nothing, print)
    draft = Draft(kind="opened", actor="user", time="2026-01-01T00:00:00Z", body={})
    assert [await store.unavailable_reason() for _ in range(50)] == [""] * 50
    assert disk.probes == 1
    monkeypatch.setattr(upkeep, "CHECK_INTERVAL", 0.0)
    disk.is_full = True
    assert [await store.unavailable_reason() for _ in range(50)] == ["there is no room for more"] * 50
    assert disk.probes == 2
    disk.is_full = False
    await store.append("one", [draft])
    monkeypatch.setattr(upkeep, "CHECK_INTERVAL", 60.0)
    assert await store.unavailable_reason() == ""  # what was just written says more than a trial
    assert disk.probes == 2
    await store.close()


async def test_a_disk_that_does_not_answer_is_tried_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(upkeep, "PROBE_TIMEOUT", 0.01)
    monkeypatch.setattr(upkeep, "RETRY_INTERVAL", 0.0)

    disk = Disk()
    store = MonitoredStore(disk, nothing, print)
    disk.answers.clear()
    assert [await store.unavailable_reason() for _ in range(3)] == ["the disk does not answer"] * 3
    assert disk.probes == 1
    disk.answers.set()
    await asyncio.sleep(0)
    assert await store.unavailable_reason() == ""


def test_a_file_of_sessions_on_a_full_disk_is_not_claimed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: Any) -> int:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "pwrite", full)
    with pytest.raises(StoreFault, match="no room") as caught, lock_store(str(tmp_path / "sessions.db")):
        pytest.fail("it was claimed")
    assert caught.value.why == "full"


async def test_what_happens_to_agents_and_clients_is_reported(tmp_path: Path) -> None:

    reports: list[str] = []
    async with hosting(report=reports.append) as hosted, hosted.client("ann") as ann:
        one = await opened(ann, tmp_path)
        await denied(one.ask("die"))
        await until(lambda: not hosted.room.is_held)
        assert await one.ask("again") == "heard again"
        await one.close()
        await until(lambda: hosted.house.rooms == {})
    mine = [each.removeprefix(f"session {one.id}: ") for each in reports]
    died = next(each for each in mine if each.startswith("its agent died: "))
    assert [each for each in mine if each != died and "for a moment" not in each] == [
        "ann is connected",
        "its agent talker was started",
        "ann came, as admin (dragoman)",
        "its agent talker was started again",
        "ann went",
        "its agent is let go",
        "ann is not connected any more",
    ], json.dumps(mine, indent=1)
    assert (
        mine.index("ann came, as admin (dragoman)")
        < mine.index(died)
        < mine.index("its agent talker was started again")
    )
