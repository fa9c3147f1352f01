"""A room whose agent is a team: clients of a host use several agents as one."""

from __future__ import annotations

from pathlib import Path

import pytest

from dragoman import Agent
from dragoman.bridge.team.served import ServedTeam, TeamSettings
from tests.bridge.team.scripted import agent_that, echo
from tests.bridge.team.test_served import write
from tests.host.memory_host import open_session, running_host
from tests.host.room.test_workspace import free_guard


@pytest.mark.item("BR-30")
async def test_a_room_can_have_a_team_as_its_agent(tmp_path: Path) -> None:
    teams: list[ServedTeam] = []

    def make() -> Agent:
        agents = {"plan": echo("plan"), "code": agent_that(write)}
        teams.append(ServedTeam(TeamSettings(name="crew", agents=agents)))
        return teams[-1].agent

    file = tmp_path / "a.txt"
    file.write_text("one")
    async with running_host(make, make_guard=free_guard) as hosted, hosted.client() as ann, hosted.client() as ben:
        session = await open_session(ann, tmp_path)
        assert await session.ask("hello") == "plan heard hello"
        await session.set_option("primary_agent", "code")
        other = await ben.resume_session(session.id, "/")
        assert [option.id for option in other.options] == ["primary_agent", "route"]
        assert await other.ask(f"/to code {file}") == "one"
        assert await session.ask(f"/to code {file} two") == "written"
        assert file.read_text() == "two"
    for team in teams:
        await team.close()
