"""One agent process for all sessions of a user: they share it, hear nothing of each other, and come and go alone."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from collections.abc import Awaitable
from pathlib import Path
from typing import Any

from dragoman.config.agents import NamedAgent
from dragoman.errors import Kind
from dragoman.host.directory import MemoryDirectory
from dragoman.host.house import House
from dragoman.store.memory import MemoryStore
from tests.host.houses import Hosted, until
from tests.host.test_processes import agents, descriptors, told
from tests.host.test_questions import Person
from tests.host.test_sharing import denied, hearing

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


def test_sessions_of_a_user_share_a_real_process_and_nothing_else(tmp_path: Path) -> None:
    async def scene() -> None:
        house = House([REAL], store=MemoryStore(), directory=MemoryDirectory(), shares=True)
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
            assert not house.rooms[one.id].questions.are_open
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
            await until(lambda: all(house.rooms[each.id].standing.turn is not None for each in (one, two)))
            one.cancel()
            await asyncio.gather(*slow)
            reasons = [
                [e.body["stopReason"] for e in await house.store.read(each.id) if e.kind == "turn_ended"][-1]
                for each in (one, two)
            ]
            assert reasons == ["cancelled", "end_turn"]

            running = asyncio.ensure_future(one.ask("/slow 60"))
            await until(lambda: house.rooms[one.id].standing.turn is not None)
            await house.rooms[one.id].sleep()
            await denied(running)
            assert shared in agents()
            assert await two.ask("/echo alone") == "alone"
            assert await one.ask("/echo back") == "back"  # woken, in the process that is there
            assert shared in agents()
            assert len(agents()) == 2
            await house.rooms[one.id].sleep()
            await house.rooms[two.id].sleep()
            assert shared not in agents()  # ended with the last of them
        await ended(hosted)
        assert not agents()

    before = descriptors()
    run(scene())
    assert len(descriptors()) <= len(before) + 1  # the warden's


def test_the_death_of_a_shared_process_is_told_in_each_session_and_each_comes_back(tmp_path: Path) -> None:
    async def scene() -> None:
        house = House([REAL], store=MemoryStore(), directory=MemoryDirectory(), shares=True)
        hosted = Hosted(house, [], [])
        heard: list[tuple[str, Any]] = []
        async with hosted.client("ann", **hearing(heard)) as ann:
            one, two = [await ann.open(str(tmp_path)) for _ in range(2)]
            (shared,) = agents()
            running = asyncio.ensure_future(one.ask("/slow 60"))
            await until(lambda: house.rooms[one.id].standing.turn is not None)
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
                room.crashes.count = 1  # as if the answers above had not been
            os.kill(other, signal.SIGKILL)
            await until(lambda: not agents() and not any(room.is_held for room in rooms))
            for each in (one, two):
                refused = await denied(each.ask("/echo too soon"))
                assert refused.kind == Kind.RATE_LIMITED
                assert (refused.data or {})["retryAfter"] > 0
        await ended(hosted)
        assert not agents()

    run(scene())
