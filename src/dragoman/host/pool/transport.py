"""The transport of one room at an agent process that several rooms share. Reads no frame."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from dragoman.errors import ConnectionFailed
from dragoman.transport.base import FrameQueue, close_error
from dragoman.wire.frames import Frame

if TYPE_CHECKING:
    from dragoman.host.pool.process import SharedProcess
    from dragoman.wire.envelope import Id


class SharedTransport:
    """A transport over a shared process."""

    def __init__(self, process: SharedProcess) -> None:
        self.peer = process.peer
        self.process = process
        self.request_numbers: dict[Id, int] = {}  # by request id of the room: its id at the process
        self.is_detached = False
        self._queue = FrameQueue()
        self.receive, self.listen = self._queue.receive, self._queue.listen
        self._space = asyncio.Event()
        self._failure: ConnectionFailed | None = None

    def send(self, data: bytes, session: str | None = None) -> None:
        """Send a frame to the process."""
        if self._failure is not None:
            raise self._failure.with_traceback(None)
        self.process.send_from(self, data)

    def congested(self) -> bool:
        """Whether much is waiting to be written to the process, from any room."""
        return self._failure is None and self.process.inner.congested()

    async def drain(self) -> None:
        """Return when little is waiting to be written."""
        if self._failure is not None:
            raise self._failure.with_traceback(None)
        await self.process.inner.drain()

    async def close(self, reason: str = "") -> None:
        """Detach. The process ends with the last room."""
        self.fail(close_error(self.peer, reason))
        await self.process.detach(self, reason)

    # --- from the process ---------------------------------------------------------------------------------------

    def deliver(self, frames: list[Frame]) -> None:
        """Queue frames for this room."""
        if not self.is_detached:
            self._queue.deliver(frames)

    async def wait_for_space(self) -> None:
        """Return when the room has read most of the queue, or has detached."""
        while self._queue.is_full and self._failure is None:
            self._space.clear()
            self._queue.call_when_drained(self._space.set)
            await self._space.wait()

    def fail(self, error: ConnectionFailed) -> None:
        """End this transport. The first reason counts."""
        if self._failure is None:
            self._failure = error
            self._queue.end(error)
            self._space.set()
