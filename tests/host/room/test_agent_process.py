"""The agent process of a room: stopped, started, crashed, restarted; and what is left when the host stops."""

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
from tests.host.auth.test_roles import denied, record_notifications
from tests.host.memory_host import messages_of, open_session, running_host, talker, until


def test_repeated_crashes_increase_the_restart_delay() -> None:
    crashes, pauses = RestartBackoff(), []
    for _ in range(10):
        crashes.record_crash(100.0)
        pauses.append(crashes.remaining(100.0))
    assert pauses == [0.0, 1.0, 2.0, 4.0, 8.0, 16.0, 32.0, LONGEST_DELAY, LONGEST_DELAY, LONGEST_DELAY]
    assert crashes.remaining(100.0 + LONGEST_DELAY) == 0.0
    crashes.reset()
    crashes.record_crash(500.0)
    assert crashes.remaining(500.0) == 0.0


async def test_an_agent_stops_when_all_have_left_and_a_prompt_starts_it_again(tmp_path: Path) -> None:
    async with running_host(limits=HostLimits(idle_timeout=0.0)) as hosted:
        async with hosted.client() as ann:
            session = await open_session(ann, tmp_path)
            await session.ask("one")
        await until(lambda: not hosted.host.rooms)
        assert len(hosted.started) == 2  # one for initialize, one for the session
        async with hosted.client() as ann:
            again = await ann.load_session(session.id, str(tmp_path))
            assert len(hosted.started) == 2  # reading starts no agent
            assert await again.ask("two") == "heard two"
            assert messages_of(again) == [
                ("user", "one"),
                ("agent", "heard one"),
                ("user", "two"),
                ("agent", "heard two"),
            ]


async def test_two_simultaneous_prompts_start_one_agent(tmp_path: Path) -> None:
    async with running_host() as hosted, hosted.client() as ann, hosted.client() as ben:
        one = await open_session(ann, tmp_path)
        await one.ask("x")
        two = await ben.resume_session(one.id, "/")
        await hosted.room.agent.stop()
        before = len(hosted.started)
        await asyncio.gather(one.ask("y"), two.ask("z"))
        assert len(hosted.started) == before + 1


@pytest.mark.parametrize("is_watched", [True, False])
async def test_an_agent_that_crashes_in_a_turn_is_reported_and_restarted(is_watched: bool, tmp_path: Path) -> None:
    received: list[tuple[str, Any]] = []
    async with running_host() as hosted:
        async with hosted.client("ann", **record_notifications(received)) as ann:
            session = await open_session(ann, tmp_path)
            if is_watched:
                error = await denied(session.ask("die"))
                assert "starts the agent again" in error.message
                await until(lambda: any(name == "agent" for name, _ in received))
                assert await session.ask("back") == "heard back"
            else:
                ann.notify("session/prompt", {"sessionId": session.id, "prompt": [{"type": "text", "text": "die"}]})
        await until(lambda: hosted.room.queue.is_empty)
        log = await hosted.host.store.read(session.id)
        stop_host = next(entry for entry in log if entry.kind == "turn_ended")
        assert stop_host.body["error"]["kind"] == Kind.INTERNAL_ERROR
        assert any(entry.kind == "agent_exited" for entry in log)
        async with hosted.client("ann") as again:
            back = await again.load_session(session.id, str(tmp_path))
            assert await back.ask("hello") == "heard hello"


async def test_an_agent_that_keeps_crashing_is_restarted_with_a_delay(tmp_path: Path) -> None:
    async with running_host() as hosted, hosted.client("ann") as ann:
        session = await open_session(ann, tmp_path)
        await denied(session.ask("die"))
        await denied(session.ask("die"))
        error = await denied(session.ask("hello"))
        assert error.kind == Kind.RATE_LIMITED
        assert error.data is not None
        assert 0 < error.data["retryAfter"] <= 1.0


async def test_the_mode_is_set_again_after_a_restart(tmp_path: Path) -> None:
    modes = [SessionMode(id="ask", name="Ask"), SessionMode(id="code", name="Code")]

    async with running_host(lambda: talker(modes=modes)) as hosted, hosted.client("ann") as ann, hosted.client() as ben:
        one = await open_session(ann, tmp_path)
        two = await ben.resume_session(one.id, "/")
        await one.set_mode("code")
        await until(lambda: two.mode == "code")
        await denied(one.ask("die"))
        await one.ask("x")
        assert next(iter(hosted.agents[-1].sessions.values())).mode == "code"
        late = await ben.resume_session(one.id, "/")
        assert late.mode == "code"
        log = await hosted.host.store.read(one.id)
        by = [e.actor for e in log if e.kind == "update" and e.body["sessionUpdate"] == "current_mode_update"]
        assert "ann" in by


async def test_a_restarted_host_continues_its_sessions(tmp_path: Path) -> None:
    store = await SqliteStore.open(str(tmp_path / "log.db"), durability="off")
    try:
        async with running_host(store=store) as hosted, hosted.client() as ann:
            session = await open_session(ann, tmp_path)
            await session.ask("one")
            directory = hosted.host.session_roles
            ann.notify("session/prompt", {"sessionId": session.id, "prompt": [{"type": "text", "text": "wait x"}]})
            await until(lambda: messages_of(session)[-1][1].endswith("waiting for x"))
            await hosted.host.close()
        log = await store.read(session.id)
        assert log[-1].kind == "turn_ended"
        assert log[-1].body["error"]["kind"] == "interrupted"
        # As after kill -9: a turn without an end.
        turn = Draft(kind="turn_started", actor="ann", time="t", body={}, turn="t9")
        await store.append(session.id, [turn])
        async with running_host(store=store, session_roles=directory) as hosted, hosted.client() as ann:
            again = await ann.load_session(session.id, str(tmp_path))
            assert ("agent", "heard one") in messages_of(again)
            assert await again.ask("two") == "heard two"
        stop_host = [
            entry for entry in await store.read(session.id) if entry.kind == "turn_ended" and entry.turn == "t9"
        ]
        assert [entry.body["error"]["kind"] for entry in stop_host] == ["interrupted"]
    finally:
        await store.close()


async def test_an_open_prompt_gets_an_error_when_the_host_stops(tmp_path: Path) -> None:
    before = asyncio.all_tasks()
    async with running_host() as hosted, hosted.client() as ann, hosted.client() as ben:
        session = await open_session(ann, tmp_path)
        other = await ben.resume_session(session.id, "/")
        running = asyncio.ensure_future(session.ask("wait x"))
        await until(lambda: ("agent", "waiting for x") in messages_of(other))
        queued = asyncio.ensure_future(other.ask("y"))
        await until(lambda: hosted.room.queue.waiting)
        await hosted.host.close()
        for task in (running, queued):
            assert "the host was stopped" in str((await asyncio.gather(task, return_exceptions=True))[0])
        assert not hosted.host.rooms
        assert not hosted.host.clients
    left = [task for task in asyncio.all_tasks() - before if not task.done()]
    assert not left


class Failing(MemoryStore):
    """A store whose disk is full when the test says so."""

    is_full = False

    async def append(self, session_id: str, drafts: Any, *, claim: Any = None) -> list[Entry]:
        if self.is_full:
            raise StoreFault("full", "the disk is full; make room")
        return await super().append(session_id, drafts, claim=claim)


async def test_a_store_failure_is_reported_and_the_session_recovers(tmp_path: Path) -> None:
    store = Failing()
    async with running_host(store=store) as hosted, hosted.client() as ann:
        session = await open_session(ann, tmp_path)
        await session.ask("one")
        store.is_full = True
        error = await denied(session.ask("two"))
        assert "disk is full" in error.message
        store.is_full = False
        assert await session.ask("three") == "heard three"
        received = [text for who, text in messages_of(session) if who == "agent"]
        assert received == ["heard one", "heard three"]


async def test_an_agent_that_cannot_start_gives_an_error(tmp_path: Path) -> None:

    def broken() -> Any:
        raise ProtocolError(Kind.INTERNAL_ERROR, "no such agent")

    async with running_host(broken) as hosted:
        with pytest.raises(ProtocolError, match="no such agent"):
            async with hosted.client():
                pass
