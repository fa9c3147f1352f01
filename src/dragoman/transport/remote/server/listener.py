"""The server under an endpoint: one port for HTTP/1.1, HTTP/2 and WebSocket, with or without TLS.

It accepts and limits sockets; protocol_switch.py finds the protocol of each (decision 0014).
"""

from __future__ import annotations

import asyncio
import os
import socket
import ssl
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

from dragoman.errors import StartFailed
from dragoman.transport.base import CLOSE_TIMEOUT
from dragoman.transport.remote.server.asgi import App
from dragoman.transport.remote.server.limits import SWEEP_INTERVAL, ServerLimits
from dragoman.transport.remote.server.origin import check_bind, is_loopback

try:
    import uvicorn
    from hypercorn.asyncio.worker_context import WorkerContext

    from dragoman.transport.remote.server.descriptors import most_sockets, quiet_accept_errors
    from dragoman.transport.remote.server.hypercorn_http2 import Http2, hypercorn_config
    from dragoman.transport.remote.server.protocol_switch import ProtocolSwitch, client_address
    from dragoman.transport.remote.server.uvicorn_http1 import BoundedServerState, silent_logger
    from dragoman.transport.remote.server.uvicorn_ws import UvicornWebSocket
except ImportError as error:
    raise StartFailed(f"serving needs the extra `host` ({error.name}): pip install 'dragoman[host]'") from None

# How long an idle HTTP/1.1 or HTTP/2 socket is kept for its next request. Seconds; reopening is cheap.
KEEP_ALIVE_TIMEOUT = 30.0

# How many clients may wait until they are accepted, and how many are accepted at once: these have a descriptor before
# they are counted.
BACKLOG = 1024
ACCEPT_BATCH = 32

# How long requests may go on when the server stops. Seconds.
SHUTDOWN_TIMEOUT = 3.0


class Listener:
    """A running server."""

    def __init__(self, app: App, limits: ServerLimits, is_secure: bool) -> None:
        self.app = app
        self.limits = limits
        self._max_sockets = min(limits.sockets, most_sockets())
        self.is_secure = is_secure
        self.address = ""
        self.port = 0
        self.tasks: set[asyncio.Task[Any]] = set()
        self.server_state = BoundedServerState(limits)
        self.http2_sockets: set[Http2] = set()
        self.http1_config = uvicorn.Config(
            app,
            log_config=None,
            access_log=False,
            lifespan="off",
            server_header=False,
            ws=UvicornWebSocket,
            ws_max_size=limits.frame,
            ws_per_message_deflate=False,
            ws_ping_interval=limits.keepalive,
            ws_ping_timeout=limits.keepalive * 2,
            timeout_keep_alive=int(KEEP_ALIVE_TIMEOUT),
            h11_max_incomplete_event_size=limits.headers,
            proxy_headers=False,
        )
        self.http1_config.load()
        self.http2_config = hypercorn_config(limits, silent_logger, KEEP_ALIVE_TIMEOUT)
        self.worker_context = WorkerContext(None)
        self.tls: ssl.SSLContext | None = None
        self.client_ca = ""
        self.report: Callable[[str], None] = lambda _: None
        self._write_backlogs: dict[
            asyncio.Transport, tuple[int, float]
        ] = {}  # unsent bytes of a socket, and since when there are this many
        self._server: asyncio.Server | None = None
        self._sweep_timer: asyncio.TimerHandle | None = None
        self._closed = asyncio.Event()

    @property
    def url(self) -> str:
        """The address of the default agent."""
        host = f"[{self.address}]" if ":" in self.address else self.address
        return f"{'https' if self.is_secure else 'http'}://{host}:{self.port}/acp"

    @property
    def sockets(self) -> dict[asyncio.Transport, float]:
        """The open sockets."""
        return self.server_state.sockets

    async def open(self, address: str, port: int, tls: ssl.SSLContext | None) -> None:
        """Listen at an address and port."""
        self.tls = tls
        try:
            # The protocol switch starts TLS, not the loop, so that sockets count before the TLS handshake.
            self._server = await asyncio.get_running_loop().create_server(
                lambda: ProtocolSwitch(self), address, port, backlog=ACCEPT_BATCH
            )
            for listening in self._server.sockets:
                with socket.fromfd(listening.fileno(), listening.family, listening.type) as same:
                    same.listen(BACKLOG)
        except OSError as error:
            reason = os.strerror(error.errno) if error.errno and error.errno > 0 else error.strerror or str(error)
            raise StartFailed(f"cannot listen at {address}:{port}: {reason}; choose another address or port") from None
        self.address, self.port = self._server.sockets[0].getsockname()[:2]
        self._abort_stalled()

    def replace_certificate(self, certificate: str, key: str) -> None:
        """Use another certificate for new connections. Raise StartFailed if it cannot be used; the old one stays."""
        if self.tls is not None:
            self.tls = server_tls_context(certificate, key, self.client_ca)

    def is_full(self, address: str) -> bool:
        """Whether one more socket from this address would be too many."""
        sockets = self.sockets
        if len(sockets) >= self._max_sockets:
            return True
        if is_loopback(address):
            return False
        if not self.server_state.strangers.take("anonymous_requests", address, 1, asyncio.get_running_loop().time()):
            return True
        most = min(self.limits.sockets_each, self._max_sockets // 2)
        return len(sockets) >= most and sum(address == client_address(each) for each in sockets) >= most

    def _abort_stalled(self) -> None:
        """Abort sockets whose peer does not read, also closing ones."""
        loop = asyncio.get_running_loop()
        self._sweep_timer = loop.call_later(SWEEP_INTERVAL, self._abort_stalled)
        now = loop.time()
        backlogs: dict[asyncio.Transport, tuple[int, float]] = {}
        for transport, closing_since in self.sockets.items():
            if transport.is_closing():
                self.sockets[transport] = closing_since or now
                if closing_since and now - closing_since > CLOSE_TIMEOUT:
                    transport.abort()
            elif size := transport.get_write_buffer_size():
                before = self._write_backlogs.get(transport, (0, now))
                backlogs[transport] = before if size == before[0] else (size, now)
                if now - backlogs[transport][1] > self.limits.stall:
                    transport.abort()
        self._write_backlogs = backlogs
        for http2_socket in self.http2_sockets:
            http2_socket.abort_if_stalled()
        self.server_state.strangers.drop_full_buckets(now)

    async def wait_closed(self) -> None:
        """Wait until the server is closed."""
        await self._closed.wait()

    async def close(self) -> None:
        """Stop listening, close the app's connections and every socket."""
        if self._server is None:
            return
        self._server.close()
        if (end := getattr(self.app, "close", None)) is not None:
            await end()
        await self.worker_context.terminated.set()
        for protocol in list(self.server_state.connections):
            protocol.shutdown()
        tasks = {*self.server_state.tasks, *self.tasks}
        if tasks:
            _, unfinished = await asyncio.wait(tasks, timeout=SHUTDOWN_TIMEOUT)
            for task in unfinished:
                task.cancel()
            await asyncio.gather(*unfinished, return_exceptions=True)
        if self._sweep_timer is not None:
            self._sweep_timer.cancel()
        for transport in list(self.sockets):
            transport.abort()
        await asyncio.sleep(0)
        await asyncio.sleep(0)  # the loop closes an aborted socket in its next pass
        await self._server.wait_closed()
        self._server = None
        self._closed.set()


@asynccontextmanager
async def open_listener(
    app: App,
    bind: str = "127.0.0.1:0",
    *,
    tls: tuple[str, str] | None = None,
    client_ca: str = "",
    limits: ServerLimits | None = None,
    has_auth: bool = True,
    report: Callable[[str], None] = lambda _: None,
) -> AsyncIterator[Listener]:
    """Serve an ASGI app at one port until the block ends; `tls` names a certificate and its key.

    An address that other machines can reach needs TLS, and an app that authenticates (`has_auth`). Clients may show
    certificates of `client_ca`; one that shows another has no connection, and `report` is told.
    """
    address, port = check_bind(bind, has_tls=tls is not None, has_auth=has_auth)
    context = None if tls is None else server_tls_context(*tls, client_ca)
    listener = Listener(app, limits or getattr(app, "limits", None) or ServerLimits(), context is not None)
    listener.client_ca, listener.report = client_ca, report
    with quiet_accept_errors(asyncio.get_running_loop()):
        await listener.open(address, port, context)
        try:
            yield listener
        finally:
            await listener.close()


def server_tls_context(certificate: str, key: str, client_ca: str = "") -> ssl.SSLContext:
    """Return a server context: TLS 1.2 and newer, for HTTP/2 and HTTP/1.1; clients may show certificates of an
    authority.
    """
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    try:
        context.load_cert_chain(certificate, key)
    except (OSError, ssl.SSLError) as error:
        missing = next((file for file in (certificate, key) if not os.path.exists(file)), "")
        reason = f"there is no file {missing}" if missing else error
        raise StartFailed(f"the certificate {certificate} and key {key} cannot be used: {reason}") from None
    if client_ca:
        try:
            context.load_verify_locations(client_ca)
        except (OSError, ssl.SSLError) as error:
            raise StartFailed(f"the certificates in {client_ca} cannot be used: {error}") from None
        context.verify_mode = ssl.CERT_OPTIONAL
    context.set_alpn_protocols(["h2", "http/1.1"])
    return context
