"""MCP over ACP, frame by frame: what two ends of the official TypeScript SDK were recorded to send, and the codes.

tests/data/mcp/over_acp.json has the recorded frames, with # for ids.
"""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

from dragoman import Agent, Turn
from dragoman.mcp.offers import OfferedServer
from dragoman.mcp.provider import MAX_REQUESTS, Provider
from dragoman.transport.memory import memory_pair
from tests.mcp.servers import wait_for
from tests.mcp.test_over_acp import META, Peer, offer, provider_frames
from tests.roles.raw_client import new_session, updates

__all__ = ["FRAMES", "offer", "recorded_server", "shape"]

FRAMES: dict[str, Any] = json.loads((Path(__file__).parents[1] / "data" / "mcp" / "over_acp.json").read_text())

_IDS = frozenset({"id", "serverId", "requestId", "progressToken"})


def shape(frame: Any) -> Any:
    """Return a frame with # for ids, without what differs by program: the names of the client and of the server."""
    if isinstance(frame, list):
        return [shape(each) for each in frame]
    if not isinstance(frame, dict):
        return frame
    found = {name: "#" if name in _IDS else shape(value) for name, value in frame.items()}
    if "io.modelcontextprotocol/clientInfo" in found:
        found["io.modelcontextprotocol/clientInfo"] = {"name": "ag", "version": "1"}
    if set(found.get("_meta", ())) == {"io.modelcontextprotocol/serverInfo"}:
        del found["_meta"]
    return found


def recorded_server() -> OfferedServer:
    """Return the server of the recording: echo with progress, two failures, and a call that waits."""
    import mcp_types as types
    from mcp.server.lowlevel import Server
    from mcp.shared.exceptions import MCPError

    async def call(context: Any, params: Any) -> Any:
        match params.name:
            case "inner":
                raise MCPError(code=-32050, message="inner bad", data={"x": 1})
            case "oops":
                raise RuntimeError("oops")
            case "wait":
                await asyncio.Event().wait()
        await context.session.report_progress(1)
        content = [{"type": "text", "text": f"echo {params.arguments['text']}"}]
        return {"content": content, "resultType": "complete"}

    async def listing(_: Any, __: Any) -> Any:
        tools = [types.Tool(name=name, input_schema={"type": "object"}) for name in ("echo", "wait")]
        return types.ListToolsResult(tools=tools)

    return OfferedServer("tools", Server("tools", on_list_tools=listing, on_call_tool=call))


def call_params(server_id: str, tool: str, request_id: str = "mcp-request:1") -> dict[str, Any]:
    """Return the params of a call as an agent sends it."""
    given = {"name": tool, "arguments": {"text": "hi"}, "_meta": {**META, "progressToken": "t"}}
    return {"serverId": server_id, "requestId": request_id, "method": "tools/call", "params": given}


@pytest.mark.item("BR-09", "BR-10")
async def test_what_a_provider_sends_is_what_was_recorded() -> None:
    async with provider_frames([recorded_server()]) as (peer, entry):
        id = entry["serverId"]
        result = await peer.call("mcp/message", call_params(id, "echo"))
        (progress,) = [frame for frame in peer.received if frame.get("method") == "mcp/message"]
        inner = await peer.call("mcp/message", call_params(id, "inner", "mcp-request:2"))
        outer = await peer.call("mcp/message", call_params(id, "oops", "mcp-request:3"))
        waiting = peer.ask("mcp/message", call_params(id, "wait", "mcp-request:4"))
        peer.notify("$/cancel_request", {"requestId": waiting})
        cancelled = await peer.answer(waiting)
    assert shape(result) == FRAMES["result"]
    assert shape(progress) == FRAMES["progress"]
    assert shape(inner) == FRAMES["inner error"]
    assert shape(outer) == FRAMES["outer error"]
    assert shape(cancelled) == FRAMES["cancelled"]


@pytest.mark.item("BR-09")
async def test_what_a_consumer_sends_is_what_was_recorded() -> None:
    agent = Agent("ag", version="1")

    @agent.prompt
    async def act(turn: Turn) -> None:
        await turn.tools.call("tools", "echo", {"text": "hi"})
        await turn.tools.call("tools", "wait", {"text": "hi"})

    ours, theirs = memory_pair()
    connection = agent.start_connection(theirs)
    client = Peer(ours)
    server = recorded_server()

    async def serve(params: Any) -> Any:
        if params["method"] == "tools/call" and params["params"]["name"] == "wait":
            client.notify("session/cancel", {"sessionId": session})
            await asyncio.Event().wait()
        return {"result": await server.request(params["method"], params.get("params"), lambda *_: None)}

    client.answers["mcp/message"] = serve
    client.answers["session/request_permission"] = lambda _: {
        "outcome": {"outcome": "selected", "optionId": "allow_once"}
    }
    try:
        await client.result("initialize", {"protocolVersion": 1, "clientCapabilities": {}})
        entry = {"type": "acp", "name": "tools", "serverId": "tools:1"}
        session = await new_session(client, mcpServers=[entry], cwd="/")
        prompt = [{"type": "text", "text": "go"}]
        ended = await client.result("session/prompt", {"sessionId": session, "prompt": prompt})
        assert ended == {"stopReason": "cancelled"}
        cancel = await client.wait_for_call("$/cancel_request")
        sent = [frame for frame in client.received if frame.get("method") == "mcp/message"]
    finally:
        await connection.close()
        await server.close()
    (call, waiting) = [frame for frame in sent if frame["params"].get("method") == "tools/call"]
    capabilities = call["params"]["params"]["_meta"]["io.modelcontextprotocol/clientCapabilities"]
    call["params"]["params"]["_meta"]["io.modelcontextprotocol/clientCapabilities"] = {}
    assert shape(call) == FRAMES["request"]
    assert set(capabilities) <= {"roots", "elicitation"}, "what this client really can"
    assert shape(cancel) == FRAMES["cancel"]
    assert cancel["params"]["requestId"] == waiting["id"]


@pytest.mark.item("BR-10")
async def test_every_outer_code_is_an_error_of_its_own_and_inner_errors_stay_inside() -> None:
    async with provider_frames([recorded_server()]) as (peer, entry):
        id = entry["serverId"]
        codes: dict[str, Any] = {}
        malformed = {"serverId": id, "method": "tools/list", "params": {"_meta": META}}
        codes["no request id"] = (await peer.error("mcp/message", malformed))["code"]
        first = peer.ask("mcp/message", call_params(id, "wait", "same"))
        codes["active twice"] = (await peer.error("mcp/message", call_params(id, "echo", "same")))["code"]
        codes["no server"] = (await peer.error("mcp/message", call_params("tools:other", "echo")))["code"]
        codes["fault"] = (await peer.error("mcp/message", call_params(id, "oops", "b")))["code"]
        waiting = [peer.ask("mcp/message", call_params(id, "wait", f"w{n}")) for n in range(MAX_REQUESTS - 1)]
        codes["limit"] = (await peer.error("mcp/message", call_params(id, "echo", "c")))["code"]
        for request in (first, *waiting):
            peer.notify("$/cancel_request", {"requestId": request})
        codes["cancelled"] = {(await peer.answer(request))["error"]["code"] for request in (first, *waiting)}
        inner = await peer.result("mcp/message", call_params(id, "inner", "d"))
    assert codes == {
        "no request id": -32602,
        "active twice": -32602,
        "no server": -33001,
        "fault": -33002,
        "limit": -33000,
        "cancelled": {-32800},
    }
    assert inner["error"]["code"] == -32050


@pytest.mark.item("BR-10")
async def test_a_notification_reaches_only_its_active_request() -> None:
    """Progress of a request that has ended, of another request and of no request is dropped; that of ours is shown."""
    agent = Agent("ag")

    @agent.prompt
    async def act(turn: Turn) -> None:
        result = await turn.tools.call("tools", "echo", {"text": "hi"})
        await turn.say(result.text)

    ours, theirs = memory_pair()
    connection = agent.start_connection(theirs)
    client = Peer(ours)
    server = recorded_server()
    ended: list[str] = []

    def progress(request_id: str, token: Any, text: str) -> None:
        values = {"progressToken": token, "progress": 1, "message": text}
        params = {"serverId": "tools:1", "requestId": request_id, "method": "notifications/progress", "params": values}
        client.notify("mcp/message", params)

    async def serve(params: Any) -> Any:
        if params["method"] != "tools/call":
            ended.append(params["requestId"])
            return {"result": await server.request(params["method"], params.get("params"), lambda *_: None)}
        token = params["params"]["_meta"]["progressToken"]
        for other in (*ended, "mcp-request:nobody"):
            progress(other, token, "not yours")
        progress(params["requestId"], token, "yours")
        await wait_for(lambda: "yours (1)" in json.dumps(updates(client, "tool_call_update")))
        return {"result": {"content": [{"type": "text", "text": "hello"}], "resultType": "complete"}}

    client.answers["mcp/message"] = serve
    client.answers["session/request_permission"] = lambda _: {
        "outcome": {"outcome": "selected", "optionId": "allow_once"}
    }
    try:
        await client.result("initialize", {"protocolVersion": 1, "clientCapabilities": {}})
        entry = {"type": "acp", "name": "tools", "serverId": "tools:1"}
        session = await new_session(client, mcpServers=[entry], cwd="/")
        await client.result("session/prompt", {"sessionId": session, "prompt": [{"type": "text", "text": "go"}]})
        shown = json.dumps(updates(client, "tool_call_update"))
        said = json.dumps(updates(client, "agent_message_chunk"))
    finally:
        await connection.close()
        await server.close()
    assert ended
    assert "yours (1)" in shown
    assert "not yours" not in shown
    assert "hello" in said


async def test_a_server_that_was_removed_is_no_server_any_more() -> None:
    server = recorded_server()
    provider = Provider(lambda: None, [server])  # type: ignore[arg-type, return-value]
    assert [each.server_id for each in provider.servers.values()] == [server.server_id]
    await provider.remove(server)
    assert provider.servers == {}
