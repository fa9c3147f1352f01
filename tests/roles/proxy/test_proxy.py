"""A proxy before the agent has started: claims on initialize and on earlier messages."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import msgspec
import pytest

from dragoman import Agent, Chain, Forward, Kind, ProtocolError, Proxy, Turn, connect
from dragoman.schema.fs import WriteTextFileParams
from dragoman.testing import ScriptedPeer
from dragoman.transport.memory import memory_pair
from tests.pairs.peers import BOUND
from tests.pairs.words import WORDS, Json

HELLO = {
    "protocolVersion": 1,
    "clientInfo": {"name": "editor", "version": "1", "theme": "dark"},
    "clientCapabilities": {"fs": {"readTextFile": True, "writeTextFile": True}, "terminal": True},
    "_color": "green",
}


@asynccontextmanager
async def connect_through_proxy(proxy: Proxy) -> AsyncIterator[tuple[ScriptedPeer, ScriptedPeer]]:
    """Return the client's wire and the agent's wire, with the proxy between."""
    front, left = memory_pair()
    back, right = memory_pair()
    running = asyncio.create_task(proxy.serve(front, back))
    async with asyncio.timeout(BOUND):
        try:
            yield ScriptedPeer(left), ScriptedPeer(right)
        finally:
            await left.close()
            await running


def call(id: Any, method: str, params: Json) -> Json:
    return {"jsonrpc": "2.0", "id": id, "method": method, "params": params}


def reply(asked: Json, result: Json) -> Json:
    return {"jsonrpc": "2.0", "id": asked["id"], "result": result}


@pytest.mark.parametrize("agent", ["v1", "banjo", "draft", "crow", "2025.1"])
async def test_a_claimed_initialize_is_seen_changed_forwarded_and_its_answer_changed(agent: str) -> None:
    words = WORDS[agent]
    proxy = Proxy(client_dialect="v1", agent_dialect=agent)
    seen: list[Any] = []

    @proxy.from_client("initialize")
    async def initialize(params: Any, forward: Forward[Any]) -> Any:
        seen.append(params.client_info.name)
        params.client_capabilities.terminal = False
        result = await forward(params)
        seen.append(result.agent_info.name)
        return msgspec.structs.replace(result, agent_info=msgspec.structs.replace(result.agent_info, title="Both"))

    async with connect_through_proxy(proxy) as (client, server):
        client.send(call(1, "initialize", HELLO))
        asked = await server.expect(method="initialize")
        assert words.offers(asked["params"]) == (True, False)
        server.send(reply(asked, words.introduction))
        answer = await client.expect(id=1)
        assert answer["result"]["agentInfo"] == {"name": "hand", "version": "1", "title": "Both"}
        assert seen == ["editor", "hand"]
        client.send(call(2, "session/new", WORDS["v1"].new("/tmp", "")))
        if agent != "2025.1":  # which is started again for another folder
            asked = await server.expect(method="session/new")
            server.send(reply(asked, words.made("s")))
            assert (await client.expect(id=2))["result"]["sessionId"] == "s"


async def test_unknown_members_pass_a_claimed_initialize_both_ways() -> None:
    proxy = Proxy(client_dialect="v1", agent_dialect="v1")

    @proxy.from_client("initialize")
    async def initialize(params: Any, forward: Forward[Any]) -> Any:
        return await forward(params)

    async with connect_through_proxy(proxy) as (client, server):
        client.send(call(1, "initialize", HELLO))
        asked = await server.expect(method="initialize", params=HELLO)
        server.send(reply(asked, {**WORDS["v1"].introduction, "_shape": "round"}))
        await client.expect(id=1, result={"_shape": "round"})


async def test_a_proxy_may_reject_initialize_and_accept_a_later_one() -> None:
    proxy = Proxy(client_dialect="v1", agent_dialect="v1")
    refused: list[str] = []

    @proxy.from_client("initialize")
    async def initialize(params: Any, forward: Forward[Any]) -> Any:
        if not refused:
            refused.append(params.client_info.name)
            raise ProtocolError(Kind.AUTH_REQUIRED, "who are you?")
        return await forward(params)

    async with connect_through_proxy(proxy) as (client, server):
        client.send(call(1, "initialize", HELLO))
        await client.expect(id=1, error={"data": {"kind": "auth_required"}})
        client.send(call(2, "initialize", HELLO))
        server.send(reply(await server.expect(method="initialize"), WORDS["v1"].introduction))
        assert "result" in await client.expect(id=2)
        client.send(call(3, "initialize", HELLO))
        await client.expect(id=3, error={"data": {"kind": "invalid_state"}})


async def test_messages_before_initialize_can_be_claimed_but_not_forwarded() -> None:
    proxy = Proxy(client_dialect="v1", agent_dialect="v1")
    received: list[Any] = []

    @proxy.from_client("_greet")
    async def greet(params: Any, forward: Forward[Any]) -> Any:
        return await forward(params) if params.get("on") else {"greeted": params["name"]}

    @proxy.from_client("_hum")
    def hum(params: Any, forward: Forward[Any]) -> None:
        received.append(params)

    async with connect_through_proxy(proxy) as (client, server):
        client.send({"jsonrpc": "2.0", "method": "_hum", "params": {"n": 1}})
        client.send(call(1, "_greet", {"name": "ed"}))
        await client.expect(id=1, result={"greeted": "ed"})
        client.send(call(2, "_greet", {"on": True}))
        answer = await client.expect(id=2, error={"data": {"kind": "invalid_state"}})
        assert "initialize" in answer["error"]["message"]
        assert received == [{"n": 1}]
        client.send(call(3, "initialize", HELLO))
        server.send(reply(await server.expect(method="initialize"), WORDS["v1"].introduction))
        await client.expect(id=3)
        client.send(call(4, "_greet", {"on": True}))
        server.send(reply(await server.expect(method="_greet"), {"by": "agent"}))
        await client.expect(id=4, result={"by": "agent"})


async def test_messages_of_an_agent_before_its_initialize_result_can_be_claimed() -> None:
    proxy = Proxy(client_dialect="v1", agent_dialect="v1")

    @proxy.from_agent("_hum")
    def hum(params: Any, forward: Forward[Any]) -> None:
        forward({"n": params["n"] + 1})

    async with connect_through_proxy(proxy) as (client, server):
        client.send(call(1, "initialize", HELLO))
        asked = await server.expect(method="initialize")
        server.send({"jsonrpc": "2.0", "method": "$/cancel_request", "params": {"requestId": 9}})
        server.send({"jsonrpc": "2.0", "method": "_hum", "params": {"n": 1}})
        server.send(reply(asked, WORDS["v1"].introduction))
        await client.expect(method="_hum", params={"n": 2})
        await client.expect(id=1)


def test_a_proxy_refuses_a_method_that_nobody_calls() -> None:
    proxy = Proxy()
    with pytest.raises(ValueError, match=r"there is no method 'session/promt' .*did you mean 'session/prompt'"):
        proxy.from_client("session/promt")
    with pytest.raises(ValueError, match="'session/update' that a client calls; use from_agent"):
        proxy.from_client("session/update")
    with pytest.raises(ValueError, match="an extension method begins with _"):
        proxy.from_agent("zebra")


def test_a_proxy_refuses_a_function_for_other_params() -> None:
    proxy = Proxy()

    async def write(params: WriteTextFileParams, forward: Forward[Any]) -> Any:
        return await forward(params)

    with pytest.raises(TypeError, match=r"the params of session/prompt are .*\.PromptParams, not WriteTextFile"):
        proxy.from_client("session/prompt")(write)
    assert proxy.from_agent("fs/write_text_file")(write) is write


# --- mistakes in functions ------------------------------------------------------------------------------------


async def forget(params: Any, forward: Forward[Any]) -> Any:
    await forward(params)


async def talk(params: Any, forward: Forward[Any]) -> Any:
    return "done"


async def wait_for_nothing(params: Any, forward: Forward[Any]) -> Any:
    return forward(params)


async def invent(params: Any, forward: Forward[Any]) -> Any:
    return {"reason": "end_turn"}


@pytest.mark.parametrize(
    ("function", "message"),
    [
        (forget, "forget returned None; return what forward(...) returns"),
        (talk, "talk returned 'done'; return what forward(...) returns, or a PromptResult"),
        (wait_for_nothing, "wait_for_nothing returned a coroutine; write: return await forward(...)"),
        (invent, "invent returned {'reason': 'end_turn'}, which is no PromptResult: stopReason is missing"),
    ],
)
@pytest.mark.parametrize("client_dialect", ["v1", "banjo"])  # a chain, and a relay
async def test_a_function_that_returns_no_answer_is_named_with_its_proxy(
    function: Any, message: str, client_dialect: str
) -> None:
    agent, proxy = Agent("small"), Proxy("bad")

    @agent.prompt
    async def answer(turn: Turn) -> None:
        await turn.say("hi")

    proxy.from_client("session/prompt")(function)
    near, far = memory_pair()
    running = asyncio.create_task(Chain([proxy], agent=agent).serve(far))
    async with asyncio.timeout(BOUND), connect(near, dialect=client_dialect) as client:
        session = await client.open_session("/tmp")
        with pytest.raises(ProtocolError, match=re.escape(f"proxy bad: {message}")) as failed:
            await session.ask("hello")
        assert failed.value.message.count("bad") == 1
    await running


async def test_a_function_may_return_nothing_where_the_answer_has_no_members() -> None:
    agent, proxy, seen = Agent("small", modes=["ask", "plan"]), Proxy("quiet"), list[str]()

    @proxy.from_client("session/set_mode")
    async def note(params: Any, forward: Forward[Any]) -> None:
        seen.append(params.mode_id)

    async with connect(Chain([proxy], agent=agent)) as client:
        await (await client.open_session("/tmp")).set_mode("plan")
    assert seen == ["plan"]


def test_a_function_for_requests_must_be_asynchronous() -> None:
    def plain(params: Any, forward: Forward[Any]) -> Any:
        return forward(params)

    async def stream(params: Any, forward: Forward[Any]) -> Any:
        yield params

    proxy = Proxy("bad")
    with pytest.raises(TypeError, match=r"proxy bad: plain \(test_proxy\.py:\d+\) .*write: async def plain"):
        proxy.from_client("session/prompt")(plain)
    with pytest.raises(TypeError, match=r"proxy bad: stream \(test_proxy\.py:\d+\) must not yield"):
        proxy.from_client("session/prompt")(stream)
    assert proxy.from_agent("session/update")(plain) is plain  # a notification has no answer to wait for
