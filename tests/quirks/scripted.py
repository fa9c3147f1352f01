"""Scripted agents for our client and scripted clients for our agent: one peculiarity of a peer at a time."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from dragoman import Agent, RemoteAgent
from dragoman.testing import ScriptedPeer
from tests.acceptance.wire import Part, agent_played, client_of
from tests.acceptance.wire import result as result
from tests.acceptance.wire import serve as serve

BOUND = 20.0
SESSION = "s1"


def run(work: Any) -> Any:
    """Run a test's coroutine, within bounds."""

    async def bounded() -> Any:
        async with asyncio.timeout(BOUND):
            return await work

    return asyncio.run(bounded())


def error(asked: dict[str, Any], value: dict[str, Any]) -> dict[str, Any]:
    """The refusal of a request that was received."""
    return {"jsonrpc": "2.0", "id": asked["id"], "error": value}


def update(tag: str, session: str = SESSION, /, **members: Any) -> dict[str, Any]:
    """A session/update."""
    params = {"sessionId": session, "update": {"sessionUpdate": tag, **members}}
    return {"jsonrpc": "2.0", "method": "session/update", "params": params}


def chunk(text: str, session: str = SESSION) -> dict[str, Any]:
    """A piece of what the agent says."""
    return update("agent_message_chunk", session, content={"type": "text", "text": text})


def whole(part: Part) -> Part:
    """A part that is played while the client waits for the answer to `_end`."""

    async def played(peer: ScriptedPeer) -> None:
        asked = await peer.expect(method="_end")
        await part(peer)
        peer.send(result(asked, {}))

    return played


@asynccontextmanager
async def client(part: Part, introduction: dict[str, Any] | None = None, **options: Any) -> AsyncIterator[RemoteAgent]:
    """Connect our client to a raw agent that answers initialize; its part must run to its end."""

    async def play(peer: ScriptedPeer) -> None:
        await serve(peer, "initialize", {"protocolVersion": 1, **(introduction or {})})
        await part(peer)

    async with agent_played(play, **options) as agent:
        yield agent


@asynccontextmanager
async def in_session(part: Part, **options: Any) -> AsyncIterator[Any]:
    """Our client with a session open; the part begins after session/new was answered."""

    async def serve_session(peer: ScriptedPeer) -> None:
        await serve(peer, "session/new", {"sessionId": SESSION})
        await part(peer)

    async with client(serve_session, **options) as agent:
        session = await agent.open_session("/")
        session.remote = agent  # type: ignore[attr-defined]
        yield session


@asynccontextmanager
async def agent_served(agent: Agent, introduction: dict[str, Any] | None = None) -> AsyncIterator[ScriptedPeer]:
    """Connect a raw client to our agent, and initialize it."""
    async with client_of(agent) as peer:
        await peer.request("hello", "initialize", {"protocolVersion": 1, **(introduction or {})})
        yield peer


async def open_session(peer: ScriptedPeer, cwd: str = "/") -> str:
    """A session of our agent."""
    answer = await peer.request("new", "session/new", {"cwd": cwd, "mcpServers": []})
    return str(answer["result"]["sessionId"])


def prompting(session: str, id: Any = "prompt", text: str = "go") -> dict[str, Any]:
    """A prompt."""
    params = {"sessionId": session, "prompt": [{"type": "text", "text": text}]}
    return {"jsonrpc": "2.0", "id": id, "method": "session/prompt", "params": params}


FILES_AND_TERMINALS = {"clientCapabilities": {"fs": {"readTextFile": True, "writeTextFile": True}, "terminal": True}}
