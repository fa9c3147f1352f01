"""A TCP proxy that can stop passing bytes, in one direction or both, without closing: a network that is cut."""

from __future__ import annotations

import asyncio
from contextlib import suppress

READ_SIZE = 65536


class CuttableProxy:
    """Passes bytes from a port to an address: (host, port), or the path of a Unix socket."""

    def __init__(self, target: tuple[str, int] | str) -> None:
        self.target = target
        self.port = 0
        self._open = {"to": asyncio.Event(), "from": asyncio.Event()}
        self._tasks: set[asyncio.Task[None]] = set()
        self._server: asyncio.Server | None = None
        self.mend()

    async def start(self) -> None:
        """Listen at a free port of this machine."""
        self._server = await asyncio.start_server(self._on_client, "127.0.0.1", 0)
        self.port = self._server.sockets[0].getsockname()[1]

    def cut(self, *directions: str) -> None:
        """Let no bytes pass in these directions ("to" the target, "from" it); by default in both."""
        for direction in directions or ("to", "from"):
            self._open[direction].clear()

    def mend(self) -> None:
        """Let bytes pass again, also those that waited."""
        for gate in self._open.values():
            gate.set()

    async def stop(self) -> None:
        """Close everything."""
        if self._server is not None:
            self._server.close()
        for task in list(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def _on_client(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.get_running_loop().create_task(self._serve(reader, writer))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await self._open["to"].wait()
        try:
            if isinstance(self.target, str):
                far_reader, far_writer = await asyncio.open_unix_connection(self.target)
            else:
                far_reader, far_writer = await asyncio.open_connection(*self.target)
        except OSError:
            writer.close()
            return
        try:
            passing = [
                asyncio.ensure_future(self._pass(reader, far_writer, self._open["to"])),
                asyncio.ensure_future(self._pass(far_reader, writer, self._open["from"])),
            ]
            await asyncio.wait(passing, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for each in passing:
                each.cancel()
            for end in (writer, far_writer):
                with suppress(OSError):
                    end.close()

    async def _pass(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, gate: asyncio.Event) -> None:
        with suppress(OSError):
            while data := await reader.read(READ_SIZE):
                await gate.wait()
                writer.write(data)
                await writer.drain()
