"""The life of a session in a host: closed, deleted, forked, listed; allowed folders, and logins."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path
from typing import Any

import pytest

from dragoman import Agent, Turn
from dragoman.errors import Kind, ProtocolError
from dragoman.host.limits import HostLimits
from dragoman.schema.mcp import McpServer
from dragoman.store.memory import MemoryStore
from tests.host.auth.test_roles import denied, record_notifications
from tests.host.memory_host import messages_of, open_session, running_host, talker, until


async def test_closing_leaves_the_room_and_the_last_close_stops_the_agent(tmp_path: Path) -> None:
    async with running_host() as hosted, hosted.client("ann") as ann, hosted.client("ben") as ben:
        one = await open_session(ann, tmp_path)
        await hosted.host.session_roles.set_role(one.id, "ben", "editor")
        two = await ben.resume_session(one.id, "/")
        await two.close()
        assert hosted.room.agent.is_running  # ann is still there, and ben is no admin
        assert await one.ask("x") == "heard x"
        await one.close()
        assert not hosted.host.rooms
        assert hosted.started[-1].failure is not None


async def test_closing_ends_ones_own_prompts_only(tmp_path: Path) -> None:
    async with running_host() as hosted, hosted.client("ann") as ann, hosted.client("ann") as ben:
        one = await open_session(ann, tmp_path)
        two = await ben.resume_session(one.id, "/")
        async with one.prompt("wait gate") as turn:
            await until(lambda: ("agent", "waiting for gate") in messages_of(two))
            queued = asyncio.ensure_future(two.ask("y"))
            await until(lambda: hosted.room.queue.waiting)
            await two.close()
            assert not turn.is_over
            await queued
            hosted.agents[-1].gates["gate"].set()  # type: ignore[attr-defined]
            assert (await turn.wait()).stop_reason == "end_turn"
        assert messages_of(one)[-1] == ("agent", "waiting for gate; gate came")


async def test_deleting_a_live_session_closes_it_for_everybody(tmp_path: Path) -> None:
    received: list[tuple[str, Any]] = []
    async with (
        running_host() as hosted,
        hosted.client("ann") as ann,
        hosted.client("ann", **record_notifications(received)) as ben,
    ):
        one = await open_session(ann, tmp_path)
        two = await ben.resume_session(one.id, "/")
        running = asyncio.ensure_future(two.ask("wait gate"))
        await until(lambda: ("agent", "waiting for gate") in messages_of(one))
        waiting = asyncio.ensure_future(one.ask("x"))
        await until(lambda: hosted.room.queue.waiting)
        await ann.delete_session(one.id)
        await running
        assert (await denied(waiting)).kind == Kind.SESSION_NOT_FOUND
        assert (await denied(two.ask("y"))).kind == Kind.SESSION_NOT_FOUND
        assert (await denied(ben.load_session(one.id, "/"))).kind == Kind.SESSION_NOT_FOUND
        assert (await ann.list_sessions()).sessions == []
        assert hosted.started[-1].failure is not None
        assert [params["reason"] for name, params in received if name == "closed"] == ["the session was deleted by ann"]


async def test_a_live_session_can_be_forked_and_both_continue(tmp_path: Path) -> None:
    async with running_host() as hosted, hosted.client("ann") as ann, hosted.client("ann") as ben:
        one = await open_session(ann, tmp_path)
        await one.ask("before")
        two = await ben.fork_session(one.id, str(tmp_path))
        assert two.id != one.id
        assert await one.ask("here") == "heard here"
        assert await two.ask("there") == "heard there"
        assert [text for who, text in messages_of(two) if who == "agent"] == ["heard there"]
        again = await ann.load_session(two.id, str(tmp_path))
        assert [text for who, text in messages_of(again) if who == "user"] == ["before", "there"]
        assert len(hosted.host.rooms) == 2


async def test_an_agent_that_can_fork_does_and_gets_no_history(tmp_path: Path) -> None:
    own = MemoryStore()  # the agent's own store, shared by its processes
    async with running_host(lambda: talker(store=own)) as hosted, hosted.client("ann") as ann:
        one = await open_session(ann, tmp_path)
        await one.ask("before")
        two = await ann.fork_session(one.id, str(tmp_path))
        assert await two.ask("there") == "heard there"
        log = await hosted.host.store.read(two.id)
        assert [entry.body["by"] for entry in log if entry.kind == "opened"] == [
            "session/new", "session/fork", "session/resume",
        ]  # fmt: skip
        assert not any("retold" in entry.body for entry in log if entry.kind == "prompt")
        assert log[-1].actor == "agent"
        assert await one.ask("here") == "heard here"


async def test_lists_are_paged_by_folder_and_newest_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("dragoman.host.list_sessions.PAGE_SIZE", 2)

    async with running_host() as hosted, hosted.client("ann") as ann:
        ids = []
        for _ in range(3):
            session = await open_session(ann, tmp_path)
            await session.ask(f"title {session.id[:4]}")
            ids.append(session.id)
        await open_session(ann, "/")
        listed = [info async for info in ann.iter_sessions(str(tmp_path))]
        assert [info.session_id for info in listed] == ids[::-1]
        assert listed[0].title == f"title {ids[-1][:4]}"
        assert len([info async for info in ann.iter_sessions()]) == 4


async def test_remote_users_open_sessions_only_under_their_roots(tmp_path: Path) -> None:
    (tmp_path / "in" / "deep").mkdir(parents=True)
    (tmp_path / "out").mkdir()
    os.symlink(tmp_path / "out", tmp_path / "in" / "link")

    async with running_host(roots_of=lambda principal: (str(tmp_path / "in"),)) as hosted:
        async with hosted.client("eve", principal={"is_local": False}) as eve:
            session = await open_session(eve, tmp_path / "in" / "deep")
            assert await session.ask("x") == "heard x"
            for bad in ("out", "in/link", "in/../out", "inner"):
                error = await denied(eve.open_session(str(tmp_path / bad)))
                assert error.kind == Kind.PERMISSION_DENIED, bad
            assert (await denied(eve.open_session(str(tmp_path / "in" / "none")))).kind == Kind.INVALID_PARAMS
            more = eve.open_session(str(tmp_path / "in"), directories=[str(tmp_path / "out")])
            assert (await denied(more)).kind == Kind.PERMISSION_DENIED
    async with running_host() as hosted, hosted.client("eve", principal={"is_local": False}) as eve:
        assert "start the host with --root DIR" in (await denied(eve.open_session("/"))).message
        assert "cwd /" not in (await denied(eve.open_session("/"))).message  # which nobody typed


async def test_remote_users_start_only_configured_servers(tmp_path: Path) -> None:
    ours = McpServer(name="docs", command="/bin/docs", args=["--fast"], env=[])

    options: dict[str, Any] = {"roots_of": lambda _: (str(tmp_path),), "mcp_servers": {"docs": ours}}
    async with running_host(**options) as hosted, hosted.client("eve", principal={"is_local": False}) as eve:
        await open_session(eve, tmp_path, mcp_servers=[ours])
        for other in (
            McpServer(name="docs", command="/bin/sh", args=["--fast"], env=[]),
            McpServer(name="docs", command="/bin/docs", args=["-c", "evil"], env=[]),
            McpServer(name="mine", command="/bin/docs", args=["--fast"], env=[]),
        ):
            error = await denied(eve.open_session(str(tmp_path), mcp_servers=[other]))
            assert error.kind == Kind.PERMISSION_DENIED
            assert error.data is not None
            assert error.data["servers"] == [other.name]
        assert len(hosted.host.rooms) == 1
    async with running_host() as hosted, hosted.client("ann") as ann:
        anything = McpServer(name="mine", command="/bin/true", args=[], env=[])
        await open_session(ann, tmp_path, mcp_servers=[anything])  # the owner of this machine


async def test_a_login_is_replayed_to_every_new_agent_of_the_user(tmp_path: Path) -> None:
    def locked() -> Agent:
        agent = Agent("locked", auth_required=True)

        @agent.authenticate("key", "Key")
        async def check(*_: Any) -> bool:
            return True

        @agent.prompt
        async def answer(turn: Turn) -> None:
            await turn.say("in")

        return agent

    async with running_host(locked) as hosted, hosted.client("ann") as ann, hosted.client("ben") as ben:
        assert (await denied(ann.open_session(str(tmp_path)))).kind == Kind.AUTH_REQUIRED
        assert not hosted.host.rooms
        await ann.authenticate("key")
        session = await open_session(ann, tmp_path)
        assert await session.ask("x") == "in"
        await hosted.room.agent.stop()
        assert await session.ask("y") == "in"
        assert (await denied(ben.open_session(str(tmp_path)))).kind == Kind.AUTH_REQUIRED
        with pytest.raises(ProtocolError):
            await ben.authenticate("no such method")
        async with hosted.client("eve", principal={"role": "viewer"}) as eve:
            assert (await denied(eve.authenticate("key"))).kind == Kind.PERMISSION_DENIED
        await hosted.host.session_roles.set_role(session.id, "ben", "editor")
        fork = await ben.fork_session(session.id, str(tmp_path))
        assert (await denied(fork.ask("z"))).kind == Kind.AUTH_REQUIRED, "ann's login is not ben's"


async def test_at_its_limit_a_host_puts_the_longest_idle_session_to_sleep_and_no_session_with_members(
    tmp_path: Path,
) -> None:
    async with running_host(limits=HostLimits(max_sessions=3)) as hosted, hosted.client("ann") as ann:
        ids = []
        for _ in range(2):  # their clients disconnect
            async with hosted.client("ann") as visitor:
                left = await open_session(visitor, tmp_path)
                await left.ask("x")
                ids.append(left.id)
            await until(lambda: hosted.host.rooms[ids[-1]].is_idle)
        stays = await open_session(ann, tmp_path)
        fourth = await open_session(ann, tmp_path)
        assert set(hosted.host.rooms) == {ids[1], stays.id, fourth.id}
        again = await ann.load_session(ids[0], str(tmp_path))
        assert await again.ask("more") == "heard more"  # and now the other one sleeps
        assert set(hosted.host.rooms) == {ids[0], stays.id, fourth.id}
        error = await denied(open_session(ann, tmp_path))
        assert (error.kind, error.data) == (Kind.RATE_LIMITED, {"limit": 3, "kind": Kind.RATE_LIMITED})
        assert "somebody is in each" in error.message
