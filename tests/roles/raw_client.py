"""A client in raw JSON for our agents, in any dialect."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from dragoman import Agent
from dragoman.transport.memory import memory_pair
from tests.acceptance.draft import Raw, run

__all__ = ["CWD", "Raw", "new_session", "prompt_and_wait", "raw_connection", "run", "updates"]

CWD = "/home/user/project"
INFO = {"name": "editor", "version": "1"}


def initialize_params(dialect: str, capabilities: Any) -> dict[str, Any]:
    """Return the params of initialize."""
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
async def raw_connection(agent: Agent, dialect: str = "v1", capabilities: Any = None) -> AsyncIterator[Raw]:
    """Connect our agent and an initialized raw client; `introduced` is the answer to initialize."""
    ours, theirs = memory_pair()
    connection = agent.start_connection(theirs)
    client = Raw(ours)
    try:
        await client.result("initialize", initialize_params(dialect, capabilities or {}))
        yield client
    finally:
        await connection.close()


async def new_session(client: Raw, **members: Any) -> str:
    """Open a session as a v1 or banjo client; return its id."""
    return str((await client.result("session/new", {"cwd": CWD, "mcpServers": [], **members}))["sessionId"])


async def prompt_and_wait(client: Raw, session: str, *blocks: Any) -> Any:
    """Prompt as a v1 client; return the whole answer."""
    prompt = [{"type": "text", "text": block} if isinstance(block, str) else block for block in blocks or ("go",)]
    return await client.call("session/prompt", {"sessionId": session, "prompt": prompt})


def updates(client: Raw, kind: str) -> list[Any]:
    """Return the v1 updates of one kind, in order."""
    updates = [params["update"] for params in client.params_of("session/update")]
    return [update for update in updates if update["sessionUpdate"] == kind]
