"""What the MCP layer costs an agent that has no servers: nothing; and what a killed agent leaves: nothing."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from dragoman import connect
from tests.mcp.servers import bare, wait_for

SCRIPT = """
import asyncio, sys
from dragoman.agents.everything.agent import everything
from dragoman.testing import connect_in_memory

async def main():
    async with connect_in_memory(everything()) as agent:
        session = await agent.open_session("/")
        await session.ask("/echo hello")
    print(*sys.modules)

asyncio.run(main())
"""


def test_an_agent_without_servers_loads_no_module_of_mcp() -> None:
    ran = subprocess.run([sys.executable, "-c", SCRIPT], capture_output=True, text=True, timeout=60, check=True)
    loaded = ran.stdout.split()
    foreign = {"mcp", "mcp_types", "anyio", "httpx2", "pydantic", "starlette"}
    assert [name for name in loaded if name.split(".")[0] in foreign] == []
    assert [name for name in loaded if name.startswith("dragoman.mcp.") and name != "dragoman.mcp.sdk"] == []


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


@pytest.mark.item("004-56")
async def test_no_credential_is_in_a_log_a_recording_or_an_export(tmp_path: Path) -> None:
    from dragoman.store.sqlite.store import SqliteStore
    from tests.mcp.servers import KEY

    command = [sys.executable, "-m", "dragoman", "agent", "everything"]
    store = SqliteStore(str(tmp_path / "sessions.db"))
    seen: list[str] = []
    try:
        async with connect(command, permission="allow", store=store) as agent:
            session = await agent.open_session("/", mcp_servers=[bare(KEY=KEY)])
            for tool in ("environment", "error", "exit"):
                seen.append(await session.ask(f"/call bare {tool} {{}}"))
            lines = await store.lines(str(session.log_id))
            seen += [json.dumps([str(line) for line in lines])]
    finally:
        await store.close()
    assert "[redacted]" in seen[0]
    assert all(KEY not in text for text in seen)
