"""An ACP agent as an MCP server, driven by the official MCP client, over stdio, HTTP and in process."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from dragoman.bridge.mcp.agent_server import build_agent_server
from dragoman.bridge.mcp.agent_sessions import AgentSessions
from dragoman.config.config_file import NamedAgent

EVERYTHING = NamedAgent(name="everything", command=sys.executable, args=("-m", "dragoman", "agent", "everything"))


@asynccontextmanager
async def host(agent: NamedAgent = EVERYTHING, **options: Any) -> AsyncIterator[Any]:
    """Connect the official MCP client with our server, in process."""
    from mcp import Client

    sessions = AgentSessions({agent.name: agent}, agent.name, None)
    try:
        async with Client(build_agent_server(sessions), **options) as client:
            yield client
    finally:
        await sessions.close_all()


async def call(client: Any, tool: str, **arguments: Any) -> dict[str, Any]:
    """Call a tool; return its structured result."""
    result = await client.call_tool(tool, arguments)
    assert not result.is_error, result.content
    found = result.structured_content
    assert isinstance(found, dict)
    return found


@pytest.mark.item("BR-13")
async def test_a_session_is_opened_prompted_read_and_closed(tmp_path: Path) -> None:
    async with host() as client:
        names = {tool.name for tool in (await client.list_tools()).tools}
        assert names == {"agents", "open", "prompt", "wait", "answer", "cancel", "sessions", "read", "close"}
        assert (await call(client, "agents"))["agents"][0]["name"] == "everything"
        session = (await call(client, "open", cwd=str(tmp_path)))["session"]
        lines: list[str] = []

        async def on_progress(progress: float, total: float | None, message: str | None) -> None:
            lines.append(message or "")

        (tmp_path / "a.txt").write_text("hello")
        result = await client.call_tool("prompt", {"session": session, "text": "/plan"}, progress_callback=on_progress)
        done = result.structured_content
        assert (done["state"], done["stopReason"]) == ("done", "end_turn")
        echoed = await call(client, "prompt", session=session, text="/echo back")
        assert echoed["text"] == "back"
        read = await call(client, "read", session=session)
        assert read["entries"][-1]["text"] == "back"
        assert (await call(client, "read", session=session, after=read["next"]))["entries"] == []
        resource = await client.read_resource(f"acp://sessions/{session}/transcript")
        assert "back" in resource.contents[0].text
        assert len((await call(client, "sessions"))["sessions"]) == 1
        await call(client, "close", session=session)
        assert (await call(client, "sessions"))["sessions"] == []
        gone = await client.call_tool("prompt", {"session": session, "text": "?"})
        assert gone.is_error


async def test_the_host_reads_why_a_tool_failed(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    from mcp import MCPError

    async with host() as client:
        unknown = await client.call_tool("prompt", {"session": "nope", "text": "hi"})
        no_folder = await client.call_tool("open", {"cwd": str(tmp_path / "nonexistent")})
        no_session = await client.call_tool("wait", {"sessions": ["nope", "neither"]})
        with pytest.raises(MCPError, match="nope"):
            await client.read_resource("acp://sessions/nope/transcript")
    assert all(each.is_error for each in (unknown, no_folder, no_session))
    assert "nope" in unknown.content[0].text
    assert "nonexistent" in no_folder.content[0].text
    assert "nope" in no_session.content[0].text
    assert "Traceback" not in capfd.readouterr().err


@pytest.mark.item("BR-13")
async def test_a_long_turn_is_not_lost_and_can_be_cancelled(tmp_path: Path) -> None:
    async with host() as client:
        session = (await call(client, "open", cwd=str(tmp_path)))["session"]
        running = await call(client, "prompt", session=session, text="/slow 0.5", wait=0.05)
        assert running["state"] == "running"
        busy = await client.call_tool("prompt", {"session": session, "text": "?"})
        assert busy.is_error
        done = await call(client, "wait", sessions=[session], wait=20)
        assert (done["state"], done["stopReason"]) == ("done", "end_turn")
        await call(client, "prompt", session=session, text="/slow 100", wait=0.05)
        cancelled = await call(client, "cancel", session=session)
        assert (cancelled["state"], cancelled["stopReason"]) == ("done", "cancelled")


# An agent that writes a file through its client without asking first, and then waits to be cancelled.
WRITER = """
import asyncio
from dragoman import Agent, ProtocolError
agent = Agent("writer")
@agent.prompt
async def answer(turn):
    try:
        await turn.files.write(f"{turn.session.cwd}/note.txt", "hello")
    except ProtocolError:
        await asyncio.Event().wait()
agent.run()
"""


@pytest.mark.parametrize(
    "agent", [EVERYTHING, NamedAgent(name="writer", command=sys.executable, args=("-c", WRITER))], ids=lambda a: a.name
)
async def test_a_turn_that_asks_is_done_when_it_was_cancelled(agent: NamedAgent, tmp_path: Path) -> None:
    async with host(agent) as client:
        session = (await call(client, "open", cwd=str(tmp_path)))["session"]
        for _ in range(2):
            asking = await call(client, "prompt", session=session, text="/write note.txt hello")
            assert asking["state"] == "asking"
            cancelled = await call(client, "cancel", session=session)
            assert (cancelled["state"], cancelled["stopReason"]) == ("done", "cancelled")
            assert "question" not in cancelled
    assert not (tmp_path / "note.txt").exists()


@pytest.mark.item("BR-13")
async def test_a_permission_request_waits_for_the_host(tmp_path: Path) -> None:
    async with host() as client:
        session = (await call(client, "open", cwd=str(tmp_path)))["session"]
        asking = await call(client, "prompt", session=session, text="/write note.txt hello")
        assert asking["state"] == "asking"
        question = asking["question"]
        assert "note.txt" in question["text"]
        wrong = await client.call_tool("answer", {"session": session, "question": question["id"], "option": "maybe"})
        assert wrong.is_error
        options = [option["id"] for option in question["options"]]
        allow = next(option for option in options if option.startswith("allow"))
        state = await call(client, "answer", session=session, question=question["id"], option=allow)
        while state["state"] != "done":
            if state["state"] == "asking":
                state = await call(
                    client, "answer", session=session, question=state["question"]["id"],
                    option=next(o["id"] for o in state["question"]["options"] if o["id"].startswith("allow")),
                )  # fmt: skip
            else:
                state = await call(client, "wait", sessions=[session], wait=20)
    assert (tmp_path / "note.txt").read_text().startswith("hello")


@pytest.mark.item("BR-13")
async def test_a_host_with_elicitation_asks_its_user(tmp_path: Path) -> None:
    from mcp_types import ElicitResult

    asked: list[str] = []

    async def elicit(context: Any, params: Any) -> ElicitResult:
        asked.append(params.message)
        names = params.requested_schema["properties"]["option"]["enum"]
        refusal = next(name for name in names if name in ("Reject", "Deny"))
        return ElicitResult(action="accept", content={"option": refusal})

    async with host(mode="legacy", elicitation_callback=elicit) as client:
        session = (await call(client, "open", cwd=str(tmp_path)))["session"]
        done = await call(client, "prompt", session=session, text="/write note.txt hello")
    assert done["state"] == "done"
    assert "note.txt" in asked[0]
    assert not (tmp_path / "note.txt").exists()


@pytest.mark.item("BR-13")
@pytest.mark.parametrize("mode", ["auto", "legacy"])
async def test_the_command_is_a_server_on_stdio_for_both_eras(tmp_path: Path, mode: str) -> None:
    from mcp import Client, StdioServerParameters

    arguments = ["-m", "dragoman", "mcp", "--", sys.executable, "-m", "dragoman", "agent", "everything"]
    env = {"XDG_CONFIG_HOME": str(tmp_path), "XDG_STATE_HOME": str(tmp_path), "XDG_DATA_HOME": str(tmp_path)}
    server = StdioServerParameters(command=sys.executable, args=arguments, env=env)
    async with Client(server, mode=mode) as client:
        session = (await call(client, "open", cwd=str(tmp_path)))["session"]
        assert (await call(client, "prompt", session=session, text="/echo hi"))["text"] == "hi"


@asynccontextmanager
async def http_command(folder: Path) -> AsyncIterator[tuple[str, str]]:
    """Run `dragoman mcp --http 0`; give the address and the token that it prints, and end it as a user does."""
    env = {"XDG_CONFIG_HOME": str(folder), "XDG_STATE_HOME": str(folder), "XDG_DATA_HOME": str(folder)}
    agent = [sys.executable, "-m", "dragoman", "agent", "everything"]
    command = [sys.executable, "-m", "dragoman", "mcp", "--http", "0", "--", *agent]
    process = await asyncio.create_subprocess_exec(*command, env=os.environ | env, stderr=asyncio.subprocess.PIPE)
    assert process.stderr is not None
    try:
        async with asyncio.timeout(60):
            url = (await process.stderr.readline()).decode().strip()
            header = (await process.stderr.readline()).decode().strip()
        yield url, header.removeprefix("Authorization: Bearer ")
    finally:
        process.send_signal(signal.SIGINT)
        async with asyncio.timeout(60):
            await process.stderr.read()
            assert await process.wait() == 130


@pytest.mark.item("BR-13")
@pytest.mark.parametrize("mode", ["auto", "legacy"])
async def test_the_command_is_a_server_over_http_for_both_eras(tmp_path: Path, mode: str) -> None:
    import httpx2
    from mcp import Client
    from mcp.client.streamable_http import streamable_http_client

    async with http_command(tmp_path) as (url, token), httpx2.AsyncClient(timeout=60) as http:
        assert (await http.post(url, json={})).status_code == 401
        assert (await http.post(url, json={}, headers={"Authorization": f"Bearer {token}x"})).status_code == 401
        http.headers["Authorization"] = f"Bearer {token}"
        assert (await http.post(url, json={}, headers={"Origin": "https://example.com"})).status_code == 403
        async with Client(streamable_http_client(url, http_client=http), mode=mode) as client:
            assert (client.protocol_version == "2026-07-28") == (mode == "auto")
            session = (await call(client, "open", cwd=str(tmp_path)))["session"]
            assert (await call(client, "prompt", session=session, text="/echo hi"))["text"] == "hi"
            running = await call(client, "prompt", session=session, text="/slow 0.5", wait=0.05)
            assert running["state"] == "running"
        async with Client(streamable_http_client(url, http_client=http), mode=mode) as client:  # a host that returns
            done = await call(client, "wait", sessions=[session], wait=30)
            assert (done["state"], done["stopReason"]) == ("done", "end_turn")
