"""A client in raw JSON before one of our agents, in any dialect: all it says is written by hand."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from dragoman import Agent
from dragoman.transport.memory import memory_pair
from tests.acceptance.draft import Raw, run

__all__ = ["CWD", "Raw", "opened", "prompted", "run", "served", "updates"]

CWD = "/home/user/project"
INFO = {"name": "editor", "version": "1"}


def introduction(dialect: str, capabilities: Any) -> dict[str, Any]:
    """The params of initialize."""
    match dialect:
        case "v1" | "banjo":
            return {"protocolVersion": 1, "clientInfo": INFO, "clientCapabilities": capabilities}
        case "draft":
            return {"protocolVersion": 1, "clientInfo": INFO, "capabilities": capabilities}
        case "2025.1":
            return {
                "protocol_version": "2025.1",
                "client_info": INFO,
                "capabilities": capabilities,
                "working_directory": CWD,
                "mcp_servers": [],
            }
        case _:
            return {"protocol_version": 1, "client_info": INFO, "client_capabilities": capabilities}


@asynccontextmanager
async def served(agent: Agent, dialect: str = "v1", capabilities: Any = None) -> AsyncIterator[Raw]:
    """Our agent, and a raw client that has introduced itself; `introduced` is what it was answered."""
    ours, theirs = memory_pair()
    connection = agent.start_connection(theirs)
    client = Raw(ours)
    try:
        await client.result("initialize", introduction(dialect, capabilities or {}))
        yield client
    finally:
        await connection.close()


async def opened(client: Raw, **members: Any) -> str:
    """A new session of a v1 or banjo client."""
    return str((await client.result("session/new", {"cwd": CWD, "mcpServers": [], **members}))["sessionId"])


async def prompted(client: Raw, session: str, *blocks: Any) -> Any:
    """Prompt as a v1 client does; gives the whole answer."""
    prompt = [{"type": "text", "text": block} if isinstance(block, str) else block for block in blocks or ("go",)]
    return await client.call("session/prompt", {"sessionId": session, "prompt": prompt})


def updates(client: Raw, kind: str) -> list[Any]:
    """The v1 updates of one kind that were heard, in order."""
    told = [params["update"] for params in client.said("session/update")]
    return [update for update in told if update["sessionUpdate"] == kind]
