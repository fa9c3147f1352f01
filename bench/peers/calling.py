"""What MCP tools cost through an agent: `calling SPECIFICATION` prints figures for calls and for opening sessions.

The bare time of a call is that of the same call by the SDK's own client, to the same server.
"""

import asyncio
import json
import sys
from pathlib import Path
from statistics import median
from time import perf_counter
from typing import Any

from mcp import Client, StdioServerParameters

from dragoman import Agent, Turn
from dragoman.schema.mcp import McpServer
from dragoman.testing import connect_in_memory

Figures = dict[str, float]

WARM = 20
SERVER = str(Path(__file__).parents[2] / "tests" / "mcp" / "bare_server.py")
COMMAND = (sys.executable, "-S", SERVER)


def entry(number: int = 0) -> McpServer:
    """Return the entry of the server."""
    return McpServer(name=f"bare{number}", command=COMMAND[0], args=list(COMMAND[1:]), env=[])


async def bare_time(count: int) -> float:
    """Return the seconds of a call by the SDK's client, in the middle."""
    times = []
    async with Client(StdioServerParameters(command=COMMAND[0], args=list(COMMAND[1:])), mode="legacy") as client:
        await client.list_tools()
        for _ in range(WARM + count):
            started = perf_counter()
            await client.call_tool("echo", {"text": "hello"})
            times.append(perf_counter() - started)
    return median(times[WARM:])


async def agent_time(count: int) -> float:
    """Return the seconds of a call through an agent that was allowed to make it, in the middle."""
    agent, times = Agent("caller"), list[float]()

    @agent.prompt
    async def prompt(turn: Turn) -> None:
        for _ in range(WARM + count):
            started = perf_counter()
            await turn.tools.call("bare0", "echo", {"text": "hello"})
            times.append(perf_counter() - started)

    def allow(params: Any) -> str:
        return "allow_always"

    async with connect_in_memory(agent, permission=allow) as remote:
        session = await remote.open_session("/", mcp_servers=[entry()])
        async with session.prompt("go") as turn:
            async for _ in turn:
                pass
    return median(times[WARM:])


async def opening_time(servers: int) -> float:
    """Return the seconds of session/new with so many servers; the SDK is imported before."""
    async with connect_in_memory(Agent("opener")) as remote:
        await remote.open_session("/", mcp_servers=[entry()])
        started = perf_counter()
        await remote.open_session("/", mcp_servers=[entry(number) for number in range(servers)])
        return perf_counter() - started


async def main(work: dict[str, Any]) -> Figures:
    """Run the work and return its figures."""
    bare, through = await bare_time(work["count"]), await agent_time(work["count"])
    one = median([await opening_time(1) for _ in range(3)])
    four = median([await opening_time(4) for _ in range(3)])
    return {
        "bare_us": bare * 1e6,
        "call_us": through * 1e6,
        "call_ratio": through / bare,
        "four_ms": four * 1e3,
        "four_ratio": four / one,
    }


if __name__ == "__main__":
    print(json.dumps(asyncio.run(main(json.loads(sys.argv[1])))))
