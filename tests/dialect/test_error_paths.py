"""A fault is where the peer put it: paths in errors are spelled as the call was."""

from __future__ import annotations

from typing import Any

import pytest

from dragoman import Agent, Turn
from dragoman.testing import ScriptedPeer
from dragoman.transport.memory import memory_pair

OPENINGS: dict[str, dict[str, Any]] = {
    "v1": {"protocolVersion": 1, "clientCapabilities": {}},
    "draft": {"protocolVersion": 1, "clientInfo": {"name": "c", "version": "1"}, "capabilities": {}},
    "crow": {"protocol_version": 1, "client_capabilities": {}},
    "2025.1": {"protocol_version": "2025.1", "capabilities": {}, "working_directory": "/", "mcp_servers": []},
}

BLOCKS = [{"type": "text"}, {"type": "image"}, {"type": "resource"}]

CASES = [
    ("v1", "session/new", {"cwd": 5, "mcpServers": []}, ["cwd"]),
    ("draft", "session/new", {"workingDirectory": 5}, ["workingDirectory"]),
    ("draft", "session/new", {"workingDirectory": "there"}, ["workingDirectory"]),
    ("draft", "session/set_mode", {"sessionId": "s"}, ["mode"]),
    (
        "draft",
        "session/prompt",
        {"sessionId": "s", "content": BLOCKS},
        ["content[0].text", "content[1].source.data", "content[1].source.mediaType", "content[2].uri"],
    ),
    ("crow", "session/prompt", {"prompt": []}, ["session_id"]),
    ("2025.1", "session/new", {"session_id": 4}, ["session_id"]),
    (
        "2025.1",
        "session/prompt",
        {"session_id": "s", "content": BLOCKS},
        ["content[0].text", "content[1].data", "content[1].format", "content[2].uri"],
    ),
]


@pytest.mark.parametrize(("dialect", "method", "params", "paths"), CASES)
async def test_the_paths_of_errors_match_the_request(
    dialect: str, method: str, params: dict[str, Any], paths: list[str]
) -> None:
    agent = Agent("strict", version="1")

    @agent.prompt
    async def answer(turn: Turn) -> None: ...

    ours, theirs = memory_pair()
    serving = agent.start_connection(theirs)
    client = ScriptedPeer(ours)
    await client.request(1, "initialize", OPENINGS[dialect])
    error = (await client.request(2, method, params))["error"]
    assert [fault["path"] for fault in error["data"]["errors"]] == paths
    assert error["message"].startswith(f"{paths[0]} ")
    await serving.close()
