"""docs/protocol/draft.md#plan to #content-blocks: the nine updates, tool calls and their states, locations, content
blocks.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from itertools import pairwise
from pathlib import Path
from typing import Any, cast

import pytest

from dragoman import Agent, Kind, Proxy, Tool, Turn, WorkspaceAccess
from dragoman.agents.everything.agent import everything
from dragoman.schema.config import SessionConfigOption, SessionMode
from dragoman.schema.content import (
    AudioContent,
    EmbeddedResource,
    ImageContent,
    ResourceContents,
    ResourceLink,
    TextContent,
)
from dragoman.schema.plan import PlanEntry
from dragoman.schema.toolcall import Diff, TerminalEmbed, ToolCallBlock, ToolCallLocation, ToolCallStatusName
from dragoman.schema.update import (
    AgentMessageChunk,
    AgentThoughtChunk,
    AvailableCommand,
    AvailableCommandsUpdate,
    CurrentModeUpdate,
    Plan,
    ToolCallProgress,
    ToolCallStart,
    UserMessageChunk,
)
from dragoman.testing.connections import connect_in_memory
from dragoman.transport.memory import memory_pair
from tests.acceptance.draft import (
    AGENT,
    CREATED,
    SESSION,
    Raw,
    bare,
    during_turn,
    initialize,
    kind_of,
    open_session,
    playing,
    prompted,
    run,
    serving,
    text_prompt,
)


def side(**members: Any) -> dict[str, Any]:
    """Return what only the draft can carry, from a typed message."""
    return {"dragoman": members}


def doing(work: Callable[[Turn], Awaitable[None]], **options: Any) -> Agent:
    """Return an agent that does this in every turn."""
    agent = Agent("worker", version="1", dialect="draft", **options)

    @agent.prompt
    async def answer(turn: Turn) -> None:
        await work(turn)

    return agent


# --- 7 the nine updates ---------------------------------------------------------------------------------------

NINE: list[tuple[str, dict[str, Any]]] = [
    (
        "plan",
        {
            "planId": "plan_xyz",
            "steps": [
                {"id": "step_1", "description": "Look at it", "status": "completed"},
                {"id": "step_2", "description": "Change it", "status": "in_progress"},
            ],
        },
    ),
    ("agent_message_chunk", {"content": "I looked and found ", "index": 0, "final": False}),
    ("user_message_chunk", {"content": "Please change it", "index": 0, "final": True}),
    ("thought_message_chunk", {"content": "First the errors", "index": 0, "visible": True}),
    (
        "tool_call",
        {
            "id": "tc_123",
            "tool": "fs/read_text_file",
            "input": {"path": "/home/user/project/src/auth.ts"},
            "status": "pending",
        },
    ),
    (
        "tool_call_update",
        {"id": "tc_123", "status": "completed", "output": {"type": "text", "text": "content"}, "duration": 45},
    ),
    (
        "available_commands",
        {"commands": [{"name": "help", "description": "Help"}, {"name": "clear", "description": "Forget"}]},
    ),
    ("current_mode_update", {"previousMode": "default", "currentMode": "plan", "reason": "The user asked"}),
    ("config_option_update", {"key": "autoApprove", "previousValue": False, "currentValue": True, "source": "user"}),
]


@pytest.mark.item("004-32")
def test_our_client_reads_the_nine_updates_with_all_their_members() -> None:
    """Each type becomes a typed update, and every member of its data can be read from it."""

    async def part(agent: Raw) -> None:
        for kind, data in NINE:
            agent.notify("session/update", {"sessionId": SESSION, "type": kind, "data": data})

    played = run(during_turn("/home/user/project", part))
    plan, said, echoed, thought, call, progress, commands, mode, option = played.updates
    assert isinstance(plan, Plan)
    assert plan.meta == side(planId="plan_xyz")
    assert [(entry.content, entry.status) for entry in plan.entries] == [
        ("Look at it", "completed"),
        ("Change it", "in_progress"),
    ]
    assert [entry.meta["dragoman"]["id"] for entry in plan.entries if isinstance(entry.meta, dict)] == [
        "step_1",
        "step_2",
    ]
    assert isinstance(said, AgentMessageChunk)
    assert (said.content, said.meta) == (TextContent(text="I looked and found "), side(index=0, final=False))
    assert isinstance(echoed, UserMessageChunk)
    assert (echoed.content, echoed.meta) == (TextContent(text="Please change it"), side(index=0, final=True))
    assert isinstance(thought, AgentThoughtChunk)
    assert (thought.content, thought.meta) == (TextContent(text="First the errors"), side(index=0, visible=True))
    assert isinstance(call, ToolCallStart)
    assert (call.tool_call_id, call.name, call.status) == ("tc_123", "fs/read_text_file", "pending")
    assert call.raw_input == {"path": "/home/user/project/src/auth.ts"}
    assert isinstance(progress, ToolCallProgress)
    assert (progress.tool_call_id, progress.status, progress.meta) == ("tc_123", "completed", side(duration=45))
    assert isinstance(commands, AvailableCommandsUpdate)
    assert [(command.name, command.description) for command in played.session.commands] == [
        ("help", "Help"),
        ("clear", "Forget"),
    ]
    assert isinstance(mode, CurrentModeUpdate)
    assert mode.meta == side(previousMode="default", reason="The user asked")
    assert played.session.mode == "plan"
    assert option.meta["dragoman"].items() >= NINE[-1][1].items()
    assert {option.id: option.current_value for option in played.session.options}["autoApprove"] is True


@pytest.mark.item("004-32")
async def test_the_nine_updates_pass_a_proxy_unchanged() -> None:
    """Lifted into the vocabulary, given to an author, lowered again: the same JSON."""
    proxy = Proxy("between", client_dialect="draft", agent_dialect="draft")

    @proxy.from_agent("session/update")
    async def claimed(params: Any, forward: Any) -> None:
        await forward(params)

    client_end, ours = memory_pair()
    theirs, agent_end = memory_pair()
    client, agent = Raw(client_end), Raw(agent_end)
    standing = asyncio.ensure_future(proxy.serve(ours, theirs))
    id = client.ask("initialize", initialize())
    agent.reply(await agent.expect(method="initialize"), {"protocolVersion": 1, "capabilities": AGENT})
    await client.answer(id)
    for kind, data in NINE:
        params = {"sessionId": SESSION, "type": kind, "data": data}
        agent.notify("session/update", params)
        assert (await client.expect(method="session/update"))["params"] == params
    await client_end.close()
    await standing


@pytest.mark.item("004-32")
async def test_our_agent_sends_the_nine_updates() -> None:
    """Everything an author says of them stands in the draft's members, the previous mode and value included."""
    settings = {
        "modes": [SessionMode(id="default", name="Default"), SessionMode(id="plan", name="Plan")],
        "options": [SessionConfigOption(id="autoApprove", name="Approve", type="boolean", current_value=False)],
    }

    async def speak(turn: Turn) -> None:
        steps = [("Look at it", "completed"), ("Change it", "in_progress")]
        entries = [PlanEntry(content=text, priority="medium", status=status) for text, status in steps]
        await turn.send_update(Plan(entries=entries, meta=side(planId="plan_xyz")))
        await turn.send_update(
            AgentMessageChunk(content=TextContent(text="I looked and found "), meta=side(index=0, final=False))
        )
        await turn.send_update(
            UserMessageChunk(content=TextContent(text="Please change it"), meta=side(index=0, final=True))
        )
        await turn.send_update(
            AgentThoughtChunk(content=TextContent(text="First the errors"), meta=side(index=0, visible=True))
        )
        path = "/home/user/project/src/auth.ts"
        await turn.send_update(
            ToolCallStart(tool_call_id="tc_123", title="fs/read_text_file", raw_input={"path": path}, status="pending")
        )
        content: list[Any] = [ToolCallBlock(content=TextContent(text="content"))]
        await turn.send_update(
            ToolCallProgress(tool_call_id="tc_123", status="completed", content=content, meta=side(duration=45))
        )
        commands = [
            AvailableCommand(name="help", description="Help"),
            AvailableCommand(name="clear", description="Forget"),
        ]
        await turn.send_update(AvailableCommandsUpdate(available_commands=commands))
        await turn.send_update(CurrentModeUpdate(current_mode_id="plan", meta=side(reason="The user asked")))
        turn.session.set_option("autoApprove", True)

    async with serving(doing(speak, **settings)) as client:
        await prompted(client, await open_session(client))
        updates = client.params_of("session/update")
        assert [params["type"] for params in updates] == [kind for kind, _ in NINE]
        for params, (kind, data) in zip(updates, NINE, strict=True):
            expected = {**data, "source": "agent"} if kind == "config_option_update" else data
            assert bare(params["data"]) == expected


# --- 8.1 creating tool calls ----------------------------------------------------------------------------------


@pytest.mark.item("004-33")
async def test_a_tool_call_that_needs_permission_has_every_status_in_order(tmp_path: Path) -> None:
    """The everything agent's /write: pending with requiresPermission, the question, in progress, the write, completed;
    a call that needs no leave has no flag and no question."""

    async with serving(everything("draft")) as client:
        client.answers |= {
            "fs/read_text_file": lambda _: {"content": "old\n", "encoding": "utf-8"},
            "fs/write_text_file": lambda _: {"bytesWritten": 4, "created": False},
            "session/request_permission": lambda _: {"granted": True, "scope": "once"},
        }
        session = await open_session(client, tmp_path)
        start = len(client.received)
        await prompted(client, session, "/write a.txt new")
        steps: list[Any] = []
        for message in client.received[start:]:
            params = message.get("params", {})
            if params.get("type") in ("tool_call", "tool_call_update"):
                steps.append(params["data"].get("status"))
            elif message.get("method") in ("session/request_permission", "fs/write_text_file"):
                steps.append(message["method"])
        assert [step for step in steps if step is not None] == [
            "pending",
            "awaiting_permission",
            "session/request_permission",
            "in_progress",
            "fs/write_text_file",
            "completed",
        ]
        [call] = client.updates("tool_call")
        assert call["requiresPermission"] is True
        [question] = client.params_of("session/request_permission")
        assert (question["operation"], question["resource"]) == ("file_write", str(tmp_path / "a.txt"))
        assert question["toolCallId"] == call["id"]
        await prompted(client, session, "/read a.txt")
        assert "requiresPermission" not in client.updates("tool_call")[-1]
        assert len(client.params_of("session/request_permission")) == 1


# --- 8.2 the states of a tool call ----------------------------------------------------------------------------

# The arrows of the drawing, and the one that section 4.5 adds: a cancel finds every open call.
ARROWS: dict[str, set[str]] = {
    "pending": {"awaiting_permission", "in_progress", "cancelled"},
    "awaiting_permission": {"in_progress", "denied", "cancelled"},
    "in_progress": {"completed", "failed", "cancelled"},
    "completed": set(),
    "failed": set(),
    "denied": set(),
    "cancelled": set(),
}


async def bring(call: Tool, status: str, client: Raw) -> None:
    """Bring a new call into a status through allowed transitions."""
    if status in ("in_progress", "completed", "failed"):
        await call.start()
    if status in ("completed", "failed", "cancelled"):
        await call.finish(cast(ToolCallStatusName, status))
    if status == "denied":
        client.answers["session/request_permission"] = lambda _: {"granted": False}
        await call.ask_permission()


async def try_move(call: Tool, to: str) -> None:
    """Request one transition through the public methods of a tool."""
    if to == "in_progress":
        await call.start()
    elif to == "awaiting_permission":
        await call.ask_permission()
    else:
        await call.finish(cast(ToolCallStatusName, to))


@pytest.mark.item("004-34")
@pytest.mark.parametrize("to", list(ARROWS))
@pytest.mark.parametrize("start", [state for state in ARROWS if state != "awaiting_permission"])
async def test_a_tool_call_has_only_the_drawn_status_changes(start: str, to: str) -> None:
    """From each state to each state: an allowed change is made and reported. Any other is refused, or leaves a final
    state as it is, and nothing of it appears on the wire."""
    outcome: list[str] = []

    async def try_it(turn: Turn) -> None:
        async with turn.tool("work") as call:
            await bring(call, start, client)
            client.answers["session/request_permission"] = lambda _: {"granted": True}
            outcome.append(await kind_of(try_move(call, to)) or call.status)
            await call.finish("cancelled" if call.status == "pending" else "completed")

    async with serving(doing(try_it)) as client:
        answered = await prompted(client, await open_session(client))
        assert "result" in answered
        updates = [data["status"] for data in client.updates("tool_call_update")]
        walked = ["pending", *updates]
        assert all(after in ARROWS[before] for before, after in pairwise(walked)), walked
    if to in ARROWS[start]:
        # Leave that is given leads on at once; completing a call that has not begun begins it first.
        assert outcome == ["in_progress" if to == "awaiting_permission" else to]
    elif (start == "pending" and to in ("completed", "failed")) or start == to == "in_progress":
        assert outcome == [to]
    elif not ARROWS[start] and to not in ("in_progress", "awaiting_permission"):
        assert outcome == [start]
    else:
        assert outcome == [Kind.INVALID_STATE]


@pytest.mark.item("004-34")
@pytest.mark.parametrize(
    ("answer", "walked"),
    [
        ({"granted": True}, ["pending", "awaiting_permission", "in_progress", "completed"]),
        ({"granted": False}, ["pending", "awaiting_permission", "denied"]),
        (None, ["pending", "awaiting_permission", "cancelled"]),
    ],
    ids=["granted", "denied", "cancelled"],
)
async def test_a_tool_call_that_awaits_permission_is_granted_denied_or_cancelled(
    answer: Any, walked: list[str]
) -> None:
    """What the wire shows of the three ways out of awaiting_permission; from denied nothing leads on."""
    refused: list[str] = []

    async def ask(turn: Turn) -> None:
        async with turn.tool("work", kind="edit", paths=["/x"]) as call:
            if not await call.ask_permission():
                refused.append(await kind_of(call.start()))

    async with serving(doing(ask)) as client:
        session = await open_session(client)
        id = client.ask("session/prompt", text_prompt(session))
        question = await client.wait_for_call("session/request_permission")
        if answer is None:
            client.notify("session/cancel", {"sessionId": session})
        else:
            client.reply(question, answer)
        await client.answer(id)
        updates = [data["status"] for data in client.updates("tool_call_update")]
        assert ["pending", *updates] == walked
    assert refused == ([Kind.INVALID_STATE] if walked[-1] == "denied" else [])


# --- 8.4 what a tool call brings ------------------------------------------------------------------------------

HUNK = {
    "oldStart": 1,
    "oldLines": 2,
    "newStart": 1,
    "newLines": 3,
    "content": "@@ -1,2 +1,3 @@\n one\n-two\n+2\n+three",
}


@pytest.mark.item("004-36")
async def test_our_agent_sends_text_diffs_in_hunks_and_terminals(tmp_path: Path) -> None:
    """Three calls, one kind of output each, as in section 8.4; a terminal tells its command, streams and code."""

    async def work_through(turn: Turn) -> None:
        async with turn.tool("write") as call:
            await call.add_text("File successfully written")
        async with turn.tool("edit", kind="edit") as call:
            await call.add_diff("/home/user/project/a.txt", "one\ntwo\n", "one\n2\nthree\n")
        async with turn.tool("test", kind="execute") as call:
            async with await turn.terminals.create("npm", ["test"]) as terminal:
                await call.add_terminal(terminal.id)
                await terminal.wait()

    async with serving(doing(work_through)) as client:

        def create(_: Any) -> Any:
            loop = asyncio.get_running_loop()
            for stream, data in (("stdout", "All tests passed!"), ("stderr", "1 warning")):
                push = {"terminalId": "term_abc", "data": data, "stream": stream}
                loop.call_soon(client.ask, "terminal/output", push)
            return {"terminalId": "term_abc"}

        client.answers |= {
            "terminal/create": create,
            "terminal/wait_for_exit": lambda _: {"exitCode": 0},
            "terminal/release": lambda _: {"released": True},
        }
        await prompted(client, await open_session(client, tmp_path))
        outputs = [data["output"] for data in client.updates("tool_call_update") if "output" in data]
        assert outputs[0] == {"type": "text", "text": "File successfully written"}
        assert outputs[1] == {"type": "diff", "path": "/home/user/project/a.txt", "hunks": [HUNK]}
        last = client.updates("tool_call_update")[-1]
        assert last["status"] == "completed"
        assert last["output"] == {
            "type": "terminal",
            "terminalId": "term_abc",
            "command": "npm test",
            "exitCode": 0,
            "stdout": "All tests passed!",
            "stderr": "1 warning",
        }


@pytest.mark.item("004-36")
def test_our_client_reads_text_diffs_in_hunks_and_terminals() -> None:
    """Each output is content of the tool call, with every member of the draft's beside it."""
    terminal = {
        "type": "terminal",
        "terminalId": "term_abc",
        "command": "npm test",
        "exitCode": 0,
        "stdout": "All tests passed!",
        "stderr": "",
    }
    outputs = [
        {"type": "text", "text": "File successfully written"},
        {"type": "diff", "path": "/home/user/project/a.txt", "hunks": [HUNK]},
        terminal,
    ]

    async def part(agent: Raw) -> None:
        for number, output in enumerate(outputs):
            for kind, data in (
                ("tool_call", {"id": f"tc_{number}", "tool": "t", "input": {}, "status": "pending"}),
                ("tool_call_update", {"id": f"tc_{number}", "status": "completed", "output": output}),
            ):
                agent.notify("session/update", {"sessionId": SESSION, "type": kind, "data": data})

    played = run(during_turn("/home/user/project", part))
    text, diff, shown = (call.content[0] for call in played.session.tool_calls.values())
    assert isinstance(text, ToolCallBlock)
    assert text.content == TextContent(text="File successfully written")
    assert isinstance(diff, Diff)
    assert (diff.path, diff.old_text, diff.new_text) == ("/home/user/project/a.txt", "one\ntwo", "one\n2\nthree")
    assert diff.meta == side(hunks=[HUNK])
    assert isinstance(shown, TerminalEmbed)
    assert shown.terminal_id == "term_abc"
    assert shown.meta == side(command="npm test", exitCode=0, stdout="All tests passed!", stderr="")


# --- 8.5 locations (that a client goes there comes with the client's places) ----------------------------------

LOCATION = {"path": "/home/user/project/src/auth.ts", "line": 42, "column": 5, "endLine": 55, "endColumn": 2}


def test_a_tool_call_has_a_range_in_a_file() -> None:
    """Our agent says the whole range, our client can read it, and both agree on what it is."""
    place = ToolCallLocation(path=LOCATION["path"], line=42, meta=side(column=5, endLine=55, endColumn=2))  # type: ignore[arg-type]

    async def point(turn: Turn) -> None:
        async with turn.tool("fs/write_text_file", kind="edit", paths=[place]):
            pass

    async def part(agent: Raw) -> None:
        data = {"id": "tc_1", "tool": "fs/write_text_file", "input": {}, "location": LOCATION}
        agent.notify("session/update", {"sessionId": SESSION, "type": "tool_call", "data": data})

    async def work() -> None:
        async with serving(doing(point)) as client:
            await prompted(client, await open_session(client))
            assert client.updates("tool_call")[0]["location"] == LOCATION

    run(work())
    played = run(during_turn("/home/user/project", part))
    assert played.session.tool_calls["tc_1"].locations == [place]


# --- 9 content blocks -----------------------------------------------------------------------------------------

PNG, WAV = "iVBORw0KGgo=", "UklGRiQAAABXQVZF"
URI = "file:///home/user/project/src/auth.ts"
BLOCKS: list[dict[str, Any]] = [
    {"type": "text", "text": "Please change this"},
    {"type": "image", "source": {"type": "base64", "mediaType": "image/png", "data": PNG}},
    {"type": "image", "source": {"type": "url", "mediaType": "image/png", "url": "https://example.com/a.png"}},
    {"type": "audio", "source": {"type": "base64", "mediaType": "audio/wav", "data": WAV}},
    {"type": "audio", "source": {"type": "url", "mediaType": "audio/wav", "url": "https://example.com/a.wav"}},
    {"type": "resource_link", "uri": URI, "mimeType": "text/typescript", "title": "auth.ts"},
    {"type": "resource", "uri": URI, "mimeType": "text/typescript", "title": "auth.ts", "content": "export {}\n"},
    {"type": "resource_link", "uri": URI},
    {"type": "resource", "uri": URI, "content": "export {}\n"},
]


@pytest.mark.item("004-38")
async def test_our_agent_reads_the_five_content_blocks() -> None:
    """Text, image, audio, link and resource, media by value and by url, optional members there or not."""
    got: list[Any] = []

    async def keep(turn: Turn) -> None:
        got.extend(turn.prompt)

    async with serving(doing(keep, image=True, audio=True)) as client:
        session = await open_session(client)
        result = await client.result("session/prompt", {"sessionId": session, "content": BLOCKS})
        assert result["stopReason"] == "end_turn"
    text, image, far_image, audio, far_audio, link, resource, bare_link, bare_resource = got
    assert text == TextContent(text="Please change this")
    assert image == ImageContent(data=PNG, mime_type="image/png")
    assert (far_image.mime_type, far_image.data, far_image.uri) == ("image/png", "", "https://example.com/a.png")
    assert audio == AudioContent(data=WAV, mime_type="audio/wav")
    assert (far_audio.mime_type, far_audio.data) == ("audio/wav", "")
    assert far_audio.meta == side(url="https://example.com/a.wav")
    assert (link.uri, link.mime_type, link.title) == (URI, "text/typescript", "auth.ts")
    contents = ResourceContents(uri=URI, mime_type="text/typescript", text="export {}\n")
    assert (resource.resource, resource.meta) == (contents, side(title="auth.ts"))
    assert isinstance(bare_link, ResourceLink)
    assert not bare_link.title
    assert bare_resource == EmbeddedResource(resource=ResourceContents(uri=URI, text="export {}\n"))


@pytest.mark.item("004-38")
async def test_our_client_sends_the_five_content_blocks() -> None:
    """The same blocks, said by a client's author, are on the wire exactly as the draft writes them."""
    blocks: list[Any] = [
        TextContent(text="Please change this"),
        ImageContent(data=PNG, mime_type="image/png"),
        ImageContent(data="", mime_type="image/png", uri="https://example.com/a.png"),
        AudioContent(data=WAV, mime_type="audio/wav"),
        AudioContent(data="", mime_type="audio/wav", meta=side(url="https://example.com/a.wav")),
        ResourceLink(name="auth.ts", uri=URI, mime_type="text/typescript", title="auth.ts"),
        EmbeddedResource(
            resource=ResourceContents(uri=URI, mime_type="text/typescript", text="export {}\n"),
            meta=side(title="auth.ts"),
        ),
        ResourceLink(name="auth.ts", uri=URI),
        EmbeddedResource(resource=ResourceContents(uri=URI, text="export {}\n")),
    ]

    async def part(agent: Raw) -> None:
        agent.reply(await agent.expect(method="session/new"), {"sessionId": SESSION, "createdAt": CREATED})
        asked = await agent.expect(method="session/prompt")
        assert bare(asked["params"]["content"]) == BLOCKS
        agent.reply(asked, {"stopReason": "end_turn"})

    async with playing(part) as remote:
        session = await remote.open_session("/home/user/project")
        async with session.prompt(blocks):
            pass


@pytest.mark.item("004-38")
async def test_content_goes_from_our_client_to_our_agent_unchanged(tmp_path: Path) -> None:
    """Our client and our agent, both speaking the draft: what went in is what the author gets."""
    got: list[Any] = []
    blocks: list[Any] = [TextContent(text="a"), ImageContent(data=PNG, mime_type="image/png")]

    async def keep(turn: Turn) -> None:
        got.extend(turn.prompt)

    async with connect_in_memory(doing(keep, image=True), dialect="draft", workspace=WorkspaceAccess()) as remote:
        session = await remote.open_session(str(tmp_path))
        async with session.prompt(blocks):
            pass
    assert got == blocks
