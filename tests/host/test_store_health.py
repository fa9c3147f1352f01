"""What a host does while the store fails, and when it works again."""

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
from dragoman.store import wrappers
from dragoman.store.contract import Claim, Draft, Entry
from dragoman.store.memory import MemoryStore
from dragoman.store.sqlite import SqliteStore
from dragoman.store.wrappers import MonitoredStore
from tests.host.auth.test_roles import denied
from tests.host.http.test_app import Caller
from tests.host.memory_host import messages_of, open_session, running_host, until


class Disk(MemoryStore):
    """A store on a disk that can be full, or hang."""

    def __init__(self) -> None:
        super().__init__()
        self.is_full = False
        self.answers = asyncio.Event()
        self.answers.set()
        self.probes = 0

    def check(self) -> None:
        if self.is_full:
            raise StoreFault("full", "there is no room for more in /secret/place; free some space")

    async def append(self, session_id: str, drafts: Sequence[Draft], *, claim: Claim | None = None) -> list[Entry]:
        self.check()
        return await super().append(session_id, drafts, claim=claim)

    async def probe(self) -> None:
        self.probes += 1
        await self.answers.wait()
        self.check()


async def nothing(_: set[str]) -> None: ...


async def test_a_host_is_not_ready_while_the_store_fails_and_recovers_by_itself(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(wrappers, "RETRY_INTERVAL", 0.01)

    disk, reports = Disk(), list[str]()
    async with running_host(store=disk, report=reports.append) as hosted, hosted.client("ann") as ann:
        ask = Caller(HostApp(hosted.host, local=None))
        one = await open_session(ann, tmp_path)
        assert (await ask("GET", "/readyz")).json == {"status": "ready"}
        turn = asyncio.ensure_future(one.ask("wait gate"))
        await until(lambda: messages_of(one)[-1:] == [("agent", "waiting for gate")])
        disk.is_full = True
        hosted.agents[-1].gates["gate"].set()  # type: ignore[attr-defined]
        assert "no room" in (await denied(turn)).message
        refused = await ask("GET", "/readyz")
        assert (refused.status, refused.json["reason"]) == (503, "the disk is full")
        assert "no room" in (await denied(one.ask("more"))).message
        assert [entry.kind for entry in await disk.read(one.id)][-1] != "turn_ended"
        disk.is_full = False
        await until(lambda: hosted.room.state.open_turn is None)
        last = (await disk.read(one.id))[-1]
        assert (last.kind, last.body["error"]["kind"]) == ("turn_ended", "interrupted")
        assert last.turn is not None
        await until(lambda: reports[-1] == "sessions can be stored again")
        assert (await ask("GET", "/readyz")).status == 200
        assert await one.ask("and on") == "heard and on"
        kinds = [entry.kind for entry in await disk.read(one.id)]
        assert kinds.count("turn_started") == kinds.count("turn_ended") == 2


async def test_a_host_whose_store_file_was_moved_is_not_ready_and_acknowledges_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(wrappers, "RETRY_INTERVAL", 0.01)
    monkeypatch.setattr(wrappers, "CHECK_INTERVAL", 0.0)
    path, elsewhere = tmp_path / "s.db", tmp_path / "elsewhere"

    store, reports = await SqliteStore.open(str(path)), list[str]()
    async with running_host(store=store, report=reports.append) as hosted, hosted.client("ann") as ann:
        ask = Caller(HostApp(hosted.host, local=None))
        one = await open_session(ann, tmp_path)
        assert await one.ask("first") == "heard first"
        assert (await ask("GET", "/readyz")).status == 200
        path.rename(elsewhere)
        refused = await ask("GET", "/readyz")
        assert (refused.status, refused.json["reason"]) == (503, "the store file was moved or removed")
        assert "put it back" in (await denied(one.ask("second"))).message
        elsewhere.rename(path)
        await until(lambda: reports[-1:] == ["sessions can be stored again"])
        assert (await ask("GET", "/readyz")).status == 200
        assert await one.ask("third") == "heard third"
        prompts = [entry.body for entry in await store.read(one.id) if entry.kind == "prompt"]
        assert [prompt["prompt"][0]["text"] for prompt in prompts] == ["first", "third"]
    await store.close()


async def test_the_first_prompt_after_a_full_disk_finds_the_earlier_turn_ended(tmp_path: Path) -> None:
    disk = Disk()
    async with running_host(store=disk) as hosted, hosted.client("ann") as ann:
        one = await open_session(ann, tmp_path)
        turn = asyncio.ensure_future(one.ask("wait gate"))
        await until(lambda: messages_of(one)[-1:] == [("agent", "waiting for gate")])
        disk.is_full = True
        hosted.agents[-1].gates["gate"].set()  # type: ignore[attr-defined]
        await denied(turn)
        disk.is_full = False
        assert await one.ask("on") == "heard on"
        turns = [(entry.kind, entry.turn) for entry in await disk.read(one.id) if entry.kind.startswith("turn_")]
        assert [kind for kind, _ in turns] == ["turn_started", "turn_ended"] * 2
        assert turns[0][1] == turns[1][1] != turns[2][1] == turns[3][1]


async def test_no_turn_starts_while_the_end_of_the_one_before_cannot_be_stored(tmp_path: Path) -> None:
    disk = Disk()
    append = disk.append
    refuses_ends = True

    async def append_no_ends(session: str, drafts: Sequence[Draft], **options: Any) -> list[Entry]:
        """Fail for each end of a turn, as an engine does that comes and goes."""
        if refuses_ends and any(draft.kind == "turn_ended" for draft in drafts):
            raise StoreFault("away", "nobody answers")
        return await append(session, drafts, **options)

    disk.append = append_no_ends  # type: ignore[method-assign, assignment]
    async with running_host(store=disk) as hosted, hosted.client("ann") as ann:
        one = await open_session(ann, tmp_path)
        for text in ("first", "second", "third"):
            assert "nobody answers" in (await denied(one.ask(text))).message
        refuses_ends = False
        assert await one.ask("on") == "heard on"
        log = await disk.read(one.id)
        assert [entry.kind for entry in log if entry.kind.startswith("turn_")] == ["turn_started", "turn_ended"] * 2
        assert [entry.body["prompt"][0]["text"] for entry in log if entry.kind == "prompt"] == ["first", "on"]


async def test_frequent_readiness_checks_write_little(monkeypatch: pytest.MonkeyPatch) -> None:
    disk = Disk()
    store = MonitoredStore(disk, nothing, print)
    draft = Draft(kind="opened", actor="user", time="2026-01-01T00:00:00Z", body={})
    assert [await store.unavailable_reason() for _ in range(50)] == [""] * 50
    assert disk.probes == 1
    monkeypatch.setattr(wrappers, "CHECK_INTERVAL", 0.0)
    disk.is_full = True
    assert [await store.unavailable_reason() for _ in range(50)] == ["the disk is full"] * 50
    assert disk.probes == 2
    disk.is_full = False
    await store.append("one", [draft])
    monkeypatch.setattr(wrappers, "CHECK_INTERVAL", 60.0)
    assert await store.unavailable_reason() == ""  # a recent write is better evidence than a trial write
    assert disk.probes == 2
    await store.stop()


async def test_a_store_that_a_readiness_check_finds_failing_is_reported_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(wrappers, "CHECK_INTERVAL", 0.0)
    monkeypatch.setattr(wrappers, "RETRY_INTERVAL", 0.0)
    disk, reports = Disk(), list[str]()
    store = MonitoredStore(disk, nothing, reports.append)
    disk.is_full = True
    assert [await store.unavailable_reason() for _ in range(3)] == ["the disk is full"] * 3
    with pytest.raises(StoreFault):
        await store.append("one", [Draft(kind="opened", actor="user", time="2026-01-01T00:00:00Z", body={})])
    disk.is_full = False
    assert [await store.unavailable_reason() for _ in range(3)] == [""] * 3
    assert [line.partition(":")[0] for line in reports] == ["sessions cannot be stored", "sessions can be stored again"]
    await store.stop()


async def test_a_hanging_disk_is_tried_only_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(wrappers, "PROBE_TIMEOUT", 0.01)
    monkeypatch.setattr(wrappers, "RETRY_INTERVAL", 0.0)

    disk = Disk()
    store = MonitoredStore(disk, nothing, print)
    disk.answers.clear()
    assert [await store.unavailable_reason() for _ in range(3)] == ["the disk does not answer"] * 3
    assert disk.probes == 1
    disk.answers.set()
    await asyncio.sleep(0)
    assert await store.unavailable_reason() == ""


def test_a_store_on_a_full_disk_is_not_locked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: Any) -> int:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "pwrite", full)
    with pytest.raises(StoreFault, match="is full") as caught, lock_store(str(tmp_path / "sessions.db")):
        pytest.fail("it was claimed")
    assert caught.value.why == "full"


async def test_agent_and_client_events_are_reported(tmp_path: Path) -> None:
    reports: list[str] = []
    async with running_host(report=reports.append) as hosted, hosted.client("ann") as ann:
        one = await open_session(ann, tmp_path)
        await denied(one.ask("die"))
        await until(lambda: not hosted.room.agent.is_started)
        assert await one.ask("again") == "heard again"
        await one.close()
        await until(lambda: hosted.host.rooms == {})
    mine = [each.removeprefix(f"session {one.id}: ") for each in reports]
    died = next(each for each in mine if each.startswith("its agent exited: "))
    assert [each for each in mine if each != died and "briefly" not in each] == [
        "ann is connected",
        "its agent talker was started",
        "ann joined as admin (dragoman)",
        "its agent talker was started again",
        "ann left",
        "its agent is stopped",
        "ann disconnected",
    ], json.dumps(mine, indent=1)
    assert (
        mine.index("ann joined as admin (dragoman)")
        < mine.index(died)
        < mine.index("its agent talker was started again")
    )
