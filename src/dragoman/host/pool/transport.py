"""One room's place at an agent process that several rooms of one user share: a transport like any other.

What the room says goes to the shared process, which knows whose it is; what is meant for the room is put in here. Above
is the engine of the room's connection; below is the process (pier.py). Reads no frame.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from dragoman.errors import ConnectionFailed, TransportClosed
from dragoman.transport.base import Take
from dragoman.transport.inlet import Inlet
from dragoman.wire.frames import Frame

if TYPE_CHECKING:
    from dragoman.host.pool.process import Pier
    from dragoman.wire.envelope import Id


class Berth:
    """A transport over a process that others use too."""

    def __init__(self, process: Pier) -> None:
        self.peer = process.peer
        self.process = process
        self.numbers: dict[Id, int] = {}  # under which number each open request of the room is known to the process
        self.is_left = False
        self._inlet = Inlet()
        self._room = asyncio.Event()
        self._ended: ConnectionFailed | None = None

    async def receive(self) -> list[Frame]:
        """The next frames for this room; raises why the process ended after the last one."""
        return await self._inlet.receive()

    def listen(self, take: Take) -> None:
        """Offer each block to `take` first, while nothing older waits."""
        self._inlet.listen(take)

    def send(self, data: bytes, session: str | None = None) -> None:
        """Say something to the process."""
        if self._ended is not None:
            raise self._ended.with_traceback(None)
        self.process.say(self, data)

    def congested(self) -> bool:
        """Whether much waits for the process, of whichever room."""
        return self._ended is None and self.process.inner.congested()

    async def drain(self) -> None:
        """Return when little waits for the process."""
        if self._ended is not None:
            raise self._ended.with_traceback(None)
        await self.process.inner.drain()

    async def close(self, reason: str = "") -> None:
        """Leave; the process ends with the last one who does."""
        because = f": {reason}" if reason else ""
        self.end(TransportClosed(f"the connection to {self.peer} was closed{because}"))
        await self.process.leave(self, reason)

    # --- from below ---------------------------------------------------------------------------------------------

    def deliver(self, frames: list[Frame]) -> None:
        """These are for this room."""
        if not self.is_left:
            self._inlet.deliver(frames)

    async def has_room(self) -> None:
        """Return when the room has taken most of what is here, or has left."""
        while self._inlet.is_full and self._ended is None:
            self._room.clear()
            self._inlet.when_room(self._room.set)
            await self._room.wait()

    def end(self, error: ConnectionFailed) -> None:
        """No more comes or goes; the first reason counts."""
        if self._ended is None:
            self._ended = error
            self._inlet.end(error)
            self._room.set()
