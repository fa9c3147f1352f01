"""Our client and agents written with the official SDKs: they understand each other in every part of v1."""

from __future__ import annotations

import asyncio
import json
import shlex
import subprocess
from collections.abc import Coroutine, Iterator
from pathlib import Path
from typing import Any, TypeVar

import pytest

from dragoman import Kind, ProtocolError, RemoteAgent, WorkspaceAccess, WorkspaceUse, connect
from dragoman.schema.content import TextContent
from dragoman.schema.permission import RequestPermissionParams
from dragoman.schema.plan import PlanEntry
from dragoman.schema.update import (
    AgentMessageChunk,
    AgentThoughtChunk,
    CurrentModeUpdate,
    Plan,
    ToolCallProgress,
    ToolCallStart,
    UserMessageChunk,
)
from tests.interop import leftovers
from tests.interop.commands import RUN, peer

T = TypeVar("T")

TIMEOUT = 90.0
AGENTS = ["py_agent", "ts_agent"]


class AgentDriver:
    """An event loop, an agent on it, and what its user answers."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.answer: Any = None
        self.asked: list[RequestPermissionParams] = []
        self.uses: list[WorkspaceUse] = []
        self.approves = True
        self._runner = asyncio.Runner()
        self._connecting = connect(
            peer(name),
            permission=self._answer,
            workspace=WorkspaceAccess(approve=self._approve),
            initialize_timeout=TIMEOUT,
        )
        self.agent: RemoteAgent = self(self._connecting.__aenter__())

    def __call__(self, work: Coroutine[Any, Any, T]) -> T:
        async def bounded() -> T:
            async with asyncio.timeout(TIMEOUT):
                return await work

        return self._runner.run(bounded())

    def _answer(self, question: RequestPermissionParams) -> Any:
        self.asked.append(question)
        return self.answer(question) if callable(self.answer) else self.answer

    def _approve(self, question: WorkspaceUse) -> bool:
        self.uses.append(question)
        return self.approves

    def ask(self, folder: Path, prompt: str) -> str:
        """Open a session, prompt once, and return the text of the answer."""

        async def asking() -> str:
            session = await self.agent.open_session(str(folder))
            return await session.ask(prompt)

        return self(asking())

    def close(self) -> None:
        """End the agent."""
        try:
            self(self._connecting.__aexit__(None, None, None))
        finally:
            self._runner.close()


@pytest.fixture(scope="module", params=AGENTS)
def shared(request: pytest.FixtureRequest, mark: str) -> Iterator[AgentDriver]:
    """One agent for all tests of this module."""
    driver = AgentDriver(request.param)
    yield driver
    driver.close()


@pytest.fixture
def driver(shared: AgentDriver) -> AgentDriver:
    """The shared agent, without state of the previous test."""
    shared.answer = None
    shared.approves = True
    shared.asked.clear()
    shared.uses.clear()
    return shared


def test_initialize_returns_the_agents_name_and_capabilities(driver: AgentDriver) -> None:
    assert driver.agent.dialect == "v1"
    assert driver.agent.initialize_result.protocol_version == 1
    assert driver.agent.info is not None
    assert driver.agent.info.name == {"py_agent": "python", "ts_agent": "typescript"}[driver.name]
    assert driver.agent.capabilities.load_session is True


def test_a_turn_sends_thought_plan_tool_call_and_chunks_in_order(driver: AgentDriver, folder: Path) -> None:
    async def turn() -> None:
        session = await driver.agent.open_session(str(folder))
        async with session.prompt("tour") as turn:
            updates = [update async for update in turn]
        assert turn.stop_reason == "end_turn"
        kinds = [type(update) for update in updates]
        assert kinds == [AgentThoughtChunk, Plan, ToolCallStart, ToolCallProgress, *[AgentMessageChunk] * 3]
        thought, plan, start, progress, *chunks = updates
        assert thought.content == TextContent(text="hm")  # type: ignore[union-attr]
        assert plan.entries == [PlanEntry(content="look", priority="high", status="in_progress")]  # type: ignore[union-attr]
        assert (start.title, start.kind, start.raw_input) == ("Look", "search", {"what": "all"})  # type: ignore[union-attr]
        assert progress.content[0].content.text == "found"  # type: ignore[union-attr, index]
        assert [chunk.content.text for chunk in chunks] == ["one ", "two ", "three"]  # type: ignore[union-attr]
        call = session.tool_calls["call"]
        assert (call.title, call.kind, call.status) == ("Look", "search", "completed")

    driver(turn())


@pytest.mark.parametrize(("choice", "received"), [("yes", "yes"), ("no", "no"), (None, "cancelled")])
def test_a_permission_request_is_answered(driver: AgentDriver, folder: Path, choice: str | None, received: str) -> None:
    driver.answer = choice
    assert driver.ask(folder, "ask") == received
    (question,) = driver.asked
    assert question.tool_call.title == "May I?"
    assert question.tool_call.raw_input == {"command": "ls"}
    assert [(option.option_id, option.kind) for option in question.options] == [
        ("yes", "allow_once"),
        ("no", "reject_once"),
    ]


def test_a_permission_request_is_answered_with_cancelled_when_the_turn_is_cancelled(
    driver: AgentDriver, folder: Path
) -> None:
    async def turn() -> None:
        session = await driver.agent.open_session(str(folder))

        def cancel(_: RequestPermissionParams) -> str:
            session.cancel()
            return "yes"

        driver.answer = cancel
        async with session.prompt("ask") as turn:
            texts = [u.content.text async for u in turn if isinstance(u, AgentMessageChunk)]  # type: ignore[union-attr]
        assert texts == ["cancelled"]
        assert turn.stop_reason == "cancelled"

    driver(turn())


def test_files_are_read_completely_and_in_part(driver: AgentDriver, folder: Path) -> None:
    path = folder.rename(folder.parent / "work") / "ö.txt"
    path.write_text("eins\nzwei 😀\ndrei\nvier\n", encoding="utf-8")
    assert driver.ask(path.parent, f"read {path}") == "eins\nzwei 😀\ndrei\nvier\n"
    assert driver.ask(path.parent, f"read {path} 2 2").splitlines() == ["zwei 😀", "drei"]
    assert [use.operation for use in driver.uses] == ["read", "read"]


def test_a_missing_or_outside_file_is_an_error_for_the_agent(driver: AgentDriver, tmp_path: Path) -> None:
    home = tmp_path / "home"
    home.mkdir()
    (tmp_path / "secret").write_text("no")
    assert driver.ask(home, f"read {home}/none").startswith("error -32002")
    assert driver.ask(home, f"read {tmp_path}/secret").startswith("error ")
    assert driver.ask(home, f"write {home}/../out text").startswith("error ")
    assert not (tmp_path / "out").exists()


def test_a_file_is_written(driver: AgentDriver, tmp_path: Path) -> None:
    assert driver.ask(tmp_path, f"write {tmp_path}/new.txt zwei Wörter\nund 中文") == "written"
    assert (tmp_path / "new.txt").read_text(encoding="utf-8") == "zwei Wörter\nund 中文"
    (use,) = driver.uses
    assert (use.operation, use.resource, use.text) == ("write", f"{tmp_path}/new.txt", "zwei Wörter\nund 中文")


@pytest.mark.item("000-20", "004-64")
def test_files_and_terminals_need_permission(driver: AgentDriver, tmp_path: Path) -> None:
    driver.approves = False
    (tmp_path / "old.txt").write_text("old")
    assert driver.ask(tmp_path, f"read {tmp_path}/old.txt").startswith("error ")
    assert driver.ask(tmp_path, f"write {tmp_path}/new.txt text").startswith("error ")
    assert driver.ask(tmp_path, f"run echo > {tmp_path}/ran.txt").startswith("error ")
    assert [use.operation for use in driver.uses] == ["read", "write", "execute"]
    assert [path.name for path in tmp_path.iterdir()] == ["old.txt"]


def test_a_command_runs_in_a_terminal(driver: AgentDriver, folder: Path) -> None:
    code, signal, output, truncated = json.loads(driver.ask(folder, "run pwd; echo häßlich >&2; exit 3"))
    assert (code, signal, truncated) == (3, None, False)
    assert output.split("\n") == [str(folder), "häßlich", ""]


def test_a_command_is_killed_and_its_output_stays_until_release(driver: AgentDriver, folder: Path) -> None:
    was_running, code, signal, output = json.loads(driver.ask(folder, "kill"))
    assert was_running
    assert (code, signal) == (None, "SIGTERM")
    assert output == "begun\n"


def test_a_running_turn_is_cancelled(driver: AgentDriver, folder: Path) -> None:
    async def turn() -> None:
        session = await driver.agent.open_session(str(folder))
        async with session.prompt("slow") as turn:
            async for update in turn:
                if isinstance(update, ToolCallStart):
                    turn.cancel()
        assert turn.stop_reason == "cancelled"
        assert await session.ask("say again") == "again"  # the session lives on

    driver(turn())


@pytest.mark.item("004-63")
def test_two_sessions_run_at_once(driver: AgentDriver, folder: Path) -> None:
    async def turns() -> None:
        slow, quick = await asyncio.gather(
            driver.agent.open_session(str(folder)), driver.agent.open_session(str(folder))
        )
        async with slow.prompt("slow") as turn:
            assert await quick.ask("say quick") == "quick"
            assert not turn.is_over
            turn.cancel()
        assert turn.stop_reason == "cancelled"

    driver(turns())


def test_a_session_is_loaded_with_its_history(driver: AgentDriver, folder: Path) -> None:
    async def turns() -> None:
        session = await driver.agent.open_session(str(folder))
        await session.ask("say first")
        await session.ask("say second")
        loaded = await driver.agent.load_session(session.id, str(folder))
        received = [(type(update), update.content.text) for update in loaded.updates_outside_turns]
        assert received == [
            (UserMessageChunk, "say first"),
            (AgentMessageChunk, "first"),
            (UserMessageChunk, "say second"),
            (AgentMessageChunk, "second"),
        ]
        assert loaded.modes is not None
        assert await loaded.ask("say third") == "third"

    driver(turns())


def test_loading_an_unknown_session_is_an_error(driver: AgentDriver, folder: Path) -> None:
    with pytest.raises(ProtocolError) as caught:
        driver(driver.agent.load_session("nobody", str(folder)))
    assert caught.value.kind in (Kind.SESSION_NOT_FOUND, Kind.RESOURCE_NOT_FOUND)


def test_the_mode_is_changed_and_the_change_is_sent(driver: AgentDriver, folder: Path) -> None:
    async def change() -> None:
        session = await driver.agent.open_session(str(folder))
        assert session.modes is not None
        assert [mode.id for mode in session.modes.available_modes] == ["ask", "code"]
        assert session.modes.current_mode_id == "ask"
        await session.set_mode("code")
        assert session.modes.current_mode_id == "code"
        assert CurrentModeUpdate(current_mode_id="code") in session.updates_outside_turns

    driver(change())


def test_an_extension_that_the_agent_does_not_know_is_an_error(driver: AgentDriver) -> None:
    with pytest.raises(ProtocolError) as caught:
        driver(driver.agent.request("_example.org/unknown", {"a": 1}))
    assert caught.value.kind == Kind.METHOD_NOT_FOUND


def test_an_extension_that_we_do_not_know_is_an_error_for_the_agent(driver: AgentDriver, folder: Path) -> None:
    assert driver.ask(folder, "extension").startswith("error -32601")


def test_text_of_every_script_arrives_and_half_an_emoji_causes_no_error(driver: AgentDriver, folder: Path) -> None:
    async def turn() -> None:
        session = await driver.agent.open_session(str(folder))
        async with session.prompt("half") as turn:
            texts = [u.content.text async for u in turn if isinstance(u, AgentMessageChunk)]  # type: ignore[union-attr]
        assert texts == ["a half: \ufffd", "a whole: 😀 中文 \x00 \u2028 ß"]
        assert await session.ask("say 😀 中文 \u2028 ß") == "😀 中文 \u2028 ß"

    driver(turn())


def test_a_megabyte_is_received_in_one_chunk_and_sent_in_one_prompt(driver: AgentDriver, folder: Path) -> None:
    assert driver.ask(folder, "big 1000000") == "é" * 1_000_000
    assert driver.ask(folder, "say " + "ö" * 1_000_000) == "ö" * 1_000_000


@pytest.mark.parametrize("name", AGENTS)
def test_disconnecting_during_a_turn_leaves_no_process(mark: str, folder: Path, name: str) -> None:
    before = set(leftovers.marked(mark))

    async def leave() -> None:
        async with connect(peer(name), workspace=WorkspaceAccess(), initialize_timeout=TIMEOUT) as agent:
            session = await agent.open_session(str(folder))
            assert await session.ask("abandon") == "left"
            other = await agent.open_session(str(folder))
            async with asyncio.timeout(TIMEOUT):
                await other.prompt("slow").__aenter__()
                # The agent and the command it forgot; a process has no environment at the moment of its exec.
                while len(leftovers.marked(mark).keys() - before) < 2:  # noqa: ASYNC110
                    await asyncio.sleep(0.02)

    asyncio.run(leave())
    leftovers.assert_nothing_left(mark, before)


@pytest.mark.parametrize("name", AGENTS)
async def test_an_agent_behind_a_wrapper_that_fills_stderr_works_and_is_stopped(
    mark: str, folder: Path, name: str
) -> None:
    """What the official Python client hangs on, and what it leaves running (docs/protocol/peers.md#sdk-stderr,
    docs/protocol/peers.md#sdk-wrapper).
    """
    before = set(leftovers.marked(mark))
    noise = "head -c 400000 /dev/zero | tr '\\0' x >&2"
    wrapper = ["/bin/sh", "-c", f"{noise}; {shlex.join(peer(name))}; :"]

    async with connect(wrapper, initialize_timeout=TIMEOUT) as agent, asyncio.timeout(TIMEOUT):
        session = await agent.open_session(str(folder))
        assert await session.ask("say hello") == "hello"
    leftovers.assert_nothing_left(mark, before)


@pytest.mark.parametrize("name", AGENTS)
def test_one_prompt_from_the_command_line_is_answered(folder: Path, name: str) -> None:
    command = [*RUN, "--prompt", f"write {folder.parent}/new.txt text", "--yes", "--", *peer(name)]
    done = subprocess.run(command, cwd=folder.parent, capture_output=True, text=True, timeout=TIMEOUT, check=False)
    assert (done.returncode, done.stdout.strip()) == (0, "written"), done.stderr
    assert (folder.parent / "new.txt").read_text() == "text"
