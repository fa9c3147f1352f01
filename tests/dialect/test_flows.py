"""Whole conversations of the dialect documents, each played twice: our client against a scripted agent, our agent
against a client.

The scripts are raw frames (data/flows). The scripted peer checks every frame it hears against the script, exactly: only
JSON-RPC ids and what the other end makes up (session ids, createdAt) may differ.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Coroutine
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
from dragoman.transport.memory import memory_pair

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
    steps: Script, use: Callable[[RemoteAgent], Coroutine[Any, Any, None]], minted: tuple[str, ...] = (), **options: Any
) -> None:
    """Let `use` drive our client; a scripted agent checks each of its frames."""

    async def main() -> None:
        ours, theirs = memory_pair()
        playing = asyncio.create_task(ScriptedPeer(theirs).play("agent", steps, generated=minted))
        async with asyncio.timeout(BOUND):
            async with connect(ours, **options) as remote:
                using = asyncio.create_task(use(remote))
                await asyncio.wait({playing, using}, return_when=asyncio.FIRST_EXCEPTION)
                for task in (playing, using):
                    task.cancel()
                ends: tuple[Any, ...] = await asyncio.gather(playing, using, return_exceptions=True)
        for end in ends:
            if isinstance(end, Exception):
                raise end
        assert list(ends) == [None, None], "one was done before the other"

    asyncio.run(main())


def as_agent(steps: Script, agent: Agent, minted: tuple[str, ...] = ("sessionId", "session_id")) -> None:
    """Let a scripted client talk to our agent and check each of its frames."""

    async def main() -> None:
        ours, theirs = memory_pair()
        reports: list[str] = []
        connection = agent.start_connection(ours, report=reports.append)
        try:
            async with asyncio.timeout(BOUND):
                await ScriptedPeer(theirs).play("client", steps, generated=minted)
        finally:
            await connection.close()
        assert reports == []

    asyncio.run(main())


async def all_of(turn: Any) -> list[Any]:
    return [update async for update in turn]


# --- the draft, docs/protocol/draft.md#transcripts
# --------------------------------------------------------------------------

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
        session = await remote.open_session(CWD, mcp_servers=[server])
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
        client_version="1.85.0",
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
        mcp=False,
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
    data = [params["data"] for params in frames(DRAFT, "session/update")]

    @agent.prompt
    async def answer(turn: Turn) -> None:
        assert turn.text == "The sign-in function should fail politely"
        assert [server.name for server in turn.session.mcp_servers] == ["filesystem"]
        await turn.send_update(AgentThoughtChunk(content=TextContent(text=data[0]["content"]), meta=side(visible=True)))
        tool = "fs/read_text_file"
        await turn.send_update(
            ToolCallStart(tool_call_id="tc_001", title=tool, name=tool, status="pending", raw_input={"path": AUTH})
        )
        text = await turn.files.read(AUTH)
        assert text.startswith("export function signIn")
        block = ToolCallBlock(content=TextContent(text="8 lines of auth.ts"))
        await turn.send_update(ToolCallProgress(tool_call_id="tc_001", status="completed", content=[block]))
        await turn.send_update(AgentMessageChunk(content=TextContent(text=data[3]["content"]), meta=side(index=0)))
        tool = "fs/write_text_file"
        given = {"path": AUTH, "content": "..."}
        asking = side(requiresPermission=True)
        await turn.send_update(
            ToolCallStart(tool_call_id="tc_002", title=tool, name=tool, status="pending", raw_input=given, meta=asking)
        )
        wanted = ToolCallUpdate(
            tool_call_id="tc_002",
            title="Let sign-in fail politely",
            kind="edit",
            locations=[ToolCallLocation(path=AUTH)],
        )
        answer = await turn.ask_permission("Let sign-in fail politely", tool=wanted)
        assert answer.kind == "allow_always"
        await turn.files.write(AUTH, frames(DRAFT, "fs/write_text_file")[0]["content"])
        hunks = data[5]["output"]["hunks"]
        change = Diff(path=AUTH, new_text="", meta=side(hunks=hunks))
        await turn.send_update(ToolCallProgress(tool_call_id="tc_002", status="completed", content=[change]))
        last = TextContent(text=data[6]["content"])
        await turn.send_update(AgentMessageChunk(content=last, meta=side(index=1, final=True)))
        turn.token_usage = Usage(
            total_tokens=870, input_tokens=350, output_tokens=520, meta=side(inferred=["totalTokens"])
        )

    as_agent(DRAFT, agent, minted=("sessionId", "createdAt"))


# --- 2025.1 -----------------------------------------------------------------------------------------

Y2025 = script("y2025_turn")
MAIN = f"{CWD}/main.rs"
CODE = "fn main() {\n    crash();\n}\n"
BETTER = "fn main() {\n    greet();\n}\n"


@pytest.mark.item("000-07", "000-09", "000-10", "000-11", "000-12")
def test_the_2025_flow_with_our_client() -> None:
    served: dict[str, Any] = {
        "fs/read_text_file": ReadTextFileResult(content=CODE),
        "fs/write_text_file": WriteTextFileResult(),
        "terminal/create": CreateTerminalResult(terminal_id="term_1"),
        "terminal/output": TerminalOutputResult(output="Compiling\n", truncated=False),
        "terminal/wait_for_exit": WaitForExitResult(exit_code=0, signal=None),
        "terminal/kill": KillTerminalResult(),
        "terminal/release": ReleaseTerminalResult(),
    }
    server = McpServer(name="filesystem", command="/opt/mcp/files", args=[], env=[])

    async def use(remote: RemoteAgent) -> None:
        await remote.authenticate("token", {"token": "sample-token"})
        session = await remote.open_session(CWD, mcp_servers=[server], mode="agent")
        assert [mode.id for mode in session.modes.available_modes] == ["agent"] if session.modes else False
        link = ResourceLink(name="main.rs", uri=f"file://{MAIN}", mime_type="text/x-rust", meta=side(inferred=["name"]))
        async with session.prompt([TextContent(text="Repair the crash in main.rs"), link]) as turn:
            updates = await all_of(turn)
        assert [type(update) for update in updates] == [
            AgentThoughtChunk,
            Plan,
            ToolCallStart,
            ToolCallProgress,
            ToolCallStart,
            ToolCallProgress,
            AgentMessageChunk,
        ]
        assert turn.stop_reason == "end_turn"
        await cancelled_after_the_first_word(session, "And now the tests")
        again = await remote.load_session(session.id, CWD)
        received = [update.content for update in again.updates_outside_turns if isinstance(update, UserMessageChunk)]
        assert [content.text for content in received[0::2] if isinstance(content, TextContent)] == [
            "Repair the crash in main.rs",
            "And now the tests",
        ]

    as_client(
        Y2025,
        use,
        minted=("session_id",),
        dialect="2025.1",
        name="my-editor",
        client_version="1.0.0",
        cwd=CWD,
        mcp_servers=[server],
        capabilities=ClientCapabilities(
            fs=FileSystemCapabilities(read_text_file=True, write_text_file=True),
            terminal=True,
            meta=side(experimental={}),
        ),
        on={method: lambda _, result=result: result for method, result in served.items()},
    )


async def cancelled_after_the_first_word(session: Any, text: str) -> None:
    async with session.prompt(text) as turn:
        async for _ in turn:
            turn.cancel()
    assert turn.stop_reason == "cancelled"


@pytest.mark.item("000-07", "000-09", "000-10", "000-11", "000-12")
def test_the_2025_flow_with_our_agent() -> None:
    modes = ["agent", "ask"]
    agent = Agent(
        "my-agent",
        mcp=False,
        version="1.0.0",
        image=True,
        modes=[SessionMode(id=name, name=name) for name in modes],
        instructions="This agent edits code.",
        capabilities=AgentCapabilities(
            load_session=True,  # 2025.1 agents always can, and so never say it
            prompt_capabilities=PromptCapabilities(image=True),
            meta=side(streaming=True, audio=False, modes=modes, inferred=["loadSession"]),
        ),
    )

    def step(content: str, status: str) -> PlanEntry:
        return PlanEntry(content=content, priority="medium", status=status, meta=side(inferred=["priority"]))

    async def repair(turn: Turn) -> None:
        assert (turn.session.cwd, turn.session.mode) == (CWD, "agent")
        assert [server.command for server in turn.session.mcp_servers] == ["/opt/mcp/files"]
        await turn.think("Which function is first?")
        await turn.plan(step("Open the file", "in_progress"), step("Build it", "pending"))
        await turn.send_update(
            ToolCallStart(tool_call_id="tool_1", title="read_file", name="read_file", raw_input={"path": MAIN})
        )
        code = await turn.files.read(MAIN)
        assert code == CODE
        await turn.send_update(done("tool_1", code))
        await turn.files.write(MAIN, BETTER)
        line = {"command": "cargo build"}
        await turn.send_update(
            ToolCallStart(tool_call_id="tool_2", title="run_command", name="run_command", raw_input=line)
        )
        async with await turn.terminals.create("cargo", ["build"], cwd=CWD) as terminal:
            assert (await terminal.output()).output == "Compiling\n"
            assert await terminal.wait() == 0
            await terminal.kill()
        await turn.send_update(done("tool_2", "Finished"))
        await turn.say("The crash is gone.")

    @agent.prompt
    async def answer(turn: Turn) -> None:
        if turn.session.turn_count == 1:
            await repair(turn)
        else:
            await begin_and_wait(turn, "Starting")

    as_agent(Y2025, agent, minted=())


def done(call: str, text: str) -> ToolCallProgress:
    """A tool call that ended with a text."""
    return ToolCallProgress(
        tool_call_id=call, status="completed", content=[ToolCallBlock(content=TextContent(text=text))]
    )


async def begin_and_wait(turn: Turn, text: str) -> None:
    """Say something, then work until cancelled."""
    await turn.say(text)
    await asyncio.get_running_loop().create_future()


# --- crow -------------------------------------------------------------------------------------------

CROW = script("crow_turn")
CALL = "b3a9e6c4-0d1f-4a77-8a35-6f0c2d9e8b21"


@pytest.mark.item("002-01", "002-02", "002-03", "002-04", "002-05", "002-06", "002-07", "002-09")
def test_the_crow_flow_with_our_client() -> None:
    async def use(remote: RemoteAgent) -> None:
        session = await remote.open_session(CWD)
        async with session.prompt("List the folder") as turn:
            updates = await all_of(turn)
        assert (len(updates), turn.stop_reason) == (7, "end_turn")
        again = await remote.load_session(session.id, CWD)
        assert len(again.updates_outside_turns) == 8
        assert again.tool_calls[CALL].status == "completed"
        await cancelled_after_the_first_word(again, "Now delete them")

    as_client(
        CROW,
        use,
        dialect="crow",
        name="crow-ide",
        client_version="0.1.0",
        cwd=CWD,
        permission="allow",
        capabilities=ClientCapabilities(),
    )


@pytest.mark.item("002-01", "002-02", "002-03", "002-04", "002-05", "002-06", "002-07", "002-09")
def test_the_crow_flow_with_our_agent() -> None:
    agent = Agent(
        "crow-acp-server",
        mcp=False,
        title="Crow ACP Server",
        version="0.1.0",
        capabilities=AgentCapabilities(
            load_session=True,
            prompt_capabilities=PromptCapabilities(image=True, embedded_context=True, meta=side(text=True)),
            mcp_capabilities=McpCapabilities(http=False, sse=False),
        ),
    )
    options = [
        PermissionOption(
            option_id="approve", name="Approve", kind="allow_once", meta=side(primary=True, inferred=["kind"])
        ),
        PermissionOption(option_id="reject", name="Reject", kind="reject_once", meta=side(inferred=["kind"])),
    ]

    async def list_folder(turn: Turn) -> None:
        await turn.think("They want a listing.")
        read = PlanEntry(content="Read the question", priority="high", status="completed")
        await turn.plan(read, PlanEntry(content="Use the terminal", priority="medium", status="in_progress"))
        await turn.send_update(ToolCallStart(tool_call_id=CALL, title="terminal", kind="execute", status="pending"))
        question = ToolCallUpdate(tool_call_id=CALL, title="terminal", raw_input="ls -la")
        assert await turn.ask_permission("terminal", tool=question, options=options)
        await turn.send_update(ToolCallProgress(tool_call_id=CALL, status="in_progress"))
        await turn.send_update(ToolCallProgress(tool_call_id=CALL, status="completed"))
        await turn.plan(read, PlanEntry(content="Use the terminal", priority="medium", status="completed"))
        await turn.say("There are two files.")

    @agent.prompt
    async def answer(turn: Turn) -> None:
        if turn.session.turn_count == 1:
            await list_folder(turn)
        else:
            await begin_and_wait(turn, "Are you ")

    as_agent(CROW, agent)


# --- banjo ------------------------------------------------------------------------------------------

BANJO = script("banjo_turn")
ZIG = f"{CWD}/src/main.zig"


@pytest.mark.item("003-02", "003-08", "003-09", "003-10", "003-11", "003-13")
def test_the_banjo_flow_with_our_client() -> None:
    async def use(remote: RemoteAgent) -> None:
        await remote.authenticate("claude-login")
        session = await remote.open_session(CWD)
        assert [option.id for option in session.options] == ["auto_resume", "route", "primary_agent", "model"]
        await session.set_mode("acceptEdits")
        await remote.request(
            "session/set_mode", SetModeParams(session_id=session.id, mode_id="default", meta=side(legacy=True))
        )
        assert session.mode == "default"
        await session.set_option("model", "opus")
        assert [option.current_value for option in session.options] == ["true", "claude", "claude", "opus"]
        await session.set_option("route", "codex")
        uri = f"file://{ZIG}#L1:1"
        context = EmbeddedResource(resource=ResourceContents(uri=uri, text="const a = 1;\n", mime_type="text/x-zig"))
        async with session.prompt([TextContent(text="Make it two"), context]) as turn:
            updates = await all_of(turn)
        assert (len(updates), turn.stop_reason) == (8, "end_turn")
        await cancelled_after_the_first_word(session, "Build it")
        assert [command.name for command in session.commands] == ["version"]
        between = [type(update) for update in session.updates_outside_turns]
        assert between.count(CurrentModeUpdate) == 2
        assert between.count(ConfigOptionUpdate) == 1

    as_client(
        BANJO,
        use,
        dialect="banjo",
        name="zed",
        client_version="0.218.0",
        cwd=CWD,
        permission="allow",
        capabilities=ClientCapabilities(
            fs=FileSystemCapabilities(read_text_file=True, write_text_file=True), terminal=True
        ),
        on={
            "fs/read_text_file": lambda _: ReadTextFileResult(content="const a = 1;\n"),
            "fs/write_text_file": lambda _: WriteTextFileResult(),
        },
    )


def select(id: str, name: str, *choices: ConfigChoice, description: str | None = None, **more: Any) -> Any:
    """A config option that is set to its first choice."""
    option = SessionConfigOption(
        id=id, name=name, type="select", current_value=choices[0].value, options=list(choices), **more
    )
    if description:
        option.description = description
    return option


@pytest.mark.item("003-02", "003-08", "003-09", "003-10", "003-11", "003-13")
def test_the_banjo_flow_with_our_agent() -> None:
    agent = Agent(
        "banjo",
        mcp=False,
        version="0.1.0",
        dialect="banjo",
        capabilities=AgentCapabilities(
            prompt_capabilities=PromptCapabilities(image=True, audio=False, embedded_context=True),
            mcp_capabilities=McpCapabilities(http=False, sse=False),
            session_capabilities=SessionCapabilities(),
            load_session=False,
        ),
        auth_methods=[AuthMethod(id="claude-login", name="Sign in", description="Sign in through the command line")],
        modes=[
            SessionMode(id="default", name="Default", description="Ask before each risky step"),
            SessionMode(id="acceptEdits", name="Accept edits"),
            SessionMode(id="bypassPermissions", name="No checks"),
            SessionMode(id="dontAsk", name="Only approved tools"),
            SessionMode(id="plan", name="Plan"),
        ],
        options=[
            select(
                "auto_resume",
                "Resume by itself",
                ConfigChoice(value="true", name="On", description="Always"),
                ConfigChoice(value="false", name="Off"),
                description="Continue the last session",
            ),
            select(
                "route", "Route", ConfigChoice(value="claude", name="Claude"), ConfigChoice(value="codex", name="Codex")
            ),
            select("primary_agent", "First agent", ConfigChoice(value="claude", name="Claude")),
            select(
                "model",
                "Model",
                ConfigChoice(value="sonnet", name="Sonnet", description="For daily work"),
                ConfigChoice(value="opus", name="Opus"),
                ConfigChoice(value="haiku", name="Haiku"),
                category="model",
                meta=side(form="models"),
            ),
        ],
        commands=[AvailableCommand(name="version", description="Which build this is")],
    )

    def step(id: str, content: str, status: str) -> PlanEntry:
        return PlanEntry(content=content, priority="medium", status=status, meta=side(id=id, inferred=["priority"]))

    async def make_it_two(turn: Turn) -> None:
        await turn.think("One line changes")
        await turn.plan(step("t1", "Read the entry point", "in_progress"), step("t2", "Change it", "pending"))
        given = {"path": ZIG}
        await turn.send_update(
            ToolCallStart(tool_call_id="call_1", title="Read main.zig", kind="read", status="pending", raw_input=given)
        )
        code = await turn.files.read(ZIG)
        await turn.send_update(done("call_1", code.strip()))
        title = "Edit main.zig"
        await turn.send_update(
            ToolCallStart(tool_call_id="call_2", title=title, kind="edit", status="pending", raw_input=given)
        )
        question = ToolCallUpdate(
            tool_call_id="call_2",
            title=title,
            kind="edit",
            status="pending",
            locations=[ToolCallLocation(path=ZIG, line=1)],
        )
        options = [
            PermissionOption(kind="allow_once", name="Allow", option_id="a1"),
            PermissionOption(kind="reject_once", name="Reject", option_id="r1"),
        ]
        assert await turn.ask_permission(title, tool=question, options=options)
        await turn.files.write(ZIG, "const a = 2;\n")
        change = Diff(path=ZIG, old_text=code, new_text="const a = 2;\n")
        await turn.send_update(ToolCallProgress(tool_call_id="call_2", status="completed", content=[change]))
        await turn.plan(step("t1", "Read the entry point", "completed"), step("t2", "Change it", "completed"))
        await turn.say("It is two now.")

    @agent.prompt
    async def answer(turn: Turn) -> None:
        if turn.session.turn_count == 1:
            await make_it_two(turn)
        else:
            await begin_and_wait(turn, "Buil")

    as_agent(BANJO, agent)


def test_a_flow_with_a_wrong_message_fails() -> None:
    """The scripted peer is strict: a member too much or too few fails."""

    async def use(remote: RemoteAgent) -> None:
        await remote.open_session(CWD, directories=["/elsewhere"])

    with pytest.raises((AssertionError, ProtocolError), match="additionalDirectories"):
        as_client(
            CROW[:4],
            use,
            dialect="crow",
            name="crow-ide",
            client_version="0.1.0",
            cwd=CWD,
            capabilities=ClientCapabilities(),
        )
