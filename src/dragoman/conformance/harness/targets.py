"""The targets of a check: what can be started afresh for every probe."""

from __future__ import annotations

import asyncio
import os
import shutil
import tempfile
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Protocol

from dragoman.conformance.harness.agent import AgentUnderTest
from dragoman.conformance.harness.peer import MEMORY, PROCESS, PeerUnderTest, Timeouts
from dragoman.conformance.harness.settings import AgentSettings
from dragoman.conformance.requirement import Requirement
from dragoman.transport.base import Transport
from dragoman.transport.process.process_tree import StopTimeouts
from dragoman.transport.stream import StreamTransport

# The time for each step of stopping an agent. Seconds.
STOP_TIMEOUTS = StopTimeouts(eof=1.0, term=1.0, kill=2.0)


class Target(Protocol):
    """A peer to check."""

    dialect: str
    timeouts: Timeouts
    way: str
    """`http` or `ws`; "" for pipes."""

    def start(self, requirement: Requirement) -> AbstractAsyncContextManager[PeerUnderTest]:
        """Start a fresh peer."""
        ...


class CommandAgent:
    """An agent that a command starts."""

    way = ""

    def __init__(
        self,
        command: Sequence[str],
        dialect: str,
        *,
        timeouts: Timeouts = PROCESS,
        settings: AgentSettings | None = None,
    ) -> None:
        self.command = list(command)
        self.dialect = dialect
        self.timeouts = timeouts
        self.settings = settings

    @asynccontextmanager
    async def start(self, requirement: Requirement) -> AsyncIterator[PeerUnderTest]:
        """Start a fresh process with a fresh folder to work in."""
        from dragoman.transport.process.transport import spawn

        sizes: list[int] = []
        with workspace() as folder:
            transport = await spawn(
                self.command, stop_timeouts=STOP_TIMEOUTS, stderr=lambda data: sizes.append(len(data))
            )
            peer = AgentUnderTest(
                transport,
                self.dialect,
                self.timeouts,
                workspace=folder,
                needs=requirement.needs,
                settings=self.settings,
            )
            try:
                yield peer
            finally:
                await transport.close()
                peer.stderr_size = sum(sizes)


class MemoryAgent:
    """An agent in this process: `serve` takes its end of the pipes and serves until that is closed."""

    way = ""

    def __init__(
        self,
        serve: Callable[[Transport], Awaitable[None]],
        dialect: str,
        *,
        timeouts: Timeouts = MEMORY,
        settings: AgentSettings | None = None,
    ) -> None:
        self._serve = serve
        self.settings = settings
        self.dialect = dialect
        self.timeouts = timeouts

    @asynccontextmanager
    async def start(self, requirement: Requirement) -> AsyncIterator[PeerUnderTest]:
        """Start a fresh agent between two pipes."""
        with workspace() as folder:
            ours, theirs = pipe_pair()
            serving = asyncio.ensure_future(self._serve(theirs))
            try:
                yield AgentUnderTest(
                    ours,
                    self.dialect,
                    self.timeouts,
                    workspace=folder,
                    needs=requirement.needs,
                    settings=self.settings,
                )
            finally:
                await ours.close()
                serving.cancel()
                await asyncio.wait([serving])
                await theirs.close()


def pipe_pair() -> tuple[StreamTransport, StreamTransport]:
    """Return two transports joined by pipes, in this process."""
    (to_read, to_write), (from_read, from_write) = os.pipe(), os.pipe()
    ours = StreamTransport(from_read, to_write, peer="the peer")
    return ours, StreamTransport(to_read, from_write, peer="the checker")


class workspace:
    """A folder for one probe, removed afterwards."""

    def __enter__(self) -> str:
        self._path = os.path.realpath(tempfile.mkdtemp(prefix="dragoman-check-"))
        return self._path

    def __exit__(self, *reason: object) -> None:
        shutil.rmtree(self._path, ignore_errors=True)
