"""A relay between clients and a host that can cut or stall connections.

The port of the host may change while it runs. A cut aborts both sockets, like a router that forgot the connection. On a
stalled connection nothing moves in either direction, and the buffers of both ends fill.
"""

from __future__ import annotations

import asyncio
import contextlib
import random

# Bytes per read. Small, so that some cuts fall into the middle of a frame.
BLOCK = 4096

# Bytes that a connection buffers for its other end. Small, so that a stall is noticed soon.
HIGH_WATER = 16 * 1024


class RelayedConnection:
    """Two connected sockets."""

    def __init__(self, writers: tuple[asyncio.StreamWriter, asyncio.StreamWriter]) -> None:
        self._writers = writers
        self._flowing = asyncio.Event()
        self._flowing.set()
        self.passed = 0

    async def pump(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Copy bytes one way until they end, or the connection is cut."""
        while data := await reader.read(BLOCK):
            await self._flowing.wait()
            self.passed += len(data)
            writer.write(data)
            await writer.drain()
        if writer.can_write_eof():
            writer.write_eof()

    async def stall(self, seconds: float) -> None:
        """Pause the connection for a while."""
        self._flowing.clear()
        try:
            await asyncio.sleep(seconds)
        finally:
            self._flowing.set()

    def cut(self) -> None:
        """Abort both ends. Bytes on the way are lost."""
        self._flowing.set()
        for writer in self._writers:
            writer.transport.abort()


class Relay:
    """Listens for clients and connects each with the host."""

    def __init__(self) -> None:
        self.target = 0  # the host's port; 0 while there is none
        self.port = 0
        self.lines: set[RelayedConnection] = set()
        self.carried = 0  # connections so far
        self._server: asyncio.Server | None = None
        self._tasks: set[asyncio.Task[None]] = set()

    async def __aenter__(self) -> Relay:
        self._server = await asyncio.start_server(self._accepted, "127.0.0.1", 0)
        self.port = self._server.sockets[0].getsockname()[1]
        return self

    async def __aexit__(self, *_: object) -> None:
        assert self._server is not None
        self._server.close()
        for line in list(self.lines):
            line.cut()
        for task in list(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(1.0):
                await self._server.wait_closed()

    async def _accepted(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        try:
            await self._carry(reader, writer)
        except (OSError, asyncio.CancelledError):
            pass  # cut, nobody listens, or the run is over
        finally:
            self._tasks.discard(task)
            writer.transport.abort()

    async def _carry(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if not self.target:
            return
        there, back = await asyncio.open_connection("127.0.0.1", self.target)
        for one in (writer, back):
            one.transport.set_write_buffer_limits(high=HIGH_WATER)
        line = RelayedConnection((writer, back))
        self.lines.add(line)
        self.carried += 1
        try:
            await asyncio.gather(line.pump(reader, back), line.pump(there, writer))
        finally:
            self.lines.discard(line)
            back.transport.abort()

    def pick(self, dice: random.Random) -> RelayedConnection | None:
        """Return a random connection."""
        lines = sorted(self.lines, key=lambda line: line.passed)
        return dice.choice(lines) if lines else None
