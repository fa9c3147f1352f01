"""What is checked: something that can be started afresh for every probe and spoken to in bytes.

A command (a process of its own, ended with all it started) or an agent of ours in this very process, between two pairs
of pipes: the bytes are as real, and a probe takes milliseconds. Above is the runner.
"""

from __future__ import annotations

import asyncio
import os
import shutil
import tempfile
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Protocol

from dragoman.conformance.harness.agent import AgentStage
from dragoman.conformance.harness.peer import Stage
from dragoman.conformance.harness.timeouts import MEMORY, PROCESS, Pace
from dragoman.conformance.prompts import Script
from dragoman.conformance.requirement import Requirement
from dragoman.transport.base import Transport
from dragoman.transport.process.process_tree import StopTimeouts
from dragoman.transport.stream import StreamTransport

# An agent that was told to go is given so long for each step: it may be slow, and we start hundreds. Seconds.
FAREWELL = StopTimeouts(eof=1.0, term=1.0, kill=2.0)


class Subject(Protocol):
    """A peer under test."""

    dialect: str
    pace: Pace
    way: str
    """`http` or `ws`; "" for pipes."""

    def stage(self, requirement: Requirement) -> AbstractAsyncContextManager[Stage]:
        """A fresh peer, and the stage before it."""
        ...


class CommandAgent:
    """An agent that a command starts."""

    way = ""

    def __init__(
        self, command: Sequence[str], dialect: str, *, pace: Pace = PROCESS, script: Script | None = None
    ) -> None:
        self.command = list(command)
        self.dialect = dialect
        self.pace = pace
        self.script = script

    @asynccontextmanager
    async def stage(self, requirement: Requirement) -> AsyncIterator[Stage]:
        """A fresh process, started here, with a fresh folder to work in."""
        from dragoman.transport.process.transport import spawn

        with workspace() as folder:
            transport = await spawn(self.command, stop_timeouts=FAREWELL)
            try:
                yield AgentStage(
                    transport,
                    self.dialect,
                    self.pace,
                    workspace=folder,
                    needs=requirement.needs,
                    script=self.script,
                )
            finally:
                await transport.close()


class MemoryAgent:
    """An agent in this process: `serve` takes its end of the line and serves until that is closed."""

    way = ""

    def __init__(self, serve: Callable[[Transport], Awaitable[None]], dialect: str, *, pace: Pace = MEMORY) -> None:
        self._serve = serve
        self.dialect = dialect
        self.pace = pace

    @asynccontextmanager
    async def stage(self, requirement: Requirement) -> AsyncIterator[Stage]:
        """A fresh agent between two pipes."""
        with workspace() as folder:
            ours, theirs = piped()
            serving = asyncio.ensure_future(self._serve(theirs))
            try:
                yield AgentStage(ours, self.dialect, self.pace, workspace=folder, needs=requirement.needs)
            finally:
                await ours.close()
                serving.cancel()
                await asyncio.wait([serving])
                await theirs.close()


def piped() -> tuple[StreamTransport, StreamTransport]:
    """Two transports joined by pipes, in this process."""
    (to_read, to_write), (from_read, from_write) = os.pipe(), os.pipe()
    ours = StreamTransport(from_read, to_write, peer="the peer")
    return ours, StreamTransport(to_read, from_write, peer="the checker")


class workspace:
    """A folder for one probe, gone afterwards whatever was left in it."""

    def __enter__(self) -> str:
        self._path = os.path.realpath(tempfile.mkdtemp(prefix="dragoman-check-"))
        return self._path

    def __exit__(self, *reason: object) -> None:
        shutil.rmtree(self._path, ignore_errors=True)
