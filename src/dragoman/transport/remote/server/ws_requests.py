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
from dragoman.transport.remote.resume import Gone
from dragoman.transport.remote.server.asgi import Request
from dragoman.transport.remote.server.auth import Refused, Visitor
from dragoman.transport.remote.server.ws_transport import AsgiWire, SocketTransport
from dragoman.transport.remote.sse import cursor
from dragoman.transport.remote.streams import gist
from dragoman.wire.frames import EXCERPT, Frame, Oversize

if TYPE_CHECKING:
    from dragoman.transport.remote.server.endpoint import Endpoint, Link

# A server of ours puts a socket here that takes frames without a call for each (upgrade.py).
DIRECT = "dragoman.direct"

# The subprotocol that a browser can offer beside its token: it wants one of them back, and a token is never echoed.
SUBPROTOCOL = "acp"

# So many frames beyond the rate are answered one by one; whoever goes on is disconnected.
TOLERATED = 1000


async def serve(endpoint: Endpoint, request: Request) -> None:
    """Serve one WebSocket from its upgrade to its end."""
    await request.receive()  # websocket.connect
    try:
        visitor = await endpoint.admitted(request)
        link = _resumed(endpoint, request, visitor) or _begun(endpoint, request, visitor)
    except Refused as refused:
        await request.deny(refused)
        return
    transport = link.transport
    assert isinstance(transport, SocketTransport)
    headers = {"acp-connection-id": link.id, "dragoman-largest": str(endpoint.limits.frame)}
    if transport.resumable:
        headers["dragoman-cursor"] = str(transport.receipt.count)
    offered = request.scope.get("subprotocols") or []
    await request.send(
        {
            "type": "websocket.accept",
            "headers": [(name.encode(), value.encode()) for name, value in headers.items()],
            "subprotocol": SUBPROTOCOL if SUBPROTOCOL in offered else None,
        }
    )
    pace = _Pace(endpoint, visitor, transport)
    direct = (request.scope.get("extensions") or {}).get(DIRECT)
    if direct is not None:
        await _serve_direct(request, transport, direct["socket"], pace)
    else:
        await _serve_asgi(request, transport, pace, endpoint.limits.frame)


def _asked(request: Request, header: str, query: str) -> str:
    return request.headers.get(header) or request.query.get(query, "")


def _begun(endpoint: Endpoint, request: Request, visitor: Visitor) -> Link:
    resumable = _asked(request, "dragoman-resume", "resume") == "1"
    peer = f"client {visitor.user} at {visitor.address or 'an unknown place'}"
    return endpoint.begin(visitor, SocketTransport(peer, endpoint.limits, resumable=resumable))


def _resumed(endpoint: Endpoint, request: Request, visitor: Visitor) -> Link | None:
    """The connection that this socket goes on with; None for a new one."""
    id = _asked(request, "acp-connection-id", "connection")
    if not id:
        return None
    link = endpoint.find(id, visitor)
    count = cursor(_asked(request, "dragoman-cursor", "cursor"))
    if not isinstance(link.transport, SocketTransport) or not link.transport.resumable or count is None:
        raise Refused(404, "that connection cannot be resumed here; open a new one without Acp-Connection-Id")
    try:
        link.transport.rewind(count)
    except Gone as gone:
        link.transport.fail(TransportClosed(f"{link.transport.peer} missed too much: {gone}"))
        raise Refused(404, f"{gone}; open a new connection and load your sessions") from None
    return link


class _Pace:
    """Keeps one socket's messages within the rate of its user."""

    def __init__(self, endpoint: Endpoint, visitor: Visitor, transport: SocketTransport) -> None:
        self._endpoint = endpoint
        self._user = visitor.user
        self._transport = transport
        self._refused = 0

    def arrived(self, frames: list[Frame]) -> None:
        """Pass messages on, and refuse the requests among them that are too many."""
        wait = self._endpoint.allow(self._user, len(frames))
        if not wait:
            self._refused = 0
            self._transport.arrived(frames)
            return
        for frame in frames:
            self._one(frame)

    def _one(self, frame: Frame) -> None:
        wait = self._endpoint.allow(self._user, 1)
        if not wait:
            self._transport.arrived([frame])
            return
        id: Any = None
        try:
            said = gist(frame if isinstance(frame, bytes) else b"")
            if not said.method or said.id is msgspec.UNSET:
                self._transport.arrived([frame])  # answers and notices are few, and somebody waits for them
                return
            id = said.id
        except ProtocolError:
            pass
        self._refused += 1
        self._transport.refused(frame)
        if self._refused > TOLERATED:
            error = TransportClosed(f"{self._transport.peer} sent far too many messages")
            self._transport.fail(error, 1008, "rate_limited: far too many messages")
            return
        data = {"kind": Kind.RATE_LIMITED, "retryAfter": round(wait, 3)}
        error_ = {"code": -32000, "message": f"too many requests; wait {max(wait, 0.1):.1f} seconds", "data": data}
        with suppress(Exception):
            self._transport.send(msgspec.json.encode({"jsonrpc": "2.0", "id": id, "error": error_}))


async def _serve_direct(request: Request, transport: SocketTransport, socket: Any, pace: _Pace) -> None:
    """A socket of our own server: frames pass by without a task for either direction."""
    socket.begin(pace.arrived, transport.flow)
    transport.attach(socket)
    why, is_goodbye = "", False
    try:
        while True:
            message = await request.receive()
            if message["type"] == "websocket.disconnect":
                why, is_goodbye = message.get("reason") or "", message.get("code") == 1000
                return
    finally:
        transport.part(socket, why, is_goodbye)


async def _serve_asgi(request: Request, transport: SocketTransport, pace: _Pace, limit: int) -> None:
    """A socket of any server: a task sends, and this one receives."""
    wire = AsgiWire(transport, request.send)
    pump = asyncio.get_running_loop().create_task(wire.pump())
    transport.attach(wire)
    why, is_goodbye = "", False
    try:
        while not wire.gone:
            message = await request.receive()
            if message["type"] == "websocket.disconnect":
                why, is_goodbye = message.get("reason") or "", message.get("code") == 1000
                return
            text = message.get("text")
            if text is not None:
                data = text.encode("utf-8", "replace")
                pace.arrived([data if len(data) <= limit else Oversize(len(data), data[:EXCERPT], data[-EXCERPT:])])
            await wire.room()
    finally:
        transport.part(wire, why, is_goodbye)
        pump.cancel()
        with suppress(asyncio.CancelledError, Exception):
            await pump
