"""MCP servers at a relay: functions and tables of tools that it offers to the agent, and servers that the client
offers over ACP, served again for an agent that cannot reach them there.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import TYPE_CHECKING, Any

from dragoman.dialect.side_data import side_data_of
from dragoman.engine.background import run_in_background
from dragoman.engine.codec import json_values
from dragoman.engine.incoming import DoneCallback, Handler, Incoming
from dragoman.errors import ProtocolError
from dragoman.mcp.calls import McpCalls
from dragoman.mcp.listener import Exports
from dragoman.mcp.sdk import is_installed, load
from dragoman.mcp.workspace_tools import workspace_table
from dragoman.roles.client.offers import Declaration, Functions, ToolOffers, exported_form
from dragoman.roles.proxy.relay import Relay
from dragoman.schema.base import to_json
from dragoman.schema.mcp import McpForm, McpServer
from dragoman.schema.methods import mcp_methods, methods_that
from dragoman.schema.side import Side

if TYPE_CHECKING:
    from dragoman.mcp.reexport import Reexport
    from dragoman.mcp.tool_table import ToolTable

_OVER_ACP = "agent.mcpCapabilities.acp"


class RelayServers:
    """The MCP servers of the sessions behind one relay."""

    def __init__(self, relay: Relay, tools: Functions = (), *, workspace_tools: bool = False) -> None:
        """With `workspace_tools`, the agent gets the files and terminals of the client as tools."""
        self._relay = relay
        self._workspace_tools = workspace_tools
        self._offers = ToolOffers(tools, lambda: relay.connection_to(Side.AGENT))
        self._client = McpCalls(lambda: relay.client)  # for the servers that the client offers
        self._exports = Exports()
        self._reexports: dict[str, list[Reexport]] = {}  # by session

    @property
    def tables(self) -> list[ToolTable]:
        """The tables of tools that each session gets; add to it before the relay runs."""
        return self._offers.tables

    def claim(self) -> None:
        """Handle what concerns MCP servers, after all other claims."""
        relay = self._relay
        relay.claim(Side.AGENT, "initialize", self._initialize(relay.handler_of(Side.AGENT, "initialize")))
        for method in methods_that("opens", "forks", "reopens"):
            relay.claim(Side.AGENT, method, self._open(relay.handler_of(Side.AGENT, method)))
        for method in methods_that("ends"):
            relay.claim(Side.AGENT, method, self._end(relay.handler_of(Side.AGENT, method)))
        offered = self._offers.handlers()
        for method in mcp_methods(Side.CLIENT):
            forward = relay.handler_of(Side.CLIENT, method)
            relay.claim(Side.CLIENT, method, _either(self._offers.serves, offered[method], forward))
        used = self._client.handlers()
        for method in mcp_methods(Side.AGENT):
            forward = relay.handler_of(Side.AGENT, method)
            relay.claim(Side.AGENT, method, _either(self._client.has_route, used[method], forward))

    async def close(self) -> None:
        """End all servers."""
        for session_id in list(self._reexports):
            await self._end_session(session_id)
        await self._exports.close()
        await self._client.close()
        await self._offers.close()

    # --- initialize -------------------------------------------------------------------------------------------

    def _initialize(self, forward: Handler) -> Handler:
        """Say that servers of the client can be reached over ACP, because they are served again here."""

        async def handle(incoming: Incoming, done: DoneCallback) -> None:
            if self._workspace_tools:
                self._add_workspace_tools()
            await self._offers.start()

            def answer(result: Any, error: ProtocolError | None) -> None:
                done(result if error is not None else self._with_capability(json_values(result)), error)

            work = forward(incoming, answer)
            if work is not None:
                await work

        return handle

    def _add_workspace_tools(self) -> None:
        """Offer what the client offers."""
        client = self._relay.client

        async def call(method: str, params: dict[str, Any]) -> Any:
            return json_values(await client.request(method, params))

        table = workspace_table(
            call,
            reads=client.offers("client.fs.readTextFile"),
            writes=client.offers("client.fs.writeTextFile"),
            runs=client.offers("client.terminal"),
        )
        if table is not None:
            self.tables.append(table)

    def _with_capability(self, values: dict[str, Any]) -> dict[str, Any]:
        agent = self._relay.connection_to(Side.AGENT)
        if agent.offers(_OVER_ACP) or not self._may_reexport():
            return values
        tree = values.get("agentCapabilities") or {}
        servers = {**(tree.get("mcpCapabilities") or {}), "acp": True}
        return {**values, "agentCapabilities": {**tree, "mcpCapabilities": servers}}

    def _may_reexport(self) -> bool:
        agent = self._relay.connection_to(Side.AGENT)
        return not agent.dialect.one_folder and bool(exported_form(agent)) and is_installed()

    # --- sessions ---------------------------------------------------------------------------------------------

    def _open(self, forward: Handler) -> Handler:
        async def handle(incoming: Incoming, done: DoneCallback) -> None:
            agent = self._relay.connection_to(Side.AGENT)  # raises before initialize
            reexports: list[Reexport] = []
            declared = await self._offers.declare(incoming.params, agent)
            incoming.values = await self._with_servers(incoming, declared.params, reexports)
            params = incoming.values

            def answer(result: Any, error: ProtocolError | None) -> None:
                if error is not None:
                    run_in_background(self._drop(declared, reexports))
                else:
                    opened = json_values(result)
                    session_id = str((opened or {}).get("sessionId") or params.get("sessionId") or "")
                    declared.bind(session_id)
                    self._reexports.setdefault(session_id, []).extend(reexports)
                done(result, error)

            work = forward(incoming, answer)
            if work is not None:
                await work

        return handle

    async def _with_servers(self, incoming: Incoming, declared: Any, reexports: list[Reexport]) -> dict[str, Any]:
        """Return the values of the params with the servers that the agent can reach; others stay as they were."""
        values: dict[str, Any] = dict(incoming.values)
        given = list(incoming.params.mcp_servers or ())
        kept = list(values.get("mcpServers") or ())
        if not self._relay.connection_to(Side.AGENT).offers(_OVER_ACP) and self._may_reexport():
            for number, server in enumerate(given):
                if server.form == McpForm.ACP and "agentUrl" not in side_data_of(server):
                    kept[number] = to_json(await self._reexport(server, reexports))
        added = [to_json(server) for server in list(declared.mcp_servers or ())[len(given) :]]
        if reexports or added:
            values["mcpServers"] = [*kept, *added]
        return values

    async def _reexport(self, server: McpServer, reexports: list[Reexport]) -> McpServer:
        """Return the entry under which the agent reaches a server of the client."""
        from dragoman.mcp.reexport import Reexport

        await load(server.name)
        id = str(server.server_id or server.acp_id or "")
        spelling = "server" if server.server_id else "acp_id"
        reexports.append(
            Reexport(server.name, lambda: self._client.channel(server.name, id, spelling=spelling)),
        )
        return await self._exports.entry(reexports[-1].server, exported_form(self._relay.connection_to(Side.AGENT)))

    async def _drop(self, declared: Declaration[Any], reexports: Sequence[Reexport]) -> None:
        """End the servers of a session that was not opened."""
        await declared.withdraw()
        for each in reexports:
            await self._end_reexport(each)

    async def _end_reexport(self, reexport: Reexport) -> None:
        await self._exports.withdraw(reexport.server)
        await reexport.close()

    async def _end_session(self, session_id: str) -> None:
        for each in self._reexports.pop(session_id, ()):
            await self._end_reexport(each)
        await self._offers.end_session(session_id)

    def _end(self, forward: Handler) -> Handler:
        def handle(incoming: Incoming, done: DoneCallback) -> Awaitable[None] | None:
            session_id = str(incoming.values.get("sessionId", ""))

            def answer(result: Any, error: ProtocolError | None) -> None:
                if error is None:
                    run_in_background(self._end_session(session_id))
                done(result, error)

            return forward(incoming, answer)

        return handle


def _either(is_ours: Callable[[Any], bool], ours: Handler, forward: Handler) -> Handler:
    """Return a handler that serves what is ours and forwards the rest."""

    def handle(incoming: Incoming, done: DoneCallback) -> Awaitable[None] | None:
        return ours(incoming, done) if is_ours(incoming.params) else forward(incoming, done)

    return handle
