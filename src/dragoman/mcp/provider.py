"""MCP over ACP, the side that offers servers: answers the peer in all four spellings, told apart by their members.

Errors of the outer protocol and of MCP are kept apart (docs/protocol/extensions.md#mcp-over-acp).
"""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import Awaitable, Callable, Coroutine, Iterable
from typing import Any

from dragoman.engine.incoming import DoneCallback, Handler, Incoming
from dragoman.errors import ConnectionFailed, ForeignError, ProtocolError
from dragoman.mcp.offers import HandlerFailed, OfferedServer, StreamSession, has_envelope, with_envelope
from dragoman.mcp.over_acp import AcpPeer
from dragoman.schema.base import UNSET
from dragoman.schema.mcp import (
    ConnectMcpResult,
    DisconnectMcpResult,
    DraftMcpRequestParams,
    MessageMcpParams,
)

# Codes of the outer protocol: invalid or repeated, cancelled, too many at once, no such server, the server failed.
MALFORMED, CANCELLED, LIMIT, NO_SERVER, FAILED = -32602, -32800, -33000, -33001, -33002

# Requests of one peer at once, and connections: what both official SDKs allow.
MAX_REQUESTS = 64


class Provider:
    """The servers that one end of an ACP connection offers to the other."""

    def __init__(self, peer: Callable[[], AcpPeer], servers: Iterable[OfferedServer] = ()) -> None:
        self.servers: dict[str, OfferedServer] = {}
        self._peer = peer
        self._active: set[tuple[str, str]] = set()
        self._connections: dict[str, tuple[OfferedServer, StreamSession | None]] = {}
        self._named: dict[str, StreamSession] = {}
        self._running = 0
        for server in servers:
            self.add(server)

    def add(self, server: OfferedServer) -> None:
        """Offer a server, before it is declared to the peer."""
        self.servers[server.server_id] = server

    def serves(self, params: Any) -> bool:
        """Return whether a call by these params is for one of the servers, in any spelling."""
        ids = {getattr(params, name, None) for name in ("server_id", "acp_id")}
        return (
            any(id in self.servers for id in ids if isinstance(id, str))
            or getattr(params, "connection_id", None) in self._connections
            or any(server.name == getattr(params, "server_name", None) for server in self.servers.values())
        )

    async def remove(self, server: OfferedServer) -> None:
        """Stop offering a server and end it; its id is never used again."""
        self.servers.pop(server.server_id, None)
        mine = [id for id, (each, _) in self._connections.items() if each is server]
        sessions = [self._connections.pop(id)[1] for id in mine]
        if not any(each.name == server.name for each in self.servers.values()):
            sessions.append(self._named.pop(server.name, None))
        for session in sessions:
            if session is not None:
                await session.close()
        await server.close()

    def handlers(self) -> dict[str, Handler]:
        """The handlers of the methods by which a peer uses the servers."""
        return {
            "mcp/connect": lambda incoming, done: self._answer(self._connect(incoming.params), done),
            "mcp/disconnect": lambda incoming, done: self._answer(self._disconnect(incoming.params), done),
            "mcp/message": self._on_message,
            "_mcp/request": self._on_draft_request,
        }

    async def close(self) -> None:
        """End all sessions with the servers, and the servers."""
        sessions = [session for _, session in self._connections.values() if session is not None]
        for session in (*sessions, *self._named.values()):
            await session.close()
        for server in self.servers.values():
            await server.close()

    @staticmethod
    async def _answer(work: Coroutine[Any, Any, Any], done: DoneCallback) -> None:
        done(await work, None)

    def _on_message(self, incoming: Incoming, done: DoneCallback) -> Awaitable[None]:
        params = incoming.params
        if params.form == "connection":
            return self._answer(self._connection_message(params, incoming.is_request), done)
        return self._answer(self._server_message(params, incoming.is_request), done)

    def _on_draft_request(self, incoming: Incoming, done: DoneCallback) -> Awaitable[None]:
        return self._answer(self._draft_message(incoming.params, incoming.is_request), done)

    # --- by server: today's spelling --------------------------------------------------------------------------

    async def _server_message(self, params: MessageMcpParams, is_request: bool) -> Any:
        if not isinstance(params.server_id, str) or not isinstance(params.request_id, str):
            raise ForeignError(MALFORMED, "mcp/message needs serverId and requestId, or connectionId")
        if not is_request:
            raise ForeignError(MALFORMED, "an agent sends mcp/message as a request")
        server = self._find(params.server_id)
        key = (params.server_id, params.request_id)
        if key in self._active:
            raise ForeignError(MALFORMED, f"the MCP request {params.request_id!r} is active already")

        def notify(method: str, values: dict[str, Any] | None) -> None:
            if key in self._active:
                message = MessageMcpParams(
                    server_id=key[0], request_id=key[1], method=method, params=UNSET if values is None else values
                )
                self._send(message)

        self._active.add(key)
        try:
            result = await self._limited(server.request(params.method, params.params or None, notify))
        except HandlerFailed as error:
            raise ForeignError(FAILED, "MCP server handler failed", {"details": error.details}) from None
        except asyncio.CancelledError:
            raise ForeignError(CANCELLED, "Request cancelled") from None
        except ForeignError as error:
            if error.code == LIMIT:
                raise
            more = {} if error.raw_data is None else {"data": error.raw_data}
            return {"error": {"code": error.code, "message": error.message, **more}}
        finally:
            self._active.discard(key)
        return {"result": result}

    def _find(self, server_id: str) -> OfferedServer:
        server = self.servers.get(server_id)
        if server is None:
            raise ForeignError(NO_SERVER, f"there is no MCP server {server_id!r} on this connection")
        return server

    async def _limited(self, work: Coroutine[Any, Any, Any]) -> Any:
        if self._running >= MAX_REQUESTS:
            work.close()
            raise ForeignError(LIMIT, f"more than {MAX_REQUESTS} MCP requests at once; try again later")
        self._running += 1
        try:
            return await work
        finally:
            self._running -= 1

    def _send(self, message: Any, method: str = "mcp/message") -> None:
        try:
            self._peer().notify(method, message)
        except (ConnectionFailed, ProtocolError):
            return  # nobody is left to be told

    # --- by connection: the older spellings -------------------------------------------------------------------

    async def _connect(self, params: Any) -> ConnectMcpResult:
        server = self._find(str(params.server_id or params.acp_id or ""))
        if len(self._connections) >= MAX_REQUESTS:
            raise ForeignError(LIMIT, f"more than {MAX_REQUESTS} MCP connections; close one")
        connection = f"mcp-connection:{uuid.uuid4()}"
        self._connections[connection] = (server, None)
        return ConnectMcpResult(connection_id=connection)

    async def _disconnect(self, params: Any) -> DisconnectMcpResult:
        _, session = self._connections.pop(params.connection_id, (None, None))
        if session is not None:
            await session.close()
        return DisconnectMcpResult()

    async def _connection_message(self, params: MessageMcpParams, is_request: bool) -> Any:
        connection = str(params.connection_id)
        if connection not in self._connections:
            raise ForeignError(MALFORMED, f"there is no MCP connection with connectionId {connection!r}")
        server, session = self._connections[connection]

        def message_of(method: str, values: dict[str, Any] | None) -> MessageMcpParams:
            return MessageMcpParams(connection_id=connection, method=method, params=UNSET if values is None else values)

        values = params.params or None
        if is_request and has_envelope(values) and params.method != "initialize":
            return await self._modern(
                server, params.method, values, lambda method, more: self._send(message_of(method, more))
            )
        if session is None:
            session = StreamSession(
                server,
                lambda method, more: self._send(message_of(method, more)),
                lambda method, more: self._peer().request("mcp/message", message_of(method, more)),
            )
            self._connections[connection] = (server, session)
        return await self._in_session(session, params.method, values, is_request)

    async def _modern(self, server: OfferedServer, method: str, values: Any, notify: Any) -> Any:
        try:
            return await self._limited(server.request(method, values, notify))
        except HandlerFailed as error:
            raise ForeignError(-32603, "MCP server handler failed", {"details": error.details}) from None

    async def _in_session(self, session: StreamSession, method: str, values: Any, is_request: bool) -> Any:
        if is_request:
            return await self._limited(session.request(method, values))
        await session.notify(method, values)
        return None

    # --- by name: the draft's plan ----------------------------------------------------------------------------

    async def _draft_message(self, params: DraftMcpRequestParams, is_request: bool) -> Any:
        server = next((each for each in self.servers.values() if each.name == params.server_name), None)
        if server is None:
            raise ForeignError(NO_SERVER, f"there is no MCP server {params.server_name!r} on this connection")
        method = params.mcp_method
        values = params.mcp_params if isinstance(params.mcp_params, dict) else None

        def message_of(name: str, more: dict[str, Any] | None) -> DraftMcpRequestParams:
            return DraftMcpRequestParams(
                server_name=server.name, mcp_method=name, mcp_params=UNSET if more is None else more
            )

        def notify(name: str, more: dict[str, Any] | None) -> None:
            self._send(message_of(name, more), "_mcp/request")

        session = self._named.get(server.name)
        if method == "initialize":
            if session is not None:
                await session.close()
            session = self._named[server.name] = StreamSession(
                server, notify, lambda name, more: self._peer().request("_mcp/request", message_of(name, more))
            )
        if session is None or has_envelope(values):
            if not is_request:
                return None
            return await self._modern(server, method, with_envelope(values), notify)
        return await self._in_session(session, method, values, is_request)
