"""A client in this process under test: between two pipes, with grounds that are played.

Takes the program of a client (ours, or its broken twin) and gives the runner's Subject; a probe takes milliseconds.
What only a process can show (an unread stderr, an agent left behind) is played by the traits of its fault.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

from dragoman.conformance.harness.client import ClientStage
from dragoman.conformance.harness.client_environment import WRAPPED, Ending
from dragoman.conformance.harness.peer import Stage
from dragoman.conformance.harness.targets import piped, workspace
from dragoman.conformance.harness.timeouts import MEMORY, Pace
from dragoman.conformance.requirement import Requirement
from dragoman.transport.stream import StreamTransport


class Surroundings:
    """What a client's program in memory uses of the world: a place to show things, Ctrl-C, its folder."""

    def __init__(self, cwd: str, traits: frozenset[str], is_wrapped: bool) -> None:
        self.cwd = cwd
        self.traits = traits
        self.is_wrapped = is_wrapped
        self.is_watched = True
        self.shown: list[str] = []
        self.said: list[str] = []
        self.interrupted = asyncio.Event()
        self.deed = ""
        """How the agent left, which a client in memory cannot see."""
        self.task: asyncio.Future[int]
        self.line: StreamTransport
        self._left_by = "orphans the wrapped" if is_wrapped else "orphans"

    def ending(self) -> Ending:
        """How things stand with the program."""
        status = self.task.result() if self.task.done() and not self.task.cancelled() else None
        return Ending(status, "".join(self.shown), "".join(self.said))

    async def over(self, seconds: float) -> Ending:
        """Wait for its end."""
        await asyncio.wait([self.task], timeout=seconds)
        return self.ending()

    def interrupt(self) -> bool:
        """Press Ctrl-C."""
        self._left_by = "orphans when left"
        self.interrupted.set()
        return True

    async def complain(self, data: bytes, seconds: float) -> bool:
        """Nobody reads the stderr of a client with that trait."""
        return "unread stderr" not in self.traits

    async def die(self, status: int) -> None:
        """The pipes close, which is all a client sees of it."""
        self.deed = "death"
        await self.line.close()

    async def mute(self) -> None:
        """One pipe closes."""
        self.deed = "closed output"
        await self.line.send_eof()

    async def deafen(self) -> None:
        """From now on only a KILL would end it."""
        self._left_by = "spares the deaf"

    def dismiss(self) -> None:
        """There is no process to go."""

    async def remains(self, seconds: float) -> bool:
        """Whether the fault leaves its agent behind."""
        return not self.task.done() or self._left_by in self.traits

    def inherits(self, name: str) -> bool:
        """Whether the environment is handed on."""
        return "bare environment" not in self.traits


# Takes its end of the line and what is around; gives its exit status.
Program = Callable[[StreamTransport, Surroundings], Awaitable[int]]


class MemoryClient:
    """A client's program as the subject of a check."""

    way = ""

    def __init__(
        self, program: Program, dialect: str, *, traits: frozenset[str] = frozenset(), pace: Pace = MEMORY
    ) -> None:
        self._program = program
        self._traits = traits
        self.dialect = dialect
        self.pace = pace

    @asynccontextmanager
    async def stage(self, requirement: Requirement) -> AsyncIterator[Stage]:
        """A fresh run of the program."""
        with workspace() as folder:
            ours, theirs = piped()
            around = Surroundings(folder, self._traits, requirement.id in WRAPPED)
            around.line = ours
            around.task = asyncio.ensure_future(self._program(theirs, around))
            stage = ClientStage(ours, self.dialect, self.pace, around, needs=requirement.needs)
            stage.leaves = True
            try:
                yield stage
            finally:
                stage.sweep()
                await ours.close()
                around.task.cancel()
                await asyncio.wait([around.task])
                await theirs.close()
