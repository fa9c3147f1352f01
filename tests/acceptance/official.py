"""The messages of an official v1 client and agent, and one turn."""

from __future__ import annotations

import asyncio

from dragoman import Turn
from dragoman.testing import ScriptedPeer
from tests.acceptance.wire import Json, serve

CWD = "/home/user/project"
ALL = {"fs": {"readTextFile": True, "writeTextFile": True}, "terminal": True}
INFO = {"name": "editor", "version": "1.0"}
SESSION = "sess_1"


def hello(capabilities: Json = None, **more: Json) -> Json:
    """Return the params of initialize."""
    offered = ALL if capabilities is None else capabilities
    return {"protocolVersion": 1, "clientInfo": INFO, "clientCapabilities": offered, **more}


def introduction(**capabilities: Json) -> Json:
    """Return the result of initialize."""
    info = {"name": "agent", "version": "1.0"}
    return {"protocolVersion": 1, "agentInfo": info, "agentCapabilities": capabilities, "authMethods": []}


def prompt(session: str, text: str) -> Json:
    return {"sessionId": session, "prompt": [{"type": "text", "text": text}]}


async def begin(peer: ScriptedPeer, capabilities: Json = None, cwd: str = CWD, **more: Json) -> str:
    """Initialize and open a session; return its id."""
    await peer.request("hello", "initialize", hello(capabilities))
    answer = await peer.request("new", "session/new", {"cwd": cwd, "mcpServers": [], **more})
    return str(answer["result"]["sessionId"])


async def run_prompt(peer: ScriptedPeer, session: str, text: str) -> tuple[list[Json], Json]:
    """Return the updates of one turn and the frame that ends it."""
    start = len(peer.received)
    answer = await peer.request("turn", "session/prompt", prompt(session, text))
    frames = [frame for frame in peer.received[start:] if frame.get("method") == "session/update"]
    assert {frame["params"]["sessionId"] for frame in frames} <= {session}
    return [frame["params"]["update"] for frame in frames], answer


async def open_session(peer: ScriptedPeer, result: Json = None, **capabilities: Json) -> Json:
    """Play the agent's part up to an open session; return the params of session/new."""
    await serve(peer, "initialize", introduction(**capabilities))
    return (await serve(peer, "session/new", {"sessionId": SESSION, **(result or {})}))["params"]


def text(words: str) -> Json:
    """Return a text block."""
    return {"type": "text", "text": words}


async def hold(turn: Turn) -> None:
    """Send one text and then nothing."""
    await turn.say("Working")
    await asyncio.get_running_loop().create_future()
