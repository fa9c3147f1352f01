"""A client in this process as a target: between two pipes, in a simulated environment.

What only a process can show (an unread stderr, an agent left running) is simulated by the traits of its fault.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

from dragoman.conformance.harness.client import ClientUnderTest
from dragoman.conformance.harness.client_environment import WRAPPED, ClientEnvironment, ClientExit
from dragoman.conformance.harness.peer import PeerUnderTest, Timeouts
from dragoman.conformance.harness.remote_client import RemoteClient
from dragoman.conformance.harness.targets import workspace
from dragoman.conformance.requirement import Requirement
from dragoman.transport.stream import StreamTransport
from tests.conformance.faults.fault import NO_FAULT, Fault
from tests.conformance.faults.faulty_server import wrap_app
from tests.conformance.memory_agent import MEMORY, pipe_pair


class MemoryEnvironment:
    """The simulated environment of a client's program: output, Ctrl-C, a folder."""

    def __init__(self, cwd: str, traits: frozenset[str], is_wrapped: bool) -> None:
        self.cwd = cwd
        self.traits = traits
        self.is_wrapped = is_wrapped
        self.is_watched = True
        self.stdout: list[str] = []
        self.stderr: list[str] = []
        self.interrupted = asyncio.Event()
        self.agent_end = ""
        """How the agent ended, which a client in memory cannot see."""
        self.task: asyncio.Future[int]
        self.channel: StreamTransport
        self._left_by = "orphans the wrapped" if is_wrapped else "orphans"

    def exit_state(self) -> ClientExit:
        """Return the state of the program."""
        status = self.task.result() if self.task.done() and not self.task.cancelled() else None
        return ClientExit(status, "".join(self.stdout), "".join(self.stderr))

    async def wait_exit(self, seconds: float) -> ClientExit:
        """Wait for its exit."""
        await asyncio.wait([self.task], timeout=seconds)
        return self.exit_state()

    def interrupt(self) -> bool:
        """Send Ctrl-C."""
        self._left_by = "orphans when left"
        self.interrupted.set()
        return True

    async def write_stderr(self, data: bytes, seconds: float) -> bool:
        """Return whether the client reads its agent's stderr."""
        return "unread stderr" not in self.traits

    async def exit_agent(self, status: int) -> None:
        """Close the pipes."""
        self.agent_end = "death"
        await self.channel.close()

    async def close_output(self) -> None:
        """Close one pipe."""
        self.agent_end = "closed output"
        await self.channel.send_eof()

    async def ignore_sigterm(self) -> None:
        """Act as if only SIGKILL could end the agent."""
        self._left_by = "spares the deaf"

    def release_agent(self) -> None:
        """Do nothing: there is no process."""

    async def agent_running(self, seconds: float) -> bool:
        """Return whether the fault leaves its agent running."""
        return not self.task.done() or self._left_by in self.traits

    def inherits_variable(self, name: str) -> bool:
        """Return whether the environment is passed on."""
        return "bare environment" not in self.traits


# Takes its transport and environment; returns its exit status.
Program = Callable[[StreamTransport, MemoryEnvironment], Awaitable[int]]


class MemoryClient:
    """A client's program as the target of a check."""

    way = ""

    def __init__(
        self, program: Program, dialect: str, *, traits: frozenset[str] = frozenset(), timeouts: Timeouts = MEMORY
    ) -> None:
        self._program = program
        self._traits = traits
        self.dialect = dialect
        self.timeouts = timeouts

    @asynccontextmanager
    async def start(self, requirement: Requirement) -> AsyncIterator[PeerUnderTest]:
        """Run the program afresh."""
        with workspace() as folder:
            ours, theirs = pipe_pair()
            environment = MemoryEnvironment(folder, self._traits, requirement.id in WRAPPED)
            environment.channel = ours
            environment.task = asyncio.ensure_future(self._program(theirs, environment))
            peer = ClientUnderTest(ours, self.dialect, self.timeouts, environment, needs=requirement.needs)
            peer.exits_after_turn = True
            try:
                yield peer
            finally:
                peer.remove_files()
                await ours.close()
                environment.task.cancel()
                await asyncio.wait([environment.task])
                await theirs.close()


# Takes the URL and the environment; returns its exit status.
RemoteProgram = Callable[[str, MemoryEnvironment], Awaitable[int]]


class MemoryUrlClient(RemoteClient):
    """A client's program that connects to a URL, with a fault between it and the wire."""

    def __init__(
        self, program: RemoteProgram, dialect: str, way: str, *, fault: Fault = NO_FAULT, timeouts: Timeouts = MEMORY
    ) -> None:
        self._program = program
        self.dialect = dialect
        self.way = way
        self.fault = fault
        self.timeouts = timeouts
        self.exits_after_turn = True

    def wrap(self, app: Any) -> Any:
        """Return the app with the fault around it."""
        return wrap_app(app, self.fault)

    @asynccontextmanager
    async def start_client(
        self, url: str, folder: str, requirement: Requirement
    ) -> AsyncIterator[tuple[ClientEnvironment, asyncio.Future[Any]]]:
        """Run the program as a task."""
        environment = MemoryEnvironment(folder, frozenset(), False)
        environment.task = asyncio.ensure_future(self._program(url, environment))
        try:
            yield environment, environment.task
        finally:
            environment.task.cancel()
            await asyncio.wait([environment.task])
