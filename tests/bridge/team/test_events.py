"""The events of a team: what happens to files is followed until the team ends, however it ends."""

from __future__ import annotations

import asyncio

from dragoman.bridge.team.events import EventLog
from dragoman.workspace.coordination import FileCoordinator
from dragoman.workspace.tree_member import TreeMember


def test_a_team_whose_loop_ended_does_not_disturb_the_writes_of_others() -> None:
    coordinator, member = FileCoordinator(), TreeMember(lambda: "writer", ["/w"])
    noted: list[int] = []

    async def follow() -> None:
        EventLog().follow(coordinator, lambda: noted.append(1))
        coordinator.note_written(member, "/w/a", b"one")
        await asyncio.sleep(0)

    asyncio.run(follow())
    assert noted == [1]
    coordinator.note_written(member, "/w/a", b"two")
    assert noted == [1]
    assert coordinator.listeners == []
