"""MCP servers between a client and its agent: functions that the client offers (`connect(..., tools=[...])`), and
servers that the agent hosts.

An agent with MCP over ACP uses its connection; another one gets an address on loopback, or a command.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any, TypeVar

import msgspec

from dragoman.engine.incoming import Handler
from dragoman.errors import Kind, ProtocolError
from dragoman.schema.mcp import McpForm, McpServer
from dragoman.schema.methods import mcp_methods
from dragoman.schema.side import Side

if TYPE_CHECKING:
    from dragoman.engine.connection import Connection
    from dragoman.mcp.calls import McpCalls
    from dragoman.mcp.connection import ServerConnection
    from dragoman.mcp.listener import Exports
    from dragoman.mcp.over_acp import AcpChannel

Functions = Sequence[Callable[..., Any]] | Mapping[str, Sequence[Callable[..., Any]]]

# The name of the server when the caller gives only functions.
DEFAULT_NAME = "client"

P = TypeVar("P")


class ToolOffers:
    """The functions of one client, as servers."""

    def __init__(self, tools: Functions, connection: Callable[[], Connection]) -> None:
        self._functions = dict(tools) if isinstance(tools, Mapping) else {DEFAULT_NAME: tools} if tools else {}
        self._connection = connection
        self._calls: McpCalls | None = None
        self._exports: Exports | None = None

    def __bool__(self) -> bool:
        return bool(self._functions)

    async def start(self) -> None:
        """Build the servers; the MCP SDK is imported in a thread."""
        if not self._functions:
            return
        from dragoman.mcp.offers import build_server

        for name, functions in self._functions.items():
            self._started().provider.add(await asyncio.to_thread(build_server, name, functions))

    def handlers(self) -> dict[str, Handler]:
        """The handlers of the methods by which an agent uses the servers."""

        def handle(method: str) -> Handler:
            return lambda incoming, done: self._started().handlers()[method](incoming, done)

        return {method: handle(method) for method in mcp_methods(Side.CLIENT)}

    def _started(self) -> McpCalls:
        if self._calls is None:
            from dragoman.mcp.calls import McpCalls

            self._calls = McpCalls(self._connection)
        return self._calls

    def hosted_channel(self, name: str) -> AcpChannel:
        """Return the channel to a server that the agent hosts."""
        return self._started().channel(name, name, spelling="name")

    @asynccontextmanager
    async def open_hosted(self, name: str) -> AsyncIterator[ServerConnection]:
        """Connect to an MCP server that the agent hosts, by its name."""
        from dragoman.mcp.connection import ServerConnection, ServerSettings
        from dragoman.mcp.names import server_key
        from dragoman.policy.redaction import Redactor

        server = ServerConnection(name, server_key(name), self.hosted_channel(name), ServerSettings(), Redactor())
        try:
            await server.open()
            yield server
        finally:
            await server.close()

    async def declare(self, params: P, connection: Connection) -> P:
        """Return the params that open a session, with these servers in the form that the agent takes."""
        named = {server.name for server in getattr(params, "mcp_servers", ())}
        if both := named & set(self._functions):
            raise ProtocolError(
                Kind.INVALID_PARAMS,
                f"there are two MCP servers {sorted(both)[0]!r}: one of the session and one of `tools`; rename one",
            )
        entries = [await self._entry(server, connection) for server in self._started().provider.servers.values()]
        servers = [*getattr(params, "mcp_servers", ()), *entries]
        return msgspec.structs.replace(params, mcp_servers=servers)  # type: ignore[type-var]

    async def _entry(self, server: Any, connection: Connection) -> McpServer:
        if connection.offers("agent.mcpCapabilities.acp"):
            return McpServer(name=server.name, type=McpForm.ACP, server_id=server.server_id)
        if self._exports is None:
            from dragoman.mcp.listener import Exports

            self._exports = Exports()
        has_http = connection.offers("agent.mcpCapabilities.http")
        return await self._exports.entry(server, McpForm.HTTP if has_http else McpForm.STDIO)

    async def close(self) -> None:
        """End the servers."""
        if self._exports is not None:
            await self._exports.close()
        if self._calls is not None:
            await self._calls.close()
