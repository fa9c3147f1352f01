"""A transport to an agent behind a WebSocket: one connection that may outlive its sockets.

With a server that can resume, frames are kept until they are acknowledged, and none is lost or doubled after a cut.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from msgspec.structs import replace

from dragoman.dialect.peek import FramePeek, peek_frame
from dragoman.errors import ConnectionFailed, ProtocolError, TransportClosed, Unreachable
from dragoman.transport.base import CLOSE_TIMEOUT, HIGH_WATER
from dragoman.transport.remote import headers as names
from dragoman.transport.remote.address import RemoteAddress, RemoteOptions
from dragoman.transport.remote.client import post_answers
from dragoman.transport.remote.client.cookies import join_cookies
from dragoman.transport.remote.client.dial import RemoteTransport
from dragoman.transport.remote.client.ws_socket import WebSocket, open_websocket
from dragoman.transport.remote.errors import ClosedByServer
from dragoman.transport.remote.resume import Acknowledgement, FramesGone, ResumeBuffer
from dragoman.transport.remote.retry import RetryLoop
from dragoman.wire.frames import Frame

# Above this many bytes of our frames without acknowledgement, senders wait.
MAX_UNACKNOWLEDGED = 16 * 1024 * 1024

# Smaller messages are never too large and are not checked. Bytes.
LARGE_MESSAGE = 32 * 1024

# A large message at which the connection was cut this often in a row is too large for something on the way that
# disconnects without a reason; without this limit it would be sent forever.
MAX_CUTS = 8

# Close codes after which a server that can resume is dialed again: no close frame, a restart, busy, or we were slow.
_RESUMABLE_CODES = frozenset({1001, 1005, 1006, 1011, 1012, 1013, 1014, names.CLOSE_SLOW})


class WebSocketTransport(RemoteTransport):
    """A peer behind a WebSocket; call `dial` first."""

    def __init__(
        self, address: RemoteAddress, remote: RemoteOptions, report: Callable[[str], None] | None = None
    ) -> None:
        super().__init__(address, remote, report)
        self._socket: WebSocket | None = None
        self._cookies: dict[str, str] = {}
        self._resume_task: asyncio.Task[None] | None = None
        self.is_resumable = False
        self._resume_buffer = ResumeBuffer(None)  # our frames, until they are acknowledged
        self._acknowledgement = Acknowledgement(self._resume_buffer, self._send_ack)
        # How many messages the server had after the last cut, and how many cuts in a row left it there.
        self._cuts_at_cursor = (0, 0)
        # The largest message sent to a server that cannot resume.
        self._largest_sent = (LARGE_MESSAGE, FramePeek())

    async def dial(self) -> None:
        """Open the first socket. Raise Unreachable."""
        socket, response_headers = await self._open([(names.RESUME, "1")])
        self.connection_id = _header_value(response_headers, names.CONNECTION_ID)
        self.is_resumable = bool(self.connection_id) and _header_value(response_headers, names.CURSOR).isdigit()
        self._use_socket(socket)

    async def _open(self, headers: list[tuple[str, str]]) -> tuple[WebSocket, dict[str, list[str]]]:
        address = self._address_with_cookies() if self._cookies else self._address
        socket, response_headers = await open_websocket(
            address, headers, self._on_frames, self._on_socket_lost, self._remote.tls
        )
        for line in response_headers.get("set-cookie", ()):
            name, separator, value = line.partition(";")[0].partition("=")
            if separator:
                self._cookies[name.strip()] = value.strip()
        self._note_max_message(_header_value(response_headers, names.MAX_MESSAGE))
        return socket, response_headers

    def _address_with_cookies(self) -> RemoteAddress:
        """Return the address with the cookies of the server, by which a load balancer routes, and those of the user.

        (docs/protocol/http.md#cookies)
        """
        headers = self._address.headers
        own = [value for name, value in headers if name.lower() == "cookie"]
        cookies = join_cookies(*own, *(f"{name}={value}" for name, value in self._cookies.items()))
        others = [header for header in headers if header[0].lower() != "cookie"]
        return replace(self._address, headers=(*others, ("Cookie", cookies)))

    def _use_socket(self, socket: WebSocket) -> None:
        self._socket = socket
        socket.on_writable = self._space_available.set
        socket.start_delivery()

    def _on_frames(self, frames: list[Frame], size: int) -> None:
        if self.is_resumable:
            count = len(frames)
            frames = self._acknowledgement.count_frames(frames, size)
            if len(frames) < count:  # the server has acknowledged frames of ours
                self._space_available.set()
            if not frames:
                return
        incoming = self._incoming
        incoming.deliver(frames)
        if incoming.is_full:
            self._pause_until_drained()

    def _pause_until_drained(self) -> None:
        socket = self._socket
        if socket is not None:  # slow the server down while nobody receives
            socket.pause()
            self._incoming.call_when_drained(socket.resume)

    def _send_ack(self, frame: bytes) -> bool:
        if self._socket is not None:
            self._socket.send(frame)
        return self._socket is not None

    def send(self, data: bytes, session: str | None = None) -> None:
        """Send one frame; without a socket it waits for the next one."""
        if self._end_error is not None:
            raise self._end_error.with_traceback(None)
        size = len(data)
        if size > self._max_message:
            outcome = post_answers.too_large_outcome(
                _peek_or_empty(data), size, post_answers.limit_text(self._max_message)
            )
            self._report_too_large(outcome)
            if outcome.replacement is None:
                return
            data = outcome.replacement
        elif size >= self._largest_sent[0] and not self.is_resumable:
            self._largest_sent = (size, _peek_or_empty(data))
        if self.is_resumable:
            self._resume_buffer.add(data)
            if self._socket is not None:
                self._resume_buffer.take()
        if self._socket is not None:
            self._socket.send(data)

    def congested(self) -> bool:
        """Whether the socket is full, or too much waits for one."""
        if self._socket is None:
            return self._resume_buffer.unacknowledged_size > HIGH_WATER
        return self._socket.is_full or self._resume_buffer.unacknowledged_size > MAX_UNACKNOWLEDGED

    async def drain(self) -> None:
        """Wait until there is space."""
        while self._end_error is None and self.congested():
            self._space_available.clear()
            await self._space_available.wait()
        if self._end_error is not None:
            raise self._end_error.with_traceback(None)

    def unsent(self) -> list[bytes]:
        """Return the frames that were never given to a socket, after the end."""
        return [] if self._socket is not None else self._resume_buffer.take()

    def _on_socket_lost(self, socket: WebSocket, code: int, reason: str) -> None:
        """Resume with another socket, or end the connection."""
        if socket is not self._socket or self._end_error is not None:
            return
        self._socket = None
        detail = f": {reason}" if reason else ""
        if code == names.CLOSE_TOO_LARGE and self.is_resumable:
            self._resume_task = self._loop.create_task(self._resume(reason, True), name=f"dragoman resumes {self.peer}")
            return
        if code == names.CLOSE_TOO_LARGE and self._largest_sent[0] > LARGE_MESSAGE:
            size, peek = self._largest_sent
            self._report_too_large(
                post_answers.too_large_outcome(peek, size, f"the server closed the connection{detail}"), now=True
            )
        if not self.is_resumable or code not in _RESUMABLE_CODES:
            ending = "closed the connection" if code != 1006 else "is gone"
            number = "" if code in (1000, 1001, 1005, 1006) else f" (WebSocket {code})"
            kind = ClosedByServer if code == 1000 else TransportClosed
            self._end(kind(f"{self.peer} {ending}{number}{detail}"))
            return
        self._resume_task = self._loop.create_task(self._resume(reason), name=f"dragoman resumes {self.peer}")

    def _report_too_large(self, outcome: post_answers.TooLargeOutcome, now: bool = False) -> None:
        """Answer the sender of a message that was too large, or report it if nobody waits for an answer."""
        if outcome.answer is None:
            self._report(f"{self.peer}: {outcome.text}")
            return
        frames: list[Frame] = [outcome.answer]
        if now:
            self._incoming.deliver(frames)
        else:  # not while it is being sent: nobody waits for the answer yet
            self._loop.call_soon(self._incoming.deliver, frames)

    async def _resume(self, reason: str, is_too_large: bool = False) -> None:
        retry = RetryLoop(self.peer, self._remote.backoff, self._outage, reason, was_cut=not is_too_large)
        try:
            socket, response_headers = await retry.run(self._reopen)
        except ConnectionFailed as error:
            is_unknown = isinstance(error, Unreachable) and error.status in (404, 410)
            self._end(TransportClosed(str(error)) if is_unknown else error)
            return
        cursor = int(_header_value(response_headers, names.CURSOR))
        try:
            self._resume_buffer.rewind(cursor)
        except FramesGone as error:
            socket.abort()
            self._end(TransportClosed(f"{self.peer} lost count of the messages: {error}"))
            return
        first = self._resume_buffer.first_waiting()  # the first frame that the server did not take
        self._cuts_at_cursor = (
            cursor,
            self._cuts_at_cursor[1] + 1 if self._cuts_at_cursor[0] == cursor and len(first) > LARGE_MESSAGE else 0,
        )
        if first and (is_too_large or self._cuts_at_cursor[1] >= MAX_CUTS):
            limit = f"the connection was cut {MAX_CUTS} times while it was sent"
            if is_too_large:
                limit = f"the connection was closed with: {reason or 'too large'}"
            outcome = post_answers.too_large_outcome(_peek_or_empty(first), len(first), limit)
            self._resume_buffer.replace_first(outcome.replacement or post_answers.NOOP_FRAME)
            self._report_too_large(outcome)
        for frame in self._resume_buffer.take():
            socket.send(frame)
        self._use_socket(socket)
        if self._incoming.is_full:
            self._pause_until_drained()
        self._space_available.set()

    async def _reopen(self) -> tuple[WebSocket, dict[str, list[str]]]:
        cursor = str(self._acknowledgement.received_count)
        socket, response_headers = await self._open([(names.CONNECTION_ID, self.connection_id), (names.CURSOR, cursor)])
        if (
            _header_value(response_headers, names.CONNECTION_ID) != self.connection_id
            or not _header_value(response_headers, names.CURSOR).isdigit()
        ):
            socket.abort()
            raise Unreachable(f"{self.peer} does not know this connection any more", status=404)
        return socket, response_headers

    def _end(self, error: ConnectionFailed) -> None:
        self._acknowledgement.stop()
        super()._end(error)

    async def _release(self, error: ConnectionFailed, reason: str) -> None:
        """Close the socket; the server then frees the connection."""
        socket, self._socket = self._socket, None
        self._end(error)
        try:
            if self._resume_task is not None:
                self._resume_task.cancel()
                await asyncio.gather(self._resume_task, return_exceptions=True)
            if socket is not None:
                await socket.close(1000, reason, CLOSE_TIMEOUT)
        finally:
            if socket is not None:
                socket.abort()


def _header_value(headers: dict[str, list[str]], name: str) -> str:
    return headers.get(name.lower(), [""])[-1]


def _peek_or_empty(frame: bytes) -> FramePeek:
    try:
        return peek_frame(frame)
    except ProtocolError:
        return FramePeek()
