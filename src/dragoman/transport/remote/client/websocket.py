"""A remote agent behind a WebSocket, as a transport: one connection that may outlive its sockets.

Takes an Address, gives the Transport contract. With a server that can resume, every frame is kept until it is
acknowledged; a socket that is cut is opened again, both sides say how far they came, and nothing is lost or doubled.
With any other server the socket is the connection. Above is the engine or roles/client/reconnect; below ws_socket.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Callable

from dragoman.errors import ConnectionFailed, ProtocolError, TransportClosed, Unreachable
from dragoman.transport.base import CLOSE_TIMEOUT, HIGH_WATER, WRITE_STALL, FrameConsumer
from dragoman.transport.inlet import FrameQueue
from dragoman.transport.remote import headers as names
from dragoman.transport.remote.address import RemoteAddress, RemoteOptions
from dragoman.transport.remote.client import post_answers
from dragoman.transport.remote.client.ws_socket import WebSocket, open_websocket
from dragoman.transport.remote.errors import ClosedByServer
from dragoman.transport.remote.resume import (
    ACK_BYTES,
    ACK_DELAY,
    ACK_FRAMES,
    FramesGone,
    ResumeBuffer,
    encode_ack,
    parse_ack,
)
from dragoman.transport.remote.retry import Outage, RetryLoop
from dragoman.transport.remote.streams import FramePeek, peek_frame
from dragoman.wire.frames import MAX_FRAME, Frame

# Our own frames that the server has not acknowledged: beyond this it is not keeping up, and senders wait.
MAX_UNACKNOWLEDGED = 16 * 1024 * 1024

# Smaller messages are too large for nobody, and are not looked at. Bytes.
LARGE_MESSAGE = 32 * 1024

# A large message at which the connection was cut so often in a row is too large for somebody on the way who hangs up
# without a word; without an end it would be sent for ever.
MAX_CUTS = 8

# How an acknowledgement begins: a glance at each frame must do.
_ACK_PREFIX = encode_ack(0).partition(b',"params"')[0]

# Close codes after which a server that can resume is dialled again: no farewell, it restarts, it is busy, we were slow.
_RESUMABLE_CODES = frozenset({1001, 1005, 1006, 1011, 1012, 1013, 1014, names.CLOSE_SLOW})


class WebSocketTransport:
    """A peer behind a WebSocket; make it with `dial`."""

    def __init__(
        self,
        address: RemoteAddress,
        remote: RemoteOptions,
        *,
        report: Callable[[str], None] | None = None,
        stall: float = WRITE_STALL,
        max_frame: int = MAX_FRAME,
    ) -> None:
        self.peer = f"agent {address.display_url}"
        self._address = address
        self._remote = remote
        self._report = report or (lambda _: None)
        self._outage = Outage(self._report)
        self._stall = stall
        self._max_frame = max_frame
        self._loop = asyncio.get_running_loop()
        self._socket: WebSocket | None = None
        self._cookies: dict[str, str] = {}
        self._resume_task: asyncio.Task[None] | None = None
        self._end_error: ConnectionFailed | None = None
        self._closing: asyncio.Future[None] | None = None

        self._incoming = FrameQueue()
        self._drain_waiters: list[asyncio.Future[None]] = []

        self.connection_id = ""  # what the server calls this connection; "" when it does not say
        self.is_resumable = False
        self._received_count = 0  # frames of the server
        self._acked_count = 0  # of them acknowledged
        self._unacked_bytes = 0  # bytes
        self._ack_timer: asyncio.TimerHandle | None = None
        self._resume_buffer = ResumeBuffer(None)  # our frames, until they are acknowledged
        self._max_message = sys.maxsize  # bytes of a message that the server takes, where it says so
        self._cuts_at_cursor = (
            0,
            0,
        )  # how many messages the server had after the last cut, and how often it has been as many
        self._largest_sent = (
            LARGE_MESSAGE,
            FramePeek(),
        )  # the largest message that went to a server which cannot resume

    # --- dialling ---------------------------------------------------------------------------------------------

    async def dial(self) -> None:
        """Open the first socket. Raises Unreachable."""
        link, said = await self._open([(names.RESUME, "1")])
        self.connection_id = _header_value(said, names.CONNECTION_ID)
        self.is_resumable = bool(self.connection_id) and _header_value(said, names.CURSOR).isdigit()
        self._use_socket(link)

    async def _open(self, headers: list[tuple[str, str]]) -> tuple[WebSocket, dict[str, list[str]]]:
        if self._cookies:  # a balancer keeps us with one server by them (reference 3.2)
            headers = [*headers, ("Cookie", "; ".join(f"{name}={value}" for name, value in self._cookies.items()))]
        link, said = await open_websocket(
            self._address,
            headers,
            self._on_frames,
            self._on_socket_lost,
            tls=self._remote.tls,
            max_frame=self._max_frame,
            stall=self._stall,
        )
        for line in said.get("set-cookie", ()):
            name, is_there, value = line.partition(";")[0].partition("=")
            if is_there:
                self._cookies[name.strip()] = value.strip()
        largest = _header_value(said, names.MAX_MESSAGE)
        self._max_message = int(largest) if largest.isdigit() else sys.maxsize
        return link, said

    def _use_socket(self, socket: WebSocket) -> None:
        self._socket = socket
        socket.on_writable = self._wake_drains
        socket.start_delivery()

    # --- reading ----------------------------------------------------------------------------------------------

    async def receive(self) -> list[Frame]:
        """The next frames; raises why there are no more after the last one."""
        return await self._incoming.receive()

    def listen(self, take: FrameConsumer) -> None:
        """Offer what one read of the socket brought to `take`, while nothing older waits."""
        self._incoming.listen(take)

    def _on_frames(self, frames: list[Frame], size: int) -> None:
        if self.is_resumable:
            frames = self._count_frames(frames, size)
            if not frames:
                return
        inlet = self._incoming
        inlet.deliver(frames)
        if inlet.is_full:
            self._pause_until_drained()

    def _pause_until_drained(self) -> None:
        link = self._socket
        if link is not None:  # the producer must feel it when nobody takes what there is
            link.pause()
            self._incoming.call_when_drained(link.resume)

    def _count_frames(self, frames: list[Frame], size: int) -> list[Frame]:
        """Number the frames, take the acknowledgements out of them, and acknowledge in time."""
        cursors = [parse_ack(frame) for frame in frames if type(frame) is bytes and frame.startswith(_ACK_PREFIX)]
        if cursors:
            self._resume_buffer.acknowledge(max(cursor or 0 for cursor in cursors))
            self._wake_drains()
            frames = [frame for frame in frames if parse_ack(frame) is None]
        self._received_count += len(frames)
        self._unacked_bytes += size
        if self._received_count - self._acked_count >= ACK_FRAMES or self._unacked_bytes >= ACK_BYTES:
            self._acknowledge()
        elif frames and self._ack_timer is None:
            self._ack_timer = self._loop.call_later(ACK_DELAY, self._acknowledge)
        return frames

    def _acknowledge(self) -> None:
        if self._ack_timer is not None:
            self._ack_timer.cancel()
            self._ack_timer = None
        if self._socket is not None and self._received_count > self._acked_count:
            self._acked_count, self._unacked_bytes = self._received_count, 0
            self._socket.send(encode_ack(self._received_count))

    # --- writing ----------------------------------------------------------------------------------------------

    def send(self, data: bytes, session: str | None = None) -> None:
        """Send one frame; without a socket it waits for the next one."""
        if self._end_error is not None:
            raise self._end_error.with_traceback(None)
        size = len(data)
        if size > self._max_message:
            outsized = post_answers.too_large_outcome(
                _peek_or_empty(data), size, post_answers.limit_text(self._max_message)
            )
            self._report_too_large(outsized)
            if outsized.replacement is None:
                return
            data = outsized.replacement
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
        """Wait for room."""
        while self._end_error is None and self.congested():
            waiter: asyncio.Future[None] = self._loop.create_future()
            self._drain_waiters.append(waiter)
            try:
                await waiter
            finally:
                if waiter in self._drain_waiters:
                    self._drain_waiters.remove(waiter)
        if self._end_error is not None:
            raise self._end_error.with_traceback(None)

    def _wake_drains(self) -> None:
        for waiter in self._drain_waiters:
            if not waiter.done():
                waiter.set_result(None)

    def unsent(self) -> list[bytes]:
        """After the end: the frames that no socket has ever been given."""
        return [] if self._socket is not None else self._resume_buffer.take()

    # --- resuming ---------------------------------------------------------------------------------------------

    def _on_socket_lost(self, socket: WebSocket, code: int, reason: str) -> None:
        """The socket is gone; go on with another one, or say that this was it."""
        if socket is not self._socket or self._end_error is not None:
            return
        self._socket = None
        said = f": {reason}" if reason else ""
        if code == names.CLOSE_TOO_LARGE and self.is_resumable:
            self._resume_task = self._loop.create_task(self._resume(reason, True), name=f"dragoman resumes {self.peer}")
            return
        if code == names.CLOSE_TOO_LARGE and self._largest_sent[0] > LARGE_MESSAGE:
            size, about = self._largest_sent
            self._report_too_large(
                post_answers.too_large_outcome(about, size, f"the server closed the connection{said}"), now=True
            )
        if not self.is_resumable or code not in _RESUMABLE_CODES:
            farewell = "closed the connection" if code != 1006 else "is gone"
            number = "" if code in (1000, 1001, 1005, 1006) else f" (WebSocket {code})"
            kind = ClosedByServer if code == 1000 else TransportClosed
            self._end(kind(f"{self.peer} {farewell}{number}{said}"))
            return
        self._resume_task = self._loop.create_task(self._resume(reason), name=f"dragoman resumes {self.peer}")

    def _report_too_large(self, outcome: post_answers.TooLargeOutcome, now: bool = False) -> None:
        """A message was too large: its sender is answered, or where nobody waits for an answer it is said."""
        if outcome.answer is None:
            self._report(f"{self.peer}: {outcome.text}")
            return
        told: list[Frame] = [outcome.answer]
        if now:
            self._incoming.deliver(told)
        else:  # not while it is being sent: nobody waits for the answer yet
            self._loop.call_soon(self._incoming.deliver, told)

    async def _resume(self, reason: str, is_too_large: bool = False) -> None:
        retrying = RetryLoop(self.peer, self._remote.backoff, self._outage, reason, was_cut=not is_too_large)
        try:
            link, said = await retrying.run(self._reopen)
        except ConnectionFailed as error:
            self._end(TransportClosed(str(error)) if _is_unknown_connection(error) else error)
            return
        cursor = int(_header_value(said, names.CURSOR))
        try:
            self._resume_buffer.rewind(cursor)
        except FramesGone as error:
            link.abort()
            self._end(TransportClosed(f"{self.peer} lost count of what it was told: {error}"))
            return
        first = self._resume_buffer.first_waiting()  # what the server did not take
        self._cuts_at_cursor = (
            cursor,
            self._cuts_at_cursor[1] + 1 if self._cuts_at_cursor[0] == cursor and len(first) > LARGE_MESSAGE else 0,
        )
        if first and (is_too_large or self._cuts_at_cursor[1] >= MAX_CUTS):
            why = f"the connection was cut {MAX_CUTS} times while it was sent"
            if is_too_large:
                why = f"on the way it was said: {reason or 'too large'}"
            outsized = post_answers.too_large_outcome(_peek_or_empty(first), len(first), why)
            self._resume_buffer.replace_first(outsized.replacement or post_answers.NOOP_FRAME)
            self._report_too_large(outsized)
        for frame in self._resume_buffer.take():
            link.send(frame)
        self._use_socket(link)
        if self._incoming.is_full:
            self._pause_until_drained()
        self._wake_drains()

    async def _reopen(self) -> tuple[WebSocket, dict[str, list[str]]]:
        cursor = str(self._received_count)
        link, said = await self._open([(names.CONNECTION_ID, self.connection_id), (names.CURSOR, cursor)])
        if (
            _header_value(said, names.CONNECTION_ID) != self.connection_id
            or not _header_value(said, names.CURSOR).isdigit()
        ):
            link.abort()
            raise Unreachable(f"{self.peer} does not know this connection any more", status=404)
        return link, said

    # --- ending -----------------------------------------------------------------------------------------------

    def _end(self, error: ConnectionFailed) -> None:
        if self._end_error is None:
            self._end_error = error
        if self._ack_timer is not None:
            self._ack_timer.cancel()
            self._ack_timer = None
        self._incoming.end(self._end_error)
        self._wake_drains()

    async def close(self, reason: str = "") -> None:
        """Say goodbye and let go; the server then frees the connection."""
        if self._closing is not None:
            await asyncio.shield(self._closing)
            return
        self._closing = self._loop.create_future()
        because = f": {reason}" if reason else ""
        link, self._socket = self._socket, None
        self._end(TransportClosed(f"the connection to {self.peer} was closed{because}"))
        try:
            if self._resume_task is not None:
                self._resume_task.cancel()
                await asyncio.gather(self._resume_task, return_exceptions=True)
            if link is not None:
                await link.close(1000, reason, CLOSE_TIMEOUT)
        finally:
            if link is not None:
                link.abort()
            self._closing.set_result(None)


def _header_value(headers: dict[str, list[str]], name: str) -> str:
    return headers.get(name.lower(), [""])[-1]


def _peek_or_empty(frame: bytes) -> FramePeek:
    try:
        return peek_frame(frame)
    except ProtocolError:
        return FramePeek()


def _is_unknown_connection(error: ConnectionFailed) -> bool:
    """Whether the server answered that it has no such connection."""
    return isinstance(error, Unreachable) and error.status in (404, 410)
