"""What the MCP layer costs an agent that has no servers: nothing; and what a killed agent leaves: nothing."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from dragoman import Agent, Turn, connect
from dragoman.agents.everything.agent import everything
from dragoman.mcp import sdk, toolbox
from dragoman.mcp.sdk import import_sdk
from dragoman.schema.initialize import AgentCapabilities, McpCapabilities
from dragoman.schema.mcp import McpServer, NameValue
from dragoman.store.sqlite.store import SqliteStore
from dragoman.testing import connect_in_memory
from tests.mcp.servers import KEY, bare, sdk_server, serve_app, wait_for
from tests.mcp.test_over_acp import add

SCRIPT = """
import asyncio, sys
from dragoman.agents.everything.agent import everything
from dragoman.schema.initialize import AgentCapabilities, McpCapabilities
from dragoman.schema.mcp import McpServer, NameValue
from dragoman.store.sqlite.store import SqliteStore
from dragoman.testing import connect_in_memory

async def main():
    async with connect_in_memory(everything()) as agent:
        session = await agent.open_session("/")
        await session.ask("/echo hello")
    print(*sys.modules)

asyncio.run(main())
"""


@pytest.mark.item("BR-01")
def test_an_agent_without_servers_loads_no_module_of_mcp() -> None:
    ran = subprocess.run([sys.executable, "-c", SCRIPT], capture_output=True, text=True, timeout=60, check=True)
    loaded = ran.stdout.split()
    foreign = {"mcp", "mcp_types", "anyio", "httpx2", "pydantic", "starlette"}
    assert [name for name in loaded if name.split(".")[0] in foreign] == []
    assert [name for name in loaded if name.startswith("dragoman.mcp.") and name != "dragoman.mcp.sdk"] == []


@pytest.mark.item("BR-01")
async def test_the_import_goes_on_beside_the_start_of_the_servers(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The import waits for the processes of both servers, which would not be there if they waited for the import."""
    started = [tmp_path / "one", tmp_path / "two"]
    together: list[bool] = []

    def import_late() -> None:
        deadline = time.monotonic() + 20
        while not all(path.exists() for path in started) and time.monotonic() < deadline:
            time.sleep(0.01)
        together.append(all(path.exists() for path in started))
        import_sdk()

    monkeypatch.setattr(sdk, "_is_loaded", False)
    monkeypatch.setattr(sdk, "import_sdk", import_late)
    monkeypatch.setattr(toolbox, "OPEN_GRACE", 60.0)
    async with connect_in_memory(everything(), permission="allow") as agent:
        servers = [bare(path.name, "spawn", str(path)) for path in started]
        session = await agent.open_session("/", mcp_servers=servers)
        assert "1" in await session.ask('/call one echo {"text": "1"}')
    assert together
    assert all(together)


@pytest.mark.item("BR-02")
async def test_a_killed_agent_leaves_no_server(tmp_path: Path) -> None:
    pids = tmp_path / "pids"
    command = [sys.executable, "-m", "dragoman", "agent", "everything"]
    async with connect(command, permission="allow") as agent:
        await agent.open_session("/", mcp_servers=[bare("s", "spawn", str(pids))])
        await wait_for(pids.exists)
        started = [int(pid) for pid in pids.read_text().split()]
        parent = int(Path(f"/proc/{started[0]}/stat").read_text().rpartition(")")[2].split()[1])
        os.kill(parent, signal.SIGKILL)
        await wait_for(lambda: not any(_is_alive(pid) for pid in started))
    assert len(started) == 2


def _is_alive(pid: int) -> bool:
    try:
        status = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return False
    return status.rpartition(")")[2].split()[0] != "Z"


def echo_headers(ctx):  # type: ignore[no-untyped-def]  # the SDK reads the annotation at run time
    """Return the headers of the request."""
    return str(dict(ctx.request_context.request.headers))


@pytest.mark.item("004-56", "BR-06")
async def test_no_header_or_token_is_in_an_answer_a_log_a_recording_or_an_export(tmp_path: Path) -> None:
    """A server echoes its header; an agent says the token by which it reaches a server of its client."""
    from mcp.server.mcpserver import Context

    echo_headers.__annotations__["ctx"] = Context
    echoing = sdk_server("echoing")
    echoing.add_tool(echo_headers)
    agent = Agent("leaky", mcp_http=True, capabilities=AgentCapabilities(mcp_capabilities=McpCapabilities(http=True)))
    tokens: list[str] = []

    @agent.prompt
    async def act(turn: Turn) -> None:
        await turn.say((await turn.tools.call("echoing", "echo_headers")).text)
        own = next(server for server in turn.session.mcp_servers if server.name == "client")
        tokens.append((own.headers or [])[0].value)
        await turn.say(f"my token is {tokens[0]}")

    secret: list[str] = []
    store, recording = SqliteStore(str(tmp_path / "sessions.db")), tmp_path / "talk.ndjson"
    try:
        async with serve_app(echoing.streamable_http_app()) as address:
            headers = [NameValue(name="X-Key", value=KEY)]
            server = McpServer(name="echoing", type="http", url=f"{address}/mcp", headers=headers)
            async with connect_in_memory(
                agent, permission="allow", store=store, trace=recording, tools=[add]
            ) as remote:
                remote.on_secrets = secret.extend
                session = await remote.open_session("/", mcp_servers=[server])
                said = await session.ask("go")
                lines = [str(line) for line in await store.lines(str(session.log_id))]
    finally:
        await store.close()
    (token,) = {value.removeprefix("Bearer ") for value in tokens}
    assert token in "".join(secret), "what shows text to the user learns the token"
    assert "x-key" in said.lower()
    assert KEY not in said
    stored = "".join(lines) + (tmp_path / "sessions.db").read_bytes().decode("utf-8", "replace")
    assert "[redacted]" in stored
    assert KEY not in stored
    recorded = recording.read_text()
    assert recorded.count("[redacted]") > 2
    assert KEY not in recorded
    assert token not in recorded
