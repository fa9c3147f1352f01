"""A v2 agent behind a translator, or dialed without a named dialect: what others see of it, and how it is found."""

from __future__ import annotations

import asyncio
import json
import os
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from dragoman import connect
from dragoman.agents.everything.agent import everything
from dragoman.dialect.detect import asks_for_next_version
from dragoman.errors import Kind, ProtocolError
from dragoman.roles.client.dial import Dialer
from dragoman.roles.proxy.relay import Relay
from dragoman.transport.memory import MemoryTransport, memory_pair

INFO = {"name": "editor", "version": "1"}


@asynccontextmanager
async def translated(back: MemoryTransport) -> AsyncIterator[Any]:
    """Give a function that sends a request through a translator to a v2 agent at the other end, and its answer."""
    front, theirs = memory_pair()
    dialer = Dialer(back, dialect="v2", cwd=os.getcwd(), report=lambda _: None)
    relay = asyncio.ensure_future(Relay(theirs, dialer, client_dialect="auto", report=lambda _: None).run())
    count = 0

    async def call(method: str, params: Any) -> Any:
        nonlocal count
        count += 1
        front.send(json.dumps({"jsonrpc": "2.0", "id": count, "method": method, "params": params}).encode())
        async with asyncio.timeout(20):
            while True:
                for message in [json.loads(frame) for frame in await front.receive() if isinstance(frame, bytes)]:
                    if message.get("id") == count and "method" not in message:
                        return message["result"]

    try:
        yield call
    finally:
        relay.cancel()
        await asyncio.gather(relay, return_exceptions=True)


async def test_a_draft_client_loads_an_old_session_in_its_own_folder(tmp_path: Path) -> None:
    agent = everything("v2")
    hello = {"protocolVersion": 1, "clientInfo": INFO, "capabilities": {}}
    session = ""
    for attempt in range(2):
        back, inside = memory_pair()
        serving = agent.start_connection(inside, report=lambda _: None)
        async with translated(back) as call:
            await call("initialize", hello)
            if attempt == 0:
                opened = await call("session/new", {"workingDirectory": str(tmp_path), "mcpServers": []})
                session = opened["sessionId"]
                for _ in range(2):
                    await call("session/prompt", {"sessionId": session, "content": [{"type": "text", "text": "hi"}]})
            else:
                loaded = await call("session/load", {"sessionId": session})
                assert (loaded["workingDirectory"], loaded["messageCount"]) == (str(tmp_path), 4)
        await serving.close()


async def test_a_v1_client_gets_no_notes_of_the_translator() -> None:
    back, theirs = memory_pair()

    async def serve() -> None:
        [frame] = await theirs.receive()
        assert isinstance(frame, bytes)
        result = {"protocolVersion": 2, "info": INFO, "capabilities": {"session": {"mcp": {"http": {}}}}}
        theirs.send(json.dumps({"jsonrpc": "2.0", "id": json.loads(frame)["id"], "result": result}).encode())

    serving = asyncio.ensure_future(serve())
    async with translated(back) as call:
        found = await call("initialize", {"protocolVersion": 1, "clientInfo": INFO, "clientCapabilities": {}})
        assert "noStdio" not in json.dumps(found)
        assert found["agentCapabilities"]["mcpCapabilities"] == {"http": True, "acp": False}
    await serving


@pytest.mark.parametrize(
    ("kind", "message", "data", "expected"),
    [
        (Kind.UNSUPPORTED_VERSION, "no", {}, True),
        (Kind.INVALID_PARAMS, "Invalid params", {"errors": [{"type": "missing", "loc": ["info"]}]}, True),
        (Kind.INVALID_PARAMS, "info is missing", {}, True),
        (Kind.INVALID_PARAMS, "clientInfo is missing", {}, False),
        (Kind.INTERNAL_ERROR, "no info", {}, False),
    ],
)
def test_a_refused_initialize_shows_an_agent_of_the_next_version(
    kind: str, message: str, data: dict[str, Any], expected: bool
) -> None:
    assert asks_for_next_version(ProtocolError(kind, message, data)) is expected


AGENT = """\
import json, sys
with open(sys.argv[1], "a") as file:
    file.write("start\\n")
for line in sys.stdin:
    asked = json.loads(line)
    if asked["method"] == "initialize":
        if "info" not in asked["params"]:
            answer = {"error": {"code": -32602, "message": "Invalid params", "data": {"errors": [{"loc": ["info"]}]}}}
        else:
            info = {"name": "late", "version": "1"}
            answer = {"result": {"protocolVersion": 2, "info": info, "capabilities": {"session": {}}}}
        print(json.dumps({"jsonrpc": "2.0", "id": asked["id"], **answer}), flush=True)
"""


async def test_an_agent_that_misses_info_is_asked_in_v2_next(tmp_path: Path) -> None:
    """As agents of the Python SDK 1.0 rc 3 do."""
    program, starts = tmp_path / "agent.py", tmp_path / "starts"
    program.write_text(AGENT)
    async with connect([sys.executable, str(program), str(starts)], cwd=str(tmp_path)) as agent:
        assert agent.info is not None
        assert agent.info.name == "late"
    assert starts.read_text().count("start") == 2
