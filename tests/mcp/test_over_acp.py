"""MCP over ACP on both sides, in all four spellings, as frames; and the ways for agents without it."""

from __future__ import annotations

import asyncio
import inspect
import json
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from typing import Any, ClassVar, NamedTuple

import pytest

from dragoman import Agent, ProtocolError, RemoteAgent, Turn, connect
from dragoman.agents.everything.agent import everything
from dragoman.mcp.listener import serve_http, serve_shim
from dragoman.mcp.offers import OfferedServer, build_server
from dragoman.mcp.sdk import ServerFailed
from dragoman.schema.initialize import AgentCapabilities, McpCapabilities
from dragoman.schema.mcp import NameValue
from dragoman.testing import connect_in_memory
from dragoman.transport.memory import memory_pair
from tests.mcp.servers import bare, open_server, wait_for
from tests.roles.raw_client import Raw, new_session, prompt_and_wait, raw_connection, updates

META = {
    "io.modelcontextprotocol/protocolVersion": "2026-07-28",
    "io.modelcontextprotocol/clientCapabilities": {},
    "io.modelcontextprotocol/clientInfo": {"name": "ag", "version": "1"},
}


async def say(session: Any, text: str) -> str:
    """Send a prompt and return the text of the answer."""
    async with session.prompt(text) as turn:
        shown = [update async for update in turn]
    return "".join(getattr(getattr(update, "content", None), "text", "") for update in shown)


def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


@pytest.mark.item("004-73", "004-02")
async def test_a_function_of_a_client_is_a_tool_of_the_agent() -> None:
    async with connect_in_memory(everything(), tools=[add], permission="allow") as agent:
        session = await agent.open_session("/")
        said = await say(session, '/call client add {"a": 2, "b": 3}')
        listed = await say(session, "/tools")
    assert "5" in said
    assert "**client** (acp, MCP 2026-07-28)" in listed


async def test_servers_of_several_names_and_a_name_that_is_taken() -> None:
    async with connect_in_memory(everything(), tools={"one": [add], "two": [add]}, permission="allow") as agent:
        session = await agent.open_session("/")
        listed = await say(session, "/tools")
        with pytest.raises(ProtocolError, match="two MCP servers 'one'"):
            await agent.open_session("/", mcp_servers=[bare("one")])
    assert listed.count("tool `add`") == 2


class Peer(Raw):
    """A raw peer whose answers may be coroutines, or errors."""

    async def until(self, is_it: Callable[[Any], bool]) -> Any:
        """Return the next matching message; answer requests before it."""
        while True:
            message = await self.receive()
            if is_it(message):
                return message
            if "method" in message and "id" in message:
                task = asyncio.create_task(self._answer(message))
                self._tasks.add(task)

    _tasks: ClassVar[set[asyncio.Task[None]]] = set()

    async def _answer(self, message: Any) -> None:
        result = self.answers[message["method"]](message["params"])
        result = await result if inspect.isawaitable(result) else result
        if isinstance(result, Refusal):
            self.refuse(message, result.code, result.message)
        else:
            self.reply(message, result)


class Refusal(NamedTuple):
    """An error as an answer."""

    code: int
    message: str


def offer(agent: RemoteAgent, servers: Sequence[OfferedServer]) -> None:
    """Offer these servers instead of functions; `tools` of `connect` can have functions only."""
    if servers:
        agent._offers._started().provider.servers = {server.server_id: server for server in servers}
        agent._offers._functions = {server.name: [] for server in servers}


@asynccontextmanager
async def provider_frames(servers: Sequence[OfferedServer] = ()) -> AsyncIterator[tuple[Raw, dict[str, Any]]]:
    """Connect our client, which offers `add`, with a raw agent; gives the agent's end and the entry of the server.

    Given servers are offered instead.
    """
    ours, theirs = memory_pair()
    peer = Peer(theirs)
    entries: list[Any] = []
    capabilities = {"mcpCapabilities": {"http": False, "sse": False, "acp": True}}

    def open_session(params: Any) -> Any:
        entries.extend(params["mcpServers"])
        return {"sessionId": "s"}

    peer.answers["initialize"] = lambda _: {"protocolVersion": 1, "agentCapabilities": capabilities, "authMethods": []}
    peer.answers["session/new"] = open_session
    reading = asyncio.create_task(peer.until(lambda _: False))
    async with connect(ours, tools=[add]) as agent:
        offer(agent, servers)
        await agent.open_session("/")
        reading.cancel()
        await asyncio.wait([reading])
        yield peer, entries[0]


@pytest.mark.item("BR-09")
async def test_a_provider_answers_the_frames_of_todays_spelling() -> None:
    async with provider_frames() as (peer, entry):
        assert entry["type"] == "acp"
        message = {"serverId": entry["serverId"], "requestId": "mcp-request:1", "method": "tools/call"}
        params = {"name": "add", "arguments": {"a": 1, "b": 2}, "_meta": META}
        answer = await peer.call("mcp/message", {**message, "params": params})
        assert answer["result"]["result"]["structuredContent"] == {"result": 3}
        assert answer["result"]["result"]["resultType"] == "complete"
        unknown = await peer.call("mcp/message", {**message, "method": "no/such", "params": {"_meta": META}})
        assert unknown["result"]["error"]["code"] == -32601
        old = {**META, "io.modelcontextprotocol/protocolVersion": "2025-11-25"}
        wrong = await peer.call("mcp/message", {**message, "method": "tools/list", "params": {"_meta": old}})
        assert wrong["result"]["error"]["code"] == -32022
        assert wrong["result"]["error"]["data"]["requested"] == "2025-11-25"
        absent = await peer.call("mcp/message", {**message, "serverId": "nobody", "params": params})
        assert absent["error"]["code"] == -33001
        malformed = await peer.call("mcp/message", {"serverId": entry["serverId"], "method": "tools/list"})
        assert malformed["error"]["code"] == -32602


@pytest.mark.item("BR-09")
@pytest.mark.parametrize("member", ["serverId", "acpId"])
async def test_a_provider_answers_both_spellings_with_connections(member: str) -> None:
    async with provider_frames() as (peer, entry):
        connection = (await peer.result("mcp/connect", {member: entry["serverId"]}))["connectionId"]
        hello = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "a", "version": "1"}}
        message = {"connectionId": connection}
        opened = await peer.result("mcp/message", {**message, "method": "initialize", "params": hello})
        assert opened["protocolVersion"] == "2025-06-18"
        peer.notify("mcp/message", {**message, "method": "notifications/initialized"})
        call = {"name": "add", "arguments": {"a": 1, "b": 2}}
        answer = await peer.result("mcp/message", {**message, "method": "tools/call", "params": call})
        assert answer["structuredContent"] == {"result": 3}
        error = await peer.error("mcp/message", {**message, "method": "no/such"})
        assert error["code"] == -32601
        modern = await peer.result("mcp/message", {**message, "method": "tools/list", "params": {"_meta": META}})
        assert modern["tools"][0]["name"] == "add"
        await peer.result("mcp/disconnect", message)
        gone = await peer.error("mcp/message", {**message, "method": "tools/list"})
        assert gone["code"] == -32602
        assert "connectionId" in gone["message"]


@pytest.mark.item("004-73", "BR-09")
async def test_a_provider_answers_the_request_that_the_draft_plans() -> None:
    async with provider_frames() as (peer, _):
        message = {"serverName": "client", "mcpMethod": "tools/call"}
        params = {"name": "add", "arguments": {"a": 1, "b": 2}}
        answer = await peer.result("_mcp/request", {**message, "mcpParams": params})
        assert answer["structuredContent"] == {"result": 3}
        error = await peer.error("_mcp/request", {**message, "serverName": "other", "mcpParams": params})
        assert error["code"] == -33001


class RawProvider:
    """The answers of a raw client that offers one server in one spelling."""

    def __init__(self, client: Raw, spelling: str) -> None:
        self.seen: list[str] = []
        self._server = build_server("tools", [add])
        self._spelling = spelling
        client.answers["mcp/connect"] = self.connect
        client.answers["mcp/message"] = self.message
        client.answers["_mcp/request"] = self.draft

    def connect(self, params: Any) -> Any:
        self.seen.append("mcp/connect")
        if self._spelling == "name":
            return Refusal(-32601, "Method not found")
        assert self._spelling in ("connection", "acp_id")
        assert ("acpId" in params) == (self._spelling == "acp_id")
        return {"connectionId": "c1"}

    async def message(self, params: Any) -> Any:
        self.seen.append("server" if "serverId" in params else "connection")
        if self._spelling == "name":
            return Refusal(-32601, "Method not found")
        if "serverId" in params:
            if self._spelling != "server":
                return Refusal(-32602, "missing field connectionId")
            return {"result": await self._serve(params["method"], params.get("params"))}
        return await self._serve(params["method"], params.get("params"))

    async def draft(self, params: Any) -> Any:
        self.seen.append("_mcp/request")
        return await self._serve(params["mcpMethod"], params.get("mcpParams"))

    async def _serve(self, method: str, params: Any) -> Any:
        return await self._server.request(method, params, lambda *_: None)


@pytest.mark.item("BR-09", "OFF-04")
@pytest.mark.parametrize("spelling", ["server", "connection", "acp_id", "name"])
async def test_an_agent_uses_the_spelling_of_its_client(spelling: str) -> None:
    ours, theirs = memory_pair()
    connection = everything().start_connection(theirs)
    client = Peer(ours)
    provider = RawProvider(client, spelling)
    try:
        await client.result("initialize", {"protocolVersion": 1, "clientCapabilities": {}})
        client.answers["session/request_permission"] = lambda _: {
            "outcome": {"outcome": "selected", "optionId": "allow_once"}
        }
        entry = {"type": "acp", "name": "tools", "id" if spelling == "acp_id" else "serverId": "tools:1"}
        session = await new_session(client, mcpServers=[entry], cwd="/")
        await prompt_and_wait(client, session, '/call tools add {"a": 2, "b": 3}')
        text = json.dumps(updates(client, "agent_message_chunk"))
    finally:
        await connection.close()
    assert '"5"' in text
    assert provider.seen[-1] == {"server": "server", "name": "_mcp/request"}.get(spelling, "connection")
    if spelling == "server":
        frame = next(m["params"] for m in client.received if m.get("method") == "mcp/message")
        assert frame["requestId"].startswith("mcp-request:")
        assert frame["params"]["_meta"]["io.modelcontextprotocol/protocolVersion"] == "2026-07-28"


@pytest.mark.item("004-02", "004-73")
async def test_a_client_uses_a_server_that_the_agent_hosts() -> None:
    agent = Agent("host")
    agent.offers("sums", add)

    @agent.prompt
    async def answer(turn: Turn) -> None: ...

    async with connect_in_memory(agent) as remote, remote.mcp_server("sums") as server:
        assert [tool.tool for tool in await server.list_tools()] == ["add"]
        assert (await server.call("add", {"a": 4, "b": 5})).structured == {"result": 9}


@pytest.mark.item("004-45", "004-44")
async def test_an_agent_uses_a_server_that_another_agent_hosts() -> None:
    other = Agent("host")
    other.offers("sums", add)
    async with other.serve_http() as listener:
        address = listener.url.replace("http://", "acp://").replace("ws://", "acp://")
        async with raw_connection(everything(), "draft", {"fs": {"read": True}}) as client:
            client.answers["session/request_permission"] = lambda _: {"granted": True}
            transport = {"type": "acp", "agentUrl": address, "mcpServerName": "sums"}
            params = {"workingDirectory": "/", "mcpServers": [{"name": "far", "transport": transport}]}
            session = (await client.result("session/new", params))["sessionId"]
            text = '/call far add {"a": 4, "b": 5}'
            await client.result("session/prompt", {"sessionId": session, "content": [{"type": "text", "text": text}]})
            received = json.dumps(client.received)
    assert '"9"' in received


async def test_an_agent_that_the_user_did_not_configure_is_not_reached() -> None:
    async with raw_connection(everything(), "draft", {"fs": {"read": True}}) as client:
        transport = {"type": "acp", "agentUrl": "acp://far.example/acp", "mcpServerName": "sums"}
        params = {"workingDirectory": "/", "mcpServers": [{"name": "far", "transport": transport}]}
        session = (await client.result("session/new", params))["sessionId"]
        await client.result("session/prompt", {"sessionId": session, "content": [{"type": "text", "text": "/tools"}]})
    assert "is not one of your hosts" in json.dumps(client.received)


# --- agents without MCP over ACP ------------------------------------------------------------------------------


@pytest.fixture
def sums() -> OfferedServer:
    return build_server("sums", [add])


@pytest.mark.item("BR-11")
async def test_http_on_loopback_needs_the_token_and_its_own_origin(sums: OfferedServer) -> None:
    import httpx

    async with serve_http(sums) as entry:
        assert entry.url
        assert entry.url.startswith("http://127.0.0.1:")
        async with open_server(entry) as server:
            assert (await server.call("add", {"a": 1, "b": 2})).structured == {"result": 3}
        assert entry.headers
        token = entry.headers[0].value
        body = {"jsonrpc": "2.0", "id": 1, "method": "tools/list", "params": {}}
        accept = {"Accept": "application/json, text/event-stream"}
        async with httpx.AsyncClient() as http:
            found = {
                "no token": (await http.post(entry.url, json=body, headers=accept)).status_code,
                "wrong token": (
                    await http.post(entry.url, json=body, headers={**accept, "Authorization": "Bearer x"})
                ).status_code,
                "origin": (
                    await http.post(
                        entry.url,
                        json=body,
                        headers={**accept, "Authorization": token, "Origin": "https://evil.example"},
                    )
                ).status_code,
                "path": (await http.post(f"{entry.url}x", json=body, headers={"Authorization": token})).status_code,
                "accept": (
                    await http.post(entry.url, json=body, headers={"Authorization": token, "Accept": "text/html"})
                ).status_code,
                "size": (
                    await http.post(
                        entry.url,
                        content=b"x" * 2_000_000,
                        headers={**accept, "Authorization": token, "Content-Type": "application/json"},
                    )
                ).status_code,
            }
    assert found == {"no token": 401, "wrong token": 401, "origin": 403, "path": 404, "accept": 406, "size": 413}


@pytest.mark.item("BR-11")
async def test_the_token_of_one_server_does_not_open_another(sums: OfferedServer) -> None:
    async with serve_http(sums) as one, serve_http(build_server("other", [add])) as two:
        two.headers = one.headers
        with pytest.raises(ServerFailed):
            async with open_server(two, timeout=5):
                pass


@pytest.mark.item("BR-11")
async def test_the_shim_is_a_command_that_needs_its_token(sums: OfferedServer) -> None:
    async with serve_shim(sums) as entry:
        async with open_server(entry) as server:
            assert server.version == "2026-07-28"
            assert (await server.call("add", {"a": 1, "b": 2})).structured == {"result": 3}
        entry.env = [NameValue(name="DRAGOMAN_MCP_TOKEN", value="wrong-token")]
        with pytest.raises(ServerFailed):
            async with open_server(entry, timeout=5):
                pass


@pytest.mark.item("BR-11")
@pytest.mark.parametrize("form", ["http", "stdio"])
async def test_clients_of_the_handshake_era_are_served_too(sums: OfferedServer, form: str) -> None:
    from mcp import Client, StdioServerParameters
    from mcp.client.streamable_http import streamable_http_client

    serve = serve_http if form == "http" else serve_shim
    async with serve(sums) as entry:
        if form == "http":
            import httpx2

            assert entry.headers
            assert entry.url
            http = httpx2.AsyncClient(headers={"Authorization": entry.headers[0].value})
            target: Any = streamable_http_client(entry.url, http_client=http)
        else:
            assert entry.env
            assert entry.command
            env = {pair.name: pair.value for pair in entry.env}
            target = StdioServerParameters(command=entry.command, args=list(entry.args or ()), env=env)
        async with Client(target, mode="legacy") as client:
            assert client.protocol_version == "2025-11-25"
            result = await client.call_tool("add", {"a": 1, "b": 2})
            assert result.structured_content == {"result": 3}


@pytest.mark.item("BR-11")
@pytest.mark.parametrize("http", [True, False])
async def test_an_agent_without_mcp_over_acp_gets_an_address_or_a_command(http: bool) -> None:
    capabilities = AgentCapabilities(mcp_capabilities=McpCapabilities(http=http, sse=False))
    agent = Agent("plain", capabilities=capabilities)
    found: list[Any] = []

    @agent.prompt
    async def answer(turn: Turn) -> None:
        result = await turn.tools.call("client", "add", {"a": 20, "b": 3})
        found.extend([turn.session.mcp_servers[0].form, result.structured])

    async with connect_in_memory(agent, tools=[add], permission="allow") as remote:
        session = await remote.open_session("/")
        await say(session, "go")
    assert found == ["http" if http else "stdio", {"result": 23}]


async def test_an_offered_server_ends_with_its_connection() -> None:
    async with connect_in_memory(everything(), tools=[add]) as agent:
        await agent.open_session("/")
        assert [task for task in asyncio.all_tasks() if "MCP" in task.get_name()]
    await wait_for(lambda: not [task for task in asyncio.all_tasks() if "MCP" in task.get_name()])
