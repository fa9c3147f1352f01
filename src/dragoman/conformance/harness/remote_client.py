"""A client that connects to our URL: each probe is one run of it, with an endpoint of its own."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Any

from dragoman.conformance.harness.client import ClientUnderTest
from dragoman.conformance.harness.client_environment import ClientEnvironment
from dragoman.conformance.harness.client_process import ClientProcess, CommandClient, wait_for_client
from dragoman.conformance.harness.http_recorder import HttpRecorder
from dragoman.conformance.harness.peer import PROCESS, PeerUnderTest, Timeouts
from dragoman.conformance.harness.targets import workspace
from dragoman.conformance.requirement import Requirement
from dragoman.conformance.verdict import Inconclusive, Skipped
from dragoman.roles.client.dial import rebase_command
from dragoman.transport.base import WrappedTransport
from dragoman.transport.process.watchdog import WATCHDOG

PLACE = "{url}"
NO_PROCESS = "over the network a client starts no agent"


class ServedChannel(WrappedTransport):
    """The endpoint's connection to the client as a channel of frames."""

    def write_raw(self, data: bytes) -> None:
        """Skip: there are no lines here."""
        raise Skipped("it is about lines on a pipe, which the network has not")

    async def send_eof(self) -> None:
        """End the connection."""
        await self.close()


class RemoteClientUnderTest(ClientUnderTest):
    """One run of a client that connected over the network."""

    recorder: HttpRecorder


class RemoteClientProcess(ClientProcess):
    """A client's process; its agent has none."""

    async def write_stderr(self, data: bytes, seconds: float) -> bool:
        """Skip: there is no stderr."""
        raise Skipped(NO_PROCESS)

    async def exit_agent(self, status: int) -> None:
        """Skip: there is no process."""
        raise Skipped(NO_PROCESS)

    async def close_output(self) -> None:
        """Skip: there is no pipe."""
        raise Skipped(NO_PROCESS)

    async def ignore_sigterm(self) -> None:
        """Skip: there is no process."""
        raise Skipped(NO_PROCESS)

    def release_agent(self) -> None:
        """Do nothing: there is no process."""

    async def agent_running(self, seconds: float) -> bool:
        """Skip: there is no process."""
        raise Skipped(NO_PROCESS)

    def inherits_variable(self, name: str) -> bool:
        """Skip: there is no environment."""
        raise Skipped(NO_PROCESS)


class RemoteClient:
    """A client of our URL: the endpoint, and the first connection to it."""

    way: str
    dialect: str
    timeouts: Timeouts
    exits_after_turn: bool | None = None

    def start_client(
        self, url: str, folder: str, requirement: Requirement
    ) -> AbstractAsyncContextManager[tuple[ClientEnvironment, asyncio.Future[Any]]]:
        """Start the client; give its environment, and a future that is done when it has exited."""
        raise NotImplementedError

    def wrap(self, app: HttpRecorder) -> Any:
        """Return the app to serve."""
        return app

    @asynccontextmanager
    async def start(self, requirement: Requirement) -> AsyncIterator[PeerUnderTest]:
        """Start a fresh run in a fresh folder; inconclusive when the client never connects."""
        from dragoman.transport.remote.server.auth import Principal
        from dragoman.transport.remote.server.endpoint import Endpoint
        from dragoman.transport.remote.server.listener import open_listener

        connections: asyncio.Queue[Any] = asyncio.Queue()

        async def accept(transport: Any, principal: Principal) -> None:
            connections.put_nowait(transport)
            await transport.closed

        wire = HttpRecorder(Endpoint(accept, has_agent=lambda _: True))
        with workspace() as folder:
            async with open_listener(self.wrap(wire)) as served:
                url = served.url.replace("http", "ws", 1) if self.way == "ws" else served.url
                async with self.start_client(url, folder, requirement) as (environment, ended):
                    first = asyncio.ensure_future(connections.get())
                    transport = await wait_for_client(first, ended, environment, self.timeouts, "connecting")
                    is_socket = wire.requests[0].method == "UPGRADE"
                    if requirement.way and is_socket is not (self.way == "ws"):
                        raise Inconclusive(
                            f"the client came by {'WebSocket' if is_socket else 'HTTP'}; say so with --over"
                        )
                    peer = RemoteClientUnderTest(
                        ServedChannel(transport), self.dialect, self.timeouts, environment, needs=requirement.needs
                    )
                    peer.recorder, peer.exits_after_turn, wire.note = wire, self.exits_after_turn, peer._record
                    watching = asyncio.ensure_future(_close_after_exit(ended, transport))
                    try:
                        yield peer
                    finally:
                        watching.cancel()
                        await asyncio.gather(watching, return_exceptions=True)
                        peer.remove_files()
                        await transport.close()


async def _close_after_exit(ended: asyncio.Future[Any], transport: Any) -> None:
    """Close the connection of a client that has exited."""
    await asyncio.wait([ended])
    await transport.close("the client has ended")


class UrlClient(RemoteClient, CommandClient):
    """A client that a command starts, with our URL in place of `{url}`."""

    def __init__(self, command: Sequence[str], dialect: str, way: str, *, timeouts: Timeouts = PROCESS) -> None:
        CommandClient.__init__(self, command, dialect, timeouts=timeouts)
        self.way = way

    @asynccontextmanager
    async def start_client(
        self, url: str, folder: str, requirement: Requirement
    ) -> AsyncIterator[tuple[ClientEnvironment, asyncio.Future[Any]]]:
        """Start the command; end everything it started afterwards."""
        token = os.urandom(8).hex()
        line = [word.replace(PLACE, url).replace("{cwd}", folder) for word in self.command]
        run = await self._launch(rebase_command(line, os.getcwd(), folder), folder, token, kind=RemoteClientProcess)
        ended = asyncio.ensure_future(run.child.wait())
        try:
            yield run, ended
        finally:
            await run.close()
            await asyncio.gather(ended, return_exceptions=True)
            WATCHDOG.unguard(token)
