"""Middleware and custom handlers: each message passes the chain until one handles it."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from dragoman import Agent, Kind, ProtocolError, Session, Turn
from dragoman.engine.incoming import Incoming
from tests.roles.raw_client import CWD, new_session, prompt_and_wait, raw_connection

PassOn = Callable[[], Awaitable[Any]]


def talking_agent() -> Agent:
    """Return an echo agent."""
    agent = Agent("talking")

    @agent.prompt
    async def answer(turn: Turn) -> None:
        await turn.say(turn.text)

    return agent


async def test_every_message_goes_through_the_chain_the_first_registered_first() -> None:
    agent = talking_agent()
    seen: list[str] = []

    @agent.middleware
    async def outer(message: Incoming, pass_on: PassOn) -> Any:
        seen.append(f"outer {message.method}")
        result = await pass_on()
        seen.append(f"answered {message.method}")
        return result

    @agent.middleware
    async def inner(message: Incoming, pass_on: PassOn) -> Any:
        seen.append(f"inner {message.method}")
        return await pass_on()

    async with raw_connection(agent) as client:
        session = await new_session(client)
        assert (await prompt_and_wait(client, session))["result"] == {"stopReason": "end_turn"}
        client.notify("session/cancel", {"sessionId": session})
        assert (await client.error("_unknown", {}))["code"] == -32601
    for method in ("initialize", "session/new", "session/prompt", "session/cancel"):
        assert [each for each in seen if each.endswith(method)] == [
            f"outer {method}",
            f"inner {method}",
            f"answered {method}",
        ]
    assert seen[-2:] == ["outer _unknown", "inner _unknown"]


@pytest.mark.parametrize("dialect", ["v1", "draft", "2025.1"])
async def test_a_message_can_be_claimed_changed_or_refused_in_any_dialect(dialect: str) -> None:
    agent = talking_agent()

    @agent.middleware
    async def gate(message: Incoming, pass_on: PassOn) -> Any:
        if message.method != "session/prompt":
            return await pass_on()
        block = message.params.prompt[0]
        if "password" in block.text:
            raise ProtocolError(Kind.PERMISSION_DENIED, "no passwords here")
        if block.text == "ping":
            return {"stopReason": "refusal"}
        block.text = block.text.upper()
        return await pass_on()

    async with raw_connection(agent, dialect) as client:
        if dialect == "2025.1":
            await client.result("session/new", {"session_id": "s", "mode": "agent"})
            session = {"session_id": "s"}
        else:
            asked = {"workingDirectory": CWD} if dialect == "draft" else {"cwd": CWD, "mcpServers": []}
            session = {"sessionId": (await client.result("session/new", asked))["sessionId"]}
        member = "prompt" if dialect == "v1" else "content"

        async def say(text: str) -> Any:
            return await client.call("session/prompt", {**session, member: [{"type": "text", "text": text}]})

        assert "result" in await say("hello")
        assert "HELLO" in str(client.params_of("session/update"))
        assert (await say("my password"))["error"]["message"] == "no passwords here"
        claimed = (await say("ping"))["result"]
        assert "refusal" in str(claimed)
        assert "PING" not in str(client.params_of("session/update"))


async def test_a_turn_behind_middleware_is_cancelled_like_any_other() -> None:
    agent = Agent("slow")

    @agent.middleware
    async def watch(message: Incoming, pass_on: PassOn) -> Any:
        return await pass_on()

    @agent.prompt
    async def answer(turn: Turn) -> None:
        async with turn.tool("Wait"):
            await asyncio.Event().wait()

    async with raw_connection(agent) as client:
        session = await new_session(client)
        prompt = client.ask("session/prompt", {"sessionId": session, "prompt": [{"type": "text", "text": "go"}]})
        await client.wait_for_call("session/update")
        client.notify("session/cancel", {"sessionId": session})
        assert (await client.answer(prompt))["result"] == {"stopReason": "cancelled"}
        assert client.params_of("session/update")[-1]["update"]["status"] == "failed"


@pytest.mark.parametrize("dialect", ["v1", "draft", "crow"])
async def test_an_extension_is_answered_by_its_own_function_in_any_dialect(dialect: str) -> None:
    agent = talking_agent()
    received: list[Any] = []

    @agent.on("_acme/index")
    async def index(params: Any) -> Any:
        return {"files": params["depth"] * 2}

    @agent.on("_acme/seen")
    def seen(params: Any) -> None:
        received.append(params)

    async with raw_connection(agent, dialect) as client:
        assert await client.result("_acme/index", {"depth": 3}) == {"files": 6}
        client.notify("_acme/seen", {"path": "/a"})
        assert (await client.error("_acme/other", {}))["code"] == -32601
        assert received == [{"path": "/a"}]


async def test_a_method_of_the_library_can_be_served_otherwise_and_the_client_told_of_extensions() -> None:
    agent = talking_agent()

    @agent.on("session/list")
    def nothing(params: Any) -> Any:
        return {"sessions": []}

    @agent.on_session_opened
    def greet(session: Session) -> None:
        session.notify("_acme/ready", {"sessionId": session.id})

    async with raw_connection(agent) as client:
        session = await new_session(client)
        assert client.params_of("_acme/ready") == [{"sessionId": session}]
        assert await client.result("session/list", {}) == {"sessions": []}
