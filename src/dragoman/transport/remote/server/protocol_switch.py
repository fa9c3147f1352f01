"""An accepted socket until its protocol is known: starts TLS, then ALPN or the first bytes decide between uvicorn's
protocols (HTTP/1.1, WebSocket) and hypercorn's (HTTP/2). Both run the same ASGI app (decision 0014).
"""

from __future__ import annotations

import asyncio
import ssl
from asyncio.sslproto import _SSLProtocolTransport
from typing import TYPE_CHECKING, Any

from hypercorn.app_wrappers import ASGIWrapper

from dragoman.transport.base import CLOSE_TIMEOUT
from dragoman.transport.remote.server.asgi import CERTIFICATE, SOCKET_KEY, App, Receive, Request, Scope, Send
from dragoman.transport.remote.server.auth import Refused
from dragoman.transport.remote.server.hypercorn_http2 import Http2
from dragoman.transport.remote.server.limits import PREFACE, Stranger
from dragoman.transport.remote.server.uvicorn_http1 import Http1

if TYPE_CHECKING:
    from dragoman.transport.remote.server.listener import Listener

# The refusal of requests that nobody is known to make. The socket is closed, with what it may still send.
TOO_MANY_VISITS = "too many requests from your address without a valid token; send one, or wait a second"
TOO_MANY_VISITS_HEADERS = {"retry-after": "1", "connection": "close"}


class ProtocolSwitch(asyncio.Protocol):
    """An accepted socket until its protocol is known."""

    transport: asyncio.Transport

    def __init__(self, listener: Listener) -> None:
        self._listener = listener
        self._first_bytes = b""
        self._in_tls_handshake = False
        self._timer: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Count the socket, and start TLS or a timeout."""
        assert isinstance(transport, asyncio.Transport)
        self.transport = transport
        listener = self._listener
        if listener.is_full(client_address(transport)):
            transport.abort()  # a response would cost resources that we lack
            return
        listener.sockets[transport] = 0.0
        if listener.tls is None:
            self._timer = asyncio.get_running_loop().call_later(listener.limits.header_timeout, transport.abort)
            return
        self._in_tls_handshake = True
        task = asyncio.get_running_loop().create_task(self._start_tls(transport, listener.tls))
        listener.tasks.add(task)
        task.add_done_callback(self._on_task_done)

    async def _start_tls(self, transport: asyncio.Transport, context: ssl.SSLContext) -> None:
        """Do the TLS handshake, which also chooses the protocol."""
        listener, loop = self._listener, asyncio.get_running_loop()
        if transport.is_closing():
            return
        try:
            inner = await loop.start_tls(
                transport,
                self,
                context,
                server_side=True,
                ssl_handshake_timeout=listener.limits.header_timeout,
                ssl_shutdown_timeout=CLOSE_TIMEOUT,
            )
        except ssl.SSLCertVerificationError as error:
            listener.report(f"a connection from {client_address(transport)} was refused: {error.verify_message}")
            return
        except (OSError, ssl.SSLError):
            return  # no TLS, no common protocol, or too slow
        finally:
            listener.sockets.pop(transport, None)
        if inner is None or inner.is_closing():
            return
        if type(inner) is _SSLProtocolTransport:  # not with another event loop, such as uvloop
            inner.__class__ = _TlsTransport
        self.transport = inner
        listener.sockets[inner] = 0.0
        if inner.get_extra_info("ssl_object").selected_alpn_protocol() == "h2":
            self._switch_to_http2(self._first_bytes)
        else:
            self._switch_to_http1(self._first_bytes)

    def data_received(self, data: bytes) -> None:
        """Choose by the first bytes: the preface of HTTP/2, or anything else, which HTTP/1.1 handles."""
        self._first_bytes += data
        if self._in_tls_handshake:
            return  # it came with the last part of the handshake
        if self._first_bytes.startswith(PREFACE):
            self._switch_to_http2(self._first_bytes)
        elif not PREFACE.startswith(self._first_bytes):
            self._switch_to_http1(self._first_bytes)

    def connection_lost(self, exc: Exception | None) -> None:
        """Forget a socket that closed before its protocol was known."""
        self._stop_timer()
        self._listener.sockets.pop(self.transport, None)

    def _stop_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _switch_to_http1(self, first: bytes) -> None:
        self._stop_timer()
        listener = self._listener
        protocol = Http1(listener.http1_config, listener.server_state, {})
        cache, stranger = self._new_socket_cache()
        protocol.app = _with_visit_limit(_with_socket_cache(protocol.app, cache), stranger)
        self.transport.set_protocol(protocol)
        protocol.connection_made(self.transport)
        if first:
            protocol.data_received(first)

    def _switch_to_http2(self, first: bytes) -> None:
        self._stop_timer()
        loop, listener = asyncio.get_running_loop(), self._listener
        reader = asyncio.StreamReader(loop=loop)
        protocol = _Http2StreamProtocol(reader, loop=loop)
        protocol.sockets = listener.sockets
        self.transport.set_protocol(protocol)
        protocol.connection_made(self.transport)
        writer = asyncio.StreamWriter(self.transport, protocol, reader, loop)
        if first:
            reader.feed_data(first)
        cache, stranger = self._new_socket_cache()
        app: Any = ASGIWrapper(_with_socket_cache(listener.app, cache))
        socket = Http2(app, listener.http2_config, listener.worker_context, listener.limits, (reader, writer), stranger)
        listener.http2_sockets.add(socket)
        task = loop.create_task(socket.run())
        listener.tasks.add(task)
        task.add_done_callback(self._on_task_done)
        task.add_done_callback(lambda _: listener.http2_sockets.discard(socket))

    def _new_socket_cache(self) -> tuple[dict[str, Any], Stranger]:
        cache: dict[str, Any] = {CERTIFICATE: self.transport.get_extra_info("peercert")}
        return cache, Stranger(self._listener.server_state.strangers, client_address(self.transport), cache)

    def _on_task_done(self, task: asyncio.Task[Any]) -> None:
        self._listener.tasks.discard(task)
        if not task.cancelled():
            task.exception()  # errors caused by garbage of a client are not logged


class _TlsTransport(_SSLProtocolTransport):
    """asyncio's TLS transport, which may be closed twice; uvicorn does that.

    After a second close, asyncio's own has lost its socket: it can neither be aborted nor has an address.
    """

    def close(self) -> None:
        """Close the socket, once."""
        if not self.is_closing():
            super().close()


def client_address(transport: asyncio.Transport) -> str:
    """Return the client's address."""
    return str((transport.get_extra_info("peername") or ("",))[0])


def _with_visit_limit(app: App, stranger: Stranger) -> Any:
    """Wrap the app so that it is called only while the socket may make requests. HTTP/2 counts them earlier."""

    async def call_app(scope: Scope, receive: Receive, send: Send) -> None:
        if stranger.may_request(asyncio.get_running_loop().time()):
            await app(scope, receive, send)
            return
        request, refused = Request(scope, receive, send), Refused(429, TOO_MANY_VISITS, TOO_MANY_VISITS_HEADERS)
        await (request.deny_upgrade(refused) if scope["type"] == "websocket" else request.refuse(refused))

    return call_app


def _with_socket_cache(app: App, cache: dict[str, Any]) -> Any:
    """Wrap the app so that all requests of one socket share a cache."""

    async def call_app(scope: Scope, receive: Receive, send: Send) -> None:
        scope[SOCKET_KEY] = cache
        await app(scope, receive, send)

    return call_app


class _Http2StreamProtocol(asyncio.StreamReaderProtocol):
    """The streams that hypercorn reads; notes the end of their socket."""

    sockets: dict[asyncio.Transport, float]

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Count the socket."""
        self._socket: Any = transport
        super().connection_made(transport)

    def connection_lost(self, exc: Exception | None) -> None:
        """Forget the socket."""
        self.sockets.pop(self._socket, None)
        super().connection_lost(exc)
