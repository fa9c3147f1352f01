"""MCP servers at a relay: functions of a proxy, servers of the client served again, files and terminals as tools."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import msgspec
import pytest

from dragoman import Agent, Proxy, RemoteAgent, Turn, WorkspaceAccess, connect
from dragoman.mcp.tool_table import ToolTable
from dragoman.roles.client.dial import Dialer
from dragoman.roles.proxy.mcp_servers import RelayServers
from dragoman.roles.proxy.proxy import RelayExtension
from dragoman.roles.proxy.relay import Relay
from dragoman.schema.base import Marker
from dragoman.schema.initialize import AgentCapabilities, McpCapabilities, SessionCapabilities
from dragoman.transport.memory import memory_pair

PATIENCE = 60.0


def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


def agent_with(act: Callable[[Turn], Any], **capabilities: bool) -> Agent:
    """Return an agent that takes MCP servers in these forms and does this in each turn."""
    taken = msgspec.convert({"http": False, "sse": False, **capabilities}, McpCapabilities)
    closes = SessionCapabilities(close=Marker())
    agent = Agent("plain", capabilities=AgentCapabilities(mcp_capabilities=taken, session_capabilities=closes))
    agent.prompt(act)
    return agent


@asynccontextmanager
async def through_relay(
    agent: Agent,
    *,
    workspace_tools: bool = False,
    agent_dialect: str = "auto",
    extend: RelayExtension | None = None,
    tables: Sequence[ToolTable] = (),
    **options: Any,
) -> AsyncIterator[RemoteAgent]:
    """Connect a client with an agent through a relay that serves MCP servers, those of an extension too."""
    left, front = memory_pair()
    back, right = memory_pair()
    connection = agent.start_connection(right)
    relay = Relay(front, Dialer(back, dialect=agent_dialect, cwd="/"), report=lambda _: None)
    close = None if extend is None else extend(relay)
    servers = RelayServers(relay, workspace_tools=workspace_tools)
    servers.tables.extend(tables)
    servers.claim()
    running = asyncio.create_task(relay.run())
    async with asyncio.timeout(PATIENCE):
        try:
            async with connect(left, **{"permission": "allow", **options}) as remote:
                yield remote
        finally:
            await running
            await servers.close()
            if close is not None:
                await close()
            await connection.close()


@pytest.mark.item("BR-11")
@pytest.mark.parametrize("form", ["http", "stdio", "acp"])
async def test_a_server_of_the_client_reaches_an_agent_in_the_form_that_it_takes(form: str) -> None:
    from mcp.server.mcpserver import Context

    found: list[Any] = []

    async def count(ctx, n: int) -> int:  # type: ignore[no-untyped-def]  # the SDK reads annotations of this module
        """Count with progress."""
        await ctx.report_progress(1, 2, "half")
        return n

    count.__annotations__["ctx"] = Context

    async def act(turn: Turn) -> None:
        found.append(turn.session.mcp_servers[0].form)
        found.append((await turn.tools.call("client", "add", {"a": 2, "b": 3})).structured)
        found.append((await turn.tools.call("client", "add", {"a": "x"})).is_error)
        found.append((await turn.tools.call("client", "count", {"n": 7})).structured)
        found.append([tool.tool for tool in await turn.tools.list_tools()])
        found.append(await turn.tools.list_resources())

    async with through_relay(
        agent_with(act, **({form: True} if form != "stdio" else {})), tools=[add, count]
    ) as remote:
        assert remote.capabilities.mcp_capabilities
        assert remote.capabilities.mcp_capabilities.acp is True
        session = await remote.open_session("/")
        async with session.prompt("go") as turn:
            shown = [update async for update in turn]
        await remote.close_session(session.id)
        await (await remote.open_session("/")).ask("go")
    assert found == [form, {"result": 5}, True, {"result": 7}, ["add", "count"], []] * 2
    assert "half (1 of 2)" in str(shown)


async def test_a_server_of_one_session_is_gone_with_it() -> None:
    servers: list[Any] = []

    async def act(turn: Turn) -> None:
        servers.append(turn.session.mcp_servers[0])

    async with through_relay(agent_with(act, http=True), tools=[add]) as remote:
        session = await remote.open_session("/")
        await session.ask("go")
        url = servers[0].url
        assert await status_of(url) == 401
        await remote.close_session(session.id)
        while await status_of(url):  # noqa: ASYNC110  (the relay ends it when the agent has answered)
            await asyncio.sleep(0.01)


async def status_of(url: str) -> int:
    """Return the HTTP status of a request without a token; 0 if nobody listens."""
    import httpx

    try:
        async with httpx.AsyncClient() as http:
            return (await http.post(url, json={})).status_code
    except httpx.TransportError:
        return 0


@pytest.mark.item("004-02")
async def test_a_proxy_offers_functions_in_five_lines() -> None:
    found: list[Any] = []

    async def act(turn: Turn) -> None:
        found.append((await turn.tools.call("sums", "add", {"a": 2, "b": 3})).structured)

    proxy = Proxy("adder", tools={"sums": [add]})
    left, front = memory_pair()
    back, right = memory_pair()
    connection = agent_with(act, acp=True).start_connection(right)
    running = asyncio.create_task(proxy.serve(front, back))
    async with asyncio.timeout(PATIENCE):
        async with connect(left, permission="allow") as remote:
            session = await remote.open_session("/")
            await session.ask("go")
        await running
        await connection.close()
    assert found == [{"result": 5}]


# --- files and terminals ---------------------------------------------------------------------------------------------


async def use_workspace(turn: Turn, folder: Path, found: dict[str, Any]) -> None:
    """Use all tools of the workspace, with mistakes."""
    for key, tool, arguments in (
        ("write", "write_text_file", {"path": str(folder / "a.txt"), "content": "one\ntwo\n"}),
        ("read", "read_text_file", {"path": str(folder / "a.txt"), "line": 2, "limit": 1}),
        ("run", "run_command", {"command": "sh", "args": ["-c", "echo out; exit 3"]}),
        ("slow", "run_command", {"command": "sleep", "args": ["60"], "timeout": 1}),
        ("outside", "read_text_file", {"path": "/etc/passwd"}),
        ("wrong", "read_text_file", {"file": "a.txt"}),
    ):
        result = await turn.tools.call("workspace", tool, arguments)
        found[key] = (result.is_error, "".join(getattr(block, "text", "") for block in result.content))


@pytest.mark.parametrize("way", ["client", "relay"])
async def test_files_and_terminals_are_tools_for_an_agent_of_v2_on_request(way: str, tmp_path: Path) -> None:
    found: dict[str, Any] = {}

    async def act(turn: Turn) -> None:
        await use_workspace(turn, tmp_path, found)

    agent = agent_with(act, http=True)
    if way == "relay":
        async with through_relay(
            agent, workspace_tools=True, agent_dialect="v2", workspace=WorkspaceAccess(), dialect="v1"
        ) as remote:
            await (await remote.open_session(str(tmp_path))).ask("go")
    else:
        ours, theirs = memory_pair()
        connection = agent.start_connection(theirs)
        workspace = WorkspaceAccess(as_tools=True)
        async with connect(ours, version=2, workspace=workspace, permission="allow") as remote:
            assert remote.dialect == "v2"
            await (await remote.open_session(str(tmp_path))).ask("go")
        await connection.close()
    assert (tmp_path / "a.txt").read_text() == "one\ntwo\n"
    assert found["write"] == (False, f"wrote {tmp_path}/a.txt")
    assert found["read"][1].rstrip() == "two"
    assert found["run"] == (False, "out\nexit code 3")
    assert found["slow"] == (False, "ended after 1 s")
    assert found["outside"][0] is True
    assert found["wrong"] == (True, "read_text_file: wrong or missing path, file; give path, line, limit")


async def test_without_a_request_no_session_gets_them(tmp_path: Path) -> None:
    found: list[Any] = []

    async def act(turn: Turn) -> None:
        found.extend(turn.session.mcp_servers)

    async with through_relay(agent_with(act, http=True), workspace=WorkspaceAccess()) as remote:
        await (await remote.open_session(str(tmp_path))).ask("go")
    assert found == []
