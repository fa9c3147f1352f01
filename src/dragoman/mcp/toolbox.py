"""The MCP servers of one session: opened side by side, closed together, never shared with another session.

A server that fails costs its own tools only. It is tried once more at its first use.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from typing import Any, TypeVar

import msgspec

from dragoman.errors import Kind, ProtocolError
from dragoman.mcp.channel import Channel
from dragoman.mcp.connection import OnProgress, ServerConnection, ServerSettings
from dragoman.mcp.limits import OPEN_GRACE, OPEN_TIMEOUT
from dragoman.mcp.names import server_keys
from dragoman.mcp.results import McpPrompt, McpResource, McpResult, McpTool, PromptMessage
from dragoman.mcp.sdk import ServerFailed
from dragoman.mcp.servers import server_timeout
from dragoman.policy.redaction import Redactor, mcp_server_secrets
from dragoman.schema.content import EmbeddedResource
from dragoman.schema.mcp import McpServer

T = TypeVar("T")

MakeChannel = Callable[[McpServer, Callable[[str], None]], Channel]


class ServerStatus(msgspec.Struct, frozen=True, kw_only=True):
    """One server of a session: whether it can be used, and if not, why."""

    name: str
    form: str
    is_open: bool
    version: str = ""  # of MCP
    failure: str = ""


class _Server:
    """One server: its entry, its current connection, and whether it was tried again."""

    def __init__(self, entry: McpServer, key: str) -> None:
        self.entry = entry
        self.key = key
        self.connection: ServerConnection | None = None
        self.failure: ServerFailed | None = None
        self.opening: asyncio.Task[None] | None = None
        self.was_retried = False


class Toolbox:
    """The servers of one session."""

    def __init__(
        self,
        servers: Sequence[McpServer],
        make_channel: MakeChannel,
        settings: ServerSettings,
        *,
        report: Callable[[str, str], None] | None = None,
        on_failed: Callable[[ServerFailed], None] | None = None,
        on_changed: Callable[[str], None] | None = None,
    ) -> None:
        """`report` gets a server and what it did, `on_failed` each failure, `on_changed` the name of a changed list."""
        self.entries = list(servers)
        self.redactor = Redactor(mcp_server_secrets(servers))
        keys = server_keys(server.name for server in servers)
        self._servers = {server.name: _Server(server, keys[server.name]) for server in servers}
        self._make_channel = make_channel
        self._settings = settings
        self._report = report
        self._on_failed = on_failed
        self._on_changed = on_changed
        self._is_closed = False

    def __len__(self) -> int:
        return len(self._servers)

    # --- opening and closing ----------------------------------------------------------------------------------

    async def open(self, grace: float = OPEN_GRACE) -> None:
        """Open all servers side by side and wait for them, but not longer than `grace` seconds."""
        for server in self._servers.values():
            self._start(server)
        tasks = [server.opening for server in self._servers.values() if server.opening is not None]
        if tasks:
            await asyncio.wait(tasks, timeout=grace)

    def _start(self, server: _Server) -> asyncio.Task[None]:
        server.failure = None
        server.opening = asyncio.create_task(self._open_server(server), name=f"open MCP server {server.entry.name}")
        return server.opening

    async def _open_server(self, server: _Server) -> None:
        entry = server.entry
        try:
            channel = self._make_channel(entry, lambda text: self._note(entry.name, text))
            settings = msgspec.structs.replace(self._settings, timeout=server_timeout(entry))
            server.connection = ServerConnection(
                entry.name, server.key, channel, settings, self.redactor, self._on_changed
            )
            await server.connection.open(OPEN_TIMEOUT)
            if self._on_changed is not None:
                self._on_changed("prompts")
        except ServerFailed as error:
            server.failure = error
            if self._on_failed is not None:
                self._on_failed(error)

    def _note(self, server: str, text: str) -> None:
        if self._report is not None:
            self._report(server, self.redactor.redact_text(text))

    async def close(self) -> None:
        """Close all servers and end what they started."""
        self._is_closed = True
        for server in self._servers.values():
            if server.opening is not None:
                server.opening.cancel()
        closing = [server.connection.close() for server in self._servers.values() if server.connection is not None]
        await asyncio.gather(*closing, return_exceptions=True)

    # --- what the servers offer -------------------------------------------------------------------------------

    def status(self) -> list[ServerStatus]:
        """Return the state of each server."""
        return [
            ServerStatus(
                name=name,
                form=server.entry.form,
                is_open=server.connection is not None and server.connection.is_open,
                version="" if server.connection is None else server.connection.version,
                failure=_failure_of(server),
            )
            for name, server in self._servers.items()
        ]

    async def list_tools(self) -> list[McpTool]:
        """Return the tools of all servers that can be used; no two have the same name."""
        found = await self._collect(lambda connection: connection.list_tools())
        names: set[str] = set()
        tools: list[McpTool] = []
        for tool in found:
            name, number = tool.name, 1
            while name in names:
                number += 1
                name = f"{tool.name[:60]}_{number}"
            names.add(name)
            tools.append(tool if name == tool.name else msgspec.structs.replace(tool, name=name))
        return tools

    async def list_resources(self) -> list[McpResource]:
        """Return the resources of all servers that can be used."""
        return await self._collect(lambda connection: connection.list_resources())

    async def list_prompts(self) -> list[McpPrompt]:
        """Return the prompts of all servers that can be used."""
        return await self._collect(lambda connection: connection.list_prompts())

    async def list_open_prompts(self) -> list[McpPrompt]:
        """Return the prompts of the servers that are open now."""
        waiting = {name for name, server in self._servers.items() if server.opening and not server.opening.done()}
        return await self._collect(lambda connection: connection.list_prompts(), skip=waiting)

    def key_of(self, name: str) -> str:
        """Return what stands for a server in the names of its tools."""
        return self._find(name).key

    async def _collect(
        self, fetch: Callable[[ServerConnection], Awaitable[list[T]]], skip: Collection[str] = ()
    ) -> list[T]:
        """Return the lists of all servers, in order; a server that fails adds nothing."""

        async def one(server: _Server) -> list[T]:
            try:
                return await fetch(await self._usable(server, retries=False))
            except ServerFailed as error:
                self._note(server.entry.name, error.why)
                return []

        lists = await asyncio.gather(*(one(server) for name, server in self._servers.items() if name not in skip))
        return [entry for entries in lists for entry in entries]

    async def find_tool(self, server: str, tool: str = "") -> McpTool:
        """Return a tool by its server and its name there, or by its name for models. Raise resource_not_found."""
        held = self._servers.get(server)
        if tool and held is not None and held.connection is not None and held.connection.is_open:
            known_tool = held.connection.known_tools.get(tool)  # most calls: nothing has to be asked
            if known_tool is not None:
                return known_tool
        for known in await self.list_tools():
            if (known.name == server and not tool) or (known.server == server and known.tool == tool):
                return known
        if tool and server in self._servers:
            await self._usable(self._servers[server])  # raises what is wrong with the server
            for known in await self.list_tools():
                if known.server == server and known.tool == tool:
                    return known
        wanted = f"{server}/{tool}" if tool else server
        raise ProtocolError(
            Kind.RESOURCE_NOT_FOUND,
            f"there is no MCP tool {wanted!r}; list them to see their names",
            {"server": server, "tool": tool},
        )

    # --- calls ------------------------------------------------------------------------------------------------

    async def call(
        self,
        tool: McpTool,
        arguments: Mapping[str, Any],
        *,
        timeout: float | None = None,
        on_progress: OnProgress | None = None,
    ) -> McpResult:
        """Call a tool of one of the servers; raise ServerFailed if the server cannot be used."""
        connection = await self._usable(self._find(tool.server))
        return await connection.call(tool.tool, arguments, timeout=timeout, on_progress=on_progress)

    async def read(self, server: str, uri: str) -> list[EmbeddedResource]:
        """Read a resource; raise ServerFailed."""
        return await (await self._usable(self._find(server))).read(uri)

    async def get_prompt(self, server: str, name: str, arguments: Mapping[str, str]) -> list[PromptMessage]:
        """Return the messages of a prompt; raise ServerFailed."""
        return await (await self._usable(self._find(server))).get_prompt(name, arguments)

    def _find(self, name: str) -> _Server:
        server = self._servers.get(name)
        if server is None:
            known = ", ".join(self._servers) or "none"
            raise ProtocolError(
                Kind.RESOURCE_NOT_FOUND, f"this session has no MCP server {name!r}; it has: {known}", {"server": name}
            )
        return server

    async def _usable(self, server: _Server, *, retries: bool = True) -> ServerConnection:
        """Return the connection of a server once it is open; open it once more if it failed."""
        if server.opening is not None and not server.opening.done():
            await asyncio.wait([server.opening], timeout=OPEN_TIMEOUT)
        connection = server.connection
        if connection is not None and connection.is_open:
            return connection
        if retries and not server.was_retried and not self._is_closed:
            server.was_retried = True
            if connection is not None:
                await connection.close()
            await asyncio.wait([self._start(server)], timeout=OPEN_TIMEOUT)
            connection = server.connection
            if connection is not None and connection.is_open:
                return connection
        raise server.failure or (connection and connection.failure) or ServerFailed(server.entry.name, "not connected")


def _failure_of(server: _Server) -> str:
    connection = server.connection
    failure = server.failure or (connection.failure if connection is not None else None)
    return failure.why if failure is not None else ""
