"""The server's end of a WebSocket connection, which may outlive its sockets: a new one gets what was not received.

Binary messages are ignored (docs/protocol/http.md#websocket).
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Protocol

from dragoman.errors import ConnectionFailed, TransportClosed
from dragoman.transport.base import CLOSE_TIMEOUT, HIGH_WATER, close_error, frames_size
from dragoman.transport.burst_writer import BurstWriter
from dragoman.transport.remote.resume import Acknowledgement, ResumeBuffer
from dragoman.transport.remote.server.limits import ServerLimits
from dragoman.transport.remote.server.transport import GOING_AWAY, NORMAL, SERVICE_RESTART, TAKEN_OVER, ServerTransport
from dragoman.wire.frames import Frame


class ServerSocket(Protocol):
    """One socket as the transport sees it."""

    @property
    def is_ready(self) -> bool:
        """Whether it takes more now; if not, it calls `on_writable` when it does."""
        ...

    @property
    def buffered_bytes(self) -> int:
        """Bytes it has taken and not yet given to the system."""
        ...

    def write(self, frames: list[bytes]) -> None:
        """Send these frames, each as one message."""
        ...

    def pause(self) -> None:
        """Stop reading until `resume`."""
        ...

    def resume(self) -> None:
        """Resume reading."""
        ...

    def close(self, code: int, reason: str) -> None:
        """Send what was written and a close frame, then close, in bounded time."""
        ...


class WebSocketServerTransport(ServerTransport):
    """One client over WebSocket."""

    def __init__(self, peer: str, limits: ServerLimits, *, is_resumable: bool = False) -> None:
        super().__init__(peer, limits)
        self.is_resumable = is_resumable
        self._writer = BurstWriter(self._queue_block)
        self.send = self._writer.send
        self._resume_buffer = ResumeBuffer(keep_bytes=None if is_resumable else 0)
        self.acknowledgement = Acknowledgement(self._resume_buffer, self._send_ack)
        self._socket: ServerSocket | None = None
        self._last_buffered = 0  # how many bytes waited when some were last sent
        self.on_attached: Callable[[bool], None] = lambda _: None  # called with whether there is a socket

    def _queue_block(self, frames: list[bytes], _: int) -> None:
        """Queue the frames of a block and send what the socket takes; end the connection when too much waits."""
        self._resume_buffer.extend(frames)
        self._flush()
        waiting = self._resume_buffer.unacknowledged_size
        if waiting > self._limits.buffered:
            self._check_overflow(frames, waiting)

    @property
    def buffered_bytes(self) -> int:
        """Bytes that wait for the client, or that it has not acknowledged."""
        in_socket = self._socket.buffered_bytes if self._socket is not None else 0
        return self._writer.size + self._resume_buffer.unacknowledged_size + in_socket

    def congested(self) -> bool:
        """Whether so much waits for the client that the sender should await `drain`."""
        buffer, socket = self._resume_buffer, self._socket
        waiting = self._writer.size + buffer.waiting_size + (socket.buffered_bytes if socket is not None else 0)
        return waiting > HIGH_WATER or self._writer.size + buffer.unacknowledged_size > self._limits.buffered // 2

    async def close(self, reason: str = "") -> None:
        """Send what waits, for a bounded time, then close the socket."""
        self.fail(close_error(self.peer, reason), NORMAL, reason)

    def attach(self, socket: ServerSocket) -> None:
        """Use this socket from now on."""
        old, self._socket = self._socket, socket
        self.on_attached(True)
        if old is not None:
            old.close(TAKEN_OVER, "the connection goes on over a newer socket")
        self._last_active = self._last_progress = self._loop.time()
        if self._incoming.is_full:
            self._pause_reading()
        self._flush()

    def rewind(self, cursor: int) -> None:
        """Send again all frames after this number; raise FramesGone when they are no longer kept."""
        self._resume_buffer.rewind(cursor)

    def detach(self, socket: ServerSocket, reason: str, is_final: bool = False) -> None:
        """Drop this socket; end the connection too, unless its client may come back and did not close it."""
        if socket is not self._socket:
            return
        self._socket = None
        self._last_seen = self._loop.time()
        if not self.is_resumable or is_final:
            self.fail(TransportClosed(f"{self.peer} closed the connection{f': {reason}' if reason else ''}"))
        else:
            self.on_attached(False)

    def deliver_frames(self, frames: list[Frame]) -> None:
        """Deliver messages of the socket."""
        self._last_active = self._loop.time()
        if self.is_resumable:
            frames = self._count_frames(frames)
        if frames:
            self._incoming.deliver(frames)
            if self._incoming.is_full:
                self._pause_reading()

    def count_refused(self, frame: Frame) -> None:
        """Count a message that is not delivered, so that the client does not send it again after a cut."""
        if self.is_resumable:
            self._count_frames([frame])

    def _pause_reading(self) -> None:
        if self._socket is not None:
            self._socket.pause()
            self._incoming.call_when_drained(self._resume_reading)

    def _resume_reading(self) -> None:
        if self._socket is not None:
            self._socket.resume()

    def _count_frames(self, frames: list[Frame]) -> list[Frame]:
        """Count the frames and return them without acknowledgements."""
        messages = self.acknowledgement.count_frames(frames, frames_size(frames))
        if len(messages) < len(frames):
            self._wake_drains()
        return messages

    def _send_ack(self, frame: bytes) -> bool:
        if self._socket is None or not self._socket.is_ready:
            return False
        self._socket.write([frame])
        return True

    def on_writable(self) -> None:
        """Write more: the socket has space."""
        self._last_progress = self._loop.time()
        self._flush()

    def _flush(self) -> None:
        socket = self._socket
        if socket is None or not socket.is_ready:
            return
        frames = self._resume_buffer.take()
        if frames:
            self._last_active = self._loop.time()
            socket.write(frames)
        self._wake_drains()

    def _wake_drains(self) -> None:
        if not self._space_available.is_set() and not self.congested():
            self._space_available.set()

    def overdue_error(self, now: float) -> tuple[ConnectionFailed, int] | None:
        """Return why the connection has to end now, and the close code; None while it may go on."""
        socket, left = self._socket, 0
        if socket is not None:
            left = socket.buffered_bytes
            if left == 0 or left < self._last_buffered or socket.is_ready:
                self._last_progress = now
            self._last_buffered = left
        return self._timeout_error(now, socket is not None, left)

    def fail(self, error: ConnectionFailed, code: int = NORMAL, reason: str = "") -> None:
        """End the connection with this error; what waits is still sent if the socket takes it."""
        if self._writer.error is not None:
            return
        self._writer.error = error
        socket = self._socket
        if socket is not None and code in (NORMAL, GOING_AWAY, SERVICE_RESTART):
            self._writer.flush()
            frames = self._resume_buffer.take()
            if frames:
                socket.write(frames)
        self._writer.fail(error)
        self.acknowledgement.stop()
        self._socket = None
        if socket is not None:
            socket.close(code, reason)
        self._end(error)


class AsgiSocket:
    """A socket of any ASGI server: one task sends each message with its own call."""

    def __init__(self, transport: WebSocketServerTransport, send: object) -> None:
        self.buffered_bytes = 0
        self._transport = transport
        self._send = send
        self._queue: list[bytes] = []
        self._wake_event = asyncio.Event()
        self._close_frame: tuple[int, str] | None = None
        self._may_read = asyncio.Event()
        self._may_read.set()
        self._task = asyncio.current_task()
        self._close_timer: asyncio.TimerHandle | None = None
        self.is_gone = False

    @property
    def is_ready(self) -> bool:
        """Whether most of what was written has been sent."""
        return self.buffered_bytes < HIGH_WATER

    def write(self, frames: list[bytes]) -> None:
        """Queue these frames for the task."""
        self._queue += frames
        self.buffered_bytes += sum(map(len, frames))
        self._wake_event.set()

    def pause(self) -> None:
        """Stop taking messages of the server."""
        self._may_read.clear()

    def resume(self) -> None:
        """Take messages again."""
        self._may_read.set()

    async def wait_until_resumed(self) -> None:
        """Wait until messages may be taken."""
        await self._may_read.wait()

    def close(self, code: int, reason: str) -> None:
        """End the task after what was written, or after a timeout."""
        self._close_frame = self._close_frame or (code, reason)
        self._may_read.set()
        self._wake_event.set()
        self._close_timer = self._close_timer or asyncio.get_running_loop().call_later(CLOSE_TIMEOUT, self._abort)

    def _abort(self) -> None:
        self.is_gone = True
        if self._task is not None:
            self._task.cancel()  # it waits for a peer that neither reads nor answers

    async def send_queued(self) -> None:
        """Send what is written until the end; the task of this socket."""
        send = self._send
        while not self.is_gone:
            if not self._queue:
                if self._close_frame is not None:
                    await send(
                        {"type": "websocket.close", "code": self._close_frame[0], "reason": self._close_frame[1][:120]}
                    )  # type: ignore[operator]
                    return
                self._wake_event.clear()
                await self._wake_event.wait()
                continue
            queue, self._queue = self._queue, []
            for frame in queue:
                await send({"type": "websocket.send", "text": frame.decode("utf-8", "replace")})  # type: ignore[operator]
                self.buffered_bytes -= len(frame)
            if self.is_ready:
                self._transport.on_writable()
