"""The targets of a check: what can be started afresh for every probe."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager, contextmanager
from tempfile import TemporaryDirectory
from typing import Protocol

from dragoman.conformance.harness.agent import AgentUnderTest
from dragoman.conformance.harness.peer import PROCESS, PeerUnderTest, Timeouts
from dragoman.conformance.harness.settings import AgentSettings
from dragoman.conformance.requirement import Requirement
from dragoman.transport.process.process_tree import StopTimeouts

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


@contextmanager
def workspace() -> Iterator[str]:
    """Create a folder for one probe, and remove it afterwards."""
    with TemporaryDirectory(prefix="dragoman-check-", ignore_cleanup_errors=True) as folder:
        yield os.path.realpath(folder)
