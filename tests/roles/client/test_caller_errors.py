"""Mistakes of a program that uses an agent: each is an error that says what to write."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any, cast

import pytest

from dragoman import (
    Agent,
    Chain,
    Forward,
    Kind,
    ProtocolError,
    Proxy,
    Recovery,
    Turn,
    WorkspaceAccess,
    connect,
)
from dragoman.roles.client.remote_agent import RemoteAgent
from dragoman.roles.client.session import ClientSession
from dragoman.schema.content import TextContent
from dragoman.schema.mcp import McpServer
from dragoman.testing import connect_in_memory
from tests.roles.translated_pair import CWD

# Longer than any call here needs; a call that is not refused at once would wait forever.
TIMEOUT = 60.0


def echo_agent() -> Agent:
    agent = Agent("echo")

    @agent.prompt
    async def echo(turn: Turn) -> None:
        await turn.say(turn.text)

    return agent


# --- event loops ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "call",
    [
        lambda agent, session: session.ask("hello"),
        lambda agent, session: session.set_mode("plan"),
        lambda agent, session: agent.open_session(CWD),
        lambda agent, session: agent.load_session("s", CWD),
        lambda agent, session: agent.fork_session("s", CWD),
        lambda agent, session: agent.close_session(session.id),
        lambda agent, session: agent.list_sessions(),
    ],
)
def test_a_call_from_another_event_loop_is_refused(
    call: Callable[[RemoteAgent, ClientSession], Awaitable[Any]],
) -> None:
    with asyncio.Runner() as runner:
        opening = connect_in_memory(echo_agent())
        agent = runner.run(opening.__aenter__())
        session = runner.run(agent.open_session(CWD))

        async def call_in_time() -> None:
            await asyncio.wait_for(call(agent, session), TIMEOUT)

        with pytest.raises(ProtocolError, match=r"another event loop.*use acp_session\.run") as refused:
            asyncio.run(call_in_time())
        assert refused.value.kind == Kind.INVALID_STATE
        assert runner.run(session.ask("hello")) == "hello"
        runner.run(opening.__aexit__(None, None, None))


# --- targets --------------------------------------------------------------------------------------------------


async def test_a_client_connects_to_an_agent_of_its_own_process() -> None:
    agent = echo_agent()
    async with connect(agent) as client:
        assert client.info is not None
        assert client.info.name == "echo"
        assert await (await client.open_session(CWD)).ask("hello") == "hello"
        connections = [served.connection for served in agent._clients]
    assert [connection.failure is not None for connection in connections] == [True]


async def test_a_chain_ends_at_an_agent_of_its_own_process() -> None:
    proxy = Proxy("loud")

    @proxy.from_client("session/prompt")
    async def shout(params: Any, forward: Forward[Any]) -> Any:
        params.prompt[0].text = params.prompt[0].text.upper()
        return await forward(params)

    async with connect(Chain([proxy], agent=echo_agent())) as client:
        assert await (await client.open_session(CWD)).ask("hello") == "HELLO"


@pytest.mark.parametrize("target", [5, Path("agent.py"), ["agent", 5], b"agent"])
def test_what_no_client_can_connect_to_is_refused_with_what_it_can(target: Any) -> None:
    with pytest.raises(TypeError, match=r"connect takes a command.* an Agent or a Chain, not"):
        connect(target)
    with pytest.raises(TypeError, match=r"agent= of Chain takes a command.*, not"):
        Chain([], agent=target)


# --- arguments ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("content", [5, None, ["hello"], b"hello", [TextContent(text="a"), 5]])
async def test_a_prompt_that_is_no_content_is_refused(content: Any) -> None:
    async with connect(echo_agent()) as client:
        session = await client.open_session(CWD)
        with pytest.raises(TypeError, match=r"a prompt is text or content blocks, not .*TextContent\(text="):
            await session.ask(content)
        assert await session.ask("hello") == "hello"


async def test_one_content_block_is_a_prompt() -> None:
    async with connect(echo_agent()) as client:
        session = await client.open_session(CWD)
        assert await session.ask(TextContent(text="hello")) == "hello"


async def test_a_timeout_that_is_no_number_is_refused() -> None:
    wrong: Any = "5"
    async with connect(echo_agent()) as client:
        session = await client.open_session(CWD)
        with pytest.raises(TypeError, match="timeout is a number of seconds or None, not '5'"):
            await session.ask("hello", timeout=wrong)
        with pytest.raises(TypeError, match="idle_timeout is a number"):
            session.prompt("hello", idle_timeout=wrong)
    with pytest.raises(TypeError, match="timeout is a number of seconds or None, not '5'"):
        connect("agent", timeout=wrong)
    with pytest.raises(TypeError, match="initialize_timeout is a number"):
        connect("agent", initialize_timeout=wrong)


@pytest.mark.parametrize("servers", [[{"name": "files"}], {"name": "files"}, "files", McpServer(name="files")])
async def test_what_is_no_list_of_mcp_servers_is_refused(servers: Any) -> None:
    expected = r"McpServer objects, not .*write: mcp_servers=\[McpServer\("
    async with connect(echo_agent()) as client:
        with pytest.raises(TypeError, match=expected):
            await client.open_session(CWD, mcp_servers=servers)
    with pytest.raises(TypeError, match=expected):
        connect("agent", mcp_servers=servers)


def test_a_workspace_that_is_none_is_refused() -> None:
    wrong: Any = True
    with pytest.raises(TypeError, match=r"is a WorkspaceAccess, not True; write: workspace=WorkspaceAccess\("):
        connect("agent", workspace=wrong)


# --- async with -----------------------------------------------------------------------------------------------


async def test_a_connection_without_async_with_says_how_to_open_it() -> None:
    client: Any = connect("agent")
    with pytest.raises(TypeError, match=r"use: async with connect\(\.\.\.\) as agent"):
        await client
    with pytest.raises(TypeError, match=r"use: async with connect\(\.\.\.\) as agent"), client:
        pass
    with pytest.raises(AttributeError, match=r"write: async with connect\(\.\.\.\) as agent, agent\.open_session"):
        await client.open_session(CWD)
    with pytest.raises(AttributeError, match="has no 'launch'"):
        client.launch()


async def test_a_turn_without_async_with_says_how_to_use_it() -> None:
    async with connect(echo_agent()) as client:
        turn: Any = (await client.open_session(CWD)).prompt("hello")
        with pytest.raises(TypeError, match=r"use: async with session\.prompt\(\.\.\.\) as turn"):
            await turn
        with pytest.raises(TypeError, match=r"use: async with session\.prompt\(\.\.\.\) as turn"), turn:
            pass
        with pytest.raises(TypeError, match="use: async for update in turn"):
            list(turn)
        assert await turn.text() == "hello"


# --- options --------------------------------------------------------------------------------------------------


def no_answer() -> None:
    """Stand for a function that takes too few parameters."""


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (
            lambda: connect("agent", on=cast(Any, ["x"])),
            """on maps methods to functions, not ['x']; write: on={"_acme/ask": """,
        ),
        (
            lambda: connect("agent", on=cast(Any, {"_acme/ask": 3})),
            "on maps methods to functions, not {'_acme/ask': 3}",
        ),
        (
            lambda: connect("agent", sandbox=cast(Any, True)),
            "sandbox is a Sandbox, not True; write: sandbox=Sandbox(...)",
        ),
        (
            lambda: connect("agent", permission=cast(Any, no_answer)),
            "permission is a function with other parameters; write: ",
        ),
        (
            lambda: WorkspaceAccess(approve=cast(Any, True)),
            "approve is a function, not True; write: approve=function, with def ",
        ),
        (lambda: WorkspaceAccess(approve=cast(Any, no_answer)), "approve is a function with other parameters; write: "),
        (lambda: Recovery(max_attempts=cast(Any, "3")), "max_attempts is a whole number, not '3'"),
    ],
)
def test_an_option_of_the_wrong_kind_is_refused_where_it_is_given(make: Any, said: str) -> None:
    with pytest.raises(TypeError) as caught:
        make()
    assert said in str(caught.value)


@pytest.mark.parametrize(
    ("call", "said"),
    [
        (lambda agent, session: agent.open_session(cwd=None), "cwd is a str or a Path, not None"),
        (lambda agent, session: agent.load_session(session), "write: session.id"),
        (
            lambda agent, session: session.ask("x", recovery=3),
            "recovery is a Recovery, not 3; write: ",
        ),
    ],
)
async def test_an_argument_of_a_session_of_the_wrong_kind_is_refused(call: Any, said: str) -> None:
    async with connect_in_memory(echo_agent()) as agent:
        session = await agent.open_session(CWD)
        with pytest.raises(TypeError) as caught:
            await call(agent, session)
        assert said in str(caught.value)
        assert await session.ask("hello") == "hello"


async def test_a_command_is_not_connected_in_memory() -> None:
    command: Any = ["my-agent"]
    with pytest.raises(TypeError, match=r"takes an Agent, not \['my-agent'\]; for a command, use: connect"):
        async with connect_in_memory(command):
            pass
