"""Scripted agents for our client and scripted clients for our agent: one peculiarity of a peer at a time."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

from dragoman import Agent, RemoteAgent, connect
from dragoman.testing import ScriptedPeer
from dragoman.transport.memory import memory_pair

BOUND = 20.0
SESSION = "s1"

Part = Callable[[ScriptedPeer], Awaitable[None]]


def run(work: Any) -> Any:
    """Run a test's coroutine, within bounds."""

    async def bounded() -> Any:
        async with asyncio.timeout(BOUND):
            return await work

    return asyncio.run(bounded())


def result(asked: dict[str, Any], value: Any) -> dict[str, Any]:
    """The answer to a request that was received."""
    return {"jsonrpc": "2.0", "id": asked["id"], "result": value}


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


async def serve(peer: ScriptedPeer, method: str, value: Any) -> dict[str, Any]:
    """Expect a request and answer it."""
    asked = await peer.expect(method=method)
    peer.send(result(asked, value))
    return asked


def whole(part: Part) -> Part:
    """A part that is played while the client waits for the answer to `_end`."""

    async def played(peer: ScriptedPeer) -> None:
        asked = await peer.expect(method="_end")
        await part(peer)
        peer.send(result(asked, {}))

    return played


@asynccontextmanager
async def client(part: Part, introduction: dict[str, Any] | None = None, **options: Any) -> AsyncIterator[RemoteAgent]:
    """Our client, connected to an agent that introduces itself and then plays its part, which must come to its end."""
    ours, theirs = memory_pair()
    peer = ScriptedPeer(theirs)

    async def play() -> None:
        try:
            await serve(peer, "initialize", {"protocolVersion": 1, **(introduction or {})})
            await part(peer)
        except BaseException as fault:  # the client must not wait for an agent that left its part
            await theirs.close(repr(fault))
            raise

    playing = asyncio.ensure_future(play())
    try:
        async with connect(ours, **options) as agent:
            yield agent
            await playing
    finally:
        if not playing.done():
            playing.cancel()
        elif (fault := playing.exception()) is not None:
            raise fault


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
    """Our agent, served to a scripted client that has introduced itself."""
    ours, theirs = memory_pair()
    connection = agent.start_connection(ours)
    peer = ScriptedPeer(theirs)
    try:
        await peer.request("hello", "initialize", {"protocolVersion": 1, **(introduction or {})})
        yield peer
    finally:
        await connection.close()


async def open_session(peer: ScriptedPeer, cwd: str = "/") -> str:
    """A session of our agent."""
    answer = await peer.request("new", "session/new", {"cwd": cwd, "mcpServers": []})
    return str(answer["result"]["sessionId"])


def prompting(session: str, id: Any = "prompt", text: str = "go") -> dict[str, Any]:
    """A prompt."""
    params = {"sessionId": session, "prompt": [{"type": "text", "text": text}]}
    return {"jsonrpc": "2.0", "id": id, "method": "session/prompt", "params": params}


FILES_AND_TERMINALS = {"clientCapabilities": {"fs": {"readTextFile": True, "writeTextFile": True}, "terminal": True}}
