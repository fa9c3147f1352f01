"""One agent process for all sessions of a user: they share it, hear nothing of each other, and come and go alone."""

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
from tests.host.auth.test_roles import denied, hearing
from tests.host.memory_host import Hosted, hosting, opened, talker, until
from tests.host.pool.test_process_limits import agents, descriptors, told
from tests.host.room.test_questions import Person

PATIENCE = 90.0

REAL = NamedAgent(
    name="everything", command=sys.executable, args=("-m", "dragoman", "agent", "everything"), dialect="v1"
)


async def ended(hosted: Hosted) -> None:
    """Stop the house, and wait for whoever was served."""
    await hosted.house.close()
    await asyncio.gather(*hosted.tasks)


def run(scene: Awaitable[None]) -> None:
    """Play a scene, within bounds."""

    async def bounded() -> None:
        async with asyncio.timeout(PATIENCE):
            await scene

    asyncio.run(bounded())


async def test_sessions_of_a_user_share_a_real_process_and_nothing_else(tmp_path: Path) -> None:

    before = descriptors()
    house = Host([REAL], store=MemoryStore(), session_roles=MemorySessionRoles(), share_processes=True)
    hosted = Hosted(house, [], [])
    person = Person()
    folders = [tmp_path / name for name in ("one", "two", "bens")]
    for folder in folders:
        folder.mkdir()
    async with hosted.client("ann", permission=person) as ann, hosted.client("ben", permission="allow") as ben:
        one, two = [await ann.open(str(folder)) for folder in folders[:2]]
        (shared,) = agents()
        bens = await ben.open(str(folders[2]))
        assert len(agents()) == 2  # never one for both users

        streams = await asyncio.gather(*(each.ask("/stream 300 20") for each in (one, two)))
        assert streams[0] == streams[1] == told(one) == told(two)
        words = await asyncio.gather(*(each.ask(f"/echo {at}") for at, each in enumerate((one, two, bens))))
        assert words == ["0", "1", "2"]

        asking = asyncio.ensure_future(two.ask("/ask"))
        await until(lambda: person.asked == 1)
        assert not house.rooms[one.id].questions.has_open
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
        await until(lambda: all(house.rooms[each.id].state.open_turn is not None for each in (one, two)))
        one.cancel()
        await asyncio.gather(*slow)
        reasons = [
            [e.body["stopReason"] for e in await house.store.read(each.id) if e.kind == "turn_ended"][-1]
            for each in (one, two)
        ]
        assert reasons == ["cancelled", "end_turn"]

        running = asyncio.ensure_future(one.ask("/slow 60"))
        await until(lambda: house.rooms[one.id].state.open_turn is not None)
        await house.rooms[one.id].stop_agent()
        await denied(running)
        assert shared in agents()
        assert await two.ask("/echo alone") == "alone"
        assert await one.ask("/echo back") == "back"  # woken, in the process that is there
        assert shared in agents()
        assert len(agents()) == 2
        await house.rooms[one.id].stop_agent()
        await house.rooms[two.id].stop_agent()
        assert shared not in agents()  # ended with the last of them
    await ended(hosted)
    assert not agents()
    assert len(descriptors()) <= len(before) + 1  # the warden's


async def test_the_death_of_a_shared_process_is_told_in_each_session_and_each_comes_back(tmp_path: Path) -> None:

    house = Host([REAL], store=MemoryStore(), session_roles=MemorySessionRoles(), share_processes=True)
    hosted = Hosted(house, [], [])
    heard: list[tuple[str, Any]] = []
    async with hosted.client("ann", **hearing(heard)) as ann:
        one, two = [await ann.open(str(tmp_path)) for _ in range(2)]
        (shared,) = agents()
        running = asyncio.ensure_future(one.ask("/slow 60"))
        await until(lambda: house.rooms[one.id].state.open_turn is not None)
        error = await denied(two.ask("/crash"))
        assert (error.data or {})["status"] == 3
        assert "crashing, as I was told" in (error.data or {})["stderr"]
        assert (await denied(running)).data == error.data
        await until(lambda: len([params for name, params in heard if name == "agent"]) == 2)
        assert {params["sessionId"] for name, params in heard if name == "agent"} == {one.id, two.id}
        back = await asyncio.gather(one.ask("/echo 1"), two.ask("/echo 2"))
        assert [*back] == ["1", "2"]
        (other,) = agents()
        assert other != shared

        rooms = [house.rooms[each.id] for each in (one, two)]
        for room in rooms:
            room.restart_backoff.count = 1  # as if the answers above had not been
        os.kill(other, signal.SIGKILL)
        await until(lambda: not agents() and not any(room.has_agent for room in rooms))
        for each in (one, two):
            refused = await denied(each.ask("/echo too soon"))
            assert refused.kind == Kind.RATE_LIMITED
            assert (refused.data or {})["retryAfter"] > 0
    await ended(hosted)
    assert not agents()


async def test_a_fork_shares_the_process_of_who_forked_it_and_never_that_of_who_opened_the_first(
    tmp_path: Path,
) -> None:

    async with hosting(shares=True) as hosted, hosted.client("ann") as ann, hosted.client("ben") as ben:
        one, _ = [await opened(ann, tmp_path) for _ in range(2)]
        count = len(hosted.agents)
        assert count == 2  # one was asked who it is, one is shared
        hers = await ann.fork(one.id, str(tmp_path))
        assert await hers.ask("mine") == "heard mine"
        assert len(hosted.agents) == count
        await hosted.house.session_roles.set_role(one.id, "ben", "admin")
        fork = await ben.fork(one.id, str(tmp_path))
        assert await fork.ask("mine") == "heard mine"
        assert len(hosted.agents) == count + 1
        await hosted.house.session_roles.set_role(fork.id, "ann", "admin")
        await hosted.house.rooms[fork.id].close("for a while")
        hosted.house.forget_room(fork.id)
        again = await ben.load(fork.id, str(tmp_path))  # from the store, where ann stands first in its log
        assert await again.ask("still mine") == "heard still mine"
        assert len(hosted.agents) == count + 2
        assert await hosted.house.rooms[fork.id].login_user() == "ben"  # whose login it gets, though ann is admin too
        assert {room.process_note for room in hosted.house.rooms.values()} == {"shared"}


async def test_a_session_is_not_shared_with_who_is_not_its_admin_any_more(tmp_path: Path) -> None:

    async with hosting(shares=True) as hosted, hosted.client("ann") as ann, hosted.client("ben") as ben:
        one, two = [await opened(ann, tmp_path) for _ in range(2)]
        directory = hosted.house.session_roles
        await directory.set_role(two.id, "ben", "admin")
        await directory.set_role(two.id, "ann", None)
        await hosted.house.rooms[two.id].stop_agent()
        bens = await ben.load(two.id, str(tmp_path))
        count = len(hosted.agents)
        assert await bens.ask("now mine") == "heard now mine"
        assert len(hosted.agents) == count + 1
        assert await one.ask("hers") == "heard hers"


async def test_sessions_before_and_after_a_login_are_in_different_processes(tmp_path: Path) -> None:
    logins: list[Any] = []

    def made() -> Agent:
        agent = talker()

        @agent.authenticate("key", "Key")
        async def authenticate(_: Any) -> None:
            logins.append(agent)

        return agent

    async with hosting(made, shares=True) as hosted, hosted.client("ann") as ann:
        await opened(ann, tmp_path)
        await ann.authenticate("key")
        count = len(hosted.agents)
        for _ in range(2):
            session = await opened(ann, tmp_path)
            assert await session.ask("in") == "heard in"
        assert len(hosted.agents) == count + 1
        assert logins.count(hosted.agents[-1]) == 1  # once for both


async def test_who_logs_out_and_in_again_is_logged_in_also_where_a_process_was_shared(tmp_path: Path) -> None:
    heard: list[str] = []

    def made() -> Agent:
        agent = talker()
        agent.authenticate("key", "Key")(lambda _: heard.append("in"))
        agent.on_logout(lambda: heard.append("out"))
        return agent

    async with hosting(made, shares=True) as hosted, hosted.client("ann") as ann:
        await ann.authenticate("key")
        one = await opened(ann, tmp_path)
        shared = hosted.agents[-1]
        heard.clear()
        await ann.logout()
        assert heard == ["out", "out"]  # at one that was started for it, and at the one that is awake
        await ann.authenticate("key")
        two = await opened(ann, tmp_path)
        assert heard == ["out", "out", "in", "in"]  # also at the process that was logged out
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
async def test_what_says_its_session_is_shared_and_what_does_not_says_why_it_is_not(dialect: str, why: str) -> None:

    named = [NamedAgent(name="talker", command="talker", dialect=dialect)]
    reports: list[str] = []
    making = hosting(lambda: talker(dialect=dialect), agents=named, shares=True, report=reports.append)
    async with making as hosted, hosted.client("ann", permission="allow") as ann:
        both = [await opened(ann, os.getcwd()) for _ in range(2)]
        assert [await each.ask("on") for each in both] == ["heard on"] * 2
        assert len(hosted.agents) == (3 if why else 2)  # one was asked who it is
        assert {room.process_note for room in hosted.house.rooms.values()} == {f"own: {why}" if why else "shared"}
        told = [line for line in reports if "the process of its agent is its own" in line]
        assert len(told) == (2 if why else 0)


async def test_sessions_of_a_crow_agent_ask_stop_and_leave_alone_in_one_process(tmp_path: Path) -> None:

    named = [NamedAgent(name="talker", command="talker", dialect="crow")]
    person = Person()
    making = hosting(lambda: talker(dialect="crow"), agents=named, shares=True)
    async with making as hosted, hosted.client("ann", permission=person) as ann:
        one, two = [await opened(ann, tmp_path) for _ in range(2)]
        asking = asyncio.ensure_future(two.ask("ask"))
        await until(lambda: person.asked == 1)
        assert not hosted.house.rooms[one.id].questions.has_open
        running = asyncio.ensure_future(one.ask("wait a"))
        await until(lambda: hosted.house.rooms[one.id].state.open_turn is not None)
        one.cancel()
        assert "came" not in await running
        person.say("allow")
        assert await asking == "yes"
        running = asyncio.ensure_future(one.ask("wait b"))
        await until(lambda: "b" in hosted.agents[-1].gates)  # type: ignore[attr-defined]
        await hosted.house.rooms[one.id].stop_agent()  # which ends its turn at the agent, in the words of crow
        await denied(running)
        assert await two.ask("still here") == "heard still here"
        assert await one.ask("back") == "heard back"
        assert len(hosted.agents) == 2


async def test_agents_in_a_sandbox_keep_a_process_for_each_session() -> None:

    boxed, plain = [
        NamedAgent(name=name, command="true", dialect="v1", sandbox=name == "boxed") for name in ("boxed", "plain")
    ]
    async with Host([boxed, plain], store=MemoryStore(), share_processes=True) as house:
        room = await house.create_room(Principal(user="ann", is_local=True))
        ways = [dialer_for_room(room, named, "/", report=None, patience=1.0) for named in (boxed, plain)]
        assert [isinstance(way, PooledDialer) for way in ways] == [False, True]
