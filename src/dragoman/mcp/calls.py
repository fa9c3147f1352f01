"""The calls of MCP over ACP that one end of a connection gets: for servers it offers, and from servers it uses."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable
from typing import Any

from dragoman.engine.incoming import DoneCallback, Handler, Incoming
from dragoman.mcp.offers import OfferedServer
from dragoman.mcp.over_acp import AcpChannel, AcpPeer, McpRoutes
from dragoman.mcp.provider import Provider


class McpCalls:
    """Both directions of MCP over one ACP connection."""

    def __init__(self, peer: Callable[[], AcpPeer], servers: Iterable[OfferedServer] = ()) -> None:
        self._peer = peer
        self.provider = Provider(peer, servers)
        self.routes = McpRoutes()

    def handlers(self) -> dict[str, Handler]:
        """The handlers of all methods of MCP over ACP."""
        offered = self.provider.handlers()
        return {**offered, "mcp/message": self._on_message, "_mcp/request": self._on_draft_request}

    def has_route(self, params: Any) -> bool:
        """Return whether a message of the peer belongs to a server of it that is used here."""
        routes = self.routes
        key = (getattr(params, "server_id", None), getattr(params, "request_id", None))
        return (
            key in routes.requests
            or getattr(params, "connection_id", None) in routes.connections
            or getattr(params, "server_name", None) in routes.names
        )

    def _on_message(self, incoming: Incoming, done: DoneCallback) -> Awaitable[None] | None:
        params = incoming.params
        if self.has_route(params):
            return self._pass_on(self.routes.message(params, incoming.is_request), done)
        if not incoming.is_request and params.form != "connection":
            return None  # of a request that has ended
        return self.provider.handlers()["mcp/message"](incoming, done)

    def _on_draft_request(self, incoming: Incoming, done: DoneCallback) -> Awaitable[None] | None:
        if self.has_route(incoming.params):
            return self._pass_on(self.routes.draft_message(incoming.params, incoming.is_request), done)
        return self.provider.handlers()["_mcp/request"](incoming, done)

    @staticmethod
    async def _pass_on(work: Awaitable[object], done: DoneCallback) -> None:
        done(await work, None)

    def channel(self, name: str, server_id: str, *, spelling: str = "server") -> AcpChannel:
        """Return a channel to a server that the peer offers."""
        return AcpChannel(name, server_id, self._peer(), self.routes, spelling=spelling)

    async def close(self) -> None:
        """End the servers that were offered."""
        await self.provider.close()
