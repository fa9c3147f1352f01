"""docs/protocol/draft.md#architecture to #cancel: messages, transports, sessions, and the life of a connection."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from dragoman import Agent, Session, Turn, WorkspaceAccess, WorkspaceUse, connect
from dragoman.schema.auth import AuthenticateResult
from dragoman.schema.mcp import McpServer
from dragoman.schema.prompt import Usage
from dragoman.schema.toolcall import ToolCallStatus
from dragoman.schema.update import AgentMessageChunk
from dragoman.testing.connections import connect_in_memory
from dragoman.transport.memory import memory_pair
from tests.acceptance.draft import (
    CREATED,
    SESSION,
    Raw,
    during_turn,
    initialize,
    open_session,
    playing,
    prompted,
    run,
    serving,
    text_prompt,
)

EVERYTHING = [sys.executable, "-m", "dragoman", "agent", "everything", "--dialect", "draft"]
TIMEOUT = 60.0


def echo_agent(**options: Any) -> Agent:
    """Return an echo agent."""
    agent = Agent("echo", version="1.0.0", dialect="draft", mcp=False, **options)

    @agent.prompt
    async def answer(turn: Turn) -> None:
        await turn.say(f"You said: {turn.text}")

    return agent


# --- 3.1 messages ---------------------------------------------------------------------------------------------


@pytest.mark.item("004-05")
async def test_everything_sent_is_a_json_rpc_2_message() -> None:
    """Every frame of our agent is one object with jsonrpc "2.0": a call with a method, or a reply with the id it
    answers and either a result or an error; ids of the peer come back as they were, numbers or strings."""

    async with serving(echo_agent()) as client:
        session = await open_session(client)
        client.send({"jsonrpc": "2.0", "id": "seven", "method": "session/prompt", "params": text_prompt(session)})
        await client.until(lambda message: message.get("id") == "seven")
        client.send({"jsonrpc": "2.0", "id": "eight", "method": "session/nothing"})
        refused = await client.until(lambda message: message.get("id") == "eight")
        assert refused["error"]["code"] == -32601
        assert client.updates("agent_message_chunk") == [{"content": "You said: go"}]
        for message in client.received:
            assert message["jsonrpc"] == "2.0"
            if "method" in message:
                assert isinstance(message["method"], str)
                assert isinstance(message["params"], dict)
                assert not {"result", "error"} & message.keys()
            else:
                assert len({"result", "error"} & message.keys()) == 1
                assert "id" in message


@pytest.mark.item("004-05")
async def test_invalid_messages_get_the_errors_of_json_rpc_2() -> None:
    """Broken JSON is -32700 with id null, an object that is no request and a batch are -32600; the connection lives."""

    async with serving(echo_agent()) as client:
        for frame, code in (
            (b'{"jsonrpc": "2.0", "id": 5, "method":', -32700),
            (b'{"jsonrpc": "2.0", "id": null, "params": 3, "method": 7}', -32600),
            (b'[{"jsonrpc": "2.0", "id": 5, "method": "session/new"}]', -32600),
        ):
            client.send(frame)
            answered = await client.receive()
            assert (answered["jsonrpc"], answered["id"], answered["error"]["code"]) == ("2.0", None, code)
        assert (await prompted(client, await open_session(client)))["result"]["stopReason"] == "end_turn"


@pytest.mark.item("004-05")
async def test_our_client_sends_json_rpc_2_messages_too() -> None:
    """Requests of our client have ids, each its own; its notifications have none; its answers carry the agent's id."""

    async def part(agent: Raw) -> None:
        agent.send({"jsonrpc": "2.0", "id": "ours", "method": "_nobody/knows", "params": {}})
        assert (await agent.expect(id="ours", jsonrpc="2.0"))["error"]["code"] == -32601
        agent.reply(await agent.expect(method="session/new"), {"sessionId": SESSION, "createdAt": CREATED})
        assert "id" not in await agent.expect(jsonrpc="2.0", method="session/cancel")
        ids = [message["id"] for message in agent.received if "method" in message and "id" in message]
        assert len(set(ids)) == len(ids) == 2

    async with playing(part) as remote:
        session = await remote.open_session("/home/user/project")
        session.cancel()


# --- 3.2.1 stdio ----------------------------------------------------------------------------------------------


@pytest.mark.item("004-06")
def test_an_agent_on_stdio_sends_only_messages_logs_on_stderr_and_exits_at_end_of_input(tmp_path: Path) -> None:
    """`dragoman agent everything` as a process: JSON lines in and out, its log on stderr, exit 0 when stdin closes."""
    frames = [
        {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": initialize()},
        {"jsonrpc": "2.0", "id": 2, "method": "session/new", "params": {"workingDirectory": str(tmp_path)}},
    ]
    lines = "".join(json.dumps(frame) + "\n" for frame in frames) + "this is no message\n"
    ran = subprocess.run(EVERYTHING, input=lines, capture_output=True, text=True, timeout=TIMEOUT)
    messages = [json.loads(line) for line in ran.stdout.splitlines()]
    assert [message["id"] for message in messages if "result" in message] == [1, 2]
    assert all(message["jsonrpc"] == "2.0" for message in messages)
    assert "this is no message" in ran.stderr
    assert ran.returncode == 0


@pytest.mark.item("004-06")
def test_our_client_starts_the_agent_reads_its_stderr_and_leaves_no_process(tmp_path: Path) -> None:
    """connect() spawns the command, talks over its stdin and stdout, hands over its stderr, and ends the process."""
    script = tmp_path / "agent.py"
    script.write_text(
        "import os, sys\n"
        "from dragoman import Agent\n"
        "print('log line', file=sys.stderr, flush=True)\n"
        "agent = Agent('pid', version='1', dialect='draft')\n"
        "@agent.prompt\n"
        "async def answer(turn):\n"
        "    await turn.say(str(os.getpid()))\n"
        "agent.run()\n"
    )
    log = bytearray()

    async def work() -> str:
        async with connect([sys.executable, str(script)], dialect="draft", stderr=log.extend) as remote:
            session = await remote.open_session(str(tmp_path))
            return await session.ask("who are you?")

    pid = run(work())
    assert b"log line" in log
    assert not Path("/proc", pid).exists()


# --- 3.3 the parts of both ends -------------------------------------------------------------------------------


@pytest.mark.item("004-08")
async def test_the_parts_of_a_client_work_separately(tmp_path: Path) -> None:
    """Face, files, terminals and leave: each is given to `connect` by itself, and each does its work without the
    others; what is not there is not announced, and the agent never calls it."""
    (tmp_path / "note.txt").write_text("inside")
    agent = Agent("worker", version="1", dialect="draft")

    @agent.prompt
    async def answer(turn: Turn) -> None:
        if turn.text == "file":
            await turn.say(await turn.files.read(f"{tmp_path}/note.txt"))
        elif turn.text == "command":
            await turn.say((await turn.terminals.run("echo", ["ran"])).output.strip())
        elif turn.text == "leave":
            await turn.say(f"allowed: {bool(await turn.ask_permission('May I?'))}")
        else:
            await turn.say("seen")

    used: list[str] = []

    def approve(question: WorkspaceUse) -> bool:
        used.append(question.operation)
        return True

    async def ask(prompt: str, **parts: Any) -> tuple[str, dict[str, Any]]:
        ours, theirs = memory_pair()
        connection = agent.start_connection(theirs)
        async with connect(ours, dialect="draft", **parts) as remote:
            session = await remote.open_session(str(tmp_path))
            answer = await session.ask(prompt)
        offered = connection.peer.capabilities
        await connection.close()
        return answer, {"files": offered.fs.read_text_file, "terminals": offered.terminal}

    files = WorkspaceAccess(terminals=False, approve=approve)
    assert await ask("file", workspace=files) == ("inside", {"files": True, "terminals": False})
    terminals = WorkspaceAccess(files=False, approve=approve)
    assert await ask("command", workspace=terminals) == ("ran", {"files": False, "terminals": True})
    nothing = {"files": False, "terminals": False}
    assert await ask("leave", permission="allow") == ("allowed: True", nothing)
    assert await ask("leave", permission="deny") == ("allowed: False", nothing)
    assert used == ["read", "execute"]
    seen: list[Any] = []
    async with connect_in_memory(agent, dialect="draft") as remote:  # a client that reads everything gets everything
        session = await remote.open_session(str(tmp_path))
        session.on_update = seen.append
        await session.prompt("look").__aenter__()
        assert session.turn is not None
        await session.turn.wait()
    assert [type(update) for update in seen] == [AgentMessageChunk]


@pytest.mark.item("004-08")
async def test_the_parts_of_an_agent_work_separately() -> None:
    """The model is the author's function, tools are executed by the turn's tool calls, sessions are kept by the agent:
    one is exchanged without touching the others."""
    agent = echo_agent()

    async with connect_in_memory(agent, dialect="draft") as remote:
        session = await remote.open_session("/")
        assert await session.ask("hello") == "You said: hello"
        assert list(agent.sessions) == [session.id]

        async def with_tool(turn: Turn) -> None:
            async with turn.tool("Count", kind="think") as call:
                await call.add_text("3")
            await turn.say("another model")

        agent.prompt_handler = with_tool

        assert await session.ask("hello") == "another model"
        assert [call.status for call in session.tool_calls.values()] == [ToolCallStatus.COMPLETED]
        assert list(agent.sessions) == [session.id]


# --- 3.4 concurrent sessions ----------------------------------------------------------------------------------


@pytest.mark.item("004-09")
async def test_sessions_of_one_process_run_at_once_and_do_not_mix(tmp_path: Path) -> None:
    """Three turns run at the same time in one agent process; ids differ, each session has its own history and folder,
    and cancelling one leaves the others alone."""
    folders = [tmp_path / name for name in ("one", "two", "three")]
    for folder in folders:
        folder.mkdir()
        (folder / "name.txt").write_text(folder.name)

    async with connect(EVERYTHING, dialect="draft", workspace=WorkspaceAccess(), permission="allow") as remote:
        sessions = [await remote.open_session(str(folder)) for folder in folders]
        assert len({session.id for session in sessions}) == 3
        slow = [session.prompt("/slow 600") for session in sessions]
        for turn in slow:
            await turn.__aenter__()
        for turn in slow:
            async for _ in turn:
                break  # all three are under way now
        slow[0].cancel()
        assert (await slow[0].wait()).stop_reason == "cancelled"
        assert not slow[1].is_over
        assert not slow[2].is_over
        # A file call names no session in the draft: the folder tells whose it is.
        assert "has 1 line" in await sessions[0].ask("/read name.txt")
        for turn in slow[1:]:
            turn.cancel()
            assert (await turn.wait()).stop_reason == "cancelled"
        for session, folder in zip(sessions, folders, strict=True):
            assert "has 1 line" in await session.ask("/read name.txt")
            read = list(session.tool_calls.values())[-1]
            assert read.content[0].content.text == folder.name


# --- 4.1 initialization ---------------------------------------------------------------------------------------


@pytest.mark.item("004-10", "004-72")
async def test_our_agent_answers_the_drafts_initialize() -> None:
    """The request of section 4.1 is answered with version, agentInfo and the draft's capability tree."""

    agent = echo_agent()
    ours, theirs = memory_pair()
    connection = agent.start_connection(theirs)
    client = Raw(ours)
    answered = await client.call(
        "initialize",
        initialize({"fs": {"read": True, "write": True}, "terminal": {"create": True, "interactive": False}}),
    )
    result = answered["result"]
    assert result["protocolVersion"] == 1
    assert result["agentInfo"] == {"name": "echo", "version": "1.0.0"}
    assert result["capabilities"]["loadSession"] is True
    assert result["capabilities"]["mcpCapabilities"]["transport"] == ["stdio"]
    assert result["capabilities"]["promptCapabilities"]["streaming"] is True
    assert result["capabilities"]["promptCapabilities"]["cancellation"] is True
    assert result["capabilities"]["sessionCapabilities"]["modes"] == []
    await connection.close()


@pytest.mark.item("004-10", "004-72")
async def test_our_client_sends_the_drafts_initialize_and_reads_its_answer() -> None:
    """The first frame of our client is section 4.1's request; the answer of section 4.1 is understood."""

    seen: list[Any] = []

    async def part(agent: Raw) -> None:
        seen.extend(agent.received)

    plain = WorkspaceAccess(
        binary=False,
        listing=False,
        create_directories=False,
        watching=False,
        atomic_writes=False,
        interactive=False,
        max_terminals=None,
    )
    async with playing(part, name="MyEditor", client_version="1.0", workspace=plain) as remote:
        assert remote.info is not None
        assert (remote.info.name, remote.info.version) == ("Claude Agent", "1.0.0")
        assert remote.capabilities.load_session is True
        assert remote.dialect == "draft"
    assert seen[0]["method"] == "initialize"
    assert seen[0]["params"] == {
        "protocolVersion": 1,
        "clientInfo": {"name": "MyEditor", "version": "1.0"},
        "capabilities": {"fs": {"read": True, "write": True}, "terminal": {"create": True}},
    }


# --- 4.2 authentication (the advice for HTTP comes with HTTP) -------------------------------------------------


@pytest.mark.parametrize(
    ("method", "credentials"),
    [
        ("api_key", {"apiKey": "sk-1"}),
        ("oauth2", {"accessToken": "t", "tokenType": "bearer"}),
        ("custom", {"any": "x"}),
    ],
)
async def test_authentication_is_optional_and_accepts_each_method(method: str, credentials: dict[str, str]) -> None:
    """A session opens without it; with it, method and credentials reach the agent's author as they were said."""
    agent = echo_agent()
    received: list[Any] = []

    @agent.on("authenticate")
    async def authenticate(params: Any) -> AuthenticateResult:
        received.append((params.method_id, params.meta["dragoman"]["credentials"]))
        return AuthenticateResult()

    async with serving(agent) as client:
        assert await open_session(client)
        result = await client.result("authenticate", {"method": method, "credentials": credentials})
        assert result == {"success": True}
    assert received == [(method, credentials)]


# --- 4.3 session setup ----------------------------------------------------------------------------------------


@pytest.mark.item("004-12", "004-72")
async def test_our_agent_opens_a_session_with_mcp_servers_and_a_system_prompt_and_loads_it() -> None:
    """Section 4.3: servers and system prompt reach the author; load replays and describes the session."""
    agent = echo_agent()
    seen: list[Session] = []
    agent.on_session_opened(seen.append)

    async with serving(agent) as client:
        server = {
            "name": "filesystem",
            "transport": {"type": "stdio", "command": "mcp-server-filesystem", "args": ["/home/user/project"]},
        }
        session = await open_session(client, mcpServers=[server], systemPrompt="You are a helpful coding assistant.")
        assert seen[0].system_prompt == "You are a helpful coding assistant."
        [known] = seen[0].mcp_servers
        assert (known.name, known.command, known.args) == (
            "filesystem",
            "mcp-server-filesystem",
            ["/home/user/project"],
        )
        await prompted(client, session, "hello")
        before = len(client.received)
        loaded = await client.result("session/load", {"sessionId": session})
        assert loaded == {
            "sessionId": session,
            "workingDirectory": "/home/user/project",
            "mode": "default",
            "configOptions": {},
            "messageCount": 2,
        }
        replayed = [(m["params"]["type"], m["params"]["data"]) for m in client.received[before:-1]]
        assert replayed == [
            ("user_message_chunk", {"content": "hello"}),
            ("agent_message_chunk", {"content": "You said: hello"}),
        ]


@pytest.mark.item("004-12", "004-72")
async def test_our_client_opens_and_loads_sessions_in_the_form_of_the_draft() -> None:
    """session/new with workingDirectory and the draft's servers, session/load with nothing but the id; the mode and
    values of the answer are the session's."""

    async def part(agent: Raw) -> None:
        asked = await agent.expect(method="session/new")
        assert asked["params"] == {
            "workingDirectory": "/home/user/project",
            "mcpServers": [
                {
                    "name": "filesystem",
                    "transport": {
                        "type": "stdio",
                        "command": "mcp-server-filesystem",
                        "args": ["/home/user/project"],
                        "env": {},
                    },
                }
            ],
        }
        agent.reply(asked, {"sessionId": SESSION, "createdAt": CREATED})
        asked = await agent.expect(method="session/load")
        assert asked["params"]["sessionId"] == "sess_old"
        assert asked["params"].keys() <= {"sessionId", "_meta"}
        chunk = {"sessionId": "sess_old", "type": "agent_message_chunk", "data": {"content": "from before"}}
        agent.notify("session/update", chunk)
        agent.reply(
            asked,
            {
                "sessionId": "sess_old",
                "workingDirectory": "/home/user/project",
                "mode": "plan",
                "configOptions": {"autoApprove": True, "maxTokens": 4096},
                "messageCount": 1,
            },
        )

    async with playing(part) as remote:
        server = McpServer(name="filesystem", command="mcp-server-filesystem", args=["/home/user/project"], env=[])
        assert (await remote.open_session("/home/user/project", mcp_servers=[server])).id == SESSION
        old = await remote.load_session("sess_old", "/home/user/project")
        assert old.mode == "plan"
        assert [(option.id, option.current_value) for option in old.options] == [
            ("autoApprove", True),
            ("maxTokens", "4096"),
        ]
        assert [update.content.text for update in old.updates_outside_turns] == ["from before"]


# --- 4.4 the prompt turn --------------------------------------------------------------------------------------


@pytest.mark.item("004-13", "004-72")
async def test_our_agent_sends_the_messages_of_the_drawn_turn() -> None:
    """Section 4.4 in order: thought, tool call, file read and answer, tool call update, message, result with usage."""
    agent = Agent("worker", version="1", dialect="draft")

    @agent.prompt
    async def answer(turn: Turn) -> None:
        await turn.think("First look at the file.")
        path = f"{turn.session.cwd}/src/auth.ts"
        async with turn.tool("fs/read_text_file", kind="read", input={"path": path}) as call:
            text = await turn.files.read(path)
            await call.add_text(f"Read {len(text.splitlines())} lines")
        await turn.say("Done.")
        turn.token_usage = Usage(input_tokens=1500, output_tokens=2300, total_tokens=3800)

    async with serving(agent) as client:
        client.answers["fs/read_text_file"] = lambda _: {"content": "one\ntwo\n", "encoding": "utf-8"}
        session = await open_session(client)
        start = len(client.received)
        answered = await prompted(client, session)
        assert answered["result"]["stopReason"] == "end_turn"
        usage = answered["result"]["usage"]
        assert (usage["inputTokens"], usage["outputTokens"]) == (1500, 2300)
        steps = [
            m["params"]["type"] if m["method"] == "session/update" else m["method"] for m in client.received[start:-1]
        ]
        assert steps == [
            "thought_message_chunk",
            "tool_call",
            "fs/read_text_file",
            "tool_call_update",
            "tool_call_update",
            "agent_message_chunk",
        ]
        assert client.params_of("fs/read_text_file") == [{"path": "/home/user/project/src/auth.ts"}]
        announced = client.updates("tool_call")[0]
        assert (announced["tool"], announced["status"]) == ("fs/read_text_file", "pending")
        assert [data["status"] for data in client.updates("tool_call_update")] == ["in_progress", "completed"]
        assert client.updates("tool_call_update")[0]["output"] == {"type": "text", "text": "Read 2 lines"}


@pytest.mark.item("004-13", "004-72")
async def test_our_client_handles_the_messages_of_the_drawn_turn(tmp_path: Path) -> None:
    """Our client's prompt has the draft's shape, it serves the read, tells the updates in order and gives the usage."""
    (tmp_path / "auth.ts").write_text("one\ntwo\n")

    async def part(agent: Raw) -> None:
        assert agent.received[-1]["params"] == text_prompt(SESSION)

        def update(kind: str, **data: Any) -> None:
            agent.notify("session/update", {"sessionId": SESSION, "type": kind, "data": data})

        update("thought_message_chunk", content="First look.", visible=True)
        update("tool_call", id="tc_1", tool="fs/read_text_file", input={"path": "auth.ts"}, status="pending")
        read = await agent.result("fs/read_text_file", {"path": str(tmp_path / "auth.ts")})
        assert read["content"] == "one\ntwo\n"
        update("tool_call_update", id="tc_1", status="completed", output={"type": "text", "text": "2 lines"})
        update("agent_message_chunk", content="Done.", index=0)

    usage = {"inputTokens": 1500, "outputTokens": 2300}
    played = await during_turn(
        tmp_path, part, workspace=WorkspaceAccess(), result={"stopReason": "end_turn", "usage": usage}
    )
    kinds = [type(update).__struct_config__.tag for update in played.updates]
    assert kinds == ["agent_thought_chunk", "tool_call", "tool_call_update", "agent_message_chunk"]
    assert played.session.tool_calls["tc_1"].status == "completed"
    assert played.turn.stop_reason == "end_turn"
    assert played.turn.usage is not None
    assert (played.turn.usage.input_tokens, played.turn.usage.output_tokens) == (1500, 2300)


# --- 4.5 cancellation -----------------------------------------------------------------------------------------


@pytest.mark.item("004-14")
async def test_on_cancel_our_agent_first_cancels_its_tool_calls_then_answers_the_prompt() -> None:
    """Open calls, one pending and one in progress, are reported as cancelled, finished ones are not reported again,
    and only then the prompt is answered, with `cancelled` and no error."""
    agent = Agent("worker", version="1", dialect="draft")

    @agent.prompt
    async def answer(turn: Turn) -> None:
        async with turn.tool("finished"):
            pass
        async with turn.tool("waiting"), turn.tool("working") as working:
            await working.start()
            await turn.say("busy")
            await asyncio.Event().wait()

    async with serving(agent) as client:
        session = await open_session(client)
        id = client.ask("session/prompt", text_prompt(session))
        await client.until(lambda m: m.get("params", {}).get("type") == "agent_message_chunk")
        names = {data["id"]: data["tool"] for data in client.updates("tool_call")}
        start = len(client.received)
        client.notify("session/cancel", {"sessionId": session})
        answered = await client.answer(id)
        assert answered == {"jsonrpc": "2.0", "id": id, "result": {"stopReason": "cancelled"}}
        after = client.received[start:-1]
        assert [m["params"]["type"] for m in after] == ["tool_call_update", "tool_call_update"]
        assert {names[m["params"]["data"]["id"]]: m["params"]["data"]["status"] for m in after} == {
            "waiting": "cancelled",
            "working": "cancelled",
        }


@pytest.mark.item("004-14")
async def test_a_cancel_of_our_client_ends_the_turn_as_drawn() -> None:
    """Our client sends session/cancel as a notification, gets the cancelled call, and the turn ends `cancelled`."""

    async def part(agent: Raw) -> None:
        agent.reply(await agent.expect(method="session/new"), {"sessionId": SESSION, "createdAt": CREATED})
        asked = await agent.expect(method="session/prompt")
        data = {"id": "tc_1", "tool": "search", "input": {}, "status": "pending"}
        agent.notify("session/update", {"sessionId": SESSION, "type": "tool_call", "data": data})
        cancel = await agent.expect(method="session/cancel")
        assert cancel == {"jsonrpc": "2.0", "method": "session/cancel", "params": {"sessionId": SESSION}}
        data = {"id": "tc_1", "status": "cancelled"}
        agent.notify("session/update", {"sessionId": SESSION, "type": "tool_call_update", "data": data})
        agent.reply(asked, {"stopReason": "cancelled"})

    async with playing(part) as remote:
        session = await remote.open_session("/home/user/project")
        statuses = []
        async with session.prompt("go") as turn:
            async for update in turn:
                statuses.append(update.status)  # type: ignore[union-attr]
                if len(statuses) == 1:
                    turn.cancel()
        assert statuses == ["pending", "cancelled"]
        assert session.tool_calls["tc_1"].status == "cancelled"
        assert turn.stop_reason == "cancelled"


@pytest.mark.item("004-14")
async def test_an_agent_process_stops_working_when_it_is_cancelled(tmp_path: Path) -> None:
    """`/slow 600` of the everything agent would take ten minutes; cancelled, the turn is over at once."""

    async with connect(EVERYTHING, dialect="draft") as remote:
        session = await remote.open_session(str(tmp_path))
        async with session.prompt("/slow 600") as turn:
            async for update in turn:
                if getattr(update, "status", None) == ToolCallStatus.IN_PROGRESS:
                    turn.cancel()
        assert turn.stop_reason == "cancelled"
        assert [call.status for call in session.tool_calls.values()] == ["cancelled"]
