"""The messages of a 2025.1 client and agent as in the document, and one turn."""

from __future__ import annotations

import asyncio

from dragoman import Turn
from dragoman.testing import ScriptedPeer
from tests.acceptance.wire import Json

PROJECT = "/home/user/project"
ALL = {"text_files": True, "terminal": True, "experimental": {}}
PNG, WAV = "iVBORw0KGgo=", "UklGRg=="


def hello(capabilities: Json = None, cwd: str = PROJECT, **more: Json) -> Json:
    """Return the params of initialize as in the document."""
    return {
        "protocol_version": "2025.1",
        "client_info": {"name": "my-editor", "version": "1.0.0"},
        "capabilities": ALL if capabilities is None else capabilities,
        "working_directory": cwd,
        "mcp_servers": [],
        **more,
    }


def introduction(**capabilities: Json) -> Json:
    """Return the result of initialize as in the document."""
    offered = {"streaming": True, "audio": False, "image": True, "supported_modes": ["agent", "ask"], **capabilities}
    return {"agent_info": {"name": "my-agent", "version": "1.0.0"}, "capabilities": offered}


def prompt(text: str, session: str = "abc123") -> Json:
    return {"session_id": session, "content": [{"type": "text", "text": text}]}


async def begin(peer: ScriptedPeer, capabilities: Json = None, cwd: str = PROJECT, mode: str = "agent") -> Json:
    """Initialize and open a session; return the answer to initialize."""
    answer = await peer.request(1, "initialize", hello(capabilities, cwd))
    assert (await peer.request(2, "session/new", {"session_id": "abc123", "mode": mode}))["result"]["status"] == "ok"
    return answer["result"]


async def run_prompt(peer: ScriptedPeer, text: str, id: int = 9) -> tuple[list[Json], Json]:
    """Return the updates of one turn, as type and data, and the frame that ends it."""
    start = len(peer.received)
    answer = await peer.request(id, "session/prompt", prompt(text))
    updates = [frame["params"] for frame in peer.received[start:] if frame.get("method") == "session/update"]
    assert {update["session_id"] for update in updates} <= {"abc123"}
    return [(update["type"], update["data"]) for update in updates], answer


BLOCKS: list[Json] = [
    {"type": "text", "text": "Hello, world!"},
    {"type": "image", "format": "png", "data": PNG},
    {"type": "audio", "format": "wav", "data": WAV},
    {"type": "resource", "uri": "file:///path/to/file", "mime_type": "text/plain", "content": "file contents..."},
    {"type": "resource_link", "uri": "file:///path/to/file", "mime_type": "text/plain"},
]


async def hold(turn: Turn) -> None:
    await turn.say("Working")
    await asyncio.get_running_loop().create_future()
