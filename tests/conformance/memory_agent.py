"""An agent in this process as a target, between two pipes."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

from dragoman.conformance.harness.agent import AgentUnderTest
from dragoman.conformance.harness.peer import PeerUnderTest, Timeouts
from dragoman.conformance.harness.settings import AgentSettings
from dragoman.conformance.harness.targets import workspace
from dragoman.conformance.requirement import Requirement
from dragoman.transport.base import Transport
from dragoman.transport.stream import StreamTransport

# For both ends in one event loop, where answers come at once. A missing answer costs the whole wait.
MEMORY = Timeouts(start=2.0, answer=0.8, turn=1.5, quiet=0.02, exit=2.5, probe=120.0)


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
