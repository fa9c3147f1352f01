"""MCP over ACP with the official TypeScript SDK at the other end, in both directions, with the recorded frames."""

from __future__ import annotations

import asyncio
import json
import sys
from pathlib import Path
from typing import Any

import pytest

from dragoman import connect
from tests.interop.commands import EVERYTHING, peer
from tests.mcp.test_frames import FRAMES, offer, recorded_server, shape

# A program that passes its standard streams to a command and writes each line to a file, with its direction.
TEE = """
import subprocess, sys, threading
child = subprocess.Popen(sys.argv[2:], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
log, lock = open(sys.argv[1], "ab", 0), threading.Lock()
def pump(source, sink, direction):
    for line in source:
        with lock:
            log.write(direction + line)
        sink.write(line)
        sink.flush()
    sink.close()
threading.Thread(target=pump, args=(sys.stdin.buffer, child.stdin, b'>'), daemon=True).start()
pump(child.stdout, sys.stdout.buffer, b'<')
"""


def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


def tapped(path: Path, command: list[str]) -> list[str]:
    """Return a command that runs another and writes all frames to a file."""
    return [sys.executable, "-c", TEE, str(path), *command]


def mcp_frames(path: Path) -> list[Any]:
    """Return the frames of calls of tools: requests and cancels of the agent, notifications and answers of the client.

    The name of the tool is always "echo": the recording has one request only.
    """
    lines = [(line[0], json.loads(line[1:])) for line in path.read_text().splitlines()]
    calls = {
        frame["id"]
        for direction, frame in lines
        if direction == "<" and frame.get("method") == "mcp/message" and frame["params"]["method"] == "tools/call"
    }

    def is_mcp(direction: str, frame: Any) -> bool:
        if direction == ">":
            return frame.get("method") == "mcp/message" or ("method" not in frame and frame.get("id") in calls)
        if frame.get("method") == "$/cancel_request":
            return frame["params"]["requestId"] in calls
        return frame.get("method") == "mcp/message" and frame.get("id") in calls

    found = [frame for direction, frame in lines if is_mcp(direction, frame)]
    for frame in found:
        if frame.get("method") == "mcp/message" and "id" in frame:
            frame["params"]["params"]["name"] = "echo"
    return found


async def test_their_agent_uses_our_functions() -> None:
    async with connect(peer("ts_mcp_agent"), tools=[add]) as agent:
        session = await agent.open_session("/")
        found = json.loads(await session.ask("go"))
    assert found["list"]["result"]["tools"][0]["name"] == "add"
    assert found["call"]["result"]["structuredContent"] == {"result": 5}
    assert found["unknown"]["error"]["code"] == -32601
    assert found["outer"] == -33001


@pytest.mark.item("BR-09", "BR-10")
async def test_the_frames_with_their_agent_are_those_between_two_of_their_ends(tmp_path: Path) -> None:
    log = tmp_path / "frames"
    async with connect(tapped(log, peer("ts_mcp_agent")), tools=[add]) as agent:
        offer(agent, [recorded_server()])
        session = await agent.open_session("/")
        seen = json.loads(await session.ask("frames"))
    assert seen[2:] == [-33002, -32800]
    names = ("request", "progress", "result", "request", "inner error", "request", "outer error", "request")
    assert [shape(frame) for frame in mcp_frames(log)] == [FRAMES[name] for name in (*names, "cancel", "cancelled")]


@pytest.mark.item("BR-09", "BR-10")
async def test_the_frames_with_their_client_are_those_between_two_of_their_ends(tmp_path: Path) -> None:
    log = tmp_path / "frames"
    prompts = [f'/call tools {name} {{"text": "hi"}}' for name in ("echo", "inner", "oops", "wait")]
    prompts.append("/echo bye")  # the answer to the cancelled call comes before it
    command = [*peer("ts_mcp_client"), "\n".join(prompts), *tapped(log, EVERYTHING)]
    process = await asyncio.create_subprocess_exec(*command, stdout=asyncio.subprocess.PIPE)
    output, _ = await asyncio.wait_for(process.communicate(), 120)
    assert "The tool answered.\necho hi" in output.decode()
    frames = mcp_frames(log)
    calls = [frame for frame in frames if frame.get("method") == "mcp/message" and "id" in frame]
    answers = [shape(frame) for frame in frames if "method" not in frame]
    cancels = [shape(frame) for frame in frames if frame.get("method") == "$/cancel_request"]
    assert len(calls) == 4
    for call in calls:
        meta = call["params"]["params"]["_meta"]
        meta["io.modelcontextprotocol/clientCapabilities"] = {}  # ours names what its user can be asked
        assert shape(call) == FRAMES["request"]
    assert answers == [FRAMES[name] for name in ("result", "inner error", "outer error", "cancelled")]
    assert cancels == [FRAMES["cancel"]]
