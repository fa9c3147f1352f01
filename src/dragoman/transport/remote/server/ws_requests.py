"""The WebSocket of an endpoint: who may upgrade, and whether the socket begins a connection or goes on with one.

A client that says Dragoman-Resume (or resume=1) may come back: it names the connection and how many frames it has,
hears how many we have, and both go on from there. For all others the socket is the connection. Above is the endpoint.
"""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import msgspec

from dragoman.errors import Kind, ProtocolError, TransportClosed
from dragoman.transport.remote.resume import FramesGone
from dragoman.transport.remote.server.asgi import Request
from dragoman.transport.remote.server.auth import Principal, Refused
from dragoman.transport.remote.server.ws_transport import AsgiSocket, WebSocketServerTransport
from dragoman.transport.remote.sse import parse_cursor
from dragoman.transport.remote.streams import peek_frame
from dragoman.wire.frames import EXCERPT_SIZE, Frame, Oversize

if TYPE_CHECKING:
    from dragoman.transport.remote.server.endpoint import Endpoint, ServedConnection

# A server of ours puts a socket here that takes frames without a call for each (upgrade.py).
DIRECT_EXTENSION = "dragoman.direct"

# The subprotocol that a browser can offer beside its token: it wants one of them back, and a token is never echoed.
ACP_SUBPROTOCOL = "acp"

# So many frames beyond the rate are answered one by one; whoever goes on is disconnected.
MAX_REFUSED = 1000


async def serve(endpoint: Endpoint, request: Request) -> None:
    """Serve one WebSocket from its upgrade to its end."""
    await request.receive()  # websocket.connect
    try:
        visitor = await endpoint.authenticate(request)
        link = _resume_connection(endpoint, request, visitor) or _begin_connection(endpoint, request, visitor)
    except Refused as refused:
        await request.deny_upgrade(refused)
        return
    transport = link.transport
    assert isinstance(transport, WebSocketServerTransport)
    headers = {"acp-connection-id": link.id, "dragoman-largest": str(endpoint.limits.frame)}
    if transport.is_resumable:
        headers["dragoman-cursor"] = str(transport.acknowledgement.received_count)
    offered = request.scope.get("subprotocols") or []
    await request.send(
        {
            "type": "websocket.accept",
            "headers": [(name.encode(), value.encode()) for name, value in headers.items()],
            "subprotocol": ACP_SUBPROTOCOL if ACP_SUBPROTOCOL in offered else None,
        }
    )
    pace = _RateLimitedReceiver(endpoint, visitor, transport)
    direct = (request.scope.get("extensions") or {}).get(DIRECT_EXTENSION)
    if direct is not None:
        await _serve_direct(request, transport, direct["socket"], pace)
    else:
        await _serve_asgi(request, transport, pace, endpoint.limits.frame)


def _header_or_query(request: Request, header: str, query: str) -> str:
    return request.headers.get(header) or request.query.get(query, "")


def _begin_connection(endpoint: Endpoint, request: Request, principal: Principal) -> ServedConnection:
    resumable = _header_or_query(request, "dragoman-resume", "resume") == "1"
    peer = f"client {principal.user} at {principal.address or 'an unknown place'}"
    return endpoint.open_connection(principal, WebSocketServerTransport(peer, endpoint.limits, is_resumable=resumable))


def _resume_connection(endpoint: Endpoint, request: Request, principal: Principal) -> ServedConnection | None:
    """The connection that this socket goes on with; None for a new one."""
    id = _header_or_query(request, "acp-connection-id", "connection")
    if not id:
        return None
    link = endpoint.find_connection(id, principal)
    count = parse_cursor(_header_or_query(request, "dragoman-cursor", "cursor"))
    if not isinstance(link.transport, WebSocketServerTransport) or not link.transport.is_resumable or count is None:
        raise Refused(404, "that connection cannot be resumed here; open a new one without Acp-Connection-Id")
    try:
        link.transport.rewind(count)
    except FramesGone as gone:
        link.transport.fail(TransportClosed(f"{link.transport.peer} missed too much: {gone}"))
        raise Refused(404, f"{gone}; open a new connection and load your sessions") from None
    return link


class _RateLimitedReceiver:
    """Keeps one socket's messages within the rate of its user."""

    def __init__(self, endpoint: Endpoint, principal: Principal, transport: WebSocketServerTransport) -> None:
        self._endpoint = endpoint
        self._user = principal.user
        self._transport = transport
        self._refused_count = 0

    def deliver_frames(self, frames: list[Frame]) -> None:
        """Pass messages on, and refuse the requests among them that are too many."""
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
            said = peek_frame(frame if isinstance(frame, bytes) else b"")
            if not said.method or said.id is msgspec.UNSET:
                self._transport.deliver_frames([frame])  # answers and notices are few, and somebody waits for them
                return
            id = said.id
        except ProtocolError:
            pass
        self._refused_count += 1
        self._transport.count_refused(frame)
        if self._refused_count > MAX_REFUSED:
            error = TransportClosed(f"{self._transport.peer} sent far too many messages")
            self._transport.fail(error, 1008, "rate_limited: far too many messages")
            return
        data = {"kind": Kind.RATE_LIMITED, "retryAfter": round(wait, 3)}
        error_ = {"code": -32000, "message": f"too many requests; wait {max(wait, 0.1):.1f} seconds", "data": data}
        with suppress(Exception):
            self._transport.send(msgspec.json.encode({"jsonrpc": "2.0", "id": id, "error": error_}))


async def _serve_direct(
    request: Request, transport: WebSocketServerTransport, socket: Any, receiver: _RateLimitedReceiver
) -> None:
    """A socket of our own server: frames pass by without a task for either direction."""
    socket.begin(receiver.deliver_frames, transport.on_writable)
    transport.attach(socket)
    why, is_goodbye = "", False
    try:
        while True:
            message = await request.receive()
            if message["type"] == "websocket.disconnect":
                why, is_goodbye = message.get("reason") or "", message.get("code") == 1000
                return
    finally:
        transport.detach(socket, why, is_goodbye)


async def _serve_asgi(
    request: Request, transport: WebSocketServerTransport, receiver: _RateLimitedReceiver, limit: int
) -> None:
    """A socket of any server: a task sends, and this one receives."""
    wire = AsgiSocket(transport, request.send)
    pump = asyncio.get_running_loop().create_task(wire.send_queued())
    transport.attach(wire)
    why, is_goodbye = "", False
    try:
        while not wire.is_gone:
            message = await request.receive()
            if message["type"] == "websocket.disconnect":
                why, is_goodbye = message.get("reason") or "", message.get("code") == 1000
                return
            text = message.get("text")
            if text is not None:
                data = text.encode("utf-8", "replace")
                receiver.deliver_frames(
                    [data if len(data) <= limit else Oversize(len(data), data[:EXCERPT_SIZE], data[-EXCERPT_SIZE:])]
                )
            await wire.wait_until_resumed()
    finally:
        transport.detach(wire, why, is_goodbye)
        pump.cancel()
        with suppress(asyncio.CancelledError, Exception):
            await pump
