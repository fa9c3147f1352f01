"""uvicorn's HTTP/1.1 for one socket, with limits that an exposed server needs and it lacks (decision 0017)."""

from __future__ import annotations

import asyncio
import logging
from typing import Any

import h11
from h11._receivebuffer import ReceiveBuffer
from uvicorn.config import Config
from uvicorn.protocols.http.h11_impl import H11Protocol
from uvicorn.server import ServerState

from dragoman.errors import Kind
from dragoman.transport.remote.server.limits import DRAIN_TIMEOUT, ServerLimits, Strangers

# uvicorn would log URLs with their query, which may hold tokens, and every garbled request.
silent_logger = logging.getLogger("dragoman.silent")
silent_logger.setLevel(logging.CRITICAL + 1)
silent_logger.propagate = False

# The message for a request with too many or too long headers.
HEADERS_TOO_LARGE = "the request has too many or too long headers"


def error_body(kind: str, message: str) -> bytes:
    """Return the body of a refusal."""
    return b'{"error":{"kind":"%b","message":"%b"}}' % (kind.encode(), message.encode())


def _error_response(status: str, kind: str, message: str) -> bytes:
    body = error_body(kind, message)
    head = f"HTTP/1.1 {status}\r\ncontent-type: application/json\r\nconnection: close\r\ncontent-length: {len(body)}"
    return head.encode() + b"\r\n\r\n" + body


_TIMEOUT_RESPONSE = _error_response(
    "408 Request Timeout", Kind.TIMEOUT, "the headers of the request did not come in time"
)
BAD_REQUEST_RESPONSE = _error_response("400 Bad Request", Kind.INVALID_REQUEST, "this is no HTTP request")
_HEADERS_TOO_LARGE_RESPONSE = _error_response("431 Request Header Fields Too Large", Kind.TOO_LARGE, HEADERS_TOO_LARGE)


class BoundedServerState(ServerState):
    """uvicorn's state of one server, plus its open sockets."""

    def __init__(self, limits: ServerLimits) -> None:
        super().__init__()
        self.limits = limits
        self.sockets: dict[asyncio.Transport, float] = {}  # and since when one is closing; 0.0: it is not
        self.strangers = Strangers(limits)


class StrictReceiveBuffer(ReceiveBuffer):
    """The input buffer from which h11 takes the lines of a head. Refuses what others may parse differently.

    Behind a proxy, a head that the two parse differently would smuggle a request past it (RFC 9112 11.2). h11 limits
    only incomplete heads; this also limits heads that come all at once.
    """

    def __init__(self, max_head: int) -> None:
        super().__init__()
        self._max_head = max_head
        self.was_large = False

    def _extract(self, count: int) -> bytearray:
        self._head = super()._extract(count)
        return self._head

    def maybe_extract_lines(self) -> list[bytearray] | None:
        """Return the lines of a head when it is complete."""
        lines = super().maybe_extract_lines()
        if not lines:
            return lines
        head = self._head
        if len(head) > self._max_head:
            self.was_large = True
            raise h11.LocalProtocolError("the head is too large")
        if head.count(b"\n") != head.count(b"\r\n"):
            raise h11.LocalProtocolError("a line ends with LF alone")
        names = [bytes(line.partition(b":")[0]).lower() for line in lines]
        if any(name[:1] in b" \t" for name in names):
            raise h11.LocalProtocolError("a header goes on in the next line")
        if b"transfer-encoding" in names and b"content-length" in names:
            raise h11.LocalProtocolError("the body has two lengths")
        return lines


class Http1(H11Protocol):
    """HTTP/1.1 for one socket, with a timeout for headers and for the rest of a refused body."""

    server_state: BoundedServerState

    def __init__(self, config: Config, server_state: BoundedServerState, app_state: dict[str, Any]) -> None:
        super().__init__(config, server_state, app_state)
        self.logger = self.access_logger = silent_logger
        self.access_log = False
        self.conn._receive_buffer = self._strict = StrictReceiveBuffer(server_state.limits.headers)
        self._header_timer: asyncio.TimerHandle | None = None
        self._body_timer: asyncio.TimerHandle | None = None
        self._discards_input = False

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Count the socket and start the header timeout."""
        super().connection_made(transport)
        self._start_header_timer()

    def data_received(self, data: bytes) -> None:
        """Handle bytes; the timeout runs while the headers are incomplete."""
        if self._discards_input:
            return
        super().data_received(data)
        if self._discards_input:
            self._stop_header_timer()
            return
        if self.conn.their_state is h11.IDLE and not self.transport.is_closing():
            self._start_header_timer()
        else:
            self._stop_header_timer()
        if self._body_timer is not None and self.conn.their_state is not h11.SEND_BODY:
            self._stop_body_timer()

    def on_response_complete(self) -> None:
        """Prepare for the next request, which may have begun already."""
        super().on_response_complete()
        if self.conn.their_state is h11.SEND_BODY and not self.transport.is_closing():
            # Answered before the body arrived: it may still end normally, so that the response is read, but soon.
            if self._body_timer is None:
                self._body_timer = self.loop.call_later(self.server_state.limits.header_timeout, self.transport.close)
            return
        if self.conn.their_state is h11.IDLE and self.conn.trailing_data[0]:
            self._start_header_timer()

    def connection_lost(self, exc: Exception | None) -> None:
        """Forget the socket."""
        self.server_state.sockets.pop(self.transport, None)
        self._stop_header_timer()
        self._stop_body_timer()
        super().connection_lost(exc)

    def handle_websocket_upgrade(self, event: h11.Request) -> None:
        """Hand the socket over to the WebSocket protocol."""
        self._stop_header_timer()
        super().handle_websocket_upgrade(event)

    def send_400_response(self, msg: str) -> None:
        """Refuse what is no request, or has too many headers, with our message, and close the socket."""
        is_large = self._strict.was_large or len(self.conn.trailing_data[0]) > (
            self.config.h11_max_incomplete_event_size or 0
        )
        self.transport.write(_HEADERS_TOO_LARGE_RESPONSE if is_large else BAD_REQUEST_RESPONSE)
        if self.cycle is not None and not self.cycle.response_complete:
            self.transport.close()  # a response is running and must notice the end
            return
        self._discards_input = (
            True  # discard input: with unread bytes the client would get a reset instead of the reason
        )
        if self.transport.can_write_eof():
            self.transport.write_eof()
        self._stop_body_timer()
        self._body_timer = self.loop.call_later(DRAIN_TIMEOUT, self.transport.close)

    def _start_header_timer(self) -> None:
        if self._header_timer is None:
            self._header_timer = self.loop.call_later(self.server_state.limits.header_timeout, self._on_header_timeout)

    def _stop_header_timer(self) -> None:
        if self._header_timer is not None:
            self._header_timer.cancel()
            self._header_timer = None

    def _stop_body_timer(self) -> None:
        if self._body_timer is not None:
            self._body_timer.cancel()
            self._body_timer = None

    def _on_header_timeout(self) -> None:
        self._header_timer = None
        if self.conn.their_state is h11.IDLE and self.conn.trailing_data[0] and not self.transport.is_closing():
            self.transport.write(_TIMEOUT_RESPONSE)
        if self.conn.their_state is h11.IDLE:
            self.transport.close()
