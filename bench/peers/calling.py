"""What MCP tools cost through an agent: `calling SPECIFICATION` prints figures for calls and for opening sessions.

The bare time of a call is that of the same call by the SDK's own client, to the same server.
"""

import asyncio
import json
import sys
from collections.abc import Sequence
from pathlib import Path
from statistics import median
from time import perf_counter
from typing import Any

from mcp import Client, StdioServerParameters

from dragoman import Agent, Turn
from dragoman.schema.mcp import McpServer
from dragoman.testing import connect_in_memory
from dragoman.transport.base import Transport
from dragoman.transport.memory import memory_pair

Figures = dict[str, float]

WARM = 1  # blocks that are not counted
BLOCK = 25  # calls in a row of one kind
STARTS = (0.2, 0.4, 0.6, 0.8)  # seconds until a server answers; those of npm and PyPI take 0.4 to 3
SERVER = str(Path(__file__).parents[2] / "tests" / "mcp" / "bare_server.py")
COMMAND = (sys.executable, "-S", SERVER)


def entry(number: int = 0, delay: float = 0.0) -> McpServer:
    """Return the entry of the server; with a delay it does not answer before."""
    late = ["late", str(delay)] if delay else []
    return McpServer(name=f"bare{number}", command=COMMAND[0], args=[*COMMAND[1:], *late], env=[])


class BareClient:
    """A client that only reads frames, so that its own work is not counted."""

    def __init__(self, transport: Transport) -> None:
        self._transport = transport

    async def result(self, id: int, method: str, params: dict[str, Any]) -> Any:
        """Send a request and return its result; allow what is asked meanwhile, for good."""
        self._send({"id": id, "method": method, "params": params})
        while True:
            for frame in await self._transport.receive():
                assert isinstance(frame, bytes)
                if b'"session/request_permission"' in frame:
                    outcome = {"outcome": "selected", "optionId": "allow_always"}
                    self._send({"id": json.loads(frame)["id"], "result": {"outcome": outcome}})
                elif b'"method"' not in frame:
                    return json.loads(frame)["result"]

    def _send(self, message: dict[str, Any]) -> None:
        self._transport.send(json.dumps({"jsonrpc": "2.0", **message}).encode())


async def call_times(count: int) -> tuple[float, float]:
    """Return the seconds of a call by the SDK's client, and through an agent that was allowed to make it: medians.

    They alternate in blocks, so that a load of the machine meets both.
    """
    agent, bare, through = Agent("caller"), list[float](), list[float]()
    parameters = StdioServerParameters(command=COMMAND[0], args=list(COMMAND[1:]))
    async with Client(parameters, mode="legacy") as sdk:
        await sdk.list_tools()

        @agent.prompt
        async def prompt(turn: Turn) -> None:
            for _ in range(WARM + count // BLOCK):
                for _ in range(BLOCK):
                    started = perf_counter()
                    await sdk.call_tool("echo", {"text": "hello"})
                    bare.append(perf_counter() - started)
                for _ in range(BLOCK):
                    started = perf_counter()
                    await turn.tools.call("bare0", "echo", {"text": "hello"})
                    through.append(perf_counter() - started)

        ours, theirs = memory_pair()
        connection = agent.start_connection(theirs)
        client = BareClient(ours)
        info = {"name": "bench", "version": "1"}
        await client.result(1, "initialize", {"protocolVersion": 1, "clientCapabilities": {}, "clientInfo": info})
        server = {"name": "bare0", "command": COMMAND[0], "args": list(COMMAND[1:]), "env": []}
        session = (await client.result(2, "session/new", {"cwd": "/", "mcpServers": [server]}))["sessionId"]
        await client.result(3, "session/prompt", {"sessionId": session, "prompt": [{"type": "text", "text": "go"}]})
        await connection.close()
    return median(bare[WARM * BLOCK :]), median(through[WARM * BLOCK :])


async def opening_time(delays: Sequence[float]) -> float:
    """Return the seconds of session/new with servers that take so long to start; the SDK is imported before."""
    async with connect_in_memory(Agent("opener")) as remote:
        await remote.open_session("/", mcp_servers=[entry()])
        servers = [entry(number, delay) for number, delay in enumerate(delays)]
        started = perf_counter()
        await remote.open_session("/", mcp_servers=servers)
        return perf_counter() - started


async def main(work: dict[str, Any]) -> Figures:
    """Run the work and return its figures."""
    bare, through = await call_times(work["count"])
    alone, together = list[float](), list[float]()
    for _ in range(3):
        alone.append(await opening_time(STARTS[-1:]))
        together.append(await opening_time(STARTS))
    slowest, four = median(alone), median(together)
    return {
        "bare_us": bare * 1e6,
        "call_us": through * 1e6,
        "call_ratio": through / bare,
        "four_ms": four * 1e3,
        "four_ratio": four / slowest,
    }


if __name__ == "__main__":
    print(json.dumps(asyncio.run(main(json.loads(sys.argv[1])))))
