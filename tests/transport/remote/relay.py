"""A relay between a client and a server that behaves like a bad network: it cuts connections at any byte.

Bytes pass in order, unchanged, once; after a number of bytes a connection is cut, and sometimes it freezes first.
Seeded, so that a run can be repeated.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress


class Relay:
    """Its address, and how often it has cut."""

    def __init__(self, seed: int, port: int, cuts: int, most: int) -> None:
        self._random = random.Random(seed)
        self._port = port
        self._most = most
        self._tasks: set[asyncio.Task[None]] = set()
        self._pairs: set[tuple[asyncio.StreamWriter, asyncio.StreamWriter]] = set()
        self.left = cuts
        self.cut = 0
        self.port = 0
        self.is_down = False  # no connection gets through
        self.is_frozen = False  # connections freeze, as when a laptop sleeps

    async def open(self) -> asyncio.Server:
        """Listen."""
        server = await asyncio.start_server(self._accept, "127.0.0.1", 0)
        self.port = server.sockets[0].getsockname()[1]
        return server

    def drop(self) -> None:
        """Cut all connections now."""
        for pair in list(self._pairs):
            for writer in pair:
                writer.transport.abort()
        self.cut += 1

    def bite(self, most: int, cuts: int) -> None:
        """Cut this many more connections, each within that many bytes."""
        self._most, self.left = most, cuts

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if self.is_down:
            writer.transport.abort()
            return
        try:
            there, back = await asyncio.open_connection("127.0.0.1", self._port)
        except OSError:
            writer.transport.abort()
            return
        pair = (writer, back)
        self._pairs.add(pair)
        budget = [self._random.randrange(1, self._most) if self.left > 0 else -1]
        pumps = [
            asyncio.ensure_future(self._pump(reader, back, budget)),
            asyncio.ensure_future(self._pump(there, writer, budget)),
        ]
        self._tasks.update(pumps)
        await asyncio.wait(pumps, return_when=asyncio.FIRST_COMPLETED)
        for pump in pumps:
            pump.cancel()
        for end in pair:
            end.transport.abort()
        self._tasks.difference_update(pumps)
        self._pairs.discard(pair)

    async def _pump(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, budget: list[int]) -> None:
        with suppress(OSError):
            while data := await reader.read(self._random.choice((1, 7, 100, 65536))):
                if self.is_frozen:
                    await asyncio.Event().wait()
                if budget[0] >= 0:
                    if len(data) >= budget[0] and self.left > 0:
                        writer.write(data[: budget[0]])
                        await self._cut(writer)
                        return
                    budget[0] -= len(data)
                writer.write(data)
                await writer.drain()

    async def _cut(self, writer: asyncio.StreamWriter) -> None:
        self.left -= 1
        self.cut += 1
        with suppress(OSError):
            await writer.drain()
        if self._random.random() < 0.3:  # freeze for a moment first
            await asyncio.sleep(self._random.random() * 0.03)

    async def close(self) -> None:
        """Close everything."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)


@asynccontextmanager
async def relaying(port: int, *, seed: int = 0, cuts: int = 0, most: int = 4000) -> AsyncIterator[Relay]:
    """A relay to this port of this machine that cuts so many connections, each within `most` bytes."""
    relay = Relay(seed, port, cuts, most)
    server = await relay.open()
    try:
        yield relay
    finally:
        server.close()
        await relay.close()
