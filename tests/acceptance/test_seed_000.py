"""The requirements of the 2025.1 document up to its content blocks: raw frames of both ends, and commands."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from dragoman import Agent, Kind, ProtocolError, Turn, WorkspaceAccess, connect
from dragoman.schema.config import SessionMode
from dragoman.schema.content import (
    AudioContent,
    ContentBlock,
    EmbeddedResource,
    ImageContent,
    ResourceContents,
    ResourceLink,
    TextContent,
)
from dragoman.schema.initialize import ClientCapabilities, FileSystemCapabilities
from dragoman.schema.mcp import McpServer
from dragoman.schema.plan import PlanEntry
from dragoman.schema.update import AgentMessageChunk, AgentThoughtChunk, Plan, ToolCallProgress, ToolCallStart
from dragoman.testing import ScriptedPeer
from tests.acceptance.wire import (
    Child,
    Json,
    acting,
    agent_played,
    call,
    client_of,
    error,
    note,
    result,
    run,
    serve,
)
from tests.acceptance.y2025 import BLOCKS, PNG, PROJECT, WAV, begin, hello, hold, introduction, prompt, run_prompt

# --- transport and messages -----------------------------------------------------------------------------------------


@pytest.mark.item("000-01")
async def test_a_process_on_stdio_serves_requests_sends_requests_streams_and_has_state(tmp_path: Path) -> None:
    """Both ends ask (a prompt, then a file), text comes in pieces, and the session knows what was said before."""

    async with Child("agent", "everything", "--dialect", "2025.1") as agent:
        await agent.request(1, "initialize", hello(cwd=str(tmp_path)))
        await agent.request(2, "session/new", {"session_id": "abc123", "mode": "ask"})
        agent.send(call(3, "session/prompt", prompt(f"/read {tmp_path}/main.rs")))
        asked = await agent.receive()
        while asked["method"] != "fs/read_text_file":
            asked = await agent.receive()
        agent.send(result(asked, {"content": "fn main() {}\n"}))
        await agent.until(3)
        agent.send(call(4, "session/prompt", prompt("one two three four five six seven eight nine")))
        pieces = [f["params"]["data"]["text"] for f in (await agent.until(4))[:-1]]
        assert len(pieces) > 3
        assert "> one two three four five six seven eight nine" in "".join(pieces)
        agent.send(call(5, "session/load", {"session_id": "abc123"}))
        data = json.dumps([f["params"]["data"] for f in (await agent.until(5))[:-1]])
        assert "fn main() {}" in data
        assert "one two three" in data


LAYERS = {
    "dragoman.transport.stdio": ("wire.envelope", "dialect", "engine", "session", "roles", "agents"),
    "dragoman.wire.envelope": ("transport", "dialect", "engine", "session", "roles", "agents"),
    "dragoman.engine.connection": ("session", "roles", "agents"),
    "dragoman.session.history": ("engine", "transport", "roles", "agents"),
    "dragoman": ("wire", "transport", "engine", "session", "roles", "agents"),
}


@pytest.mark.item("000-02")
@pytest.mark.parametrize("module", LAYERS)
def test_each_layer_works_without_the_layers_above_it(module: str) -> None:
    """Transport, protocol, connection, session, application: each is loaded by itself in a fresh interpreter."""
    ran = subprocess.run(
        [sys.executable, "-c", f"import sys, {module}; print(*sys.modules)"], capture_output=True, text=True, timeout=60
    )
    loaded = [name for name in ran.stdout.split() if name.startswith("dragoman.")]
    above = tuple(f"dragoman.{layer}" for layer in LAYERS[module])
    assert ran.returncode == 0, ran.stderr
    assert [name for name in loaded if name.startswith(above)] == []


@pytest.mark.item("000-02")
async def test_the_same_application_works_over_another_transport_and_in_another_dialect(tmp_path: Path) -> None:
    """The author's code stays as it is while transport (memory, process) and protocol (2025.1, v1) are exchanged."""
    (tmp_path / "echo.py").write_text(ECHO)
    echo: dict[str, Any] = {}
    exec(compile(ECHO.removesuffix("agent.run()\n"), "echo", "exec"), echo)

    async with client_of(echo["agent"]) as peer:
        await begin(peer)
        in_memory, _ = await run_prompt(peer, "hello")
    command = [sys.executable, str(tmp_path / "echo.py")]
    for dialect in ("2025.1", "v1"):
        async with connect(command, dialect=dialect, cwd=str(tmp_path)) as agent:
            session = await agent.open_session(str(tmp_path))
            assert await session.ask("hello") == "You said: hello"
    assert in_memory == [("agent_message_chunk", {"text": "You said: hello"})]


ECHO = """
from dragoman import Agent

agent = Agent("echo", version="1.0")

@agent.prompt
async def answer(turn):
    await turn.say(f"You said: {turn.text}")

agent.run()
"""

# An agent that keeps what it reads, byte for byte, and who started it.
RECORDER = """
import json, os, sys
kept = open(sys.argv[1], "wb")
open(sys.argv[1] + ".parent", "w").write(str(os.getppid()))
ANSWERS = {"initialize": {"agent_info": {"name": "r", "version": "1"}, "capabilities": {"streaming": True}}}
for line in sys.stdin.buffer:
    kept.write(line)
    kept.flush()
    message = json.loads(line)
    if "id" in message:
        answer = ANSWERS.get(message["method"], {"status": "ok"})
        sys.stdout.write(json.dumps({"jsonrpc": "2.0", "id": message["id"], "result": answer}) + "\\n")
        sys.stdout.flush()
"""


@pytest.mark.item("000-03")
async def test_the_client_starts_the_agent_and_sends_each_message_as_one_line(tmp_path: Path) -> None:
    """The recorded input of a real child process: whole lines of JSON, the last one too; its parent is the client."""
    (tmp_path / "recorder.py").write_text(RECORDER)
    kept = tmp_path / "kept"

    command = [sys.executable, str(tmp_path / "recorder.py"), str(kept)]
    async with connect(command, dialect="2025.1", cwd=str(tmp_path)) as agent:
        session = await agent.open_session(str(tmp_path))
        assert await session.ask("two\nlines") == ""
    assert int((tmp_path / "kept.parent").read_text()) == os.getpid()
    lines = kept.read_bytes().splitlines(keepends=True)
    assert all(line.endswith(b"\n") for line in lines)
    frames = [json.loads(line) for line in lines]
    assert [frame["method"] for frame in frames] == ["initialize", "session/new", "session/prompt"]
    assert frames[2]["params"]["content"] == [{"type": "text", "text": "two\nlines"}]


@pytest.mark.item("000-03")
async def test_the_agent_sends_each_message_as_one_line() -> None:
    """What our agent writes to its standard output ends, message by message, with a newline."""

    async with Child("agent", "everything", "--dialect", "2025.1") as agent:
        await agent.request(1, "initialize", hello(cwd="/"))
        await agent.request(2, "session/new", {"session_id": "abc123", "mode": "ask"})
        await agent.request(3, "session/prompt", prompt("/echo two\nlines"))
        status, rest, _ = await agent.end()
        assert (status, rest) == (0, "")
        assert all(line.count(b"\n") == 1 and line.endswith(b"\n") for line in agent.lines)
        assert {"text": "two\nlines"} in [f["params"]["data"] for f in agent.received if "method" in f]


async def read(turn: Turn) -> None:
    try:
        await turn.say(await turn.files.read(f"{PROJECT}/main.rs"))
    except ProtocolError as refusal:
        await turn.say(f"{refusal.kind}: {refusal.message}")


@pytest.mark.item("000-04")
async def test_our_agent_reads_requests_notifications_and_errors() -> None:
    """A request is answered, a notification is acted upon and not answered, an error answer reaches the author."""
    agent = Agent("a", version="1")
    agent.prompt(acting(hold=hold, read=read))

    async with client_of(agent) as peer:
        await begin(peer)
        peer.send(call(3, "session/prompt", prompt("hold")))
        await peer.expect(params={"data": {"text": "Working"}})
        peer.send(note("session/cancel", {"session_id": "abc123"}))
        assert await peer.receive() == result(3, {"status": "ok", "stop_reason": "cancelled"})
        peer.send(call(4, "session/prompt", prompt("read")))
        asked = await peer.expect(method="fs/read_text_file")
        peer.send(error(asked, -32001, "Resource not found"))
        answer = await peer.expect(params={"type": "agent_message_chunk"})
        assert answer["params"]["data"]["text"] in (
            "session_not_found: Resource not found",
            "resource_not_found: Resource not found",
        )
        await peer.expect(id=4, result={"status": "ok"})


@pytest.mark.item("000-04")
async def test_our_client_reads_requests_notifications_and_errors(tmp_path: Path) -> None:
    """The agent's request is answered, its update arrives, its error fails the prompt with the right kind."""
    (tmp_path / "a.txt").write_text("text")

    async def part(peer: ScriptedPeer) -> None:
        await serve(peer, "initialize", introduction())
        opened = await serve(peer, "session/new", {"status": "ok"})
        session = opened["params"]["session_id"]
        asked = await peer.expect(method="session/prompt")
        peer.send(call(10, "fs/read_text_file", {"path": str(tmp_path / "a.txt")}))
        assert await peer.receive() == result(10, {"content": "text"})
        update = {"session_id": session, "type": "agent_message_chunk", "data": {"text": "Hello!"}}
        peer.send(note("session/update", update))
        peer.send(error(asked, -32003, "Invalid state"))

    options: Any = {"dialect": "2025.1", "cwd": str(tmp_path), "workspace": WorkspaceAccess()}
    async with agent_played(part, **options) as agent:
        session = await agent.open_session(str(tmp_path))
        updates: list[Any] = []
        session.on_update = updates.append
        with pytest.raises(ProtocolError) as caught:
            await session.ask("go")
        assert caught.value.kind == Kind.INVALID_STATE
        assert [update.content.text for update in updates] == ["Hello!"]


@pytest.mark.item("000-05")
def test_the_four_message_shapes_are_exact_and_an_empty_result_is_ok(tmp_path: Path) -> None:
    """Requests and notifications that we send, results and errors that we answer, member for member."""

    async def respond(turn: Turn) -> None:
        await turn.say("Hello!")
        await turn.files.write(f"{PROJECT}/a", "b")

    agent = Agent("a", version="1")
    agent.prompt(acting(respond=respond))

    async def serving() -> None:
        async with client_of(agent) as peer:
            await begin(peer)
            assert await peer.request(3, "authenticate", {"type": "token", "token": "t"}) == result(3, {"status": "ok"})
            peer.send(call(5, "session/prompt", prompt("respond")))
            params = {"session_id": "abc123", "type": "agent_message_chunk", "data": {"text": "Hello!"}}
            assert await peer.receive() == note("session/update", params)
            asked = await peer.receive()
            expected = call(asked["id"], "fs/write_text_file", {"path": f"{PROJECT}/a", "content": "b"})
            assert asked == expected
            peer.send(result(asked, {"status": "ok"}))
            assert await peer.receive() == result(5, {"status": "ok"})
            assert (await peer.request(6, "session/load", {"session_id": "abc123"})) == result(6, {"status": "ok"})
            refused = await peer.request(7, "session/load", {"session_id": "other"})
            assert set(refused) == {"jsonrpc", "id", "error"}
            assert refused["jsonrpc"] == "2.0"
            assert refused["error"]["code"] == -32001
            assert isinstance(refused["error"]["message"], str)

    async def part(peer: ScriptedPeer) -> None:
        await serve(peer, "initialize", introduction())
        opened = await peer.receive()
        assert opened == call(opened["id"], "session/new", opened["params"])
        peer.send(result(opened, {"status": "ok"}))
        peer.send(call(11, "fs/write_text_file", {"path": str(tmp_path / "a"), "content": "b"}))
        assert await peer.receive() == result(11, {"status": "ok"})
        peer.send(call(12, "terminal/create", {"cwd": str(tmp_path), "command": "true"}))
        terminal = (await peer.receive())["result"]["terminal_id"]
        peer.send(call(13, "terminal/kill", {"terminal_id": terminal}))
        assert await peer.receive() == result(13, {"status": "ok"})
        peer.send(call(14, "terminal/release", {"terminal_id": terminal}))
        assert await peer.receive() == result(14, {"status": "ok"})

    async def connecting() -> None:
        async with agent_played(part, dialect="2025.1", cwd=str(tmp_path), workspace=WorkspaceAccess()) as agent:
            await agent.open_session(str(tmp_path))

    run(serving())
    run(connecting())


@pytest.mark.item("000-06")
def test_all_nine_error_codes_are_sent_for_their_cause(tmp_path: Path) -> None:
    """Each number is received once, for its own cause."""

    async def crash(_: Turn) -> None:
        raise RuntimeError("a fault of the author's")

    async def require(turn: Turn) -> None:
        await turn.require_permission(
            "May I?", kind="fetch"
        )  # nobody can be asked in 2025.1, and the client serves no such thing

    agent = Agent("a", version="1")
    agent.prompt(acting(crash=crash, require=require, hold=hold))

    async def code(peer: ScriptedPeer, method: str, params: Json) -> int:
        return int((await peer.request("c", method, params))["error"]["code"])

    async def serving() -> None:
        async with client_of(agent) as peer:
            assert await code(peer, "session/prompt", prompt("crash")) == -32003  # before initialize
        async with client_of(agent) as peer:
            await begin(peer)
            peer.send(b'{"jsonrpc": "2.0", "id": 5, nonsense')
            assert (await peer.receive())["error"]["code"] == -32700
            peer.send({"jsonrpc": "2.0", "id": 6, "method": 6})
            assert (await peer.receive())["error"]["code"] == -32600
            assert await code(peer, "session/invent", {}) == -32601
            assert await code(peer, "session/prompt", {"session_id": "abc123"}) == -32602
            assert await code(peer, "session/prompt", prompt("crash")) == -32603
            assert await code(peer, "session/prompt", prompt("crash", session="nobody")) == -32001
            assert await code(peer, "session/prompt", prompt("require")) == -32002
            image = {"session_id": "abc123", "content": [{"type": "image", "format": "png", "data": PNG}]}
            assert await code(peer, "session/prompt", image) == -32004
            peer.send(call(7, "session/prompt", prompt("hold")))
            await peer.expect(method="session/update")
            assert await code(peer, "session/prompt", prompt("hold")) == -32003  # while one is processed

    async def part(peer: ScriptedPeer) -> None:
        await serve(peer, "initialize", introduction())
        await serve(peer, "session/new", {"status": "ok"})
        for method, params, expected in (
            ("fs/read_text_file", {"path": str(tmp_path / "none")}, -32001),
            ("fs/read_text_file", {"path": "/etc/passwd"}, -32002),
            ("fs/write_text_file", {"path": str(tmp_path / "a"), "content": "b"}, -32002),
            ("terminal/create", {"cwd": str(tmp_path), "command": "true"}, -32004),
            ("fs/read_text_file", {}, -32602),
            ("fs/invent", {}, -32601),
        ):
            assert (await peer.request("c", method, params))["error"]["code"] == expected, method

    async def connecting() -> None:
        lending = WorkspaceAccess(terminals=False, approve=lambda question: question.operation == "read")
        async with agent_played(part, dialect="2025.1", cwd=str(tmp_path), workspace=lending) as remote:
            await remote.open_session(str(tmp_path))

    run(serving())
    run(connecting())


# --- the connection -------------------------------------------------------------------------------------------------


@pytest.mark.item("000-07")
def test_initialize_has_the_members_of_the_document_in_both_directions(tmp_path: Path) -> None:
    """Our client says folder, servers and experimental; our agent says instructions and modes, and knows the former."""
    offered = ClientCapabilities(
        fs=FileSystemCapabilities(read_text_file=True, write_text_file=True),
        terminal=True,
        meta={"dragoman": {"experimental": {"ghost_text": True}}},
    )
    server = McpServer(name="filesystem", command="/opt/mcp/files", args=[], env=[])

    async def part(peer: ScriptedPeer) -> None:
        asked = await serve(peer, "initialize", {**introduction(), "instructions": "Be brief."})
        assert asked["params"] == {
            "protocol_version": "2025.1",
            "client_info": {"name": "my-editor", "version": "1.0.0"},
            "capabilities": {"text_files": True, "terminal": True, "experimental": {"ghost_text": True}},
            "working_directory": str(tmp_path),
            "mcp_servers": [{"name": "filesystem", "url": "stdio:///opt/mcp/files", "credentials": {}}],
        }

    async def connecting() -> None:
        options: Any = {
            "capabilities": offered,
            "mcp_servers": [server],
            "name": "my-editor",
            "client_version": "1.0.0",
        }
        async with agent_played(part, dialect="2025.1", cwd=str(tmp_path), **options) as remote:
            side = remote.initialize_result.meta["dragoman"]  # type: ignore[index]
            assert side["instructions"] == "Be brief."
            modes = remote.capabilities.meta["dragoman"]["modes"]  # type: ignore[index]
            assert modes == ["agent", "ask"]

    async def report(turn: Turn) -> None:
        session = turn.session
        (server,) = session.mcp_servers
        await turn.say(f"{session.cwd} {server.name} {server.command} {session.mode}")

    modes = [SessionMode(id="agent", name="Agent"), SessionMode(id="ask", name="Ask")]
    agent = Agent("my-agent", version="1.0.0", image=True, modes=modes, instructions="Be brief.", mcp=False)
    agent.prompt(acting(report=report))

    async def serving() -> None:
        servers = [{"name": "filesystem", "url": "stdio:///opt/mcp/files", "credentials": {}}]
        async with client_of(agent) as peer:
            answer = (await peer.request(1, "initialize", hello(mcp_servers=servers)))["result"]
            assert answer["agent_info"] == {"name": "my-agent", "version": "1.0.0"}
            assert answer["instructions"] == "Be brief."
            capabilities = {name: value for name, value in answer["capabilities"].items() if name != "_meta"}
            assert capabilities == {
                "streaming": True,
                "audio": False,
                "image": True,
                "supported_modes": ["agent", "ask"],
            }
            await peer.request(2, "session/new", {"session_id": "abc123", "mode": "ask"})
            updates, _ = await run_prompt(peer, "report")
            assert updates == [("agent_message_chunk", {"text": f"{PROJECT} filesystem /opt/mcp/files ask"})]

    run(connecting())
    run(serving())


@pytest.mark.item("000-08")
@pytest.mark.parametrize("authenticates", [True, False])
def test_authentication_with_a_token_is_optional(tmp_path: Path, authenticates: bool) -> None:
    """Our client says the token as the document shows it; our agent answers ok, and works with or without."""

    async def part(peer: ScriptedPeer) -> None:
        await serve(peer, "initialize", introduction())
        if authenticates:
            asked = await serve(peer, "authenticate", {"status": "ok"})
            assert asked["params"] == {"type": "token", "token": "secret"}
        await serve(peer, "session/new", {"status": "ok"})

    async def connecting() -> None:
        async with agent_played(part, dialect="2025.1", cwd=str(tmp_path)) as remote:
            if authenticates:
                await remote.authenticate("token", {"token": "secret"})
            await remote.open_session(str(tmp_path))

    async def serving() -> None:
        async with Child("agent", "everything", "--dialect", "2025.1") as agent:
            await agent.request(1, "initialize", hello(cwd=str(tmp_path)))
            if authenticates:
                answer = await agent.request(2, "authenticate", {"type": "token", "token": "secret"})
                assert answer == result(2, {"status": "ok"})
            assert "result" in await agent.request(3, "session/new", {"session_id": "abc123", "mode": "ask"})
            assert await agent.request(4, "session/prompt", prompt("hi")) == result(4, {"status": "ok"})

    run(connecting())
    run(serving())


@pytest.mark.item("000-22")
async def test_an_agent_can_require_a_token() -> None:
    """Without the right token nothing but authenticate is served, and a wrong one gains nothing."""
    agent = Agent("a", version="1", auth_required=True)

    @agent.authenticate("token")
    def check(credentials: dict[str, Any]) -> bool:
        return credentials == {"token": "right"}

    @agent.prompt
    async def work(turn: Turn) -> None:
        await turn.say("At your service")

    async with client_of(agent) as peer:
        await peer.request(1, "initialize", hello())
        new = {"session_id": "abc123", "mode": "agent"}
        assert (await peer.request(2, "session/new", new))["error"]["data"]["kind"] == "auth_required"
        assert (await peer.request(3, "session/prompt", prompt("work")))["error"]["data"]["kind"] == "auth_required"
        wrong = await peer.request(4, "authenticate", {"type": "token", "token": "wrong"})
        assert wrong["error"]["data"]["kind"] == "auth_required"
        assert "error" in await peer.request(5, "session/new", new)
        right = await peer.request(6, "authenticate", {"type": "token", "token": "right"})
        assert right == result(6, {"status": "ok"})
        assert (await peer.request(7, "session/new", new))["result"]["status"] == "ok"
        assert (await run_prompt(peer, "work"))[0] == [("agent_message_chunk", {"text": "At your service"})]


# --- sessions -------------------------------------------------------------------------------------------------------


@pytest.mark.item("000-09")
def test_the_client_chooses_the_session_id() -> None:
    """session/new, load, prompt and cancel as the document spells them, on the client's own id and in its mode."""
    modes = [SessionMode(id="ask", name="Ask"), SessionMode(id="agent", name="Agent")]
    agent = Agent("a", version="1", modes=modes)

    async def respond(turn: Turn) -> None:
        await turn.say(f"in mode {turn.session.mode}")

    agent.prompt(acting(respond=respond, hold=hold))

    async def serving() -> None:
        async with client_of(agent) as peer:
            await peer.request(1, "initialize", hello())
            for session, mode in (("abc123", "agent"), ("def456", "ask")):
                answer = await peer.request(2, "session/new", {"session_id": session, "mode": mode})
                assert answer["result"] == {"status": "ok", "session_id": session}
                assert await peer.request(3, "session/prompt", prompt("respond", session)) == result(
                    3, {"status": "ok"}
                )
                params = peer.received[-2]["params"]
                assert params == {
                    "session_id": session,
                    "type": "agent_message_chunk",
                    "data": {"text": f"in mode {mode}"},
                }
            taken = await peer.request(4, "session/new", {"session_id": "abc123", "mode": "ask"})
            assert taken["error"]["code"] == -32602
            start = len(peer.received)
            assert await peer.request(5, "session/load", {"session_id": "abc123"}) == result(5, {"status": "ok"})
            assert [(f["params"]["type"], f["params"]["data"]["text"]) for f in peer.received[start:-1]] == [
                ("user_message_chunk", "respond"),
                ("agent_message_chunk", "in mode agent"),
            ]
            peer.send(call(6, "session/prompt", prompt("hold")))
            await peer.expect(method="session/update")
            peer.send(note("session/cancel", {"session_id": "abc123"}))
            assert await peer.receive() == result(6, {"status": "ok", "stop_reason": "cancelled"})

    async def part(peer: ScriptedPeer) -> None:
        await serve(peer, "initialize", introduction())
        opened = await serve(peer, "session/new", {"status": "ok"})
        session = opened["params"].pop("session_id")
        assert opened["params"] == {"mode": "ask"}
        asked = await peer.expect(method="session/prompt")
        assert asked["params"] == {"session_id": session, "content": [{"type": "text", "text": "go"}]}
        cancel = await peer.receive()
        assert cancel == note("session/cancel", {"session_id": session})
        peer.send(result(asked, {"status": "ok"}))
        loaded = await serve(peer, "session/load", {"status": "ok"})
        assert loaded["params"] == {"session_id": session}

    async def connecting() -> None:
        async with agent_played(part, dialect="2025.1", cwd=PROJECT) as remote:
            conversation = await remote.open_session(PROJECT, mode="ask")
            async with conversation.prompt("go") as turn:
                turn.cancel()
            assert turn.stop_reason == "cancelled"
            await remote.load_session(conversation.id, PROJECT)

    run(serving())
    run(connecting())


STEPS = [
    {"id": 1, "description": "Read the file", "status": "completed"},
    {"id": 2, "description": "Identify the bug", "status": "in_progress"},
    {"id": 3, "description": "Fix the bug", "status": "pending"},
]


@pytest.mark.item("000-10")
async def test_the_five_updates_are_sent_as_a_type_and_data() -> None:
    """Message, thought, tool call, its change and a plan, from an author's calls to the document's JSON."""

    async def all_(turn: Turn) -> None:
        await turn.say("I'll help")
        await turn.think("Analyzing")
        path = {"path": f"{PROJECT}/main.rs"}
        async with turn.tool("read_file", name="read_file", input=path, id="tool_1") as tool:
            await tool.add_text("file contents")
        await turn.plan(
            *(PlanEntry(content=s["description"], priority="medium", status=s["status"]) for s in STEPS)  # type: ignore[arg-type]
        )

    agent = Agent("a", version="1")
    agent.prompt(acting(all=all_))

    def bare(data: Json) -> Json:
        """Remove what 2025.1 cannot carry and is therefore side data."""
        if isinstance(data, list):
            return [bare(item) for item in data]
        return {k: bare(v) for k, v in data.items() if k != "_meta"} if isinstance(data, dict) else data

    async with client_of(agent) as peer:
        await begin(peer)
        updates, _ = await run_prompt(peer, "all")
        assert [(kind, bare(data)) for kind, data in updates] == [
            ("agent_message_chunk", {"text": "I'll help"}),
            ("agent_thought_chunk", {"text": "Analyzing"}),
            (
                "tool_call",
                {"id": "tool_1", "name": "read_file", "arguments": {"path": f"{PROJECT}/main.rs"}},
            ),
            ("tool_call_update", {"id": "tool_1", "status": "in_progress", "result": {"content": "file contents"}}),
            ("tool_call_update", {"id": "tool_1", "status": "completed"}),
            ("plan", {"steps": STEPS}),
        ]


@pytest.mark.item("000-10")
async def test_the_five_updates_of_the_document_are_read() -> None:
    """The document's own five frames, as our client gives them to whoever reads the turn."""
    arguments = {"path": "/home/user/project/main.rs"}
    updates = [
        ("agent_message_chunk", {"text": "I'll help"}),
        ("agent_thought_chunk", {"text": "Analyzing"}),
        ("tool_call", {"id": "tool_1", "name": "read_file", "arguments": arguments}),
        ("tool_call_update", {"id": "tool_1", "status": "completed", "result": {"content": "file contents..."}}),
        ("plan", {"steps": STEPS}),
    ]

    async def part(peer: ScriptedPeer) -> None:
        await serve(peer, "initialize", introduction())
        session = (await serve(peer, "session/new", {"status": "ok"}))["params"]["session_id"]
        asked = await peer.expect(method="session/prompt")
        for kind, data in updates:
            peer.send(note("session/update", {"session_id": session, "type": kind, "data": data}))
        peer.send(result(asked, {"status": "ok"}))

    async with agent_played(part, dialect="2025.1", cwd=PROJECT) as remote:
        session = await remote.open_session(PROJECT)
        async with session.prompt("go") as turn:
            message, thought, start, progress, plan = [update async for update in turn]
        assert isinstance(message, AgentMessageChunk)
        assert message.content.text == "I'll help"  # type: ignore[union-attr]
        assert isinstance(thought, AgentThoughtChunk)
        assert isinstance(start, ToolCallStart)
        assert (start.tool_call_id, start.title, start.kind, start.raw_input) == (
            "tool_1",
            "read_file",
            "read",
            arguments,
        )
        assert isinstance(progress, ToolCallProgress)
        assert progress.status == "completed"
        assert progress.content[0].content.text == "file contents..."  # type: ignore[index, union-attr]
        assert isinstance(plan, Plan)
        assert [(entry.content, entry.status) for entry in plan.entries] == [
            (step["description"], step["status"]) for step in STEPS
        ]
        assert turn.stop_reason == "end_turn"


# --- files, terminals, content --------------------------------------------------------------------------------------


@pytest.mark.item("000-11")
def test_file_requests_name_no_session(tmp_path: Path) -> None:
    """Our agent asks and our client serves exactly {path} and {path, content}."""

    async def copy(turn: Turn) -> None:
        await turn.files.write(f"{PROJECT}/b.rs", await turn.files.read(f"{PROJECT}/a.rs"))

    agent = Agent("a", version="1")
    agent.prompt(acting(copy=copy))

    async def serving() -> None:
        async with client_of(agent) as peer:
            await begin(peer)
            peer.send(call(3, "session/prompt", prompt("copy")))
            asked = await peer.receive()
            assert asked == call(asked["id"], "fs/read_text_file", {"path": f"{PROJECT}/a.rs"})
            peer.send(result(asked, {"content": "fn main() {}"}))
            asked = await peer.receive()
            params = {"path": f"{PROJECT}/b.rs", "content": "fn main() {}"}
            assert asked == call(asked["id"], "fs/write_text_file", params)
            peer.send(result(asked, {"status": "ok"}))
            assert await peer.receive() == result(3, {"status": "ok"})

    (tmp_path / "file.rs").write_text("fn main() {\n}")

    async def part(peer: ScriptedPeer) -> None:
        await serve(peer, "initialize", introduction())
        await serve(peer, "session/new", {"status": "ok"})
        path = str(tmp_path / "file.rs")
        assert await peer.request(10, "fs/read_text_file", {"path": path}) == result(10, {"content": "fn main() {\n}"})
        written = await peer.request(11, "fs/write_text_file", {"path": path, "content": "new"})
        assert written == result(11, {"status": "ok"})

    async def connecting() -> None:
        async with agent_played(part, dialect="2025.1", cwd=str(tmp_path), workspace=WorkspaceAccess()) as remote:
            await remote.open_session(str(tmp_path))

    run(serving())
    run(connecting())
    assert (tmp_path / "file.rs").read_text() == "new"


@pytest.mark.item("000-12")
def test_a_terminal_starts_from_one_command_line_and_has_an_id(tmp_path: Path) -> None:
    """Our client runs the line in a shell in the cwd; our agent asks with a line; all five calls by terminal_id."""

    async def part(peer: ScriptedPeer) -> None:
        await serve(peer, "initialize", introduction())
        await serve(peer, "session/new", {"status": "ok"})
        line = "printf '%s' one | tr a-z A-Z; pwd > here; exit 3"
        created = await peer.request(20, "terminal/create", {"cwd": str(tmp_path), "command": line})
        handle = created["result"]
        assert list(handle) == ["terminal_id"]
        assert await peer.request(22, "terminal/wait_for_exit", handle) == result(22, {"exit_code": 3, "signal": None})
        output = await peer.request(21, "terminal/output", handle)
        status = {"exit_code": 3, "signal": None}
        assert output == result(21, {"output": "ONE", "truncated": False, "exit_status": status})
        assert await peer.request(24, "terminal/release", handle) == result(24, {"status": "ok"})
        assert (await peer.request(21, "terminal/output", handle))["error"]["code"] == -32001
        created = await peer.request(20, "terminal/create", {"cwd": str(tmp_path), "command": "sleep 300"})
        assert await peer.request(23, "terminal/kill", created["result"]) == result(23, {"status": "ok"})
        ended = await peer.request(22, "terminal/wait_for_exit", created["result"])
        assert ended["result"]["signal"] == "SIGTERM"
        assert "result" in await peer.request(21, "terminal/output", created["result"])
        assert await peer.request(24, "terminal/release", created["result"]) == result(24, {"status": "ok"})

    async def connecting() -> None:
        async with agent_played(part, dialect="2025.1", cwd=str(tmp_path), workspace=WorkspaceAccess()) as remote:
            await remote.open_session(str(tmp_path))

    async def build(turn: Turn) -> None:
        async with await turn.terminals.create("cargo", ["build", "my crate"], cwd=PROJECT) as terminal:
            await terminal.kill()
            code = await terminal.wait()
            await turn.say(f"{code} {(await terminal.output()).output}")

    agent = Agent("a", version="1")
    agent.prompt(acting(build=build))

    async def serving() -> None:
        async with client_of(agent) as peer:
            await begin(peer)
            peer.send(call(3, "session/prompt", prompt("build")))
            asked = await peer.receive()
            params = {"cwd": PROJECT, "command": "cargo build 'my crate'"}
            assert asked == call(asked["id"], "terminal/create", params)
            peer.send(result(asked, {"terminal_id": "term_1"}))
            for method, answer in (
                ("kill", {"status": "ok"}),
                ("wait_for_exit", {"exit_code": 101, "signal": None}),
                ("output", {"output": "stopped", "truncated": False}),
            ):
                asked = await peer.receive()
                assert asked == call(asked["id"], f"terminal/{method}", {"terminal_id": "term_1"})
                peer.send(result(asked, answer))
            await peer.expect(params={"data": {"text": "101 stopped"}})
            asked = await peer.receive()
            assert asked == call(asked["id"], "terminal/release", {"terminal_id": "term_1"})
            peer.send(result(asked, {"status": "ok"}))
            assert await peer.receive() == result(3, {"status": "ok"})

    run(connecting())
    run(serving())
    assert (tmp_path / "here").read_text().strip() == str(tmp_path)


@pytest.mark.item("000-13")
def test_the_five_content_blocks_are_read_and_sent_flat() -> None:
    """The document's blocks in a prompt mean the right thing to an author, and our client says them the same way."""
    seen: list[Any] = []
    agent = Agent("a", version="1", image=True, audio=True)

    @agent.prompt
    async def look(turn: Turn) -> None:
        seen.extend(turn.prompt)

    async def serving() -> None:
        async with client_of(agent) as peer:
            await begin(peer)
            answer = await peer.request(3, "session/prompt", {"session_id": "abc123", "content": BLOCKS})
            assert answer == result(3, {"status": "ok"})

    run(serving())
    text, image, audio, resource, link = seen
    assert text.text == "Hello, world!"
    assert (type(image), image.mime_type, image.data) == (ImageContent, "image/png", PNG)
    assert (type(audio), audio.mime_type, audio.data) == (AudioContent, "audio/wav", WAV)
    inner = resource.resource
    assert (type(resource), inner.uri, inner.mime_type, inner.text) == (
        EmbeddedResource,
        "file:///path/to/file",
        "text/plain",
        "file contents...",
    )
    assert (type(link), link.uri, link.mime_type) == (ResourceLink, "file:///path/to/file", "text/plain")

    async def part(peer: ScriptedPeer) -> None:
        await serve(peer, "initialize", introduction())
        await serve(peer, "session/new", {"status": "ok"})
        asked = await serve(peer, "session/prompt", {"status": "ok"})
        assert asked["params"]["content"][:4] == BLOCKS[:4]
        said_link = asked["params"]["content"][4]
        assert {name: said_link[name] for name in said_link if name != "_meta"} == BLOCKS[4]

    async def connecting() -> None:
        async with agent_played(part, dialect="2025.1", cwd=PROJECT) as remote:
            session = await remote.open_session(PROJECT)
            contents = ResourceContents(uri="file:///path/to/file", mime_type="text/plain", text="file contents...")
            blocks: list[ContentBlock] = [
                TextContent(text="Hello, world!"),
                ImageContent(data=PNG, mime_type="image/png"),
                AudioContent(data=WAV, mime_type="audio/wav"),
                EmbeddedResource(resource=contents),
                ResourceLink(uri="file:///path/to/file", name="file", mime_type="text/plain"),
            ]
            async with session.prompt(blocks) as turn:
                await turn.wait()

    run(connecting())
