"""Entries of real MCP servers for tests: the bare server, one of the SDK, and packages from PyPI."""

from __future__ import annotations

import asyncio
import socket
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from dragoman.mcp.connection import ServerConnection, ServerSettings
from dragoman.mcp.names import server_key
from dragoman.mcp.servers import direct_channel
from dragoman.policy.redaction import Redactor, mcp_server_secrets
from dragoman.schema.mcp import McpServer, NameValue

BARE = str(Path(__file__).with_name("bare_server.py"))
KEY = "canary-4f1d-secret"


def bare(name: str = "bare", *arguments: str, **env: str) -> McpServer:
    """Return the entry of the bare server."""
    pairs = [NameValue(name=key, value=value) for key, value in env.items()]
    return McpServer(name=name, command=sys.executable, args=["-S", BARE, *arguments], env=pairs)


def installed(program: str, *arguments: str) -> McpServer:
    """Return the entry of a server that is installed next to this Python."""
    path = Path(sys.executable).with_name(program)
    return McpServer(name=program.removeprefix("mcp-server-"), command=str(path), args=list(arguments), env=[])


@asynccontextmanager
async def open_server(
    server: McpServer, cwd: str = "/", reports: list[str] | None = None, timeout: float = 30.0, **settings: Any
) -> AsyncIterator[ServerConnection]:
    """Connect to one server."""
    notes = [] if reports is None else reports
    connection = ServerConnection(
        server.name,
        server_key(server.name),
        direct_channel(server, cwd, notes.append),
        ServerSettings(**settings),
        Redactor(mcp_server_secrets([server])),
    )
    try:
        await connection.open(timeout)
        yield connection
    finally:
        await connection.close()


def sdk_server(name: str = "sdk") -> Any:
    """Return a server of the official SDK, of both eras."""
    from mcp.server.mcpserver import MCPServer

    server = MCPServer(name)

    @server.tool()
    def add(a: int, b: int) -> int:
        """Add two numbers."""
        return a + b

    @server.resource("memo://one")
    def one() -> str:
        """A memo."""
        return "the memo"

    @server.prompt()
    def review(code: str) -> str:
        """Review code."""
        return f"Please review {code}"

    return server


async def wait_for(condition: Callable[[], object], seconds: float = 20.0) -> None:
    """Wait until something is so."""
    async with asyncio.timeout(seconds):
        while not condition():  # noqa: ASYNC110  (a file or another thread tells nobody)
            await asyncio.sleep(0.01)


@asynccontextmanager
async def serve_app(app: Any) -> AsyncIterator[str]:
    """Serve an ASGI app with its lifespan on loopback; gives its address."""
    import uvicorn

    listening = socket.socket()
    listening.bind(("127.0.0.1", 0))
    listening.listen(64)
    server = uvicorn.Server(uvicorn.Config(app, log_config=None, lifespan="on", timeout_graceful_shutdown=1))
    server.install_signal_handlers = lambda: None  # type: ignore[attr-defined]
    task = asyncio.create_task(server.serve(sockets=[listening]))
    await wait_for(lambda: server.started)
    try:
        yield f"http://127.0.0.1:{listening.getsockname()[1]}"
    finally:
        server.should_exit = True
        await task
