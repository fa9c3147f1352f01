"""One WebSocket to a server: connect, handshake, then messages in and out, several at once.

When the socket is lost it says so once; websocket.py decides what follows.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import cast

from websockets.frames import Frame as SocketFrame
from websockets.frames import Opcode

from dragoman.errors import Unreachable
from dragoman.transport.base import HIGH_WATER, LOW_WATER, WRITE_STALL
from dragoman.transport.burst_writer import BurstWriter
from dragoman.transport.remote.address import TLS, RemoteAddress, tls_context
from dragoman.transport.remote.client.ws_frames import CLOSE, PING, FrameParser, WebSocketProtocolError
from dragoman.transport.remote.client.ws_handshake import Handshake
from dragoman.transport.remote.errors import network_error
from dragoman.wire.frames import Frame

# How long connecting may take, with a slow name lookup and TLS. Seconds.
OPEN_TIMEOUT = 30.0

# A quiet socket is pinged this often and dropped when no pong comes: routers forget idle connections after minutes, and
# a laptop that slept must notice soon. Seconds.
PING_INTERVAL = 20.0
PONG_TIMEOUT = 20.0

OnLost = Callable[["WebSocket", int, str], None]  # close code (1006: none came) and reason


class WebSocket(asyncio.Protocol):
    """A WebSocket; `opened_headers` gets the headers of the 101 when it is open."""

    def __init__(
        self,
        handshake: Handshake,
        on_frames: Callable[[list[Frame], int], None],
        on_lost: OnLost,
    ) -> None:
        self._handshake: Handshake | None = handshake
        self._request = handshake.request
        self._name = handshake.name
        self._early_data: bytes | None = b""  # received before `start_delivery`
        self._on_frames = on_frames
        self._on_lost: OnLost | None = on_lost
        self._parser = FrameParser()
        self._loop = asyncio.get_running_loop()
        self.opened_headers: asyncio.Future[dict[str, list[str]]] = self._loop.create_future()
        self.closed: asyncio.Future[None] = self._loop.create_future()
        self.is_full = False
        self.on_writable: Callable[[], None] | None = None
        self._stall_timer: asyncio.TimerHandle | None = None
        self._transport: asyncio.Transport | None = None
        self._writer = BurstWriter(self._write_messages)
        self.send = self._writer.send
        self._has_received = True
        self._ping_sent = False
        self._paused = False
        self._closing: tuple[int, str] | None = None
        self._ping_timer: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Send the handshake request."""
        self._transport = cast(asyncio.Transport, transport)
        self._transport.set_write_buffer_limits(high=HIGH_WATER, low=LOW_WATER)
        self._transport.write(self._request)

    def data_received(self, data: bytes) -> None:
        """Deliver the messages that these bytes complete."""
        self._has_received = True
        if self._early_data is not None:
            self._early_data += data if self._handshake is None else self._feed_handshake(data)
            return
        try:
            frames = self._parser.feed(data)
        except WebSocketProtocolError as error:
            self._send_close(error.code, str(error))
            self._report_lost(error.code, f"it does not speak WebSocket properly: {error}")
            return
        if frames and self._on_lost is not None:
            self._on_frames(frames, len(data))
        if self._parser.control_frames:
            self._process_control_frames()

    def start_delivery(self) -> None:
        """Start to deliver, beginning with what came meanwhile."""
        data, self._early_data = self._early_data, None
        if data:
            self.data_received(data)
        if self.closed.done():
            self._report_lost(1006, "the socket was cut")

    def _feed_handshake(self, data: bytes) -> bytes:
        """Feed the response to the handshake; return what follows it."""
        assert self._handshake is not None
        try:
            answer = self._handshake.feed(data)
        except Unreachable as error:
            self._fail(error)
            return b""
        if answer is None:
            return b""
        self._handshake = None
        self._ping_timer = self._loop.call_later(PING_INTERVAL, self._check_alive)
        if not self.opened_headers.done():
            self.opened_headers.set_result(answer[0])
        return answer[1]

    def _process_control_frames(self) -> None:
        control_frames, self._parser.control_frames = self._parser.control_frames, []
        for opcode, payload in control_frames:
            if opcode == PING:
                self._write(SocketFrame(Opcode.PONG, payload).serialize(mask=True))
            elif opcode == CLOSE:
                code = int.from_bytes(payload[:2], "big") if len(payload) >= 2 else 1005
                reason = payload[2:].decode("utf-8", "replace")
                if self._closing is None:
                    self._send_close(code if code != 1005 else 1000, "")
                self._report_lost(code, reason)

    def pause(self) -> None:
        """Stop reading."""
        if not self._paused and self._transport is not None:
            self._paused = True
            self._transport.pause_reading()

    def resume(self) -> None:
        """Resume reading."""
        if self._paused and self._transport is not None:
            self._paused = False
            self._has_received = True
            self._transport.resume_reading()

    @property
    def buffered_bytes(self) -> int:
        """Bytes that the socket has not taken yet."""
        return self._writer.size + (0 if self._transport is None else self._transport.get_write_buffer_size())

    def _write_messages(self, messages: list[bytes], _: int) -> None:
        """Write each as one text message, all together."""
        self._write(b"".join([SocketFrame(Opcode.TEXT, data).serialize(mask=True) for data in messages]))

    def _write(self, data: bytes) -> None:
        if self._transport is not None and not self._transport.is_closing():
            self._transport.write(data)

    def pause_writing(self) -> None:
        """Start the stall timer: the socket is full."""
        self.is_full = True
        self._start_stall_timer(self.buffered_bytes)

    def resume_writing(self) -> None:
        """Stop the stall timer: there is space again."""
        self.is_full = False
        if self._stall_timer is not None:
            self._stall_timer.cancel()
            self._stall_timer = None
        if self.on_writable is not None:
            self.on_writable()

    def _start_stall_timer(self, before: int) -> None:
        def check() -> None:
            now = self.buffered_bytes
            if now < before:
                self._start_stall_timer(now)
            else:
                self._report_lost(1006, f"it took no bytes for {WRITE_STALL:g} seconds while {now} were waiting")

        self._stall_timer = self._loop.call_later(WRITE_STALL, check)

    def _check_alive(self) -> None:
        if self._has_received or self._paused:
            self._has_received = self._ping_sent = False
            self._ping_timer = self._loop.call_later(PING_INTERVAL, self._check_alive)
        elif not self._ping_sent:
            self._ping_sent = True
            self._write(SocketFrame(Opcode.PING, b"").serialize(mask=True))
            self._ping_timer = self._loop.call_later(PONG_TIMEOUT, self._check_alive)
        else:
            self._report_lost(1006, f"no sign of life for {PING_INTERVAL + PONG_TIMEOUT:g} seconds")

    async def close(self, code: int, reason: str, timeout: float) -> None:
        """Send a close frame, wait a moment for the server's, and close the socket."""
        self._writer.flush()
        self._on_lost = None
        if self._closing is None and self.opened_headers.done() and self._transport is not None:
            self._send_close(code, reason)
            try:
                async with asyncio.timeout(timeout):
                    await asyncio.shield(self.closed)
            except TimeoutError:
                pass
        self.abort()

    def abort(self) -> None:
        """Close the socket at once."""
        self._on_lost = None
        self._cancel_timers()
        if self._transport is not None:
            self._transport.abort()

    def _send_close(self, code: int, reason: str) -> None:
        self._closing = (code, reason)
        payload = code.to_bytes(2, "big") + reason.encode()[:120].decode("utf-8", "ignore").encode()
        self._write(SocketFrame(Opcode.CLOSE, payload).serialize(mask=True))

    def eof_received(self) -> None:
        """Treat the server's end of output as the end."""
        if self._handshake is not None and not self.opened_headers.done():
            try:
                self._handshake.finish()
            except Unreachable as error:
                self._fail(error)

    def connection_lost(self, exc: Exception | None) -> None:
        """Report the loss of the socket once."""
        if not self.closed.done():
            self.closed.set_result(None)
        if not self.opened_headers.done():
            self._fail(
                network_error(self._name, exc or ConnectionResetError(0, "it closed the connection before it answered"))
            )
        if self._early_data is None:
            reason = "" if exc is None else (getattr(exc, "strerror", None) or str(exc))
            self._report_lost(1006, reason or "the socket was cut")

    def _fail(self, error: Unreachable) -> None:
        if not self.opened_headers.done():
            self.opened_headers.set_exception(error)
            self.opened_headers.exception()  # the caller may have been cancelled
        self.abort()

    def _report_lost(self, code: int, reason: str) -> None:
        on_lost, self._on_lost = self._on_lost, None
        self._cancel_timers()
        if on_lost is not None and self.opened_headers.done():
            on_lost(self, code, reason)
        # After a second close() of a TLS transport, abort() does nothing; in Python 3.11.2 it raises.
        if self._transport is not None and not self._transport.is_closing():
            self._transport.close()

    def _cancel_timers(self) -> None:
        for timer in (self._ping_timer, self._stall_timer):
            if timer is not None:
                timer.cancel()


async def open_websocket(
    address: RemoteAddress,
    headers: Sequence[tuple[str, str]],
    on_frames: Callable[[list[Frame], int], None],
    on_lost: OnLost,
    tls: TLS,
) -> tuple[WebSocket, dict[str, list[str]]]:
    """Connect and upgrade; return the socket and the headers of the 101. Raise Unreachable."""
    loop = asyncio.get_running_loop()

    def make() -> WebSocket:
        return WebSocket(Handshake(address, headers), on_frames, on_lost)

    socket: WebSocket | None = None
    try:
        async with asyncio.timeout(OPEN_TIMEOUT):
            _, socket = await _connect(loop, address, make, tls)
            return socket, await socket.opened_headers
    except BaseException as error:
        if socket is not None:
            socket.abort()
        if isinstance(error, Unreachable) or not isinstance(error, Exception):
            raise
        raise network_error(address.display_url, error) from None


async def _connect(
    loop: asyncio.AbstractEventLoop, address: RemoteAddress, factory: Callable[[], WebSocket], tls: TLS
) -> tuple[asyncio.BaseTransport, WebSocket]:
    """Open a socket to the server, through the proxy of the environment if there is one."""
    from dragoman.transport.remote.client.http_proxy import open_tunnel, proxy_url

    context = tls_context(tls, address.display_url) if address.is_secure else None
    proxy = proxy_url(address)
    if proxy is None:
        return await loop.create_connection(factory, address.host, address.port, ssl=context)
    socket = await open_tunnel(proxy, address)
    return await loop.create_connection(
        factory, sock=socket, ssl=context, server_hostname=address.host if context is not None else None
    )
