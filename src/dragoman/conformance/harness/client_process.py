"""A command under test that starts our stand-in as its agent: one run of it, watched from outside.

Each run has a folder and a private socket of its own; the stand-in (`doorway`) hands over the pipes it was given, so
that the stage speaks on the very pipes of the client. Afterwards everything the command started is ended. Above is the
runner, below are the tree of processes and the socket.
"""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import time
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager, suppress

from dragoman.conformance.harness.client import ClientStage
from dragoman.conformance.harness.client_environment import WRAPPED, Ending
from dragoman.conformance.harness.peer import Stage
from dragoman.conformance.harness.targets import FAREWELL, workspace
from dragoman.conformance.harness.timeouts import PROCESS, Pace
from dragoman.conformance.requirement import Requirement
from dragoman.conformance.verdict import Unsure
from dragoman.errors import StartFailed
from dragoman.roles.client.dial import rebase_command
from dragoman.testing.reception import Reception, Visitor, words
from dragoman.testing.stand_ins import filled_in
from dragoman.transport.process import process_tree
from dragoman.transport.process.watchdog import WATCHDOG
from dragoman.transport.stream import StreamTransport


class Visited:
    """The grounds of a client of which only the stand-in is known."""

    def __init__(
        self,
        cwd: str,
        *,
        is_wrapped: bool = False,
        is_watched: bool = False,
        say: Callable[[str], None] | None = None,
    ) -> None:
        self.cwd = cwd
        self._say = say
        self.is_wrapped = is_wrapped
        self.is_watched = is_watched
        self.visitor: Visitor | None = None
        self.line: StreamTransport | None = None
        self._is_deaf = asyncio.Event()
        self._is_gone = asyncio.Event()
        self._watch: asyncio.Future[None] | None = None

    def received(self, visitor: Visitor) -> StreamTransport:
        """From now on this is its stand-in; gives the line to the client."""
        self.visitor = visitor
        self.line = StreamTransport(visitor.stdin, visitor.stdout, peer="the client")
        self._watch = asyncio.ensure_future(self._look(visitor, self.line))
        return self.line

    async def _look(self, visitor: Visitor, line: StreamTransport) -> None:
        """Hear what the stand-in says; when it has ended, its pipes end as well, though it is we who hold them."""
        with suppress(OSError):
            while await asyncio.get_running_loop().sock_recv(visitor.link, 64):
                self._is_deaf.set()
        self._is_gone.set()
        await line.close("its agent has ended")

    async def let_go(self) -> None:
        """Close the line, and let the stand-in go."""
        if self._watch is not None:
            self._watch.cancel()
            await asyncio.gather(self._watch, return_exceptions=True)
        if self.line is not None:
            await self.line.close()
        if self.visitor is not None:
            self.visitor.let_go()

    def ending(self) -> Ending:
        """Nobody knows how things stand with the client."""
        return Ending(None, "", "")

    async def over(self, seconds: float) -> Ending:
        """It is not waited for."""
        return self.ending()

    def interrupt(self) -> bool:
        """Nobody but the user can, who is asked to."""
        if self._say is not None:
            self._say("cancel the turn in the editor now")
        return self._say is not None

    async def complain(self, data: bytes, seconds: float) -> bool:
        """Write to the stderr that the client gave its agent."""
        assert self.visitor is not None
        fd, end = self.visitor.stderr, time.monotonic() + seconds
        os.set_blocking(fd, False)
        while data:
            try:
                data = data[os.write(fd, data[:65536]) :]
            except BlockingIOError:
                if time.monotonic() > end:
                    return False
                await asyncio.sleep(0.005)
            except OSError:
                return True  # it closed the pipe: nothing can be blocked by it
        return True

    async def die(self, status: int) -> None:
        """End the stand-in, then its pipes."""
        assert self.visitor is not None
        assert self.line is not None
        self.visitor.order(f"exit {status}" if status >= 0 else f"kill {-status}")
        await self.remains(FAREWELL.term)
        await self.line.close()

    async def mute(self) -> None:
        """Nobody else holds the pipe."""
        assert self.line is not None
        await self.line.send_eof()

    async def deafen(self) -> None:
        """The stand-in says when it is deaf."""
        assert self.visitor is not None
        self.visitor.order("deaf")
        async with asyncio.timeout(FAREWELL.kill):
            await self._is_deaf.wait()

    def dismiss(self) -> None:
        """The stand-in goes, as an agent does at the end of its input."""
        if self.visitor is not None:
            self.visitor.order("exit 0")

    async def remains(self, seconds: float) -> bool:
        """Whether the stand-in still holds its end of the line after so long."""
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._is_gone.wait()
        return not self._is_gone.is_set()

    def inherits(self, name: str) -> bool:
        """Whether the stand-in was given this variable."""
        return self.visitor is not None and name in self.visitor.about.get("environment", [])


# A variable of the client's environment that an agent should be able to see (peers.md P12).
CANARY = "DRAGOMAN_CHECK_CANARY"

# Of what a client prints so much is kept: enough for every mark we look for, and no flood fills us. Bytes.
PRINTED = 4 * 1024 * 1024


class Printed:
    """What comes on a pipe, kept up to a limit."""

    def __init__(self, stream: asyncio.StreamReader) -> None:
        self._text = bytearray()
        self._task = asyncio.ensure_future(self._read(stream))

    async def _read(self, stream: asyncio.StreamReader) -> None:
        while piece := await stream.read(65536):
            self._text += piece[: max(PRINTED - len(self._text), 0)]

    def text(self) -> str:
        """What came so far."""
        return self._text.decode("utf-8", "replace")

    async def close(self, seconds: float = 0.0) -> None:
        """Take what still comes, for a moment, and no more."""
        await asyncio.wait([self._task], timeout=seconds)
        self._task.cancel()
        await asyncio.gather(self._task, return_exceptions=True)


class Run(Visited):
    """One run of the client: its process, and after the report the stand-in; these are the grounds of a stage."""

    def __init__(self, child: asyncio.subprocess.Process, token: str, cwd: str, is_wrapped: bool) -> None:
        super().__init__(cwd, is_wrapped=is_wrapped, is_watched=True)
        self.child = child
        assert child.stdout is not None
        assert child.stderr is not None
        self._out, self._err = Printed(child.stdout), Printed(child.stderr)
        process = process_tree.read_process_stat(child.pid)
        self._tree = process_tree.ProcessTree(child.pid, process.start_time if process else 0, token)

    def ending(self) -> Ending:
        """How things stand with the client."""
        return Ending(self.child.returncode, self._out.text(), self._err.text())

    async def over(self, seconds: float) -> Ending:
        """Wait for its end, and then for the rest of what it printed."""
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self.child.wait()
        if self.child.returncode is not None:
            await asyncio.gather(self._out.close(FAREWELL.eof), self._err.close(FAREWELL.eof))
        return self.ending()

    def interrupt(self) -> bool:
        """Press Ctrl-C: the whole group is told, as by a terminal. Our stand-in does not listen to it."""
        with suppress(ProcessLookupError):
            os.killpg(self.child.pid, signal.SIGINT)
        return True

    async def close(self) -> None:
        """Leave nothing behind."""
        self._tree.living_members()  # while all parents still live
        await self.let_go()
        if not await self._tree.terminate(FAREWELL):
            self._tree.kill()
        await self.child.wait()
        await asyncio.gather(self._out.close(), self._err.close())


class CommandClient:
    """A client that a command starts, and that starts us."""

    way: str = ""

    def __init__(self, command: Sequence[str], dialect: str, *, pace: Pace = PROCESS) -> None:
        self.command = list(command)
        self.dialect = dialect
        self.pace = pace
        self.leaves: bool | None = None
        """Whether it leaves after a turn; whoever knows says so before the run."""

    @asynccontextmanager
    async def stage(self, requirement: Requirement) -> AsyncIterator[Stage]:
        """A fresh run in a fresh folder; inconclusive when the client never starts its agent."""
        reception = Reception()
        token = os.urandom(8).hex()
        run: Run | None = None
        stage: ClientStage | None = None
        try:
            with workspace() as folder:
                try:
                    run = await self._start(reception.path, folder, token, requirement)
                    line = run.received(await self._visited(reception, run))
                    stage = ClientStage(line, self.dialect, self.pace, run, needs=requirement.needs)
                    stage.leaves = self.leaves
                    yield stage
                finally:
                    if stage is not None:
                        stage.sweep()
                    if run is not None:
                        await run.close()
        finally:
            WATCHDOG.unguard(token)
            reception.close()

    async def _start(self, path: str, folder: str, token: str, requirement: Requirement) -> Run:
        is_wrapped = requirement.id in WRAPPED
        written = rebase_command(self.command, os.getcwd(), folder)
        return await self._launch(
            filled_in(written, words(path, wrapped=is_wrapped), folder), folder, token, is_wrapped
        )

    async def _launch(self, line: list[str], folder: str, token: str, is_wrapped: bool = False) -> Run:
        outer = os.environ.get(process_tree.MARKER)
        marked = {process_tree.MARKER: f"{outer}:{token}" if outer else token, CANARY: "1"}
        WATCHDOG.guard(token, 0)
        try:
            child = await asyncio.create_subprocess_exec(
                *line,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                cwd=folder,
                env={**os.environ, **marked},
                start_new_session=True,
            )
        except OSError as error:
            raise StartFailed(f"cannot start {line[0]!r}: {error.strerror}") from None
        WATCHDOG.guard(token, child.pid)
        return Run(child, token, folder, is_wrapped)

    async def _visited(self, reception: Reception, run: Run) -> Visitor:
        """The stand-in's report, or why there is none."""
        visit = asyncio.ensure_future(reception.visitor())
        ended = asyncio.ensure_future(run.child.wait())
        try:
            await asyncio.wait([visit, ended], timeout=self.pace.start, return_when=asyncio.FIRST_COMPLETED)
            if not visit.done():
                await asyncio.wait([visit], timeout=self.pace.quiet)
            if visit.done():
                return visit.result()
        finally:
            for task in (visit, ended):
                task.cancel()
            await asyncio.gather(visit, ended, return_exceptions=True)
        ending = await run.over(0.0)
        if ending.status is None:
            raise Unsure(f"the client did not start its agent within {self.pace.start:g} seconds")
        raise Unsure(f"the client ended with status {ending.status} without starting its agent: {ending.words()}")
