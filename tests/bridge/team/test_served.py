"""A team as one agent: any client uses it through one entry."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from dragoman import Agent, ClientSession, ProtocolError, RemoteAgent, Turn, WorkspaceAccess, WorkspaceUse
from dragoman.bridge.team.routes import find_route, named_agent
from dragoman.bridge.team.served import ServedTeam, TeamSettings
from dragoman.bridge.team.views import AGENT_KEY, NOTICE_KEY
from dragoman.config.teams_section import TeamRule
from dragoman.policy.decide import Policy
from dragoman.roles.agent.options import value_of
from dragoman.roles.client.permission.guard import Guard
from dragoman.schema.base import Marker
from dragoman.schema.initialize import ClientCapabilities, FileSystemCapabilities
from dragoman.schema.update import (
    AvailableCommandsUpdate,
    Notice,
    SessionInfoUpdate,
    SessionMessage,
    SubagentUpdate,
    ToolCallStart,
)
from dragoman.session.toolcall import FINAL_STATUSES
from dragoman.testing import connect_in_memory
from tests.bridge.team.scripted import agent_that, echo, use_tool

LIMIT = 90.0

WITH_SUBAGENTS = ClientCapabilities(
    fs=FileSystemCapabilities(read_text_file=False, write_text_file=False), terminal=False, subagents=Marker()
)


@asynccontextmanager
async def served(
    tmp_path: Path, agents: dict[str, Agent], settings: dict[str, Any] | None = None, **options: Any
) -> AsyncIterator[tuple[RemoteAgent, ClientSession]]:
    """Serve these agents as a team, and open a session with it."""
    team = ServedTeam(TeamSettings(name="crew", agents=agents, **(settings or {})))
    try:
        async with asyncio.timeout(LIMIT), connect_in_memory(team.agent, **options) as remote:
            yield remote, await remote.open_session(str(tmp_path))
    finally:
        await team.close()


def option(session: ClientSession, id: str) -> Any:
    return next(value_of(each) for each in session.options if each.id == id)


@pytest.mark.item("BR-30", "004-71")
async def test_a_team_is_one_agent_with_the_options_primary_agent_and_route(tmp_path: Path) -> None:
    agents = {"plan": echo("plan"), "code": echo("code")}
    async with served(tmp_path, agents) as (remote, session):
        assert remote.info is not None
        assert (remote.info.name, remote.info.title) == ("crew", "crew: plan, code")
        choices = {each.id: [choice.value for choice in each.values] for each in session.options}
        assert choices == {"primary_agent": ["plan", "code"], "route": ["primary", "ask", "all"]}
        assert await session.ask("hello") == "plan heard hello"
        await session.set_option("primary_agent", "code")
        assert (await session.ask("hello")).endswith("hello")
        assert await session.ask("/to plan psst") == "plan heard psst"
        assert {command.name for command in session.commands} == {"to", "all", "handover", "agents", "files"}


async def test_a_route_of_rules_takes_the_first_rule_that_matches(tmp_path: Path) -> None:
    rules = (TeamRule(when="review", to="review"), TeamRule(paths=("*.rs",), to="code"))
    agents = {"plan": echo("plan"), "code": echo("code"), "review": echo("review")}
    async with served(tmp_path, agents, {"rules": rules, "route": "rules"}) as (_, session):
        assert await session.ask("Review src/main.rs") == "review heard Review src/main.rs"
        assert await session.ask("fix src/main.rs, please") == "code heard fix src/main.rs, please"
        assert await session.ask("previewed") == "plan heard previewed"


def test_rules_are_checked_against_words_and_file_names() -> None:
    rules = [TeamRule(when="type check", paths=("*.py",), to="typer")]
    assert find_route(rules, "Type check a/b.py.", "x") == "typer"
    assert find_route(rules, "type check b.rs", "x") == "x"
    assert named_agent("I would take code, not plan", ["plan", "code"]) == "code"
    assert named_agent("decode", ["code"]) is None


async def test_the_primary_agent_is_asked_who_should_answer(tmp_path: Path) -> None:
    async def choose(turn: Turn) -> str:
        return "code" if turn.text.startswith("Which agent") else "never"

    async with served(tmp_path, {"plan": agent_that(choose), "code": echo("code")}, {"route": "ask"}) as (_, session):
        assert await session.ask("paint") == "code heard paint"


async def test_updates_of_the_agent_that_answers_are_those_of_the_team(tmp_path: Path) -> None:
    async def work(turn: Turn) -> None:
        await turn.think("hm")
        async with turn.tool("Look", kind="read", id="call_1") as call:
            await call.add_text("found")
        await turn.report_usage(input_tokens=2, output_tokens=3)
        await turn.say("done")

    async with served(tmp_path, {"code": agent_that(work)}) as (_, session):
        async with session.prompt("go") as turn:
            kinds = [type(each).__name__ async for each in turn if not isinstance(each, AvailableCommandsUpdate)]
        assert kinds[0] == "AgentThoughtChunk"
        assert kinds[-1] == "AgentMessageChunk"
        assert list(session.tool_calls) == ["code-call_1"]
        assert session.tool_calls["code-call_1"].status == "completed"
        assert turn.usage is not None
        assert turn.usage.total_tokens == 5


# --- children -------------------------------------------------------------------------------------------------


@pytest.mark.item("BR-30")
async def test_children_are_tool_calls_for_a_client_without_subagents(tmp_path: Path) -> None:
    async with served(tmp_path, {"plan": echo("plan"), "code": echo("code")}, {"route": "all"}) as (_, session):
        text = await session.ask("paint\nthe roof")
        assert "## plan\n\nplan heard paint\nthe roof" in text
        assert "## code\n\ncode heard paint\nthe roof" in text
        calls = sorted((call.title, call.kind, call.status) for call in session.tool_calls.values())
        assert calls == [("code: paint", "other", "completed"), ("plan: paint", "other", "completed")]


@pytest.mark.item("BR-30")
async def test_children_are_subagents_for_a_client_that_takes_them(tmp_path: Path) -> None:
    async def ask_review(turn: Turn) -> str:
        return await use_tool(turn, "ask", agent="review", text="Is it good?")

    seen: list[Any] = []
    agents = {"code": agent_that(ask_review), "review": echo("review")}
    async with served(tmp_path, agents, capabilities=WITH_SUBAGENTS) as (_, session):
        session.on_update = seen.append
        await session.ask("go")
        subagents = [each for each in seen if isinstance(each, SubagentUpdate)]
        child = subagents[0].session_id
        assert [each.state.state for each in subagents if each.state] == ["running", "idle"]
        assert (subagents[0].title, subagents[0].cwd) == ("review: Is it good?", str(tmp_path))
        question, answer = (each for each in seen if isinstance(each, SessionMessage))
        assert (question.recipient_session_id, answer.sender_session_id) == (child, child)
        assert question.sender_session_id == answer.recipient_session_id
        assert question.content
        assert question.content[0].text == "Is it good?"  # type: ignore[union-attr]
        assert not any(isinstance(each, ToolCallStart) and each.title.startswith("review:") for each in seen)


async def test_a_question_that_fails_is_a_failed_tool_call(tmp_path: Path) -> None:
    async def fail(turn: Turn) -> None:
        raise ProtocolError("internal_error", "no more paint")

    async with served(tmp_path, {"plan": agent_that(fail), "code": echo("code")}) as (_, session):
        text = await session.ask("/all paint")
        assert "no more paint" in text
        assert sorted(call.status for call in session.tool_calls.values()) == ["completed", "failed"]


# --- hand-over, cancel ----------------------------------------------------------------------------------------


@pytest.mark.item("BR-30")
async def test_a_hand_over_keeps_the_session_of_the_client(tmp_path: Path) -> None:
    async def tell(turn: Turn) -> str:
        return "\n".join(str(getattr(getattr(block, "resource", None), "text", "")) for block in turn.prompt)

    seen: list[Any] = []
    async with served(tmp_path, {"plan": echo("plan"), "code": agent_that(tell)}) as (_, session):
        before = session.id
        session.on_update = seen.append
        await session.ask("paint the roof")
        assert await session.ask("/handover code transcript") == "code takes over from plan."
        assert option(session, "primary_agent") == "code"
        assert [each.meta for each in seen if isinstance(each, SessionInfoUpdate)] == [{AGENT_KEY: "code"}]
        assert "plan heard paint the roof" in await session.ask("go on")
        assert session.id == before
        assert "- code (primary)" in await session.ask("/agents")
        with pytest.raises(ProtocolError, match="there is no agent 'nobody'"):
            await session.ask("/handover nobody")
        with pytest.raises(ProtocolError, match="takes summary or transcript"):
            await session.ask("/handover plan everything")


async def test_another_primary_agent_gets_the_transcript(tmp_path: Path) -> None:
    async def tell(turn: Turn) -> str:
        return "\n".join(str(getattr(getattr(block, "resource", None), "text", "")) for block in turn.prompt)

    async with served(tmp_path, {"plan": echo("plan"), "code": agent_that(tell)}) as (_, session):
        await session.ask("paint the roof")
        await session.set_option("primary_agent", "code")
        assert "plan heard paint the roof" in await session.ask("go on")


@pytest.mark.item("BR-30")
async def test_a_cancel_of_the_client_stops_every_agent(tmp_path: Path) -> None:
    ended: list[str] = []
    started = asyncio.Barrier(3)

    def waits(name: str) -> Agent:
        async def work(turn: Turn) -> None:
            try:
                await started.wait()
                await asyncio.Event().wait()
            finally:
                ended.append(name)

        return agent_that(work)

    async with served(tmp_path, {"plan": waits("plan"), "code": waits("code")}, {"route": "all"}) as (_, session):
        async with session.prompt("paint") as turn:
            await started.wait()
            turn.cancel()
            assert (await turn.wait()).stop_reason == "cancelled"
        assert sorted(ended) == ["code", "plan"]
        assert {call.status for call in session.tool_calls.values()} <= FINAL_STATUSES


# --- the client's files and answers ---------------------------------------------------------------------------


async def write(turn: Turn) -> str:
    """Write or read a file, as the prompt says: PATH TEXT, or PATH."""
    path, _, text = str(getattr(turn.prompt[-1], "text", "")).partition(" ")  # before it, what a hand-over passed on
    try:
        if text:
            await turn.files.write(path, text)
        return "written" if text else await turn.files.read(path)
    except ProtocolError as error:
        return error.message


async def test_the_agents_use_the_files_of_the_client_and_do_not_overwrite_each_other(tmp_path: Path) -> None:
    file = tmp_path / "a.txt"
    file.write_text("one")
    uses: list[WorkspaceUse] = []
    workspace = WorkspaceAccess(approve=lambda use: not uses.append(use))  # type: ignore[func-returns-value]
    agents = {"a": agent_that(write), "b": agent_that(write)}
    async with served(tmp_path, agents, workspace=workspace) as (_, session):
        for name in ("a", "b"):
            assert await session.ask(f"/to {name} {file}") == "one"
        assert await session.ask(f"/to a {file} two") == "written"
        assert "was changed by a since this session last read it" in await session.ask(f"/to b {file} three")
        assert file.read_text() == "two"
        assert [use.operation for use in uses if use.operation == "write"] == ["write"]
        files = await session.ask("/files")
        assert "- a.txt: a" in files
        assert "was changed by a" in files


@pytest.mark.item("BR-30")
async def test_the_client_is_asked_with_the_name_of_the_agent(tmp_path: Path) -> None:
    titles: list[str] = []

    def permission(params: Any) -> str:
        titles.append(params.tool_call.title)
        return "allow_once"

    async def work(turn: Turn) -> str:
        answer = await turn.ask_permission("Paint it")
        return f"{answer.kind}, {await write(turn)}"

    async with served(tmp_path, {"code": agent_that(work)}, permission=permission) as (_, session):
        assert await session.ask(f"{tmp_path}/x text") == "allow_once, written"
        assert titles == ["code: Paint it", f"code: write {tmp_path}/x"]


async def test_a_guard_decides_before_the_client_is_asked(tmp_path: Path) -> None:
    titles: list[str] = []

    def permission(params: Any) -> str:
        titles.append(params.tool_call.title)
        return str(params.options[0].option_id)

    async def work(turn: Turn) -> str:
        return f"{(await turn.ask_permission('Paint it')).kind}, {await write(turn)}"

    team = ServedTeam(
        TeamSettings(name="crew", agents={"code": agent_that(work)}),
        make_guard=lambda name, roots, ask: Guard(Policy(), ask=ask, agent=name),
    )
    async with connect_in_memory(team.agent, permission=permission) as remote:
        session = await remote.open_session(str(tmp_path))
        assert await session.ask(f"{tmp_path}/x text") == "allow_once, written"
        assert titles == ["code: Paint it", f"code: {tmp_path}/x"]
    await team.close()


async def test_a_session_that_is_closed_ends_its_agents(tmp_path: Path) -> None:
    agents = {"code": echo("code")}
    team = ServedTeam(TeamSettings(name="crew", agents=agents))
    async with connect_in_memory(team.agent) as remote:
        session = await remote.open_session(str(tmp_path))
        await session.ask("hello")
        assert len(agents["code"]._clients) == 1
        await session.close()
        assert not agents["code"]._clients


async def test_a_notice_of_an_agent_reaches_clients_with_and_without_notices(tmp_path: Path) -> None:
    async def notify(turn: Turn) -> None:
        await turn.send_notice("a.txt was changed by review", severity="warning")

    for capabilities, kind in ((WITH_SUBAGENTS, SessionInfoUpdate), (None, Notice)):
        seen: list[Any] = []
        async with served(tmp_path, {"code": agent_that(notify)}, capabilities=capabilities) as (_, session):
            session.on_update = seen.append
            await session.ask("go")
        (update,) = [each for each in seen if isinstance(each, Notice | SessionInfoUpdate)]
        assert type(update) is kind
        if isinstance(update, SessionInfoUpdate):
            assert update.meta
            assert update.meta[NOTICE_KEY]["title"] == "a.txt was changed by review"


@pytest.mark.item("004-74")
async def test_a_team_can_be_an_agent_of_a_team_each_a_client_of_the_next(tmp_path: Path) -> None:
    inner = ServedTeam(TeamSettings(name="inner", agents={"deep": echo("deep")}))
    async with served(tmp_path, {"middle": inner.agent}) as (_, session):
        assert await session.ask("hello") == "deep heard hello"
        assert await session.ask("/to middle /agents") == "- deep (primary)"
    await inner.close()
