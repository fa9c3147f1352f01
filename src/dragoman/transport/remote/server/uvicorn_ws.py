"""uvicorn's WebSocket protocol, with flood limits.

Our app also gets a socket (`dragoman.direct`) that takes many frames in one write, without a call and a task for each.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

from uvicorn.config import Config
from uvicorn.protocols.websockets.websockets_sansio_impl import WebSocketsSansIOProtocol
from websockets.frames import Frame as WireFrame
from websockets.frames import Opcode
from websockets.protocol import State

from dragoman.transport.base import CLOSE_TIMEOUT, HIGH_WATER, LOW_WATER
from dragoman.transport.remote.server.asgi import CERTIFICATE, SOCKET_KEY
from dragoman.transport.remote.server.limits import (
    BURST_SECONDS,
    FREE_BYTES,
    SMALL_FRAME,
    TokenBucket,
    UnfinishedMessage,
)
from dragoman.transport.remote.server.transport import POLICY, TRY_LATER
from dragoman.transport.remote.server.uvicorn_http1 import BAD_REQUEST_RESPONSE, BoundedServerState, silent_logger
from dragoman.transport.remote.server.ws_requests import DIRECT_EXTENSION
from dragoman.wire.frames import Frame

# Bytes processed at once, and fragments of a message joined at once, so that a flood of tiny ones is noticed early.
READ_PIECE = 16 * 1024
MAX_PIECES = 1024


class UvicornWebSocket(WebSocketsSansIOProtocol):
    """A WebSocket for any ASGI app, and a ServerSocket for ours."""

    def __init__(self, config: Config, server_state: BoundedServerState, app_state: dict[str, Any]) -> None:
        super().__init__(config, server_state, app_state)
        self.logger = self.conn.logger = silent_logger
        self.conn.debug = False
        self._sockets = server_state.sockets
        limits = server_state.limits
        self._bucket = TokenBucket(limits.frames, limits.frames * BURST_SECONDS)
        self._on_frames: Callable[[list[Frame]], None] | None = None
        self._on_writable: Callable[[], None] | None = None
        self._paused = False
        self._discards_input = False
        self._unfinished: UnfinishedMessage | None = None  # None until it is known whose messages come
        self._pieces_size = 0  # bytes in self.frames
        self._begun_at: float | None = None  # when the unfinished message began
        self._message_timeout = limits.body_timeout
        self._deadline: asyncio.TimerHandle | None = None

    def handle_connect(self, event: Any) -> None:
        """Put the direct socket among the extensions of the upgrade request."""
        super().handle_connect(event)
        scope: Any = getattr(self, "scope", None)
        if scope is not None:
            scope["extensions"][DIRECT_EXTENSION] = {"socket": self}
            scope[SOCKET_KEY] = {CERTIFICATE: self.transport.get_extra_info("peercert")}

    def connection_made(self, transport: Any) -> None:
        """Count the socket and set the usual write limits."""
        super().connection_made(transport)
        transport.set_write_buffer_limits(HIGH_WATER, LOW_WATER)

    def connection_lost(self, exc: Exception | None) -> None:
        """Forget the socket, and free its memory at once: its parser refers to itself."""
        self._sockets.pop(self.transport, None)
        super().connection_lost(exc)
        self._drop_unfinished()
        self._on_frames = self._on_writable = None
        if (scope := getattr(self, "scope", None)) is not None:
            scope["extensions"].pop(DIRECT_EXTENSION, None)
        if self._deadline is not None:
            self._deadline.cancel()

    def shutdown(self) -> None:
        """Close the socket at the end of the server, without a second close frame if the client is closing it."""
        if self.handshake_complete and not self.close_sent and self.conn.state is not State.OPEN:
            self.stop_keepalive()
            self.transport.close()
        else:
            super().shutdown()

    def data_received(self, data: bytes) -> None:
        """Handle bytes; a large block in parts, so that a flood is noticed at its beginning."""
        for start in range(0, len(data), READ_PIECE):
            if self._discards_input:
                return
            super().data_received(data[start : start + READ_PIECE] if len(data) > READ_PIECE else data)
        if not self.handshake_initiated and not self.transport.is_closing():
            # The library takes it for no upgrade (it has a body, or too many headers), and sends no response.
            self.transport.write(BAD_REQUEST_RESPONSE)
            self.transport.close()
            return
        self._limit_unfinished()

    def _limit_unfinished(self) -> None:
        """Count what has come of a message that is not complete, and start its deadline."""
        size = len(self.conn.reader.buffer) + self._pieces_size
        if self._unfinished is None:
            if size > FREE_BYTES and not self.handshake_complete:
                self.transport.abort()  # nothing may come before the upgrade is accepted
            return
        if not self._unfinished.resize(size):
            self._cut_off(TRY_LATER, "rate_limited: too many large messages at once; send this one again later")
        elif not size:
            self._begun_at = None
        elif self._begun_at is None:
            self._begun_at = self.loop.time()
            if self._deadline is None:
                self._deadline = self.loop.call_later(self._message_timeout, self._check_deadline)

    def _check_deadline(self) -> None:
        self._deadline = None
        if self._begun_at is None or self.close_sent:
            return
        left = self._begun_at + self._message_timeout - self.loop.time()
        if left <= 0 and not self._paused:  # paused: it is we who do not read
            self._cut_off(POLICY, f"timeout: a message did not come within {self._message_timeout:g} seconds")
        else:
            self._deadline = self.loop.call_later(self._message_timeout if self._paused else left, self._check_deadline)

    def _cut_off(self, code: int, reason: str) -> None:
        """Close the socket and read nothing more of it."""
        self._discards_input = True
        self.close(code, reason)
        if self.transport.can_write_eof():  # the client need not wait for an answer to its own close frame
            self.transport.write_eof()
        self._drop_unfinished()

    def _drop_unfinished(self) -> None:
        self.frames, self._pieces_size, self._begun_at = [], 0, None
        self.conn.reader.buffer.clear()
        if self._unfinished is not None:
            self._unfinished.resize(0)

    def handle_ping(self) -> None:
        """Answer a ping, unless the client does not read the answers."""
        if self.buffered_bytes > HIGH_WATER:
            self.conn.data_to_send()
            return
        super().handle_ping()

    def start_direct(
        self,
        on_frames: Callable[[list[Frame]], None],
        on_writable: Callable[[], None],
        unfinished: UnfinishedMessage,
    ) -> None:
        """Give messages to `on_frames` from now on, and call `on_writable` when more can be written."""
        if self.disconnected:
            return
        self._unfinished = unfinished
        self._on_frames = on_frames
        self._on_writable = on_writable
        if self.read_paused:
            self.read_paused = False
            self.transport.resume_reading()
        waiting: list[Frame] = []
        while not self.queue.empty():  # received while the app accepted the upgrade
            message: Any = self.queue.get_nowait()
            if message["type"] != "websocket.receive":
                self.queue.put_nowait(message)
                break
            if message.get("text") is not None:
                waiting.append(message["text"].encode("utf-8", "replace"))
        if waiting:
            on_frames(waiting)

    @property
    def is_ready(self) -> bool:
        """Whether the socket takes more."""
        return self.writable.is_set()

    @property
    def buffered_bytes(self) -> int:
        """Bytes that the system has not taken yet."""
        return self.transport.get_write_buffer_size()

    def write(self, frames: list[bytes]) -> None:
        """Send each frame as a text message, all in one write."""
        if self.close_sent or self.transport.is_closing():
            return
        if len(frames) == 1 and len(frames[0]) > HIGH_WATER:  # do not copy a whole file for its header
            self.transport.write(text_frame_header(len(frames[0])))
            self.transport.write(frames[0])
            return
        parts: list[bytes] = []
        add = parts.append
        for frame in frames:
            size = len(frame)
            if size < 126:
                add(_SHORT_HEADERS[size])
            elif size < 65536:
                add(b"\x81\x7e" + size.to_bytes(2, "big"))
            else:
                add(text_frame_header(size))
            add(frame)
        self.transport.write(b"".join(parts))

    def pause(self) -> None:
        """Stop reading."""
        if not self._paused and not self.transport.is_closing():
            self._paused = True
            self.transport.pause_reading()

    def resume(self) -> None:
        """Resume reading."""
        if self._paused and not self.transport.is_closing():
            self._paused = False
            self.transport.resume_reading()

    def close(self, code: int, reason: str) -> None:
        """Send a close frame and close the socket, whether the peer answers or not."""
        if self.close_sent or self.transport.is_closing():
            return
        self.resume()
        self.queue.put_nowait({"type": "websocket.disconnect", "code": code, "reason": reason})
        self.conn.send_close(code, reason.encode()[:120].decode("utf-8", "ignore"))
        self.transport.write(b"".join(self.conn.data_to_send()))
        self.close_sent = True
        self.close_timer = self.loop.call_later(CLOSE_TIMEOUT, self.transport.abort)

    def resume_writing(self) -> None:
        """Tell the transport that more can be written."""
        super().resume_writing()
        if self._on_writable is not None:
            self._on_writable()

    def handle_events(self) -> None:
        """Deliver text messages straight to the transport, all of one block together."""
        if self._on_frames is None:
            super().handle_events()
            return
        messages: list[Frame] = []
        idle = 0  # frames that are no message: they cost more than they bring
        for event in self.conn.events_received():
            if not isinstance(event, WireFrame):
                continue
            if event.opcode is Opcode.TEXT and event.fin:
                messages.append(bytes(event.data))
                self._begun_at = None
                continue
            idle += len(event.data) < SMALL_FRAME
            if event.opcode is Opcode.CONT:
                self.frames.append(bytes(event.data))
                self._pieces_size += len(event.data)
                if len(self.frames) > MAX_PIECES:
                    self.frames = [b"".join(self.frames)]
                if event.fin:
                    joined, self.frames = b"".join(self.frames), []
                    self._pieces_size, self._begun_at = 0, None
                    if self.curr_msg_data_type == "text":
                        messages.append(joined)
            elif event.opcode in (
                Opcode.TEXT,
                Opcode.BINARY,
            ):  # binary messages are ignored (docs/protocol/http.md#websocket)
                self.curr_msg_data_type = "text" if event.opcode is Opcode.TEXT else "bytes"
                self.frames = [] if event.fin else [bytes(event.data)]
                self._pieces_size = 0 if event.fin else len(event.data)
            elif event.opcode is Opcode.PING:
                self.handle_ping()
            elif event.opcode is Opcode.PONG:
                self.handle_pong(event)
            elif event.opcode is Opcode.CLOSE:
                if messages:
                    self._on_frames(messages)
                    messages = []
                self.handle_close(event)
        if idle and not self._bucket.take(idle, self.loop.time()):
            self._cut_off(POLICY, "rate_limited: far too many frames")
            return
        if messages and not self.close_sent:
            self._on_frames(messages)


def text_frame_header(size: int) -> bytes:
    """Return the header of a text message of this size (RFC 6455 section 5.2); a server masks nothing."""
    if size < 126:
        return bytes((0x81, size))
    if size < 65536:
        return b"\x81\x7e" + size.to_bytes(2, "big")
    return b"\x81\x7f" + size.to_bytes(8, "big")


_SHORT_HEADERS = [bytes((0x81, size)) for size in range(126)]
