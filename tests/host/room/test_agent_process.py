"""How a house keeps agents: asleep, woken, dead, restarted; and what is left when it stops."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from dragoman.errors import Kind, ProtocolError, StoreFault
from dragoman.host.limits import HostLimits
from dragoman.host.room.agent_process import LONGEST_DELAY, RestartBackoff
from dragoman.schema.config import SessionMode
from dragoman.store.contract import Draft, Entry
from dragoman.store.memory import MemoryStore
from dragoman.store.sqlite import SqliteStore
from tests.host.auth.test_roles import denied, hearing
from tests.host.memory_host import hosting, opened, said, talker, until


def test_deaths_in_a_row_are_waited_for_longer_and_longer() -> None:
    crashes, pauses = RestartBackoff(), []
    for _ in range(10):
        crashes.record_crash(100.0)
        pauses.append(crashes.remaining(100.0))
    assert pauses == [0.0, 1.0, 2.0, 4.0, 8.0, 16.0, 32.0, LONGEST_DELAY, LONGEST_DELAY, LONGEST_DELAY]
    assert crashes.remaining(100.0 + LONGEST_DELAY) == 0.0
    crashes.reset()
    crashes.record_crash(500.0)
    assert crashes.remaining(500.0) == 0.0


async def test_a_session_sleeps_when_all_have_left_and_a_prompt_wakes_it(tmp_path: Path) -> None:

    async with hosting(bounds=HostLimits(idle_timeout=0.0)) as hosted:
        async with hosted.client() as ann:
            session = await opened(ann, tmp_path)
            await session.ask("one")
        await until(lambda: not hosted.house.rooms)
        assert len(hosted.started) == 2  # one to ask what it is, one for the session
        async with hosted.client() as ann:
            again = await ann.load(session.id, str(tmp_path))
            assert len(hosted.started) == 2  # looking wakes nobody
            assert await again.ask("two") == "heard two"
            assert said(again) == [("user", "one"), ("agent", "heard one"), ("user", "two"), ("agent", "heard two")]


async def test_two_who_wake_a_session_at_once_start_one_agent(tmp_path: Path) -> None:

    async with hosting() as hosted, hosted.client() as ann, hosted.client() as ben:
        one = await opened(ann, tmp_path)
        await one.ask("x")
        two = await ben.resume(one.id, "/")
        await hosted.room.sleep()
        before = len(hosted.started)
        await asyncio.gather(one.ask("y"), two.ask("z"))
        assert len(hosted.started) == before + 1


@pytest.mark.parametrize("is_watched", [True, False])
async def test_an_agent_that_dies_in_a_turn_is_reported_and_started_again(is_watched: bool, tmp_path: Path) -> None:

    heard: list[tuple[str, Any]] = []
    async with hosting() as hosted:
        async with hosted.client("ann", **hearing(heard)) as ann:
            session = await opened(ann, tmp_path)
            if is_watched:
                error = await denied(session.ask("die"))
                assert "starts the agent again" in error.message
                await until(lambda: any(name == "agent" for name, _ in heard))
                assert await session.ask("back") == "heard back"
            else:
                ann.notify("session/prompt", {"sessionId": session.id, "prompt": [{"type": "text", "text": "die"}]})
        await until(lambda: hosted.room.queue.is_empty)
        log = await hosted.house.store.read(session.id)
        ended = next(entry for entry in log if entry.kind == "turn_ended")
        assert ended.body["error"]["kind"] == Kind.INTERNAL_ERROR
        assert any(entry.kind == "agent_exited" for entry in log)
        async with hosted.client("ann") as again:
            back = await again.load(session.id, str(tmp_path))
            assert await back.ask("hello") == "heard hello"


async def test_an_agent_that_dies_again_and_again_is_not_started_at_once(tmp_path: Path) -> None:

    async with hosting() as hosted, hosted.client("ann") as ann:
        session = await opened(ann, tmp_path)
        await denied(session.ask("die"))
        await denied(session.ask("die"))
        error = await denied(session.ask("hello"))
        assert error.kind == Kind.RATE_LIMITED
        assert error.data is not None
        assert 0 < error.data["retryAfter"] <= 1.0


async def test_the_mode_is_set_again_after_a_restart(tmp_path: Path) -> None:
    modes = [SessionMode(id="ask", name="Ask"), SessionMode(id="code", name="Code")]

    async with hosting(lambda: talker(modes=modes)) as hosted, hosted.client("ann") as ann, hosted.client() as ben:
        one = await opened(ann, tmp_path)
        two = await ben.resume(one.id, "/")
        await one.set_mode("code")
        await until(lambda: two.mode == "code")
        await denied(one.ask("die"))
        await one.ask("x")
        assert next(iter(hosted.agents[-1].sessions.values())).mode == "code"
        late = await ben.resume(one.id, "/")
        assert late.mode == "code"
        log = await hosted.house.store.read(one.id)
        by = [e.actor for e in log if e.kind == "update" and e.body["sessionUpdate"] == "current_mode_update"]
        assert "ann" in by


async def test_a_host_that_starts_again_goes_on_with_its_sessions(tmp_path: Path) -> None:

    store = await SqliteStore.open(str(tmp_path / "log.db"), durability="off")
    try:
        async with hosting(store=store) as hosted, hosted.client() as ann:
            session = await opened(ann, tmp_path)
            await session.ask("one")
            directory = hosted.house.session_roles
            ann.notify("session/prompt", {"sessionId": session.id, "prompt": [{"type": "text", "text": "wait x"}]})
            await until(lambda: said(session)[-1][1].endswith("waiting for x"))
            await hosted.house.close()
        log = await store.read(session.id)
        assert log[-1].kind == "turn_ended"
        assert log[-1].body["error"]["kind"] == "interrupted"
        # As after kill -9: a turn that nobody ended.
        turn = Draft(kind="turn_started", actor="ann", time="t", body={}, turn="t9")
        await store.append(session.id, [turn])
        async with hosting(store=store, directory=directory) as hosted, hosted.client() as ann:
            again = await ann.load(session.id, str(tmp_path))
            assert ("agent", "heard one") in said(again)
            assert await again.ask("two") == "heard two"
        ended = [entry for entry in await store.read(session.id) if entry.kind == "turn_ended" and entry.turn == "t9"]
        assert [entry.body["error"]["kind"] for entry in ended] == ["interrupted"]
    finally:
        await store.close()


async def test_a_prompter_hears_that_the_host_stopped_and_nothing_is_left(tmp_path: Path) -> None:

    before = asyncio.all_tasks()
    async with hosting() as hosted, hosted.client() as ann, hosted.client() as ben:
        session = await opened(ann, tmp_path)
        other = await ben.resume(session.id, "/")
        running = asyncio.ensure_future(session.ask("wait x"))
        await until(lambda: ("agent", "waiting for x") in said(other))
        queued = asyncio.ensure_future(other.ask("y"))
        await until(lambda: hosted.room.queue.waiting)
        await hosted.house.close()
        for task in (running, queued):
            assert "the host was stopped" in str((await asyncio.gather(task, return_exceptions=True))[0])
        assert not hosted.house.rooms
        assert not hosted.house.clients
    left = [task for task in asyncio.all_tasks() - before if not task.done()]
    assert not left


class Failing(MemoryStore):
    """A store whose disk is full when the test says so."""

    is_full = False

    async def append(self, session_id: str, drafts: Any) -> list[Entry]:
        if self.is_full:
            raise StoreFault("full", "the disk is full; make room")
        return await super().append(session_id, drafts)


async def test_a_store_that_fails_is_told_and_the_session_goes_on_when_it_works_again(tmp_path: Path) -> None:

    store = Failing()
    async with hosting(store=store) as hosted, hosted.client() as ann:
        session = await opened(ann, tmp_path)
        await session.ask("one")
        store.is_full = True
        error = await denied(session.ask("two"))
        assert "disk is full" in error.message
        store.is_full = False
        assert await session.ask("three") == "heard three"
        heard = [text for who, text in said(session) if who == "agent"]
        assert heard == ["heard one", "heard three"]


async def test_an_agent_that_cannot_be_started_says_so(tmp_path: Path) -> None:

    def broken() -> Any:
        raise ProtocolError(Kind.INTERNAL_ERROR, "no such agent")

    async with hosting(broken) as hosted:
        with pytest.raises(ProtocolError, match="no such agent"):
            async with hosted.client():
                pass
