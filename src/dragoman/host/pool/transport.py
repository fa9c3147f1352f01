"""One room's place at an agent process that several rooms of one user share: a transport like any other.

What the room says goes to the shared process, which knows whose it is; what is meant for the room is put in here. Above
is the engine of the room's connection; below is the process (pier.py). Reads no frame.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from dragoman.errors import ConnectionFailed, TransportClosed
from dragoman.transport.base import FrameConsumer
from dragoman.transport.inlet import FrameQueue
from dragoman.wire.frames import Frame

if TYPE_CHECKING:
    from dragoman.host.pool.process import SharedProcess
    from dragoman.wire.envelope import Id


class SharedTransport:
    """A transport over a process that others use too."""

    def __init__(self, process: SharedProcess) -> None:
        self.peer = process.peer
        self.process = process
        self.request_numbers: dict[
            Id, int
        ] = {}  # under which number each open request of the room is known to the process
        self.is_detached = False
        self._queue = FrameQueue()
        self._space = asyncio.Event()
        self._failure: ConnectionFailed | None = None

    async def receive(self) -> list[Frame]:
        """The next frames for this room; raises why the process ended after the last one."""
        return await self._queue.receive()

    def listen(self, take: FrameConsumer) -> None:
        """Offer each block to `take` first, while nothing older waits."""
        self._queue.listen(take)

    def send(self, data: bytes, session: str | None = None) -> None:
        """Say something to the process."""
        if self._failure is not None:
            raise self._failure.with_traceback(None)
        self.process.send_from(self, data)

    def congested(self) -> bool:
        """Whether much waits for the process, of whichever room."""
        return self._failure is None and self.process.inner.congested()

    async def drain(self) -> None:
        """Return when little waits for the process."""
        if self._failure is not None:
            raise self._failure.with_traceback(None)
        await self.process.inner.drain()

    async def close(self, reason: str = "") -> None:
        """Leave; the process ends with the last one who does."""
        because = f": {reason}" if reason else ""
        self.fail(TransportClosed(f"the connection to {self.peer} was closed{because}"))
        await self.process.detach(self, reason)

    # --- from below ---------------------------------------------------------------------------------------------

    def deliver(self, frames: list[Frame]) -> None:
        """These are for this room."""
        if not self.is_detached:
            self._queue.deliver(frames)

    async def wait_for_space(self) -> None:
        """Return when the room has taken most of what is here, or has left."""
        while self._queue.is_full and self._failure is None:
            self._space.clear()
            self._queue.call_when_drained(self._space.set)
            await self._space.wait()

    def fail(self, error: ConnectionFailed) -> None:
        """No more comes or goes; the first reason counts."""
        if self._failure is None:
            self._failure = error
            self._queue.end(error)
            self._space.set()
