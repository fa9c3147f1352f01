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

from dragoman.transport.base import CLOSE_TIMEOUT
from dragoman.transport.remote.server.asgi import SOCKET_KEY, App, Receive, Scope, Send
from dragoman.transport.remote.server.http2_flood import PREFACE
from dragoman.transport.remote.server.hypercorn_http2 import Http2
from dragoman.transport.remote.server.uvicorn_http1 import Http1

if TYPE_CHECKING:
    from dragoman.transport.remote.server.listener import Listener


class ProtocolSwitch(asyncio.Protocol):
    """A socket that was accepted, until it is known what it speaks."""

    transport: asyncio.Transport

    def __init__(self, listener: Listener) -> None:
        self._listener = listener
        self._first_bytes = b""
        self._in_tls_handshake = False
        self._timer: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """The socket is there."""
        assert isinstance(transport, asyncio.Transport)
        self.transport = transport
        served = self._listener
        if served.is_full(client_address(transport)):
            transport.abort()  # an answer would cost what we have not got
            return
        served.sockets[transport] = 0.0
        if served.tls is None:
            self._timer = asyncio.get_running_loop().call_later(served.limits.header_patience, transport.abort)
            return
        self._in_tls_handshake = True
        task = asyncio.get_running_loop().create_task(self._start_tls(transport, served.tls))
        served.tasks.add(task)
        task.add_done_callback(self._on_task_done)

    async def _start_tls(self, transport: asyncio.Transport, context: ssl.SSLContext) -> None:
        """Agree on TLS, and with it on what is spoken."""
        served, loop = self._listener, asyncio.get_running_loop()
        if transport.is_closing():
            return
        try:
            inner = await loop.start_tls(
                transport,
                self,
                context,
                server_side=True,
                ssl_handshake_timeout=served.limits.header_patience,
                ssl_shutdown_timeout=CLOSE_TIMEOUT,
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
            self._switch_to_http2(self._first_bytes)
        else:
            self._switch_to_http1(self._first_bytes)

    def data_received(self, data: bytes) -> None:
        """The first bytes: the preface of HTTP/2, or anything else, which is for HTTP/1.1 to judge."""
        self._first_bytes += data
        if self._in_tls_handshake:
            return  # it came with the last word of the handshake
        if self._first_bytes.startswith(PREFACE):
            self._switch_to_http2(self._first_bytes)
        elif not PREFACE.startswith(self._first_bytes):
            self._switch_to_http1(self._first_bytes)

    def connection_lost(self, exc: Exception | None) -> None:
        """The socket is gone before it said what it speaks."""
        self._stop_timer()
        self._listener.sockets.pop(self.transport, None)

    def _stop_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _switch_to_http1(self, first: bytes) -> None:
        self._stop_timer()
        served = self._listener
        protocol = Http1(served.http1_config, served.server_state, {})
        protocol.app = _with_socket_cache(protocol.app)
        self.transport.set_protocol(protocol)
        protocol.connection_made(self.transport)
        if first:
            protocol.data_received(first)

    def _switch_to_http2(self, first: bytes) -> None:
        self._stop_timer()
        loop, served = asyncio.get_running_loop(), self._listener
        reader = asyncio.StreamReader(loop=loop)
        protocol = _Http2StreamProtocol(reader, loop=loop)
        protocol.sockets = served.sockets
        self.transport.set_protocol(protocol)
        protocol.connection_made(self.transport)
        writer = asyncio.StreamWriter(self.transport, protocol, reader, loop)
        if first:
            reader.feed_data(first)
        app: Any = ASGIWrapper(_with_socket_cache(served.app))
        socket = Http2(app, served.http2_config, served.worker_context, served.limits, (reader, writer))
        served.http2_sockets.add(socket)
        task = loop.create_task(socket.run())
        served.tasks.add(task)
        task.add_done_callback(self._on_task_done)
        task.add_done_callback(lambda _: served.http2_sockets.discard(socket))

    def _on_task_done(self, task: asyncio.Task[Any]) -> None:
        self._listener.tasks.discard(task)
        if not task.cancelled():
            task.exception()  # a stranger's garbage is not worth a line


def client_address(transport: asyncio.Transport) -> str:
    """Who is at the other end."""
    return str((transport.get_extra_info("peername") or ("",))[0])


def _with_socket_cache(app: App) -> Any:
    """The app as one socket asks it: its requests share what is found out of it."""
    known: dict[str, Any] = {}

    async def asked(scope: Scope, receive: Receive, send: Send) -> None:
        scope[SOCKET_KEY] = known
        await app(scope, receive, send)

    return asked


class _Http2StreamProtocol(asyncio.StreamReaderProtocol):
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
