"""What both transports of a server share: received frames, waiting senders, the limit of what waits, and timeouts."""

from __future__ import annotations

import asyncio

from dragoman.errors import ConnectionFailed, TransportClosed, WriteStalled
from dragoman.transport.base import FrameQueue
from dragoman.transport.remote.headers import CLOSE_GONE, CLOSE_SLOW
from dragoman.transport.remote.server.limits import ServerLimits

# Why we close a socket (RFC 6455 section 7.4).
NORMAL, GOING_AWAY, POLICY, INTERNAL, SERVICE_RESTART, TRY_LATER = 1000, 1001, 1008, 1011, 1012, 1013
EXPIRED, TAKEN_OVER = 4401, 4409


class ServerTransport:
    """One client; a subclass sends the frames and knows what waits."""

    def __init__(self, peer: str, limits: ServerLimits) -> None:
        self.peer = peer
        self.closed: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._limits = limits
        self._loop = asyncio.get_running_loop()
        self._incoming = FrameQueue()
        self.receive, self.listen = self._incoming.receive, self._incoming.listen
        self._end_error: ConnectionFailed | None = None
        self._exempt = 0  # the size of a frame above the limit, which does not count
        self._space_available = asyncio.Event()
        # When a message last passed in either direction, when the client was last connected, when it last took bytes.
        self._last_active = self._last_seen = self._last_progress = self._loop.time()

    def congested(self) -> bool:
        """Whether so much waits for the client that the sender should await `drain`."""
        raise NotImplementedError

    def fail(self, error: ConnectionFailed, code: int = GOING_AWAY, reason: str = "") -> None:
        """End the connection with this error; what waits is still sent where the client reads it."""
        raise NotImplementedError

    async def drain(self) -> None:
        """Wait until the client has taken most of what waits."""
        while self._end_error is None and self._is_above_low_water():
            self._space_available.clear()
            await self._space_available.wait()
        if self._end_error is not None:
            raise self._end_error.with_traceback(None)

    def _is_above_low_water(self) -> bool:
        return self.congested()

    def _check_overflow(self, frames: list[bytes], waiting: int) -> None:
        """End the connection if too much waits after these frames. One frame of any size is taken: otherwise it would
        be sent again and again.
        """
        limit = self._limits.buffered
        before = waiting - sum(map(len, frames))
        for frame in frames:
            if before <= limit:
                self._exempt = len(frame)
            before += len(frame)
        if waiting - self._exempt > limit:
            text = f"slow_consumer: {waiting} bytes wait for {self.peer}, which does not read or acknowledge"
            self.end_slow(WriteStalled(text))

    def end_slow(self, error: ConnectionFailed) -> None:
        """End the connection: its client does not read."""
        self.fail(error, CLOSE_SLOW, "slow_consumer: read faster, or resume your sessions from a cursor")

    def _timeout_error(self, now: float, is_connected: bool, waiting: int) -> tuple[ConnectionFailed, int] | None:
        """Return why the connection has to end now, and the close code; None while it may go on."""
        limits = self._limits
        if not is_connected:
            if now - self._last_seen > limits.linger:
                return TransportClosed(f"{self.peer} did not come back within {limits.linger:g} seconds"), CLOSE_GONE
            return None
        if now - self._last_active > limits.idle:
            return TransportClosed(f"{self.peer} said nothing for {limits.idle:g} seconds"), GOING_AWAY
        if now - self._last_progress > limits.stall:
            text = f"{self.peer} took no bytes for {limits.stall:g} seconds while {waiting} waited"
            return WriteStalled(text), CLOSE_SLOW
        return None

    def _end(self, error: ConnectionFailed) -> None:
        """Refuse later frames, and let everybody who waits go on."""
        self._end_error = error
        self._incoming.end(error)
        self._space_available.set()
        if not self.closed.done():
            self.closed.set_result(None)
