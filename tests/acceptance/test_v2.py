"""Official v2 on the wire: who is answered in which version, names, servers, options, commands, and the relay."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from dragoman import Agent, Turn, connect
from dragoman.roles.client.dial import Dialer
from dragoman.roles.proxy.relay import Relay
from dragoman.schema.config import SessionMode
from dragoman.testing import ScriptedPeer
from dragoman.transport.memory import memory_pair
from tests.acceptance.wire import BOUND, Json, note, result

INFO = {"name": "raw", "version": "1"}
V2 = {"protocolVersion": 2, "info": INFO, "capabilities": {}}
V1 = {"protocolVersion": 1, "clientInfo": INFO, "clientCapabilities": {}}


def echo(**options: Any) -> Agent:
    agent = Agent("echo", version="2.0", **options)

    @agent.prompt
    async def answer(turn: Turn) -> None:
        await turn.say(turn.text)

    return agent


@asynccontextmanager
async def client_of(agent: Agent) -> AsyncIterator[ScriptedPeer]:
    """A raw client of an agent of ours."""
    ours, theirs = memory_pair()
    async with asyncio.timeout(BOUND):
        connection = agent.start_connection(ours, report=lambda _: None)
        yield ScriptedPeer(theirs)
        await connection.close()


async def request(peer: ScriptedPeer, id: Any, method: str, params: Json) -> Json:
    peer.send({"jsonrpc": "2.0", "id": id, "method": method, "params": params})
    while (message := await peer.receive()).get("id") != id or "method" in message:
        pass
    return message


# --- versions -------------------------------------------------------------------------------------------------------


@pytest.mark.item("V2-01")
@pytest.mark.parametrize(("asked", "answered"), [(1, 1), (2, 2), (3, 2)])
async def test_an_agent_answers_the_version_that_a_client_asks_for(asked: int, answered: int) -> None:
    async with client_of(echo()) as peer:
        params = {**(V1 if asked == 1 else V2), "protocolVersion": asked}
        answer = (await request(peer, 1, "initialize", params))["result"]
        assert answer["protocolVersion"] == answered
        if answered == 2:
            assert answer["info"] == {"name": "echo", "version": "2.0"}
            assert answer["capabilities"]["session"]["mcp"]["stdio"] == {}
        else:
            assert answer["agentInfo"]["name"] == "echo"


@pytest.mark.item("V2-01")
async def test_an_agent_of_v2_alone_refuses_version_1_with_what_it_supports() -> None:
    async with client_of(echo(versions=(2,))) as peer:
        error = (await request(peer, 1, "initialize", V1))["error"]
        assert error["code"] == -32022
        assert (error["data"]["requested"], error["data"]["supported"]) == (1, [2])
        assert (await request(peer, 2, "initialize", V2))["result"]["protocolVersion"] == 2


async def test_an_agent_of_v1_alone_answers_a_v2_client_in_v1() -> None:
    async with client_of(echo(versions=(1,))) as peer:
        both = {**V2, "clientInfo": INFO, "clientCapabilities": {}}
        answer = (await request(peer, 1, "initialize", both))["result"]
        assert (answer["protocolVersion"], answer["agentInfo"]["name"]) == (1, "echo")


@pytest.mark.item("V2-02", "OFF-02")
@pytest.mark.parametrize("first", ["session/new", "initialize"])
async def test_a_wrong_first_message_costs_nothing(first: str) -> None:
    async with client_of(echo()) as peer:
        refused = await request(peer, 1, first, {"cwd": "/work"})
        assert "error" in refused
        assert (await request(peer, 2, "initialize", V2))["result"]["protocolVersion"] == 2


@pytest.mark.item("V2-03", "OFF-02")
@pytest.mark.parametrize("number", [1, 2, 7])
async def test_our_client_works_with_an_agent_that_answers_in_v1(number: int) -> None:
    ours, theirs = memory_pair()

    async def serve() -> None:
        peer = ScriptedPeer(theirs)
        hello = await peer.receive()
        assert hello["params"]["protocolVersion"] == 2
        assert hello["params"]["info"] == hello["params"]["clientInfo"]
        peer.send(result(hello, {"protocolVersion": number, "agentCapabilities": {}}))
        peer.send(result(await peer.receive(), {"sessionId": "s"}))
        prompt = await peer.receive()
        text = {"type": "text", "text": "hi"}
        peer.send(
            note(
                "session/update",
                {"sessionId": "s", "update": {"sessionUpdate": "agent_message_chunk", "content": text}},
            )
        )
        peer.send(result(prompt, {"stopReason": "end_turn"}))

    async with asyncio.timeout(BOUND):
        serving = asyncio.create_task(serve())
        async with connect(ours, version=2) as agent:
            session = await agent.open_session(cwd="/")
            assert await session.ask("hello") == "hi"
        await serving


@pytest.mark.item("OFF-02")
async def test_our_client_and_our_agent_speak_v2_when_asked_to() -> None:
    agent = echo()
    ours, theirs = memory_pair()
    async with asyncio.timeout(BOUND):
        connection = agent.start_connection(theirs, report=lambda _: None)
        async with connect(ours, version=2) as remote:
            session = await remote.open_session(cwd="/")
            assert await session.ask("hello") == "hello"
            assert connection.dialect.version == 2
        await connection.close()


async def test_an_array_is_refused_and_the_connection_goes_on() -> None:
    async with client_of(echo()) as peer:
        peer.send(b'[{"jsonrpc":"2.0","id":1,"method":"initialize"}]')
        answer = await peer.receive()
        assert (answer["error"]["code"], answer["id"]) == (-32600, None)
        assert (await request(peer, 2, "initialize", V2))["result"]["protocolVersion"] == 2


# --- methods --------------------------------------------------------------------------------------------------------


@pytest.mark.item("V2-05")
async def test_login_and_logout_have_their_own_names() -> None:
    agent = echo(auth_required=True)
    seen: list[Json] = []

    @agent.authenticate("key", "Key")
    async def login(credentials: Json) -> None:
        seen.append(credentials)

    async with client_of(agent) as peer:
        answer = (await request(peer, 1, "initialize", V2))["result"]
        assert answer["authMethods"] == [{"methodId": "key", "name": "Key", "type": "agent"}]
        assert (await request(peer, 2, "session/new", {"cwd": "/"}))["error"]["code"] == -32000
        assert (await request(peer, 3, "auth/login", {"methodId": "key"}))["result"] == {}
        assert "sessionId" in (await request(peer, 4, "session/new", {"cwd": "/"}))["result"]
        assert (await request(peer, 5, "auth/logout", {}))["result"] == {}
        assert (await request(peer, 6, "authenticate", {"methodId": "key"}))["error"]["code"] == -32601
        assert len(seen) == 1


@pytest.mark.item("V2-06")
@pytest.mark.parametrize(
    ("servers", "is_taken"),
    [
        ({}, True),
        ({"mcpServers": None}, True),
        ({"mcpServers": [{"type": "sse", "name": "x", "url": "https://example.com"}]}, False),
        ({"mcpServers": [{"type": "_pigeon", "name": "x"}]}, False),
    ],
)
async def test_servers_may_be_absent_and_unknown_transports_are_refused_by_name(servers: Json, is_taken: bool) -> None:
    async with client_of(echo()) as peer:
        await request(peer, 1, "initialize", V2)
        answer = await request(peer, 2, "session/new", {"cwd": "/", **servers})
        if is_taken:
            assert "sessionId" in answer["result"]
        else:
            assert answer["error"]["code"] == -32602
            assert answer["error"]["data"]["type"] == servers["mcpServers"][0]["type"]


@pytest.mark.item("V2-07")
async def test_modes_of_an_agent_are_an_option() -> None:
    async with client_of(echo(modes=[SessionMode(id="ask", name="Ask"), SessionMode(id="code", name="Code")])) as peer:
        await request(peer, 1, "initialize", V2)
        made = (await request(peer, 2, "session/new", {"cwd": "/"}))["result"]
        (option,) = made["configOptions"]
        assert (option["configId"], option["category"], option["currentValue"]) == ("mode", "mode", "ask")
        assert "modes" not in made


@pytest.mark.item("V2-25")
async def test_a_replay_from_an_unknown_place_is_refused() -> None:
    async with client_of(echo()) as peer:
        await request(peer, 1, "initialize", V2)
        params = {"sessionId": "s", "cwd": "/", "replayFrom": {"type": "_yesterday"}}
        assert (await request(peer, 2, "session/resume", params))["error"]["code"] == -32602


@pytest.mark.parametrize("method", ["session/load", "session/set_mode", "authenticate", "logout"])
async def test_methods_of_v1_alone_do_not_exist_in_v2(method: str) -> None:
    async with client_of(echo()) as peer:
        await request(peer, 1, "initialize", V2)
        assert (await request(peer, 2, method, {"sessionId": "s"}))["error"]["code"] == -32601


# --- v2 next to v2 --------------------------------------------------------------------------------------------------


@pytest.mark.item("V2-27")
async def test_unknown_updates_states_and_members_pass_unchanged_between_two_v2_peers() -> None:
    front, outside = memory_pair()
    back, inside = memory_pair()
    updates = [
        {"sessionUpdate": "_vendor/mood", "mood": "good"},
        {"sessionUpdate": "state_update", "state": "_dreaming", "depth": 3},
        {"sessionUpdate": "agent_message", "messageId": "m", "content": [{"type": "_hologram", "x": 1}], "extra": None},
        {"sessionUpdate": "tool_call_update", "toolCallId": "t", "title": None, "status": "_stuck"},
    ]
    async with asyncio.timeout(BOUND):
        relay = Relay(front, Dialer(back, cwd="/"), report=lambda _: None)
        running = asyncio.create_task(relay.run())
        client, agent = ScriptedPeer(outside), ScriptedPeer(inside)
        client.send({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": V2})
        hello = await agent.receive()
        agent.send(result(hello, {"protocolVersion": 2, "info": INFO, "capabilities": {"session": {}}}))
        assert (await client.receive())["result"]["info"] == INFO
        for update in updates:
            agent.send(note("session/update", {"sessionId": "s", "update": update}))
        assert [(await client.receive())["params"]["update"] for _ in updates] == updates
        await outside.close()
        await running
