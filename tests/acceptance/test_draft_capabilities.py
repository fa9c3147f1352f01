"""docs/protocol/draft.md#agent-capabilities to #custom-capabilities: capability trees, their intersection, MCP servers
of a session, modes, extension.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from dragoman import Agent, Kind, ProtocolError, Proxy, Session, Turn, WorkspaceAccess
from dragoman.dialect.session_table import option_from_value
from dragoman.schema.config import SessionConfigOption, SessionMode
from dragoman.schema.content import ResourceLink, TextContent
from dragoman.schema.fs import WatchParams, WriteTextFileParams
from dragoman.schema.initialize import AgentCapabilities, ClientCapabilities, FileSystemCapabilities
from dragoman.schema.mcp import McpServer, NameValue
from dragoman.schema.terminal import CreateTerminalParams
from dragoman.transport.memory import memory_pair
from tests.acceptance.draft import (
    AGENT,
    CLIENT,
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

MODES = [SessionMode(id=name, name=name.title()) for name in ("default", "plan", "code", "architect")]


def side(**members: Any) -> dict[str, Any]:
    """Return what only the draft can carry, from a typed message."""
    return {"dragoman": members}


def doing(work: Callable[[Turn], Awaitable[None]], **options: Any) -> Agent:
    """Return an agent that does this in every turn."""
    agent = Agent("worker", version="1", dialect="draft", mcp=False, **options)

    @agent.prompt
    async def answer(turn: Turn) -> None:
        await work(turn)

    return agent


async def nothing(_: Turn) -> None:
    """Do nothing."""


async def introduced(agent: Agent, capabilities: Any = None) -> Any:
    """Return our agent's answer to a raw client's initialize."""
    ours, theirs = memory_pair()
    connection = agent.start_connection(theirs)
    result = await Raw(ours).result("initialize", initialize(capabilities))
    await connection.close()
    return result


# --- 10.1 the agent's nine ------------------------------------------------------------------------------------


@pytest.mark.item("004-39")
def test_our_agent_announces_its_nine_capabilities() -> None:
    """All nine entries of the table, each of its type, and true to how the agent was declared."""
    options = [
        SessionConfigOption(id="autoApprove", name="Approve", type="boolean", current_value=False),
        option_from_value("maxTokens", 4096),
    ]
    result = run(introduced(doing(nothing, modes=MODES, options=options)))
    assert bare(result["capabilities"]) == {
        "loadSession": True,
        "mcpCapabilities": {"servers": True, "transport": ["stdio"]},
        "promptCapabilities": {"streaming": True, "cancellation": True, "attachments": True},
        "sessionCapabilities": {
            "modes": ["default", "plan", "code", "architect"],
            "configOptions": ["autoApprove", "maxTokens"],
            "persistence": True,
        },
    }


@pytest.mark.item("004-39")
@pytest.mark.parametrize("said", [True, False])
def test_our_client_reads_the_agents_nine_capabilities(said: bool) -> None:
    """Each entry can be read, whatever it says, where the vocabulary has it or beside it."""
    tree = {
        "loadSession": said,
        "mcpCapabilities": {"servers": said, "transport": ["stdio", "http", "sse"] if said else []},
        "promptCapabilities": {"streaming": said, "cancellation": said, "attachments": said},
        "sessionCapabilities": {
            "modes": ["default", "plan"] if said else [],
            "configOptions": ["autoApprove"] if said else [],
            "persistence": said,
        },
    }

    async def part(_: Raw) -> None:
        pass

    async def work() -> AgentCapabilities:
        info = {"name": "a", "version": "1"}
        introduction = {"protocolVersion": 1, "agentInfo": info, "capabilities": tree}
        async with playing(part, introduction) as remote:
            return remote.capabilities

    read = run(work())
    assert read.load_session is said
    assert read.mcp_capabilities.meta == side(**tree["mcpCapabilities"])  # type: ignore[arg-type]
    assert (read.mcp_capabilities.http, read.mcp_capabilities.sse) == (said, said)
    assert read.prompt_capabilities.meta == side(**tree["promptCapabilities"])  # type: ignore[arg-type]
    assert read.session_capabilities.meta == side(**tree["sessionCapabilities"])  # type: ignore[arg-type]


# --- 10.2 the client's nine (interactive terminals and watching come with the whole workspace) ----------------


async def test_our_agent_reads_the_clients_nine_capabilities() -> None:
    """The whole tree of section 10.2, said by our client's author, stands on the wire as it does there."""
    tree = {
        "fs": {"read": True, "write": True, "watch": False},
        "terminal": {"create": True, "interactive": False, "maxConcurrent": 5},
        "ui": {"permissionDialogs": True, "diffViewer": True, "codeNavigation": True},
    }
    capabilities = ClientCapabilities(
        fs=FileSystemCapabilities(read_text_file=True, write_text_file=True),
        terminal=True,
        meta=side(fs={"watch": False}, terminal={"interactive": False, "maxConcurrent": 5}, ui=tree["ui"]),
    )
    received: list[Any] = []

    async def part(agent: Raw) -> None:
        received.append(agent.received[0]["params"]["capabilities"])

    async with playing(part, capabilities=capabilities):
        pass
    ours, theirs = memory_pair()
    connection = doing(nothing).start_connection(theirs)
    await Raw(ours).result("initialize", initialize(tree))
    read = connection.peer.capabilities
    assert (read.fs.read_text_file, read.fs.write_text_file, read.terminal) == (True, True, True)
    assert read.meta["dragoman"] == side(**capabilities.meta["dragoman"])["dragoman"]  # type: ignore[index]
    await connection.close()
    assert received == [tree]


async def test_our_agent_keeps_to_the_clients_limit_of_open_terminals() -> None:
    """With maxConcurrent 2, a third one is refused before the wire until one is released."""
    refused: list[str] = []

    async def open_three(turn: Turn) -> None:
        first = await turn.terminals.create("one")
        await turn.terminals.create("two")
        refused.append(await kind_of(turn.terminals.create("three")))
        await first.release()
        await turn.terminals.create("four")

    tree = {"terminal": {"create": True, "maxConcurrent": 2}}
    async with serving(doing(open_three), tree) as client:
        ids = iter(("a", "b", "c"))
        client.answers |= {
            "terminal/create": lambda _: {"terminalId": next(ids)},
            "terminal/release": lambda _: {"released": True},
        }
        session = await open_session(client)
        id = client.ask("session/prompt", text_prompt(session))
        while not client.received or client.received[-1].get("id") != id:
            message = await client.receive()
            if message.get("method") in client.answers:  # waits are left open: the commands run on
                client.reply(message, client.answers[message["method"]](message["params"]))
        assert client.received[-1]["result"]["stopReason"] == "end_turn"
        assert [params["command"] for params in client.params_of("terminal/create")] == ["one", "two", "four"]
    assert refused == [Kind.RATE_LIMITED]


# --- 10.3 the intersection ------------------------------------------------------------------------------------


@pytest.mark.item("004-41")
@pytest.mark.parametrize(
    ("offered", "allowed"),
    [
        ({}, set()),
        ({"fs": {"read": True}}, {"fs/read_text_file"}),
        ({"fs": {"read": False, "write": True}}, {"fs/write_text_file"}),
        ({"fs": {"read": True, "write": True}}, {"fs/read_text_file", "fs/write_text_file"}),
        ({"terminal": {"create": True}}, {"terminal/create"}),
        ({"terminal": {"create": False, "interactive": True}}, set()),
        ({"fs": {"watch": True}}, {"fs/watch"}),
    ],
    ids=["nothing", "read", "write", "files", "terminals", "interactive alone", "watch"],
)
async def test_our_agent_calls_only_what_the_client_announced(tmp_path: Path, offered: Any, allowed: set[str]) -> None:
    """An author who tries everything: what was announced is on the wire, the rest never leaves, and asking for it by
    name is capability_unsupported."""
    (tmp_path / "a.txt").write_text("own")
    refused: set[str] = set()

    async def try_everything(turn: Turn) -> None:
        await turn.files.read(str(tmp_path / "a.txt"))
        await turn.files.write(str(tmp_path / "a.txt"), "own")
        await (await turn.terminals.create("true")).release()
        calls: list[tuple[str, Any]] = [
            ("fs/write_text_file", WriteTextFileParams(session_id=turn.session.id, path="/x", content="")),
            ("terminal/create", CreateTerminalParams(session_id=turn.session.id, command="true")),
            ("fs/watch", WatchParams(session_id=turn.session.id, path="/x")),
        ]
        for method, params in calls:
            if kind := await kind_of(turn.session.request(method, params)):
                refused.add(f"{method}: {kind}")

    async with serving(doing(try_everything), offered) as client:
        client.answers |= {
            "fs/read_text_file": lambda _: {"content": "lent", "encoding": "utf-8"},
            "fs/write_text_file": lambda _: {"bytesWritten": 0, "created": False},
            "terminal/create": lambda _: {"terminalId": "t"},
            "terminal/wait_for_exit": lambda _: {"exitCode": 0},
            "terminal/release": lambda _: {"released": True},
            "fs/watch": lambda _: {"watchId": "w"},
        }
        answered = await prompted(client, await open_session(client, tmp_path))
        assert answered["result"]["stopReason"] == "end_turn"
        called = {m["method"] for m in client.received if "id" in m and "method" in m}
        assert called - {"terminal/wait_for_exit", "terminal/release"} == allowed
    tried = {"fs/write_text_file", "terminal/create", "fs/watch"}
    assert refused == {f"{method}: {Kind.CAPABILITY_UNSUPPORTED}" for method in tried - allowed}


@pytest.mark.item("004-41")
async def test_our_agent_asks_no_permission_of_a_client_without_dialogs() -> None:
    """A client without permission dialogs gets no question: the author gets a refusal."""
    answers: list[bool] = []

    async def ask(turn: Turn) -> None:
        async with turn.tool("write", kind="edit", paths=["/x"]) as call:
            answers.append(bool(await call.ask_permission()))

    async with serving(doing(ask), {"ui": {"permissionDialogs": False}}) as client:
        assert (await prompted(client, await open_session(client)))["result"]["stopReason"] == "end_turn"
        assert client.params_of("session/request_permission") == []
        assert client.updates("tool_call_update")[-1]["status"] == "denied"
    assert answers == [False]


@pytest.mark.item("004-41")
def test_our_client_uses_only_what_the_agent_announced() -> None:
    """An agent with nothing: no load, no cancel, no attachments, no MCP servers, none of other dialects' calls; each
    is refused to the author, or said in a way that needs nothing announced, and never on the wire."""
    attachment = {"name": "a", "path": "/home/user/project/a"}

    async def work() -> None:
        async def part(agent: Raw) -> None:
            agent.reply(await agent.expect(method="session/new"), {"sessionId": SESSION, "createdAt": CREATED})
            asked = await agent.expect(method="session/prompt")
            assert "attachments" not in asked["params"]
            assert [block["type"] for block in asked["params"]["content"]] == ["text", "resource_link"]
            agent.reply(asked, {"stopReason": "end_turn"})
            await agent.expect(method="_end")  # and nothing between
            agent.reply(agent.received[-1], {})

        nothing_at_all = {
            "loadSession": False,
            "mcpCapabilities": {"servers": True, "transport": ["stdio"]},
            "promptCapabilities": {"streaming": True, "cancellation": False, "attachments": False},
        }
        introduction = {
            "protocolVersion": 1,
            "agentInfo": {"name": "small", "version": "1"},
            "capabilities": nothing_at_all,
        }
        said: list[str] = []
        async with playing(part, introduction, report=said.append) as remote:

            async def refuses(work: Awaitable[Any]) -> None:
                with pytest.raises(ProtocolError) as refusal:
                    await work
                assert refusal.value.kind == Kind.CAPABILITY_UNSUPPORTED

            far = McpServer(type="http", name="far", url="https://example.com", headers=[])
            await refuses(remote.open_session("/home/user/project", mcp_servers=[far]))
            session = await remote.open_session("/home/user/project")
            link = ResourceLink(name="a", uri="file:///home/user/project/a", meta=side(attachment=attachment))
            async with session.prompt([TextContent(text="go"), link]) as turn:
                turn.cancel()
            assert turn.stop_reason == "end_turn"
            await refuses(remote.load_session(SESSION, "/home/user/project"))
            for call in (
                remote.resume_session(SESSION),
                remote.fork_session(SESSION),
                remote.list_sessions(),
                remote.delete_session(SESSION),
            ):
                await refuses(call)
            await remote.request("_end", {})
        assert any("cannot be cancelled" in text for text in said)

    run(work())


@pytest.mark.item("004-41")
@pytest.mark.parametrize(
    ("workspace", "served"),
    [
        (None, set()),
        (WorkspaceAccess(terminals=False), {"fs/read_text_file", "fs/write_text_file"}),
        (WorkspaceAccess(files=False), {"terminal/create"}),
    ],
    ids=["nothing", "files", "terminals"],
)
async def test_an_agent_that_calls_what_our_client_did_not_announce_is_refused(
    tmp_path: Path, workspace: WorkspaceAccess | None, served: set[str]
) -> None:
    """-32007 for every call that was not announced, and nothing happens."""
    (tmp_path / "a.txt").write_text("before")

    async def part(agent: Raw) -> None:
        path = str(tmp_path / "a.txt")
        for method, params in (
            ("fs/read_text_file", {"path": path}),
            ("fs/write_text_file", {"path": path, "content": "after"}),
            ("terminal/create", {"command": "touch", "args": ["made"]}),
        ):
            answered = await agent.call(method, params)
            if method in served:
                assert "result" in answered
            else:
                assert answered["error"]["code"] == -32007

    await during_turn(tmp_path, part, workspace=workspace)
    assert (tmp_path / "a.txt").read_text() == ("after" if "fs/write_text_file" in served else "before")


# --- 11.1 MCP servers of a session ----------------------------------------------------------------------------

SERVERS: list[dict[str, Any]] = [
    {
        "name": "filesystem",
        "transport": {
            "type": "stdio",
            "command": "mcp-server-filesystem",
            "args": ["/home/user/project"],
            "env": {"DEBUG": "true"},
        },
    },
    {
        "name": "github",
        "transport": {
            "type": "http",
            "url": "https://mcp.github.com/v1",
            "headers": {"Authorization": "Bearer ghp_1"},
        },
    },
]
KNOWN = [
    McpServer(
        name="filesystem",
        command="mcp-server-filesystem",
        args=["/home/user/project"],
        env=[NameValue(name="DEBUG", value="true")],
    ),
    McpServer(
        type="http",
        name="github",
        url="https://mcp.github.com/v1",
        headers=[NameValue(name="Authorization", value="Bearer ghp_1")],
    ),
]


@pytest.mark.item("004-43")
async def test_our_agent_receives_the_mcp_servers_of_each_session() -> None:
    """stdio with env and http with headers, as maps on the wire; each session has its own list."""
    agent = doing(nothing)
    agent.mcp_http = True
    seen: list[Session] = []
    agent.on_session_opened(seen.append)

    async with serving(agent) as client:
        await open_session(client, mcpServers=SERVERS)
        await open_session(client, mcpServers=SERVERS[1:])
        await open_session(client)
    assert [session.mcp_servers for session in seen] == [KNOWN, KNOWN[1:], []]


@pytest.mark.item("004-43")
async def test_our_client_sends_the_mcp_servers_of_each_session() -> None:
    """What a client's author gives is on the wire in the draft's form."""

    async def part(agent: Raw) -> None:
        for number, servers in enumerate((SERVERS, SERVERS[1:])):
            asked = await agent.expect(method="session/new")
            assert asked["params"]["mcpServers"] == servers
            agent.reply(asked, {"sessionId": f"sess_{number}", "createdAt": CREATED})

    async with playing(part) as remote:
        await remote.open_session("/home/user/project", mcp_servers=KNOWN)
        await remote.open_session("/home/user/project", mcp_servers=KNOWN[1:])


# --- 12.2 and 12.3 modes --------------------------------------------------------------------------------------


@pytest.mark.item("004-48")
async def test_every_mode_change_is_sent_whoever_made_it() -> None:
    """By the client's set_mode and by the agent's own decision: one notification each, with the mode before."""

    async def decide(turn: Turn) -> None:
        turn.session.set_mode("architect")

    async with serving(doing(decide, modes=MODES)) as client:
        session = await open_session(client)
        result = await client.result("session/set_mode", {"sessionId": session, "mode": "plan"})
        assert result == {"previousMode": "default", "currentMode": "plan"}
        await prompted(client, session)
        await client.result("session/set_mode", {"sessionId": session, "mode": "code"})
        await client.call("_flush", {})
        assert client.updates("current_mode_update") == [
            {"previousMode": "default", "currentMode": "plan"},
            {"previousMode": "plan", "currentMode": "architect"},
            {"previousMode": "architect", "currentMode": "code"},
        ]


@pytest.mark.item("004-48")
async def test_our_client_follows_every_mode_change(tmp_path: Path) -> None:
    """Whether the agent changes it between turns, during one, or on request: the session has the agent's mode."""

    def changed(agent: Raw, before: str, now: str) -> None:
        data = {"previousMode": before, "currentMode": now, "reason": "because"}
        agent.notify("session/update", {"sessionId": SESSION, "type": "current_mode_update", "data": data})

    async def part(agent: Raw) -> None:
        agent.reply(await agent.expect(method="session/new"), {"sessionId": SESSION, "createdAt": CREATED})
        asked = await agent.expect(method="session/prompt")
        changed(agent, "default", "plan")
        agent.reply(asked, {"stopReason": "end_turn"})
        asked = await agent.expect(method="session/set_mode")
        changed(agent, "plan", "code")
        agent.reply(asked, {"previousMode": "plan", "currentMode": "code"})
        asked = await agent.expect(method="_flush")
        changed(agent, "code", "default")
        agent.reply(asked, {})

    async with playing(part) as remote:
        session = await remote.open_session(str(tmp_path))
        modes: list[str | None] = []
        session.on_update = lambda _: modes.append(session.mode)
        async with session.prompt("go"):
            pass
        await session.set_mode("code")
        await remote.request("_flush", {})
        assert modes == ["plan", "code", "default"]
        assert session.mode == "default"


# --- 13.1 _meta -----------------------------------------------------------------------------------------------

META = {"clientVersion": "2.0.0", "experimentalFeature": True, "customTracingId": "trace_xyz"}


@pytest.mark.item("004-49")
async def test_a_meta_on_any_object_changes_nothing() -> None:
    """The same conversation with and without `_meta` on every object gives the same answers; one that is no object is
    not taken for one and does no harm either."""

    async def talk(meta: Any) -> list[Any]:
        async def speak(turn: Turn) -> None:
            await turn.say(turn.text)

        def with_meta(value: Any) -> Any:
            if isinstance(value, dict):
                return {**{name: with_meta(member) for name, member in value.items()}, **meta}
            return [with_meta(member) for member in value] if isinstance(value, list) else value

        ours, theirs = memory_pair()
        agent = doing(speak, modes=MODES)
        connection = agent.start_connection(theirs)
        client = Raw(ours)
        tree = {"fs": {"read": True}, "terminal": {"create": True}, "ui": {"diffViewer": True}}
        answers = [await client.call("initialize", with_meta(initialize(tree)))]
        server = {"name": "fs", "transport": {"type": "stdio", "command": "mcp-fs", "args": []}}
        new = {"workingDirectory": "/home/user/project", "mcpServers": [server]}
        opening = await client.call("session/new", with_meta(new))
        session = opening["result"]["sessionId"]
        answers.append(await client.call("session/prompt", with_meta(text_prompt(session, "hello"))))
        answers.append(await client.call("session/set_mode", with_meta({"sessionId": session, "mode": "plan"})))
        answers.append(client.updates("agent_message_chunk"))
        await connection.close()
        return [opening["result"].keys(), *answers]

    plain = await talk({})
    assert await talk({"_meta": META}) == plain
    for odd in (5, "text", None, [1]):
        assert await talk({"_meta": odd}) == plain


@pytest.mark.item("004-49")
def test_the_meta_we_send_is_always_an_object(tmp_path: Path) -> None:
    """In every frame of our agent and of our client."""
    seen: list[Any] = []

    def metas(value: Any) -> None:
        if isinstance(value, dict):
            if "_meta" in value:
                seen.append(value["_meta"])
            for member in value.values():
                metas(member)
        elif isinstance(value, list):
            for member in value:
                metas(member)

    async def speak(turn: Turn) -> None:
        async with turn.tool("look", kind="search", paths=["/a", "/b"]):
            await turn.plan("one")

    async def part(agent: Raw) -> None:
        await agent.call("fs/read_text_file", {"path": str(tmp_path / "none"), "_meta": META})
        metas(agent.received)

    async def work() -> None:
        async with serving(doing(speak, modes=MODES)) as client:
            await prompted(client, await open_session(client))
            metas(client.received)

    run(work())
    run(during_turn(tmp_path, part, workspace=WorkspaceAccess()))
    assert seen
    assert all(isinstance(meta, dict) for meta in seen)


@pytest.mark.item("004-49")
@pytest.mark.parametrize("agent_dialect", ["draft", "v1"])
async def test_a_trace_in_meta_passes_a_translator(agent_dialect: str) -> None:
    """The trace of a prompt reaches the agent behind an interpreter, and that of its answer and update comes back."""
    proxy = Proxy("between", client_dialect="draft", agent_dialect=agent_dialect)
    trace = {"traceparent": "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"}

    client_end, ours = memory_pair()
    theirs, agent_end = memory_pair()
    client, agent = Raw(client_end), Raw(agent_end)
    standing = asyncio.ensure_future(proxy.serve(ours, theirs))
    id = client.ask("initialize", initialize(_meta=trace))
    asked = await agent.expect(method="initialize")
    assert asked["params"]["_meta"] == trace
    members = {"capabilities": AGENT} if agent_dialect == "draft" else {"agentCapabilities": {}}
    agent.reply(asked, {"protocolVersion": 1, **members})
    await client.answer(id)
    id = client.ask("session/new", {"workingDirectory": "/home/user/project", "_meta": trace})
    asked = await agent.expect(method="session/new")
    assert asked["params"]["_meta"].items() >= trace.items()
    agent.reply(asked, {"sessionId": SESSION, "_meta": trace})
    assert (await client.answer(id))["result"]["_meta"].items() >= trace.items()
    id = client.ask("session/prompt", {**text_prompt(SESSION), "_meta": trace})
    asked = await agent.expect(method="session/prompt")
    assert asked["params"]["_meta"].items() >= trace.items()
    frame: dict[str, Any] = {"type": "agent_message_chunk", "data": {"content": "hi"}}
    if agent_dialect == "v1":
        content = {"type": "text", "text": "hi"}
        frame = {"update": {"sessionUpdate": "agent_message_chunk", "content": content}}
    agent.notify("session/update", {"sessionId": SESSION, **frame, "_meta": trace})
    assert (await client.expect(method="session/update"))["params"] == {
        "sessionId": SESSION,
        "type": "agent_message_chunk",
        "data": {"content": "hi"},
        "_meta": trace,
    }
    agent.reply(asked, {"stopReason": "end_turn", "_meta": trace})
    assert (await client.answer(id))["result"] == {"stopReason": "end_turn", "_meta": trace}
    await client_end.close()
    await standing


# --- 13.2 methods of one's own --------------------------------------------------------------------------------


@pytest.mark.item("004-50")
async def test_an_agent_serves_custom_methods_and_answers_unknown_ones_with_not_found() -> None:
    """Both ways: a method that begins with an underscore reaches whoever serves it, params and result as they are; one
    that nobody serves is -32601, and an unknown notification is passed over in silence."""
    agent = Agent("worker", version="1", dialect="draft", mcp=False)

    @agent.on("_custom/analyzeCode")
    async def analyze(params: Any) -> Any:
        return {"path": params["path"], "findings": [1, {"two": None}]}

    @agent.prompt
    async def ask_client(turn: Turn) -> None:
        result = await turn.session.request("_vendor/theme", {"of": "editor"})
        await turn.say(str(result["name"]))
        await turn.say(await kind_of(turn.session.request("_vendor/unknown", {})))

    async with serving(agent) as client:
        params = {"path": "/home/user/project/src/index.ts", "analysisType": "security"}
        result = await client.result("_custom/analyzeCode", params)
        assert result == {"path": params["path"], "findings": [1, {"two": None}]}
        assert (await client.error("_custom/other", {}))["code"] == -32601
        client.notify("_custom/notification", {"any": "thing"})
        client.answers["_vendor/theme"] = lambda params: {"name": f"dark {params['of']}"}
        session = await open_session(client)
        assert (await prompted(client, session))["result"]["stopReason"] == "end_turn"
        texts = [data["content"] for data in client.updates("agent_message_chunk")]
        assert texts == ["dark editor", Kind.METHOD_NOT_FOUND]


@pytest.mark.item("004-50")
async def test_a_client_serves_and_calls_custom_methods() -> None:
    """connect(on=...) serves an agent's extension, others are -32601; an agent's -32601 is raised as its kind."""

    served = asyncio.Event()

    async def part(agent: Raw) -> None:
        assert await agent.result("_vendor/theme", {"of": "editor"}) == {"name": "dark"}
        assert (await agent.error("_vendor/other", {}))["code"] == -32601
        served.set()
        agent.reply(await agent.expect(method="_custom/analyzeCode"), {"findings": []})
        agent.refuse(await agent.expect(method="_custom/none"), -32601, "Method not found")

    async with playing(part, on={"_vendor/theme": lambda _: {"name": "dark"}}) as remote:
        await served.wait()
        assert await remote.request("_custom/analyzeCode", {"path": "/x"}) == {"findings": []}
        with pytest.raises(ProtocolError) as refusal:
            await remote.request("_custom/none", {})
        assert refusal.value.kind == Kind.METHOD_NOT_FOUND


# --- 13.3 capabilities of one's own ---------------------------------------------------------------------------

CUSTOM = {"codeAnalysis": True, "aiPairProgramming": {"enabled": True, "modes": ["driver", "navigator"]}}


@pytest.mark.item("004-51")
async def test_custom_capabilities_are_members_of_custom() -> None:
    """Our agent says and reads `_custom`, and so does our client; neither changes what stands there."""
    received: list[Any] = []

    async def part(agent: Raw) -> None:
        received.append(agent.received[0]["params"]["capabilities"])

    capabilities = AgentCapabilities(load_session=True, meta=side(custom=CUSTOM))
    ours, theirs = memory_pair()
    connection = doing(nothing, capabilities=capabilities).start_connection(theirs)
    result = await Raw(ours).result("initialize", initialize({**CLIENT, "_custom": CUSTOM}))
    assert result["capabilities"]["_custom"] == CUSTOM
    assert result["capabilities"]["loadSession"] is True
    assert connection.peer.capabilities.meta["dragoman"]["custom"] == CUSTOM
    await connection.close()
    info = {"name": "a", "version": "1"}
    introduction = {"protocolVersion": 1, "agentInfo": info, "capabilities": {**AGENT, "_custom": CUSTOM}}
    offered = ClientCapabilities(terminal=True, meta=side(custom=CUSTOM))
    async with playing(part, introduction, capabilities=offered) as remote:
        assert isinstance(remote.capabilities.meta, dict)
        assert remote.capabilities.meta["dragoman"]["custom"] == CUSTOM
    assert received == [{"terminal": {"create": True}, "_custom": CUSTOM}]
