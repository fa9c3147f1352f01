"""The WebSocket of an endpoint: who may upgrade, and whether the socket opens or resumes a connection.

A client that sends Dragoman-Resume (or resume=1) may come back: both ends then say how many frames they have.
"""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import msgspec

from dragoman.dialect.peek import peek_frame
from dragoman.errors import Kind, ProtocolError, TransportClosed
from dragoman.transport.remote.resume import FramesGone
from dragoman.transport.remote.server.asgi import Request
from dragoman.transport.remote.server.auth import Principal, Refused
from dragoman.transport.remote.server.limits import UnfinishedMessage
from dragoman.transport.remote.server.ws_transport import AsgiSocket, WebSocketServerTransport
from dragoman.transport.remote.sse import parse_cursor
from dragoman.wire.frames import EXCERPT_SIZE, Frame, Oversize

if TYPE_CHECKING:
    from dragoman.transport.remote.server.endpoint import Endpoint, ServedConnection

# Our own server puts a socket here that takes many frames per call (uvicorn_ws.py).
DIRECT_EXTENSION = "dragoman.direct"

# The subprotocol that a browser offers next to its token: it wants one back, and a token is never echoed.
ACP_SUBPROTOCOL = "acp"

# This many frames above the rate are answered one by one; after that the client is disconnected.
MAX_REFUSED = 1000


async def serve(endpoint: Endpoint, request: Request) -> None:
    """Serve one WebSocket from its upgrade to its end."""
    await request.receive()  # websocket.connect
    try:
        principal = await endpoint.authenticate(request)
        connection = _resume_connection(endpoint, request, principal) or _begin_connection(endpoint, request, principal)
    except Refused as refused:
        await request.deny_upgrade(refused)
        return
    transport = connection.transport
    assert isinstance(transport, WebSocketServerTransport)
    headers = {"acp-connection-id": connection.id, "dragoman-largest": str(endpoint.limits.frame)}
    if transport.is_resumable:
        headers["dragoman-cursor"] = str(transport.acknowledgement.received_count)
    subprotocols = request.scope.get("subprotocols") or []
    await request.send(
        {
            "type": "websocket.accept",
            "headers": [(name.encode(), value.encode()) for name, value in headers.items()],
            "subprotocol": ACP_SUBPROTOCOL if ACP_SUBPROTOCOL in subprotocols else None,
        }
    )
    receiver = _RateLimitedReceiver(endpoint, principal, transport)
    direct = (request.scope.get("extensions") or {}).get(DIRECT_EXTENSION)
    if direct is not None:
        unfinished = UnfinishedMessage(endpoint.byte_budget, principal.user)
        await _serve_direct(request, transport, direct["socket"], receiver, unfinished)
    else:
        await _serve_asgi(request, transport, receiver, endpoint.limits.frame)


def _header_or_query(request: Request, header: str, query: str) -> str:
    return request.headers.get(header) or request.query.get(query, "")


def _begin_connection(endpoint: Endpoint, request: Request, principal: Principal) -> ServedConnection:
    resumable = _header_or_query(request, "dragoman-resume", "resume") == "1"
    peer = f"client {principal.user} at {principal.address or 'an unknown place'}"
    return endpoint.open_connection(principal, WebSocketServerTransport(peer, endpoint.limits, is_resumable=resumable))


def _resume_connection(endpoint: Endpoint, request: Request, principal: Principal) -> ServedConnection | None:
    """Return the connection that this socket resumes; None for a new one."""
    id = _header_or_query(request, "acp-connection-id", "connection")
    if not id:
        return None
    connection = endpoint.find_connection(id, principal)
    count = parse_cursor(_header_or_query(request, "dragoman-cursor", "cursor"))
    if (
        not isinstance(connection.transport, WebSocketServerTransport)
        or not connection.transport.is_resumable
        or count is None
    ):
        raise Refused(404, "that connection cannot be resumed here; open a new one without Acp-Connection-Id")
    try:
        connection.transport.rewind(count)
    except FramesGone as error:
        connection.transport.fail(TransportClosed(f"{connection.transport.peer} missed too much: {error}"))
        raise Refused(404, f"{error}; open a new connection and load your sessions") from None
    return connection


class _RateLimitedReceiver:
    """Limits the messages of one socket to the rate of its user."""

    def __init__(self, endpoint: Endpoint, principal: Principal, transport: WebSocketServerTransport) -> None:
        self._endpoint = endpoint
        self._user = principal.user
        self._transport = transport
        self._refused_count = 0

    def deliver_frames(self, frames: list[Frame]) -> None:
        """Deliver messages, and refuse the requests among them above the rate."""
        wait = self._endpoint.rate_limit_wait(self._user, len(frames))
        if not wait:
            self._refused_count = 0
            self._transport.deliver_frames(frames)
            return
        for frame in frames:
            self._deliver_frame(frame)

    def _deliver_frame(self, frame: Frame) -> None:
        wait = self._endpoint.rate_limit_wait(self._user, 1)
        if not wait:
            self._transport.deliver_frames([frame])
            return
        id: Any = None
        try:
            peek = peek_frame(frame if isinstance(frame, bytes) else b"")
            if not peek.method or peek.id is msgspec.UNSET:
                # Answers and notifications are few, and somebody waits for them.
                self._transport.deliver_frames([frame])
                return
            id = peek.id
        except ProtocolError:
            pass
        self._refused_count += 1
        self._transport.count_refused(frame)
        if self._refused_count > MAX_REFUSED:
            error = TransportClosed(f"{self._transport.peer} sent far too many messages")
            self._transport.fail(error, 1008, "rate_limited: far too many messages")
            return
        data = {"kind": Kind.RATE_LIMITED, "retryAfter": round(wait, 3)}
        error_object = {
            "code": -32000,
            "message": f"too many requests; wait {max(wait, 0.1):.1f} seconds",
            "data": data,
        }
        with suppress(Exception):
            self._transport.send(msgspec.json.encode({"jsonrpc": "2.0", "id": id, "error": error_object}))


async def _serve_direct(
    request: Request,
    transport: WebSocketServerTransport,
    socket: Any,
    receiver: _RateLimitedReceiver,
    unfinished: UnfinishedMessage,
) -> None:
    """Serve a socket of our own server, without a task in either direction."""
    socket.start_direct(receiver.deliver_frames, transport.on_writable, unfinished)
    transport.attach(socket)
    reason, is_final = "", False
    try:
        while True:
            message = await request.receive()
            if message["type"] == "websocket.disconnect":
                reason, is_final = message.get("reason") or "", message.get("code") == 1000
                return
    finally:
        transport.detach(socket, reason, is_final)


async def _serve_asgi(
    request: Request, transport: WebSocketServerTransport, receiver: _RateLimitedReceiver, limit: int
) -> None:
    """Serve a socket of any server: one task sends, this one receives."""
    socket = AsgiSocket(transport, request.send)
    send_task = asyncio.get_running_loop().create_task(socket.send_queued())
    transport.attach(socket)
    reason, is_final = "", False
    try:
        while not socket.is_gone:
            message = await request.receive()
            if message["type"] == "websocket.disconnect":
                reason, is_final = message.get("reason") or "", message.get("code") == 1000
                return
            text = message.get("text")
            if text is not None:
                data = text.encode("utf-8", "replace")
                receiver.deliver_frames(
                    [data if len(data) <= limit else Oversize(len(data), data[:EXCERPT_SIZE], data[-EXCERPT_SIZE:])]
                )
            await socket.wait_until_resumed()
    finally:
        transport.detach(socket, reason, is_final)
        send_task.cancel()
        with suppress(asyncio.CancelledError, Exception):
            await send_task
