"""A client that visits an address of ours: each probe is a run of it, against an endpoint of its own.

A command gets the address in place of `{url}`; a program in this process is called with it (for our own tests, with a
seeded fault between it and the wire). The stage is that of any client, and has the wire besides. Above is the runner.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Any

from dragoman.conformance.client_memory import Surroundings
from dragoman.conformance.harness.client import ClientStage
from dragoman.conformance.harness.client_environment import Grounds
from dragoman.conformance.harness.client_process import CommandClient, Run
from dragoman.conformance.harness.http_recorder import Wire
from dragoman.conformance.harness.peer import Stage
from dragoman.conformance.harness.targets import workspace
from dragoman.conformance.harness.timeouts import MEMORY, PROCESS, Pace
from dragoman.conformance.remote_twin import SOUND, wrapped
from dragoman.conformance.requirement import Requirement
from dragoman.conformance.twin import Fault
from dragoman.conformance.verdict import Skipped, Unsure
from dragoman.roles.client.dial import rebase_command
from dragoman.transport.base import Transport
from dragoman.transport.process.watchdog import WATCHDOG
from dragoman.wire.frames import Frame

PLACE = "{url}"
NO_PROCESS = "over the network a client starts no agent"


class ServedLine:
    """An endpoint's connection to the client, as a stage speaks on it."""

    def __init__(self, transport: Transport) -> None:
        self._transport = transport

    async def receive(self) -> list[Frame]:
        """What the client said."""
        return await self._transport.receive()

    def send(self, data: bytes) -> None:
        """Say one message, on the stream it belongs to."""
        self._transport.send(data)

    def write_raw(self, data: bytes) -> None:
        """There are no lines here."""
        raise Skipped("it is about lines on a pipe, which the network has not")

    async def drain(self) -> None:
        """Wait until the client has taken most of it."""
        await self._transport.drain()

    async def send_eof(self) -> None:
        """End the connection."""
        await self._transport.close()

    async def close(self, reason: str = "") -> None:
        """End the connection."""
        await self._transport.close(reason)


class RemoteClientStage(ClientStage):
    """One run of a client that came by the network."""

    wire: Wire


class RemoteRun(Run):
    """A client's process; its agent has none."""

    async def complain(self, data: bytes, seconds: float) -> bool:
        """There is no stderr."""
        raise Skipped(NO_PROCESS)

    async def die(self, status: int) -> None:
        """There is nothing to die."""
        raise Skipped(NO_PROCESS)

    async def mute(self) -> None:
        """There is no pipe."""
        raise Skipped(NO_PROCESS)

    async def deafen(self) -> None:
        """There is nobody to be deaf."""
        raise Skipped(NO_PROCESS)

    def dismiss(self) -> None:
        """There is nobody to go."""

    async def remains(self, seconds: float) -> bool:
        """There is nothing to remain."""
        raise Skipped(NO_PROCESS)

    def inherits(self, name: str) -> bool:
        """There is no environment."""
        raise Skipped(NO_PROCESS)


class _Visiting:
    """What both kinds of clients have in common: the endpoint, and the first connection to it."""

    way: str
    dialect: str
    pace: Pace
    fault: Fault = SOUND
    leaves: bool | None = None

    def started(
        self, url: str, folder: str, requirement: Requirement
    ) -> AbstractAsyncContextManager[tuple[Grounds, asyncio.Future[Any]]]:
        """Start the client; gives its grounds, and a future that is done when it has ended."""
        raise NotImplementedError

    @asynccontextmanager
    async def stage(self, requirement: Requirement) -> AsyncIterator[Stage]:
        """A fresh run in a fresh folder; inconclusive when the client never comes."""
        from dragoman.transport.remote.server.auth import Principal
        from dragoman.transport.remote.server.endpoint import Endpoint
        from dragoman.transport.remote.server.listener import open_listener

        came: asyncio.Queue[Any] = asyncio.Queue()

        async def accept(transport: Any, visitor: Principal) -> None:
            came.put_nowait(transport)
            await transport.closed

        wire = Wire(Endpoint(accept, has_agent=lambda _: True))
        with workspace() as folder:
            async with open_listener(wrapped(wire, self.fault)) as served:
                url = served.url.replace("http", "ws", 1) if self.way == "ws" else served.url
                async with self.started(url, folder, requirement) as (grounds, ended):
                    transport = await self._first(came, ended, grounds)
                    is_socket = wire.requests[0].method == "UPGRADE"
                    if requirement.way and is_socket is not (self.way == "ws"):
                        raise Unsure(f"the client came by {'WebSocket' if is_socket else 'HTTP'}; say so with --over")
                    stage = RemoteClientStage(
                        ServedLine(transport), self.dialect, self.pace, grounds, needs=requirement.needs
                    )
                    stage.wire, stage.leaves, wire.note = wire, self.leaves, stage._note
                    watching = asyncio.ensure_future(_let_go(ended, transport))
                    try:
                        yield stage
                    finally:
                        watching.cancel()
                        await asyncio.gather(watching, return_exceptions=True)
                        stage.sweep()
                        await transport.close()

    async def _first(self, came: asyncio.Queue[Any], ended: asyncio.Future[Any], grounds: Grounds) -> Any:
        first = asyncio.ensure_future(came.get())
        try:
            await asyncio.wait([first, ended], timeout=self.pace.start, return_when=asyncio.FIRST_COMPLETED)
            if first.done():
                return first.result()
        finally:
            first.cancel()
            await asyncio.gather(first, return_exceptions=True)
        ending = await grounds.over(0.0)
        if ending.status is None:
            raise Unsure(f"the client did not come within {self.pace.start:g} seconds")
        raise Unsure(f"the client ended with status {ending.status} without having come: {ending.words()}")


async def _let_go(ended: asyncio.Future[Any], transport: Any) -> None:
    """A client that has ended says nothing more, whether it said goodbye or not."""
    await asyncio.wait([ended])
    await transport.close("the client has ended")


class UrlClient(_Visiting, CommandClient):
    """A client that a command starts, with an address of ours in place of `{url}`."""

    def __init__(self, command: Sequence[str], dialect: str, way: str, *, pace: Pace = PROCESS) -> None:
        CommandClient.__init__(self, command, dialect, pace=pace)
        self.way = way

    @asynccontextmanager
    async def started(
        self, url: str, folder: str, requirement: Requirement
    ) -> AsyncIterator[tuple[Grounds, asyncio.Future[Any]]]:
        """A process of its own, ended with all it started."""
        token = os.urandom(8).hex()
        words = [word.replace(PLACE, url).replace("{cwd}", folder) for word in self.command]
        run = await self._launch(rebase_command(words, os.getcwd(), folder), folder, token)
        run.__class__ = RemoteRun
        ended = asyncio.ensure_future(run.child.wait())
        try:
            yield run, ended
        finally:
            await run.close()
            await asyncio.gather(ended, return_exceptions=True)
            WATCHDOG.unguard(token)


# Takes the address and what is around; gives its exit status.
Program = Callable[[str, Surroundings], Awaitable[int]]


class MemoryUrlClient(_Visiting):
    """A client's program in this process, with a fault between it and the wire."""

    def __init__(self, program: Program, dialect: str, way: str, *, fault: Fault = SOUND, pace: Pace = MEMORY) -> None:
        self._program = program
        self.dialect = dialect
        self.way = way
        self.fault = fault
        self.pace = pace
        self.leaves = True

    @asynccontextmanager
    async def started(
        self, url: str, folder: str, requirement: Requirement
    ) -> AsyncIterator[tuple[Grounds, asyncio.Future[Any]]]:
        """A task of its own."""
        around = Surroundings(folder, frozenset(), False)
        around.task = asyncio.ensure_future(self._program(url, around))
        try:
            yield around, around.task
        finally:
            around.task.cancel()
            await asyncio.wait([around.task])


async def sound(url: str, around: Surroundings, dialect: str = "v1") -> int:
    """Our own client, as a program."""
    from dragoman.conformance.client_twin import SOUND as FAULTLESS
    from dragoman.conformance.client_twin import Life, converse

    life = Life(around.cwd, around.shown.append, around.said.append, around.interrupted, lambda _: around.deed)
    return await converse(url, FAULTLESS, dialect, life)
