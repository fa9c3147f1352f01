"""Whole conversations of the seeds, each played twice: our client against a scripted agent, our agent against a client.

The scripts are raw frames (data/flows). The scripted peer checks every frame it hears against the script, exactly: only
JSON-RPC ids and what the other end makes up (session ids, createdAt) may differ.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from dragoman import Agent, ProtocolError, RemoteAgent, Turn, connect
from dragoman.schema.auth import AuthMethod
from dragoman.schema.config import ConfigChoice, SessionConfigOption, SessionMode, SetModeParams
from dragoman.schema.content import EmbeddedResource, ResourceContents, ResourceLink, TextContent
from dragoman.schema.fs import ReadTextFileResult, WriteTextFileResult
from dragoman.schema.initialize import (
    AgentCapabilities,
    ClientCapabilities,
    FileSystemCapabilities,
    McpCapabilities,
    PromptCapabilities,
    SessionCapabilities,
)
from dragoman.schema.mcp import McpServer
from dragoman.schema.permission import PermissionOption
from dragoman.schema.plan import PlanEntry
from dragoman.schema.prompt import Usage
from dragoman.schema.terminal import (
    CreateTerminalResult,
    KillTerminalResult,
    ReleaseTerminalResult,
    TerminalOutputResult,
    WaitForExitResult,
)
from dragoman.schema.toolcall import Diff, ToolCallBlock, ToolCallLocation, ToolCallUpdate
from dragoman.schema.update import (
    AgentMessageChunk,
    AgentThoughtChunk,
    AvailableCommand,
    ConfigOptionUpdate,
    CurrentModeUpdate,
    Plan,
    ToolCallProgress,
    ToolCallStart,
    UserMessageChunk,
)
from dragoman.testing import ScriptedPeer
from dragoman.transport.memory import pair

BOUND = 20.0
CWD = "/home/user/project"
FLOWS = Path(__file__).parents[1] / "data" / "flows"

Script = list[dict[str, Any]]


def script(*names: str) -> Script:
    """The steps of these flows, one after the other."""
    return [step for name in names for step in json.loads((FLOWS / f"{name}.json").read_text(encoding="utf-8"))]


def side(**members: Any) -> dict[str, Any]:
    """Side data: what a dialect knows beyond the vocabulary."""
    return {"dragoman": members}


def as_client(
    steps: Script, use: Callable[[RemoteAgent], Awaitable[None]], minted: tuple[str, ...] = (), **options: Any
) -> None:
    """Let `use` drive our client; a scripted agent checks each of its frames."""

    async def main() -> None:
        ours, theirs = pair()
        playing = asyncio.create_task(ScriptedPeer(theirs).play("agent", steps, minted=minted))
        async with asyncio.timeout(BOUND):
            async with connect(ours, **options) as remote:
                using = asyncio.create_task(use(remote))
                await asyncio.wait({playing, using}, return_when=asyncio.FIRST_EXCEPTION)
                for task in (playing, using):
                    if task.done():
                        task.result()
                assert playing.done(), "the client was done before the script"

    asyncio.run(main())


def as_agent(steps: Script, agent: Agent, minted: tuple[str, ...] = ("sessionId", "session_id")) -> None:
    """Let a scripted client talk to our agent and check each of its frames."""

    async def main() -> None:
        ours, theirs = pair()
        reports: list[str] = []
        connection = agent.attach(ours, report=reports.append)
        try:
            async with asyncio.timeout(BOUND):
                await ScriptedPeer(theirs).play("client", steps, minted=minted)
        finally:
            await connection.close()
        assert reports == []

    asyncio.run(main())


async def all_of(turn: Any) -> list[Any]:
    return [update async for update in turn]


# --- seed 004, appendix A: the draft --------------------------------------------------------------------------

DRAFT = script("draft_A1", "draft_A2")
AUTH = f"{CWD}/src/auth.ts"


def frames(steps: Script, method: str) -> list[Any]:
    """The params of the calls of this method."""
    return [step["frame"]["params"] for step in steps if step["frame"].get("method") == method]


@pytest.mark.item("004-79", "004-10", "004-13")
def test_the_drafts_two_transcripts_with_our_client() -> None:
    results = [step["frame"]["result"] for step in DRAFT if step["from"] == "client" and "result" in step["frame"]]
    read, _, write = results
    questions: list[Any] = []

    def choose(question: Any) -> str:
        questions.append(question)
        return "session"

    async def use(remote: RemoteAgent) -> None:
        server = McpServer(name="filesystem", command="mcp-server-filesystem", args=[CWD])
        session = await remote.open(CWD, mcp_servers=[server])
        async with session.prompt("The sign-in function should fail politely") as turn:
            updates = await all_of(turn)
        assert [type(update) for update in updates] == [
            AgentThoughtChunk,
            ToolCallStart,
            ToolCallProgress,
            AgentMessageChunk,
            ToolCallStart,
            ToolCallProgress,
            AgentMessageChunk,
        ]
        assert session.id == "sess_a1b2c3d4"
        assert (turn.stop_reason, turn.usage and turn.usage.total_tokens) == ("end_turn", 870)
        (question,) = questions
        assert (question.tool_call.kind, question.tool_call.locations[0].path) == ("edit", AUTH)

    as_client(
        DRAFT,
        use,
        dialect="draft",
        name="Field Editor",
        version="1.85.0",
        cwd=CWD,
        permission=choose,
        capabilities=ClientCapabilities(
            fs=FileSystemCapabilities(read_text_file=True, write_text_file=True),
            terminal=True,
            meta=side(
                terminal={"interactive": False, "maxConcurrent": 5}, ui={"permissionDialogs": True, "diffViewer": True}
            ),
        ),
        on={
            "fs/read_text_file": lambda _: ReadTextFileResult(
                content=read["content"], meta=side(encoding=read["encoding"], totalLines=read["totalLines"])
            ),
            "fs/write_text_file": lambda _: WriteTextFileResult(meta=side(**write)),
        },
    )


@pytest.mark.item("004-79", "004-10", "004-13")
def test_the_drafts_two_transcripts_with_our_agent() -> None:
    agent = Agent(
        "Field Agent",
        version="1.0.0",
        modes=[SessionMode(id=name, name=name) for name in ("default", "plan", "code")],
        capabilities=AgentCapabilities(
            load_session=True,
            mcp_capabilities=McpCapabilities(http=True),
            prompt_capabilities=PromptCapabilities(meta=side(streaming=True, cancellation=True, attachments=True)),
            session_capabilities=SessionCapabilities(
                meta=side(
                    modes=["default", "plan", "code"], configOptions=["autoApprove", "maxTokens"], persistence=True
                )
            ),
        ),
    )
    said = [params["data"] for params in frames(DRAFT, "session/update")]

    @agent.prompt
    async def answer(turn: Turn) -> None:
        assert turn.text == "The sign-in function should fail politely"
        assert [server.name for server in turn.session.mcp_servers] == ["filesystem"]
        await turn.update(AgentThoughtChunk(content=TextContent(text=said[0]["content"]), meta=side(visible=True)))
        tool = "fs/read_text_file"
        await turn.update(
            ToolCallStart(tool_call_id="tc_001", title=tool, name=tool, status="pending", raw_input={"path": AUTH})
        )
        text = await turn.files.read(AUTH)
        assert text.startswith("export function signIn")
        shown = ToolCallBlock(content=TextContent(text="8 lines of auth.ts"))
        await turn.update(ToolCallProgress(tool_call_id="tc_001", status="completed", content=[shown]))
        await turn.update(AgentMessageChunk(content=TextContent(text=said[3]["content"]), meta=side(index=0)))
        tool = "fs/write_text_file"
        given = {"path": AUTH, "content": "..."}
        asking = side(requiresPermission=True)
        await turn.update(
            ToolCallStart(tool_call_id="tc_002", title=tool, name=tool, status="pending", raw_input=given, meta=asking)
        )
        wanted = ToolCallUpdate(
            tool_call_id="tc_002",
            title="Let sign-in fail politely",
            kind="edit",
            locations=[ToolCallLocation(path=AUTH)],
        )
        answer = await turn.ask("Let sign-in fail politely", tool=wanted)
        assert answer.kind == "allow_always"
        await turn.files.write(AUTH, frames(DRAFT, "fs/write_text_file")[0]["content"])
        hunks = said[5]["output"]["hunks"]
        change = Diff(path=AUTH, new_text="", meta=side(hunks=hunks))
        await turn.update(ToolCallProgress(tool_call_id="tc_002", status="completed", content=[change]))
        last = TextContent(text=said[6]["content"])
        await turn.update(AgentMessageChunk(content=last, meta=side(index=1, final=True)))
        turn.usage = Usage(total_tokens=870, input_tokens=350, output_tokens=520, meta=side(inferred=["totalTokens"]))

    as_agent(DRAFT, agent, minted=("sessionId", "createdAt"))
