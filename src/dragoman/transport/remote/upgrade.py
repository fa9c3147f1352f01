"""uvicorn's protocols for HTTP/1.1 and WebSocket, with what a server in the open needs and a direct way for frames.

The HTTP side bounds the time in which headers must come. The WebSocket side is plain ASGI for every app, and gives ours
a socket (`dragoman.direct`) that takes many frames in one write, with no call and no task for each: handshake, pings,
closing and reading stay those of the websockets library. Above is `serving`; nothing else imports uvicorn.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import Any

import h11
from uvicorn.config import Config
from uvicorn.protocols.http.h11_impl import H11Protocol
from uvicorn.protocols.websockets.websockets_sansio_impl import WebSocketsSansIOProtocol
from uvicorn.server import ServerState
from websockets.frames import Frame as WireFrame
from websockets.frames import Opcode

from dragoman.errors import Kind
from dragoman.transport.contract import CLOSE_PATIENCE, HIGH_WATER, LOW_WATER
from dragoman.transport.remote.upgrading import DIRECT
from dragoman.wire.frames import Frame

# uvicorn would log addresses with their query, in which tokens may stand, and every garbled request of a stranger.
silent = logging.getLogger("dragoman.silent")
silent.setLevel(logging.CRITICAL + 1)
silent.propagate = False


def _said(status: str, kind: str, message: str) -> bytes:
    body = b'{"error":{"kind":"%b","message":"%b"}}' % (kind.encode(), message.encode())
    head = f"HTTP/1.1 {status}\r\ncontent-type: application/json\r\nconnection: close\r\ncontent-length: {len(body)}"
    return head.encode() + b"\r\n\r\n" + body


_LATE = _said("408 Request Timeout", Kind.TIMEOUT, "the headers of the request did not come in time")
_GARBLED = _said("400 Bad Request", Kind.INVALID_REQUEST, "this is no HTTP request")
_FLOOD = _said("431 Request Header Fields Too Large", Kind.TOO_LARGE, "the request has too many or too long headers")


class State(ServerState):
    """What the sockets of one server share: uvicorn's, and which of them are open."""

    def __init__(self) -> None:
        super().__init__()
        self.sockets: dict[asyncio.Transport, float] = {}  # and since when one is closing; 0.0: it is not


class Http1(H11Protocol):
    """HTTP/1.1 of one socket; headers that do not come in time end it."""

    header_patience = 10.0

    server_state: State

    def __init__(self, config: Config, server_state: State, app_state: dict[str, Any]) -> None:
        super().__init__(config, server_state, app_state)
        self.logger = self.access_logger = silent
        self.access_log = False
        self._header_timer: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """The socket is there, and has until the patience ends to ask for something."""
        super().connection_made(transport)
        self._watch_headers()

    def data_received(self, data: bytes) -> None:
        """Bytes of a request; the clock runs while its headers are not complete."""
        super().data_received(data)
        if self.conn.their_state is h11.IDLE and not self.transport.is_closing():
            self._watch_headers()
        else:
            self._unwatch_headers()

    def on_response_complete(self) -> None:
        """A request was answered; the next one may have begun already."""
        super().on_response_complete()
        if self.conn.their_state is h11.IDLE and self.conn.trailing_data[0]:
            self._watch_headers()

    def connection_lost(self, exc: Exception | None) -> None:
        """The socket is gone."""
        self.server_state.sockets.pop(self.transport, None)
        self._unwatch_headers()
        super().connection_lost(exc)

    def handle_websocket_upgrade(self, event: h11.Request) -> None:
        """The headers were those of a WebSocket: its own protocol goes on."""
        self._unwatch_headers()
        super().handle_websocket_upgrade(event)

    def send_400_response(self, msg: str) -> None:
        """What is no request, or has too many headers, is told so in our words, and its socket ends."""
        is_large = len(self.conn.trailing_data[0]) > (self.config.h11_max_incomplete_event_size or 0)
        self.transport.write(_FLOOD if is_large else _GARBLED)
        self.transport.close()

    def _watch_headers(self) -> None:
        if self._header_timer is None:
            self._header_timer = self.loop.call_later(self.header_patience, self._late)

    def _unwatch_headers(self) -> None:
        if self._header_timer is not None:
            self._header_timer.cancel()
            self._header_timer = None

    def _late(self) -> None:
        self._header_timer = None
        if self.conn.their_state is h11.IDLE and self.conn.trailing_data[0] and not self.transport.is_closing():
            self.transport.write(_LATE)
        if self.conn.their_state is h11.IDLE:
            self.transport.close()


class WebSocket(WebSocketsSansIOProtocol):
    """A WebSocket for any ASGI app, and a Wire for ours."""

    def __init__(self, config: Config, server_state: State, app_state: dict[str, Any]) -> None:
        super().__init__(config, server_state, app_state)
        self.logger = self.conn.logger = silent
        self.conn.debug = False
        self._sockets = server_state.sockets
        self._arrived: Callable[[list[Frame]], None] | None = None
        self._flow: Callable[[], None] | None = None
        self._paused = False

    def handle_connect(self, event: Any) -> None:
        """The upgrade: the app sees the direct socket among its extensions."""
        super().handle_connect(event)
        scope: Any = getattr(self, "scope", None)
        if scope is not None:
            scope["extensions"][DIRECT] = {"socket": self}

    def connection_made(self, transport: Any) -> None:
        """The socket is there; as much is buffered as on every other transport."""
        super().connection_made(transport)
        transport.set_write_buffer_limits(HIGH_WATER, LOW_WATER)

    def connection_lost(self, exc: Exception | None) -> None:
        """The socket is gone."""
        self._sockets.pop(self.transport, None)
        super().connection_lost(exc)

    # --- a Wire -----------------------------------------------------------------------------------------------

    def begin(self, arrived: Callable[[list[Frame]], None], flow: Callable[[], None]) -> None:
        """Give messages to `arrived` from now on, and call `flow` when more can be written."""
        self._arrived = arrived
        self._flow = flow
        if self.read_paused:
            self.read_paused = False
            self.transport.resume_reading()
        waiting: list[Frame] = []
        while not self.queue.empty():  # what came while the app was let in
            message: Any = self.queue.get_nowait()
            if message["type"] != "websocket.receive":
                self.queue.put_nowait(message)
                break
            if message.get("text") is not None:
                waiting.append(message["text"].encode("utf-8", "replace"))
        if waiting:
            arrived(waiting)

    @property
    def ready(self) -> bool:
        """Whether the socket takes more."""
        return self.writable.is_set()

    @property
    def buffered(self) -> int:
        """Bytes that the system has not taken yet."""
        return self.transport.get_write_buffer_size()

    def write(self, frames: list[bytes]) -> None:
        """Send each frame as a text message, all in one write."""
        if self.close_sent or self.transport.is_closing():
            return
        if len(frames) == 1 and len(frames[0]) > HIGH_WATER:  # no copy of a whole file for its head
            self.transport.write(head(len(frames[0])))
            self.transport.write(frames[0])
            return
        parts: list[bytes] = []
        add = parts.append
        for frame in frames:
            size = len(frame)
            if size < 126:
                add(_SHORT[size])
            elif size < 65536:
                add(b"\x81\x7e" + size.to_bytes(2, "big"))
            else:
                add(head(size))
            add(frame)
        self.transport.write(b"".join(parts))

    def pause(self) -> None:
        """Read no more for now."""
        if not self._paused and not self.transport.is_closing():
            self._paused = True
            self.transport.pause_reading()

    def resume(self) -> None:
        """Read again."""
        if self._paused and not self.transport.is_closing():
            self._paused = False
            self.transport.resume_reading()

    def close(self, code: int, reason: str) -> None:
        """Say goodbye and let go, whether the peer answers or not."""
        if self.close_sent or self.transport.is_closing():
            return
        self.resume()
        self.queue.put_nowait({"type": "websocket.disconnect", "code": code, "reason": reason})
        self.conn.send_close(code, reason.encode()[:120].decode("utf-8", "ignore"))
        self.transport.write(b"".join(self.conn.data_to_send()))
        self.close_sent = True
        self.close_timer = self.loop.call_later(CLOSE_PATIENCE, self.transport.abort)

    def resume_writing(self) -> None:
        """The system took most of what was written."""
        super().resume_writing()
        if self._flow is not None:
            self._flow()

    def handle_events(self) -> None:
        """What came: text messages go straight to the transport, all of one block together."""
        if self._arrived is None:
            super().handle_events()
            return
        came: list[Frame] = []
        for event in self.conn.events_received():
            if not isinstance(event, WireFrame):
                continue
            if event.opcode is Opcode.TEXT and event.fin:
                came.append(bytes(event.data))
            elif event.opcode is Opcode.CONT:
                self.frames.append(bytes(event.data))
                if event.fin:
                    whole, self.frames = b"".join(self.frames), []
                    if self.curr_msg_data_type == "text":
                        came.append(whole)
            elif event.opcode in (Opcode.TEXT, Opcode.BINARY):  # binary messages are ignored (reference 3.2)
                self.curr_msg_data_type = "text" if event.opcode is Opcode.TEXT else "bytes"
                self.frames = [] if event.fin else [bytes(event.data)]
            elif event.opcode is Opcode.PING:
                self.handle_ping()
            elif event.opcode is Opcode.PONG:
                self.handle_pong(event)
            elif event.opcode is Opcode.CLOSE:
                if came:
                    self._arrived(came)
                    came = []
                self.handle_close(event)
        if came and not self.close_sent:
            self._arrived(came)


def head(size: int) -> bytes:
    """What stands before a text message of this size (RFC 6455 section 5.2); a server masks nothing."""
    if size < 126:
        return bytes((0x81, size))
    if size < 65536:
        return b"\x81\x7e" + size.to_bytes(2, "big")
    return b"\x81\x7f" + size.to_bytes(8, "big")


_SHORT = [bytes((0x81, size)) for size in range(126)]
