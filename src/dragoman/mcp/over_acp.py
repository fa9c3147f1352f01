"""MCP over ACP, the side that uses a server: a channel through the ACP connection to a server that the peer offers.

Four spellings (docs/protocol/extensions.md#mcp-over-acp): by server, by connection with two names for the id, and
_mcp/request. It begins with today's and falls back to what the peer understands.
"""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from typing import Any, Protocol

from msgspec import UNSET

from dragoman.errors import ConnectionFailed, ForeignError, Kind, ProtocolError
from dragoman.mcp.limits import OPEN_TIMEOUT
from dragoman.mcp.sdk import load
from dragoman.schema.mcp import ConnectMcpParams, DisconnectMcpParams, DraftMcpRequestParams, MessageMcpParams

# Errors by which a peer says that it has no such method or form.
_NO_SUCH_FORM = frozenset({Kind.METHOD_NOT_FOUND, Kind.CAPABILITY_UNSUPPORTED})

# How long the peer may take to close a connection; nothing depends on its answer. Seconds.
_DISCONNECT_TIMEOUT = 2.0

_NO_METHOD = -32601

# What a server without server/discover is taken to offer; a list that it does not have is empty.
_DISCOVERED: dict[str, Any] = {
    "supportedVersions": ["2026-07-28"],
    "capabilities": {"tools": {}, "resources": {}, "prompts": {}},
    "resultType": "complete",
    "ttlMs": 0,
    "cacheScope": "private",
}

Deliver = Callable[[str, dict[str, Any] | None], None]
Ask = Callable[[str, dict[str, Any] | None], Awaitable[Any]]


class AcpPeer(Protocol):
    """The ACP connection to the peer that offers the server."""

    async def request(self, method: str, params: Any, *, timeout: float | None = None) -> Any:
        """Send a request; cancelling it cancels it at the peer."""

    def notify(self, method: str, params: Any) -> None:
        """Send a notification."""


class McpRoutes:
    """Where messages of the peer go that belong to an MCP server: to an active request or to a connection."""

    def __init__(self) -> None:
        self.requests: dict[tuple[str, str], Deliver] = {}
        self.connections: dict[str, tuple[Deliver, Ask]] = {}
        self.names: dict[str, tuple[Deliver, Ask]] = {}

    async def message(self, params: MessageMcpParams, is_request: bool) -> Any:
        """Handle mcp/message of the peer. A notification that belongs to no active request is dropped."""
        values = params.params or None
        if params.form == "connection":
            found = self.connections.get(str(params.connection_id))
            if found is None:
                raise ForeignError(-32602, f"there is no MCP connection {params.connection_id!r}")
            return await _pass_on(found, params.method, values, is_request)
        deliver = self.requests.get((str(params.server_id), str(params.request_id)))
        if is_request:
            raise ForeignError(-32602, "an MCP server sends only notifications here, for an active request")
        if deliver is not None:
            deliver(params.method, values)
        return None

    async def draft_message(self, params: DraftMcpRequestParams, is_request: bool) -> Any:
        """Handle _mcp/request of the peer."""
        found = self.names.get(params.server_name)
        if found is None:
            raise ForeignError(-32602, f"there is no MCP server {params.server_name!r}")
        return await _pass_on(found, params.mcp_method, params.mcp_params or None, is_request)


async def _pass_on(to: tuple[Deliver, Ask], method: str, params: Any, is_request: bool) -> Any:
    deliver, ask = to
    if is_request:
        return await ask(method, params)
    deliver(method, params)
    return None


class AcpChannel:
    """A server that the peer of this ACP connection offers."""

    def __init__(
        self, name: str, server_id: str, peer: AcpPeer, routes: McpRoutes, *, spelling: str = "server"
    ) -> None:
        """`spelling` is the first one to try: "server", "acp_id" (the oldest, with connections only) or "name"."""
        self.failure = ""
        self._name = name
        self._server_id = server_id
        self._peer = peer
        self._routes = routes
        self._send: Callable[[str, Any], Awaitable[Any]] = {
            "acp_id": self._send_by_connection,
            "name": self._send_by_name,
        }.get(spelling, self._send_by_server)
        if spelling == "name":
            routes.names[name] = (self._deliver, self._ask_sdk)
        self._is_settled = False  # whether the peer answered in the current spelling
        self._connecting: asyncio.Task[str] | None = None
        self._by_acp_id = spelling == "acp_id"
        self._tasks: dict[Any, asyncio.Task[None]] = {}
        self._answers: dict[str, asyncio.Future[Any]] = {}
        self._received: Any = None
        self._inbox: asyncio.Queue[Any] = asyncio.Queue()

    @asynccontextmanager
    async def open(self) -> AsyncIterator[tuple[Any, Any]]:
        """Give the streams; the first request of the SDK finds the spelling."""
        await load(self._name)
        import anyio

        received, read_stream = anyio.create_memory_object_stream[Any](0)
        write_stream, sent = anyio.create_memory_object_stream[Any](0)
        pumps = [asyncio.create_task(self._read(received)), asyncio.create_task(self._write(sent))]
        try:
            yield read_stream, write_stream
        finally:
            for task in (*pumps, *self._tasks.values()):
                task.cancel()
            await self._disconnect()

    async def _read(self, received: Any) -> None:
        from mcp.shared.message import SessionMessage

        async with received:
            while True:
                await received.send(SessionMessage(await self._inbox.get()))

    async def _write(self, sent: Any) -> None:
        import mcp_types as types

        async with sent:
            async for item in sent:
                message = item.message
                if isinstance(message, types.JSONRPCRequest):
                    self._tasks[message.id] = asyncio.create_task(self._request(message))
                elif isinstance(message, types.JSONRPCNotification):
                    self._notify(message.method, message.params)
                else:
                    self._answer(message)

    async def _request(self, message: Any) -> None:
        import mcp_types as types

        id = message.id
        try:
            result = await self._send_settled(message.method, message.params)
            self._inbox.put_nowait(types.JSONRPCResponse(jsonrpc="2.0", id=id, result=result))
        except ConnectionFailed as error:
            self.failure = str(error)
            self._put_error(id, -32000, str(error), None)
        except ProtocolError as error:
            data = error.raw_data if isinstance(error, ForeignError) else error.data
            self._put_error(id, error.code if error.code is not None else -32603, error.message, data)
        finally:
            self._tasks.pop(id, None)

    def _put_error(self, id: Any, code: int, message: str, data: Any) -> None:
        import mcp_types as types

        error = types.ErrorData(code=code, message=message, data=data)
        self._inbox.put_nowait(types.JSONRPCError(jsonrpc="2.0", id=id, error=error))

    async def _send_settled(self, method: str, params: Any) -> dict[str, Any]:
        """Send in the current spelling; try the next one if the peer does not know it."""
        while True:
            send = self._send
            try:
                result = await send(method, params)
            except ProtocolError as error:
                if self._is_settled or isinstance(error, ForeignError) or not self._falls_back(send, error):
                    raise
                continue
            self._is_settled = True
            return result if isinstance(result, dict) else {}

    def _falls_back(self, failed: Any, error: ProtocolError) -> bool:
        """Choose the next spelling after this error; return whether there is one."""
        names_connection = "connectionid" in f"{error.message} {error.data}".lower()
        if failed == self._send_by_server and (error.kind in _NO_SUCH_FORM or names_connection):
            self._send = self._send_by_connection
            return True
        if failed == self._send_by_connection and error.kind in _NO_SUCH_FORM:
            self._send = self._send_by_name
            self._routes.names[self._name] = (self._deliver, self._ask_sdk)
            return True
        return False

    # --- the spellings ----------------------------------------------------------------------------------------

    async def _send_by_server(self, method: str, params: Any) -> Any:
        request_id = f"mcp-request:{uuid.uuid4()}"
        key = (self._server_id, request_id)
        self._routes.requests[key] = self._deliver
        try:
            message = MessageMcpParams(
                server_id=self._server_id, request_id=request_id, method=method, params=_given(params)
            )
            answer = await self._peer.request("mcp/message", message)
        finally:
            self._routes.requests.pop(key, None)
        if isinstance(answer, dict) and "result" in answer:
            return answer["result"]
        error = answer.get("error") if isinstance(answer, dict) else None
        if not isinstance(error, dict) or not isinstance(error.get("code"), int):
            raise ForeignError(-32603, "the answer to mcp/message has neither result nor error")
        if method == "server/discover" and error["code"] == _NO_METHOD:
            return _DISCOVERED  # the spelling has one version only, so the server need not be asked
        raise ForeignError(error["code"], str(error.get("message", "")), error.get("data"))

    async def _send_by_connection(self, method: str, params: Any) -> Any:
        connection = await self._connect()
        self._is_settled = True  # from here on, an error is the server's
        message = MessageMcpParams(connection_id=connection, method=method, params=_given(params))
        return await self._peer.request("mcp/message", message)

    async def _send_by_name(self, method: str, params: Any) -> Any:
        message = DraftMcpRequestParams(server_name=self._name, mcp_method=method, mcp_params=_given(params))
        return await self._peer.request("_mcp/request", message)

    async def _connect(self) -> str:
        if self._connecting is None:
            self._connecting = asyncio.create_task(self._open_connection())
        return await asyncio.shield(self._connecting)

    async def _open_connection(self) -> str:
        id = self._server_id
        params = ConnectMcpParams(acp_id=id) if self._by_acp_id else ConnectMcpParams(server_id=id)
        result = await self._peer.request("mcp/connect", params, timeout=OPEN_TIMEOUT)
        connection = str(result.connection_id)
        self._routes.connections[connection] = (self._deliver, self._ask_sdk)
        return connection

    async def _disconnect(self) -> None:
        self._routes.names.pop(self._name, None)
        connecting = self._connecting
        if connecting is None or not connecting.done() or connecting.cancelled() or connecting.exception() is not None:
            return
        self._routes.connections.pop(connecting.result(), None)
        params = DisconnectMcpParams(connection_id=connecting.result())
        with suppress(ConnectionFailed, ProtocolError):  # the ACP connection may have ended
            await self._peer.request("mcp/disconnect", params, timeout=_DISCONNECT_TIMEOUT)

    # --- from the server --------------------------------------------------------------------------------------

    def _deliver(self, method: str, params: dict[str, Any] | None) -> None:
        import mcp_types as types

        self._inbox.put_nowait(types.JSONRPCNotification(jsonrpc="2.0", method=method, params=params))

    async def _ask_sdk(self, method: str, params: dict[str, Any] | None) -> Any:
        """Pass a request of the server to the SDK's client and return its answer."""
        import mcp_types as types

        id = f"server-{uuid.uuid4()}"
        answer = self._answers[id] = asyncio.get_running_loop().create_future()
        try:
            self._inbox.put_nowait(types.JSONRPCRequest(jsonrpc="2.0", id=id, method=method, params=params))
            message = await answer
        finally:
            self._answers.pop(id, None)
        if isinstance(message, types.JSONRPCError):
            raise ForeignError(message.error.code, message.error.message, message.error.data)
        return message.result

    def _answer(self, message: Any) -> None:
        answer = self._answers.get(str(message.id))
        if answer is not None and not answer.done():
            answer.set_result(message)

    def _notify(self, method: str, params: Any) -> None:
        if method == "notifications/cancelled":
            task = self._tasks.get((params or {}).get("requestId"))
            if task is not None:
                task.cancel()
        elif self._send == self._send_by_connection and self._connecting is not None and self._connecting.done():
            message = MessageMcpParams(connection_id=self._connecting.result(), method=method, params=_given(params))
            self._peer.notify("mcp/message", message)
        elif self._send == self._send_by_name:
            named = DraftMcpRequestParams(server_name=self._name, mcp_method=method, mcp_params=_given(params))
            self._peer.notify("_mcp/request", named)


def _given(params: Any) -> Any:
    return UNSET if params is None else params
