"""A socket that was accepted, until it is known what it speaks.

Takes a socket, agrees on TLS where the server has it, and gives it, by what was agreed on or by its first bytes, to
uvicorn's protocols (HTTP/1.1, WebSocket) or to hypercorn's (HTTP/2); both run the same ASGI app (decision 0014). Above
is `serving`, which counts the sockets.
"""

from __future__ import annotations

import asyncio
import ssl
from typing import TYPE_CHECKING, Any

from hypercorn.app_wrappers import ASGIWrapper

from dragoman.transport.base import CLOSE_PATIENCE
from dragoman.transport.remote.server.asgi import SOCKET, App, Receive, Scope, Send
from dragoman.transport.remote.server.http2_flood import PREFACE
from dragoman.transport.remote.server.hypercorn_http2 import Http2
from dragoman.transport.remote.server.uvicorn_http1 import Http1

if TYPE_CHECKING:
    from dragoman.transport.remote.server.listener import Served


class Door(asyncio.Protocol):
    """A socket that was accepted, until it is known what it speaks."""

    transport: asyncio.Transport

    def __init__(self, served: Served) -> None:
        self._served = served
        self._first = b""
        self._agreeing = False
        self._timer: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """The socket is there."""
        assert isinstance(transport, asyncio.Transport)
        self.transport = transport
        served = self._served
        if served.is_full(address_of(transport)):
            transport.abort()  # an answer would cost what we have not got
            return
        served.sockets[transport] = 0.0
        if served.tls is None:
            self._timer = asyncio.get_running_loop().call_later(served.limits.header_patience, transport.abort)
            return
        self._agreeing = True
        task = asyncio.get_running_loop().create_task(self._agree(transport, served.tls))
        served.tasks.add(task)
        task.add_done_callback(self._ended)

    async def _agree(self, transport: asyncio.Transport, context: ssl.SSLContext) -> None:
        """Agree on TLS, and with it on what is spoken."""
        served, loop = self._served, asyncio.get_running_loop()
        if transport.is_closing():
            return
        try:
            inner = await loop.start_tls(
                transport,
                self,
                context,
                server_side=True,
                ssl_handshake_timeout=served.limits.header_patience,
                ssl_shutdown_timeout=CLOSE_PATIENCE,
            )
        except (OSError, ssl.SSLError):
            return  # no TLS, none that we speak, or too slow
        finally:
            served.sockets.pop(transport, None)
        if inner is None or inner.is_closing():
            return
        self.transport = inner
        served.sockets[inner] = 0.0
        if inner.get_extra_info("ssl_object").selected_alpn_protocol() == "h2":
            self._speak_http2(self._first)
        else:
            self._speak_http1(self._first)

    def data_received(self, data: bytes) -> None:
        """The first bytes: the preface of HTTP/2, or anything else, which is for HTTP/1.1 to judge."""
        self._first += data
        if self._agreeing:
            return  # it came with the last word of the handshake
        if self._first.startswith(PREFACE):
            self._speak_http2(self._first)
        elif not PREFACE.startswith(self._first):
            self._speak_http1(self._first)

    def connection_lost(self, exc: Exception | None) -> None:
        """The socket is gone before it said what it speaks."""
        self._unwatch()
        self._served.sockets.pop(self.transport, None)

    def _unwatch(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _speak_http1(self, first: bytes) -> None:
        self._unwatch()
        served = self._served
        protocol = Http1(served.http1, served.state, {})
        protocol.app = _by_one_socket(protocol.app)
        self.transport.set_protocol(protocol)
        protocol.connection_made(self.transport)
        if first:
            protocol.data_received(first)

    def _speak_http2(self, first: bytes) -> None:
        self._unwatch()
        loop, served = asyncio.get_running_loop(), self._served
        reader = asyncio.StreamReader(loop=loop)
        protocol = _Streaming(reader, loop=loop)
        protocol.sockets = served.sockets
        self.transport.set_protocol(protocol)
        protocol.connection_made(self.transport)
        writer = asyncio.StreamWriter(self.transport, protocol, reader, loop)
        if first:
            reader.feed_data(first)
        app: Any = ASGIWrapper(_by_one_socket(served.app))
        socket = Http2(app, served.http2, served.context, served.limits, (reader, writer))
        served.http2_sockets.add(socket)
        task = loop.create_task(socket.run())
        served.tasks.add(task)
        task.add_done_callback(self._ended)
        task.add_done_callback(lambda _: served.http2_sockets.discard(socket))

    def _ended(self, task: asyncio.Task[Any]) -> None:
        self._served.tasks.discard(task)
        if not task.cancelled():
            task.exception()  # a stranger's garbage is not worth a line


def address_of(transport: asyncio.Transport) -> str:
    """Who is at the other end."""
    return str((transport.get_extra_info("peername") or ("",))[0])


def _by_one_socket(app: App) -> Any:
    """The app as one socket asks it: its requests share what is found out of it."""
    known: dict[str, Any] = {}

    async def asked(scope: Scope, receive: Receive, send: Send) -> None:
        scope[SOCKET] = known
        await app(scope, receive, send)

    return asked


class _Streaming(asyncio.StreamReaderProtocol):
    """The streams that hypercorn reads; the end of their socket is noted."""

    sockets: dict[asyncio.Transport, float]

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """The socket is there."""
        self._socket: Any = transport
        super().connection_made(transport)

    def connection_lost(self, exc: Exception | None) -> None:
        """The socket is gone."""
        self.sockets.pop(self._socket, None)
        super().connection_lost(exc)
