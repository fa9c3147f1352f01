"""The examples for agent authors: in memory, with clients of several dialects, and as processes over stdio."""

from __future__ import annotations

import asyncio
import importlib.util
import subprocess
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from dragoman import Agent, Conversation, Lending, ProtocolError, RemoteAgent, connect
from dragoman.schema.content import ContentBlock, ImageContent, ResourceLink, TextContent
from dragoman.schema.session import NewSessionParams, SystemPrompt
from dragoman.testing import joined

EXAMPLES = Path(__file__).parents[2] / "docs" / "examples"

# A handful of interpreters on a busy machine; longer than this is a hang. Seconds.
PATIENCE = 60

Scene = Callable[[RemoteAgent, str], Awaitable[Any]]


def example(name: str) -> Agent:
    """The agent of an example, fresh."""
    spec = importlib.util.spec_from_file_location(f"example_{name}", EXAMPLES / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    agent: Agent = module.agent
    return agent


def play(name: str, scene: Scene, folder: Path, where: str, **options: Any) -> Any:
    """Meet the agent of an example: `where` is a dialect, in memory, or `stdio`."""

    options["cwd"] = str(folder)  # 2025.1 has one folder for all sessions

    async def main() -> Any:
        async with asyncio.timeout(PATIENCE):
            if where == "stdio":
                async with connect([sys.executable, str(EXAMPLES / f"{name}.py")], **options) as remote:
                    return await scene(remote, str(folder))
            async with joined(example(name), dialect=where, **options) as remote:
                return await scene(remote, str(folder))

    return asyncio.run(main())


def asking(text: str) -> Scene:
    """One prompt in a new session."""

    async def scene(remote: RemoteAgent, folder: str) -> str:
        session = await remote.open(cwd=folder)
        return await session.ask(text)

    return scene


async def told(session: Conversation, text: str) -> list[Any]:
    """The updates of one turn."""
    async with session.prompt(text) as turn:
        return [update async for update in turn]


ALL = ["v1", "banjo", "draft", "2025.1", "crow", "stdio"]
OFFICIAL = ["v1", "banjo", "stdio"]


@pytest.mark.parametrize("where", ALL)
def test_the_planner_shows_each_step(where: str, tmp_path: Path) -> None:
    async def scene(remote: RemoteAgent, folder: str) -> list[Any]:
        return await told(await remote.open(cwd=folder), "go")

    updates = play("planner", scene, tmp_path, where)
    plans = [[entry.status for entry in update.entries] for update in updates if hasattr(update, "entries")]
    assert plans[:3] == [["pending"] * 2, ["in_progress", "pending"], ["completed", "pending"]]
    assert plans[-1] == ["completed"] * 3


@pytest.mark.parametrize("where", ["v1", "banjo", "draft", "stdio"])
@pytest.mark.parametrize(("answer", "said"), [("allow", "It ended with 0."), ("deny", "Then I leave it.")])
def test_the_careful_agent_runs_what_it_is_allowed_to(where: str, answer: str, said: str, tmp_path: Path) -> None:
    scene = asking("echo done > made.txt")
    assert play("careful", scene, tmp_path, where, permission=answer, lend=Lending()) == said
    assert (tmp_path / "made.txt").exists() == (answer == "allow")


@pytest.mark.parametrize("where", ["v1", "stdio"])
def test_the_careful_agent_stops_when_it_is_told_to(where: str, tmp_path: Path) -> None:
    async def scene(remote: RemoteAgent, folder: str) -> tuple[str | None, list[str]]:
        session = await remote.open(cwd=folder)
        async with session.prompt("sleep 60") as turn:
            async for update in turn:
                if getattr(update, "status", None) == "in_progress":
                    turn.cancel()
        return turn.stop_reason, [call.status for call in session.tool_calls.values()]

    ended = play("careful", scene, tmp_path, where, permission="allow", lend=Lending())
    assert ended == ("cancelled", ["failed"])


@pytest.mark.parametrize("where", ["v1", "banjo", "draft", "stdio"])
def test_the_chooser_does_as_it_is_set(where: str, tmp_path: Path) -> None:
    async def scene(remote: RemoteAgent, folder: str) -> list[Any]:
        session = await remote.open(cwd=folder)
        await session.set_mode("plan")
        await session.set_option("model", "opus")
        await session.set_option("style", "verbose")
        with pytest.raises(ProtocolError, match="max_tokens is a number"):
            await session.set_option("max_tokens", "many")
        return [await session.ask("how?"), await session.ask("and now?")]

    heard = play("chooser", scene, tmp_path, where)
    assert heard == [f"{mode}: model=opus, style=verbose, colour=True, max_tokens=4096" for mode in ("plan", "default")]


@pytest.mark.parametrize("where", ["v1", "banjo", "draft", "stdio"])
def test_the_duet_answers_by_its_route_and_goes_on_in_the_next_session(where: str, tmp_path: Path) -> None:
    async def scene(remote: RemoteAgent, folder: str) -> list[str]:
        session = await remote.open(cwd=folder)
        heard = [await session.ask("hi")]
        await session.set_option("route", "duet")
        await session.set_option("primary_agent", "codex")
        heard.append(await session.ask("hi"))
        following = await remote.open(cwd=folder)
        heard.append(await following.ask("hi"))
        await following.set_option("auto_resume", "off")
        fresh = await remote.open(cwd=folder)
        return [*heard, await fresh.ask("hi")]

    assert play("duet", scene, tmp_path, where) == [
        "claude: Certainly, hi. (answer 1) ",
        "codex: Done, hi. (answer 2) claude: Certainly, hi. (answer 3) ",
        "codex: Done, hi. (answer 4) claude: Certainly, hi. (answer 5) ",
        "claude: Certainly, hi. (answer 1) ",
    ]


@pytest.mark.parametrize("where", ["v1", "banjo", "draft", "2025.1", "stdio"])
def test_the_reader_reads_what_is_linked(where: str, tmp_path: Path) -> None:
    (tmp_path / "poem.txt").write_text("one\ntwo\nthree\n")

    async def scene(remote: RemoteAgent, folder: str) -> str:
        session = await remote.open(cwd=folder)
        blocks: list[ContentBlock] = [
            TextContent(text="Look:"),
            ResourceLink(uri=f"file://{folder}/poem.txt#L2:3", name="poem.txt"),
            ImageContent(data="aGVsbG8=", mime_type="image/png"),
        ]
        return await session.ask(blocks)

    context = f"[context: file://{tmp_path}/poem.txt#L2:3]\ntwo\nthree\n[end of context]"
    heard = play("reader", scene, tmp_path, where, lend=Lending())
    assert heard == f"3 blocks:\nLook:\n\n{context}\n\n[image: image/png, 5 bytes]"


@pytest.mark.parametrize("where", ALL)
def test_the_doorman_lets_in_who_says_the_word(where: str, tmp_path: Path) -> None:
    async def scene(remote: RemoteAgent, folder: str) -> str:
        with pytest.raises(ProtocolError, match="authenticate"):
            await remote.open(cwd=folder)
        if where in ("2025.1", "draft"):
            with pytest.raises(ProtocolError):
                await remote.authenticate("token", {"token": "please"})
            await remote.authenticate("token", {"token": "let me in"})
        elif where != "crow":
            await remote.authenticate("visit")
        else:
            return "Welcome."  # crow has no way to log in: its clients stay outside
        session = await remote.open(cwd=folder)
        return await session.ask("hello")

    assert play("doorman", scene, tmp_path, where) == "Welcome."


@pytest.mark.parametrize("where", OFFICIAL)
def test_the_librarian_keeps_the_pages_of_each_session(where: str, tmp_path: Path) -> None:
    async def scene(remote: RemoteAgent, folder: str) -> list[str]:
        session = await remote.open(cwd=folder, directories=["/opt"])
        heard = [await session.ask("one")]
        fork = await remote.fork(session.id, cwd=folder)
        heard += [await fork.ask("two"), await session.ask("two")]
        prompt = SystemPrompt(mode="override", content=[TextContent(text="be brief")])
        params = NewSessionParams(cwd=folder, mcp_servers=[], system_prompt=prompt)
        made = await remote.request("session/new", params)
        heard.append(await (await remote.resume(made.session_id, cwd=folder)).ask("one"))
        await remote.delete(session.id)
        assert session.id not in [each.session_id for each in (await remote.sessions()).sessions]
        return heard

    assert play("librarian", scene, tmp_path, where) == [
        "1 pages in 2 folders; instructions: none",
        "2 pages in 1 folders; instructions: none",
        "2 pages in 2 folders; instructions: none",
        "1 pages in 1 folders; instructions: be brief",
    ]


@pytest.mark.parametrize("where", ALL)
def test_the_chain_counts_refuses_and_answers(where: str, tmp_path: Path) -> None:
    async def scene(remote: RemoteAgent, folder: str) -> list[Any]:
        session = await remote.open(cwd=folder)
        heard: list[Any] = [await session.ask("hello"), await session.ask("a secret"), await session.ask("hello")]
        counts = await remote.request("_chain/counts", {})
        return [*heard, counts["session/prompt"]]

    assert play("chain", scene, tmp_path, where) == ["message 1", "", "message 3", 3]


@pytest.mark.parametrize("where", ALL)
def test_the_bookkeeper_tells_each_client_what_it_can_hear(where: str, tmp_path: Path) -> None:
    async def scene(remote: RemoteAgent, folder: str) -> set[str]:
        updates = await told(await remote.open(cwd=folder), "go")
        return {type(update).__name__ for update in updates}

    heard = play("bookkeeper", scene, tmp_path, where)
    assert "AgentMessageChunk" in heard
    if where in ("v1", "stdio"):
        assert heard >= {"UsageUpdate", "Notice", "CompactionUpdate", "CompactionSummaryChunk"}
    if where in ("draft", "2025.1", "crow"):
        assert heard == {"AgentMessageChunk"}


@pytest.mark.parametrize("dialect", ["draft", "crow"])
def test_an_example_behind_an_interpreter(dialect: str, tmp_path: Path) -> None:
    dragoman = (sys.executable, "-m", "dragoman")
    between = (*dragoman, "translate", "--client-dialect", dialect, "--")
    command = (*dragoman, "run", "--dialect", dialect, "--prompt", "hi", "--")
    agent = (sys.executable, str(EXAMPLES / "planner.py"))
    done = subprocess.run(
        (*command, *between, *agent), cwd=tmp_path, capture_output=True, text=True, timeout=PATIENCE, check=False
    )
    assert (done.returncode, done.stdout) == (0, "All 3 steps are done.\n"), done.stderr
