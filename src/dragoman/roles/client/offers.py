"""MCP servers between a client and its agent: functions that the client offers (`connect(..., tools=[...])`), tables
of tools for each session, and servers that the agent hosts.

An agent with MCP over ACP uses its connection; another one gets an address on loopback, or a command.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Collection, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any, Generic, TypeVar

import msgspec

from dragoman.dialect.side_data import side_data_of
from dragoman.engine.background import run_in_background
from dragoman.engine.incoming import Handler
from dragoman.errors import Kind, ProtocolError
from dragoman.policy.redaction import mcp_server_secrets
from dragoman.schema.mcp import McpForm, McpServer
from dragoman.schema.methods import mcp_methods
from dragoman.schema.side import Side

if TYPE_CHECKING:
    from dragoman.engine.connection import Connection
    from dragoman.mcp.calls import McpCalls
    from dragoman.mcp.connection import ServerConnection
    from dragoman.mcp.listener import Exports
    from dragoman.mcp.offers import OfferedServer
    from dragoman.mcp.over_acp import AcpChannel
    from dragoman.mcp.tool_table import SessionSlot, ToolTable

Functions = Sequence[Callable[..., Any]] | Mapping[str, Sequence[Callable[..., Any]]]

# The name of the server when the caller gives only functions.
DEFAULT_NAME = "client"

P = TypeVar("P")


class Declaration(Generic[P]):
    """The params that open a session, with the servers that are offered in it."""

    def __init__(
        self, params: P, offers: ToolOffers, slot: SessionSlot | None, servers: Sequence[OfferedServer]
    ) -> None:
        self.params = params
        self._offers = offers
        self._slot = slot
        self._servers = servers

    def bind(self, session_id: str) -> None:
        """Tell the servers which session they belong to."""
        if self._slot is not None:
            self._slot.bind(session_id)
            self._offers.keep_for_session(session_id, self._servers)

    async def withdraw(self) -> None:
        """End the servers, because the session was not opened."""
        for server in self._servers:
            await self._offers.end_server(server)


class ToolOffers:
    """The functions of one client, as servers, and its tables of tools, as a server for each session."""

    def __init__(self, tools: Functions, connection: Callable[[], Connection]) -> None:
        self._functions = dict(tools) if isinstance(tools, Mapping) else {DEFAULT_NAME: tools} if tools else {}
        if self._functions:
            from dragoman.mcp.functions import check_tools  # few clients need it

            for functions in self._functions.values():
                check_tools(functions)
        self._connection = connection
        self.tables: list[ToolTable] = []
        self.over_acp = True  # whether an agent may use them over its connection
        self.on_secrets: Callable[[Iterable[str]], None] = lambda values: None  # gets tokens, to redact them
        self._calls: McpCalls | None = None
        self._exports: Exports | None = None
        self._loading: asyncio.Task[None] | None = None
        self._by_session: dict[str, Sequence[OfferedServer]] = {}

    def __bool__(self) -> bool:
        return bool(self._functions or self.tables)

    async def start(self) -> None:
        """Build the servers of functions; the MCP SDK is imported in a thread, for tables while the agent starts."""
        if self.tables:
            from dragoman.mcp.sdk import is_installed, load

            if is_installed():
                self._loading = asyncio.create_task(load())
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

    def serves(self, params: Any) -> bool:
        """Return whether a call of the agent by these params is for one of the servers."""
        return self._calls is not None and self._calls.provider.serves(params)

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

    async def declare(self, params: P, connection: Connection) -> Declaration[P]:
        """Return the params that open a session, with these servers in the form that the agent takes."""
        if not self:
            return Declaration(params, self, None, ())
        named = {server.name for server in getattr(params, "mcp_servers", ())}
        if both := named & set(self._functions):
            raise ProtocolError(
                Kind.INVALID_PARAMS,
                f"there are two MCP servers {sorted(both)[0]!r}: one of the session and one of `tools`; rename one",
            )
        offered = [self._started().provider.servers[id] for id in self._function_ids()]
        slot, of_session = await self._session_servers(named, connection)
        entries = [await self._entry(server, connection) for server in (*offered, *of_session)]
        servers = [*getattr(params, "mcp_servers", ()), *(entry for entry in entries if entry is not None)]
        replaced: P = msgspec.structs.replace(params, mcp_servers=servers)  # type: ignore[type-var]
        return Declaration(replaced, self, slot, of_session)

    def _function_ids(self) -> list[str]:
        servers = self._started().provider.servers
        return [id for id, server in servers.items() if server.name in self._functions]

    async def _session_servers(
        self, taken: Collection[str], connection: Connection
    ) -> tuple[SessionSlot | None, list[OfferedServer]]:
        """Build the servers of the tables for a new session; a name that is taken is left to its server."""
        tables = [table for table in self.tables if table.name not in taken and table.name not in self._functions]
        if not tables or connection.dialect.one_folder:
            return None, []
        if self._loading is None:
            from dragoman.mcp.sdk import HOW_TO_INSTALL

            names = ", ".join(table.name for table in tables)
            connection.sender.report_once(f"the agent gets no tools of {names}: {HOW_TO_INSTALL}")
            return None, []
        from dragoman.mcp.tool_table import SessionSlot, build_table_server

        await self._loading
        slot = SessionSlot()
        servers = [await asyncio.to_thread(build_table_server, table, slot) for table in tables]
        for server in servers:
            self._started().provider.add(server)
        return slot, servers

    async def _entry(self, server: OfferedServer, connection: Connection) -> McpServer | None:
        if self.over_acp and connection.offers("agent.mcpCapabilities.acp"):
            return McpServer(name=server.name, type=McpForm.ACP, server_id=server.server_id)
        form = exported_form(connection)
        if not form:
            connection.sender.report_once(f"the agent gets no tools of {server.name}: it takes no MCP servers")
            return None
        if self._exports is None:
            from dragoman.mcp.listener import Exports

            self._exports = Exports()
        entry = await self._exports.entry(server, form)
        self.on_secrets(mcp_server_secrets([entry]))
        return entry

    def keep_for_session(self, session_id: str, servers: Sequence[OfferedServer]) -> None:
        """Remember which servers end with a session; those that it had before end now."""
        before, self._by_session[session_id] = self._by_session.get(session_id, ()), servers
        for server in before:
            run_in_background(self.end_server(server))

    async def end_session(self, session_id: str) -> None:
        """End the servers of a session."""
        for server in self._by_session.pop(session_id, ()):
            await self.end_server(server)

    async def end_server(self, server: OfferedServer) -> None:
        """Stop offering a server."""
        if self._exports is not None:
            await self._exports.withdraw(server)
        await self._started().provider.remove(server)

    async def close(self) -> None:
        """End the servers."""
        if self._loading is not None:
            await asyncio.wait([self._loading])  # an import in a thread cannot be cancelled
        if self._exports is not None:
            await self._exports.close()
        if self._calls is not None:
            await self._calls.close()


def exported_form(connection: Connection) -> str:
    """Return the form in which an agent without MCP over ACP takes a server; "" if it takes none."""
    if connection.offers("agent.mcpCapabilities.http"):
        return McpForm.HTTP
    return "" if side_data_of(connection.peer.capabilities).get("noStdio") else McpForm.STDIO
