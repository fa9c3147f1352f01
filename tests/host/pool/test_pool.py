"""One agent process for all sessions of a user: they share it, but not each other's messages."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from collections.abc import Awaitable
from pathlib import Path
from typing import Any

import pytest

from dragoman import Agent
from dragoman.config.config_file import NamedAgent
from dragoman.errors import Kind
from dragoman.host.auth.roles import MemorySessionRoles
from dragoman.host.host import Host
from dragoman.host.pool.pool import PooledDialer
from dragoman.host.room.agent import dialer_for_room
from dragoman.store.memory import MemoryStore
from dragoman.transport.remote.server.auth import Principal
from tests.host.auth.test_roles import denied, record_notifications
from tests.host.memory_host import Hosted, open_session, running_host, talker, until
from tests.host.pool.test_process_limits import agent_text, agents, descriptors
from tests.host.room.test_questions import Person

TIMEOUT = 90.0

REAL = NamedAgent(
    name="everything", command=sys.executable, args=("-m", "dragoman", "agent", "everything"), dialect="v1"
)


async def stop_host(hosted: Hosted) -> None:
    """Stop the host, and wait for all served clients."""
    await hosted.host.close()
    await asyncio.gather(*hosted.tasks)


def run(scene: Awaitable[None]) -> None:
    """Run a coroutine with a timeout."""

    async def bounded() -> None:
        async with asyncio.timeout(TIMEOUT):
            await scene

    asyncio.run(bounded())


async def test_sessions_of_a_user_share_a_real_process_and_nothing_else(tmp_path: Path) -> None:
    before = descriptors()
    host = Host([REAL], store=MemoryStore(), session_roles=MemorySessionRoles(), share_processes=True)
    hosted = Hosted(host, [], [])
    person = Person()
    folders = [tmp_path / name for name in ("one", "two", "bens")]
    for folder in folders:
        folder.mkdir()
    async with hosted.client("ann", permission=person) as ann, hosted.client("ben", permission="allow") as ben:
        one, two = [await ann.open_session(str(folder)) for folder in folders[:2]]
        (shared,) = agents()
        bens = await ben.open_session(str(folders[2]))
        assert len(agents()) == 2  # never one for both users

        streams = await asyncio.gather(*(each.ask("/stream 300 20") for each in (one, two)))
        assert streams[0] == streams[1] == agent_text(one) == agent_text(two)
        words = await asyncio.gather(*(each.ask(f"/echo {at}") for at, each in enumerate((one, two, bens))))
        assert words == ["0", "1", "2"]

        asking = asyncio.ensure_future(two.ask("/ask"))
        await until(lambda: person.asked == 1)
        assert not host.rooms[one.id].questions.has_open
        assert await one.ask("/echo meanwhile") == "meanwhile"
        person.say("allow")
        assert "allows" in await asking

        writing = [asyncio.ensure_future(each.ask(f"/write note.txt {each.id}")) for each in (one, two)]
        await until(lambda: person.asked == 3)
        person.say("allow")
        person.say("allow")
        await asyncio.gather(*writing)
        assert [(folder / "note.txt").read_text() for folder in folders[:2]] == [one.id, two.id]

        slow = [asyncio.ensure_future(each.ask(seconds)) for each, seconds in ((one, "/slow 60"), (two, "/slow 1"))]
        await until(lambda: all(host.rooms[each.id].state.open_turn is not None for each in (one, two)))
        one.cancel()
        await asyncio.gather(*slow)
        reasons = [
            [e.body["stopReason"] for e in await host.store.read(each.id) if e.kind == "turn_ended"][-1]
            for each in (one, two)
        ]
        assert reasons == ["cancelled", "end_turn"]

        running = asyncio.ensure_future(one.ask("/slow 60"))
        await until(lambda: host.rooms[one.id].state.open_turn is not None)
        await host.rooms[one.id].agent.stop()
        await denied(running)
        assert shared in agents()
        assert await two.ask("/echo alone") == "alone"
        assert await one.ask("/echo back") == "back"  # started again, in the same process
        assert shared in agents()
        assert len(agents()) == 2
        await host.rooms[one.id].agent.stop()
        await host.rooms[two.id].agent.stop()
        assert shared not in agents()  # stopped with the last of them
    await stop_host(hosted)
    assert not agents()
    assert len(descriptors()) <= len(before) + 1  # the watchdog's


async def test_a_crash_of_a_shared_process_is_reported_in_each_session_and_each_restarts(tmp_path: Path) -> None:
    host = Host([REAL], store=MemoryStore(), session_roles=MemorySessionRoles(), share_processes=True)
    hosted = Hosted(host, [], [])
    received: list[tuple[str, Any]] = []
    async with hosted.client("ann", **record_notifications(received)) as ann:
        one, two = [await ann.open_session(str(tmp_path)) for _ in range(2)]
        (shared,) = agents()
        running = asyncio.ensure_future(one.ask("/slow 60"))
        await until(lambda: host.rooms[one.id].state.open_turn is not None)
        error = await denied(two.ask("/crash"))
        assert (error.data or {})["status"] == 3
        assert "crashing, as I was told" in (error.data or {})["stderr"]
        assert (await denied(running)).data == error.data
        await until(lambda: len([params for name, params in received if name == "agent"]) == 2)
        assert {params["sessionId"] for name, params in received if name == "agent"} == {one.id, two.id}
        back = await asyncio.gather(one.ask("/echo 1"), two.ask("/echo 2"))
        assert [*back] == ["1", "2"]
        (other,) = agents()
        assert other != shared

        rooms = [host.rooms[each.id] for each in (one, two)]
        for room in rooms:
            room.agent.backoff.count = 1  # as if there had been no answers above
        os.kill(other, signal.SIGKILL)
        await until(lambda: not agents() and not any(room.agent.is_started for room in rooms))
        for each in (one, two):
            refused = await denied(each.ask("/echo too soon"))
            assert refused.kind == Kind.RATE_LIMITED
            assert (refused.data or {})["retryAfter"] > 0
    await stop_host(hosted)
    assert not agents()


async def test_a_fork_shares_the_process_of_its_own_user_only(
    tmp_path: Path,
) -> None:
    async with running_host(share_processes=True) as hosted, hosted.client("ann") as ann, hosted.client("ben") as ben:
        one, _ = [await open_session(ann, tmp_path) for _ in range(2)]
        count = len(hosted.agents)
        assert count == 2  # one for initialize, one is shared
        hers = await ann.fork_session(one.id, str(tmp_path))
        assert await hers.ask("mine") == "heard mine"
        assert len(hosted.agents) == count
        await hosted.host.session_roles.set_role(one.id, "ben", "admin")
        fork = await ben.fork_session(one.id, str(tmp_path))
        assert await fork.ask("mine") == "heard mine"
        assert len(hosted.agents) == count + 1
        await hosted.host.session_roles.set_role(fork.id, "ann", "admin")
        await hosted.host.rooms[fork.id].close("for a while")
        hosted.host.forget_room(fork.id)
        again = await ben.load_session(fork.id, str(tmp_path))  # from the store, where ann is the first in its log
        assert await again.ask("still mine") == "heard still mine"
        assert len(hosted.agents) == count + 2
        assert (
            await hosted.host.rooms[fork.id].agent.login_user() == "ben"
        )  # whose login it gets, though ann is admin too
        assert {room.agent.process_note for room in hosted.host.rooms.values()} == {"shared"}


async def test_a_session_of_a_former_admin_gets_its_own_process(tmp_path: Path) -> None:
    async with running_host(share_processes=True) as hosted, hosted.client("ann") as ann, hosted.client("ben") as ben:
        one, two = [await open_session(ann, tmp_path) for _ in range(2)]
        directory = hosted.host.session_roles
        await directory.set_role(two.id, "ben", "admin")
        await directory.set_role(two.id, "ann", None)
        await hosted.host.rooms[two.id].agent.stop()
        bens = await ben.load_session(two.id, str(tmp_path))
        count = len(hosted.agents)
        assert await bens.ask("now mine") == "heard now mine"
        assert len(hosted.agents) == count + 1
        assert await one.ask("hers") == "heard hers"


async def test_sessions_before_and_after_a_login_are_in_different_processes(tmp_path: Path) -> None:
    logins: list[Any] = []

    def created() -> Agent:
        agent = talker()

        @agent.authenticate("key", "Key")
        async def authenticate(_: Any) -> None:
            logins.append(agent)

        return agent

    async with running_host(created, share_processes=True) as hosted, hosted.client("ann") as ann:
        await open_session(ann, tmp_path)
        await ann.authenticate("key")
        count = len(hosted.agents)
        for _ in range(2):
            session = await open_session(ann, tmp_path)
            assert await session.ask("in") == "heard in"
        assert len(hosted.agents) == count + 1
        assert logins.count(hosted.agents[-1]) == 1  # once for both


async def test_a_second_login_reaches_a_shared_process(tmp_path: Path) -> None:
    received: list[str] = []

    def created() -> Agent:
        agent = talker()
        agent.authenticate("key", "Key")(lambda _: received.append("in"))
        agent.on_logout(lambda: received.append("out"))
        return agent

    async with running_host(created, share_processes=True) as hosted, hosted.client("ann") as ann:
        await ann.authenticate("key")
        one = await open_session(ann, tmp_path)
        shared = hosted.agents[-1]
        received.clear()
        await ann.logout()
        assert received == ["out", "out"]  # at a temporary agent, and at the running one
        await ann.authenticate("key")
        two = await open_session(ann, tmp_path)
        assert received == ["out", "out", "in", "in"]  # also at the process that was logged out
        assert [await each.ask("on") for each in (one, two)] == ["heard on"] * 2
        assert len(shared.sessions) == 2


@pytest.mark.parametrize(
    ("dialect", "why"),
    [
        ("crow", ""),
        ("draft", "an agent of the draft does not say for which session it uses files and terminals"),
        ("2025.1", "an agent of 2025.1 works in one folder, and does not say for which session it uses files"),
    ],
)
async def test_dialects_that_name_the_session_share_and_the_others_report_why_not(dialect: str, why: str) -> None:
    agent_config = [NamedAgent(name="talker", command="talker", dialect=dialect)]
    reports: list[str] = []
    making = running_host(
        lambda: talker(dialect=dialect), agents=agent_config, share_processes=True, report=reports.append
    )
    async with making as hosted, hosted.client("ann", permission="allow") as ann:
        both = [await open_session(ann, os.getcwd()) for _ in range(2)]
        assert [await each.ask("on") for each in both] == ["heard on"] * 2
        assert len(hosted.agents) == (3 if why else 2)  # one for initialize
        assert {room.agent.process_note for room in hosted.host.rooms.values()} == {f"own: {why}" if why else "shared"}
        own_process_reports = [line for line in reports if "agent process: own" in line]
        assert len(own_process_reports) == (2 if why else 0)


async def test_sessions_of_a_crow_agent_ask_cancel_and_close_separately_in_one_process(tmp_path: Path) -> None:
    agent_config = [NamedAgent(name="talker", command="talker", dialect="crow")]
    person = Person()
    making = running_host(lambda: talker(dialect="crow"), agents=agent_config, share_processes=True)
    async with making as hosted, hosted.client("ann", permission=person) as ann:
        one, two = [await open_session(ann, tmp_path) for _ in range(2)]
        asking = asyncio.ensure_future(two.ask("ask"))
        await until(lambda: person.asked == 1)
        assert not hosted.host.rooms[one.id].questions.has_open
        running = asyncio.ensure_future(one.ask("wait a"))
        await until(lambda: hosted.host.rooms[one.id].state.open_turn is not None)
        one.cancel()
        assert "came" not in await running
        person.say("allow")
        assert await asking == "yes"
        running = asyncio.ensure_future(one.ask("wait b"))
        await until(lambda: "b" in hosted.agents[-1].gates)  # type: ignore[attr-defined]
        await hosted.host.rooms[one.id].agent.stop()  # which ends its turn at the agent, in the form of crow
        await denied(running)
        assert await two.ask("still here") == "heard still here"
        assert await one.ask("back") == "heard back"
        assert len(hosted.agents) == 2


async def test_sandboxed_agents_have_a_process_per_session() -> None:
    boxed, plain = [
        NamedAgent(name=name, command="true", dialect="v1", sandbox=name == "boxed") for name in ("boxed", "plain")
    ]
    async with Host([boxed, plain], store=MemoryStore(), share_processes=True) as host:
        room = await host.create_room(Principal(user="ann", is_local=True))
        ways = [
            dialer_for_room(room, agent_config, "/", report=None, initialize_timeout=1.0)
            for agent_config in (boxed, plain)
        ]
        assert [isinstance(way, PooledDialer) for way in ways] == [False, True]
