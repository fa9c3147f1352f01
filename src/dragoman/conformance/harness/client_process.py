"""A client that a command starts, and that starts our stub agent.

The stub agent hands over the pipes that the client gave it. After a run everything the command started is ended.
"""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import time
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager, suppress
from typing import Any, TypeVar

from dragoman.conformance.harness.client import ClientUnderTest
from dragoman.conformance.harness.client_environment import WRAPPED, ClientEnvironment, ClientExit
from dragoman.conformance.harness.peer import PROCESS, PeerUnderTest, Timeouts
from dragoman.conformance.harness.targets import STOP_TIMEOUTS, workspace
from dragoman.conformance.requirement import Requirement
from dragoman.conformance.verdict import Inconclusive
from dragoman.errors import StartFailed
from dragoman.roles.client.dial import rebase_command
from dragoman.testing.fake_agents import StubConnection, StubListener, client_command, stub_command
from dragoman.transport.process import process_tree
from dragoman.transport.process.watchdog import WATCHDOG
from dragoman.transport.stream import StreamTransport

T = TypeVar("T")


class StubEnvironment:
    """The environment of a client of which only the stub agent is known."""

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
        self.stub: StubConnection | None = None
        self.channel: StreamTransport | None = None
        self._ignores_sigterm = asyncio.Event()
        self._is_gone = asyncio.Event()
        self._watch: asyncio.Future[None] | None = None

    def attach(self, stub: StubConnection) -> StreamTransport:
        """Use this stub agent; return the channel to the client."""
        self.stub = stub
        self.channel = StreamTransport(stub.stdin, stub.stdout, peer="the client")
        self._watch = asyncio.ensure_future(self._watch_stub(stub, self.channel))
        return self.channel

    async def _watch_stub(self, stub: StubConnection, channel: StreamTransport) -> None:
        """Read what the stub agent reports. We hold its pipes, so close them when it exits."""
        with suppress(OSError):
            while await asyncio.get_running_loop().sock_recv(stub.link, 64):
                self._ignores_sigterm.set()
        self._is_gone.set()
        await channel.close("its agent has ended")

    async def release(self) -> None:
        """Close the channel and release the stub agent."""
        if self._watch is not None:
            self._watch.cancel()
            await asyncio.gather(self._watch, return_exceptions=True)
        if self.channel is not None:
            await self.channel.close()
        if self.stub is not None:
            self.stub.close()

    def exit_state(self) -> ClientExit:
        """Return nothing: the client cannot be observed."""
        return ClientExit(None, "", "")

    async def wait_exit(self, seconds: float) -> ClientExit:
        """Do not wait: the client cannot be observed."""
        return self.exit_state()

    def interrupt(self) -> bool:
        """Ask the user to cancel, because only the user can."""
        if self._say is not None:
            self._say("cancel the turn in the editor now")
        return self._say is not None

    async def write_stderr(self, data: bytes, seconds: float) -> bool:
        """Write to the stderr that the client gave its agent."""
        assert self.stub is not None
        fd, end = self.stub.stderr, time.monotonic() + seconds
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

    async def exit_agent(self, status: int) -> None:
        """End the stub agent, then its pipes."""
        assert self.stub is not None
        assert self.channel is not None
        self.stub.send_command(f"exit {status}" if status >= 0 else f"kill {-status}")
        await self.agent_running(STOP_TIMEOUTS.term)
        await self.channel.close()

    async def close_output(self) -> None:
        """Close the pipe, which nobody else holds."""
        assert self.channel is not None
        await self.channel.send_eof()

    async def ignore_sigterm(self) -> None:
        """Wait until the stub agent confirms."""
        assert self.stub is not None
        self.stub.send_command("ignore_sigterm")
        async with asyncio.timeout(STOP_TIMEOUTS.kill):
            await self._ignores_sigterm.wait()

    def release_agent(self) -> None:
        """Make the stub agent exit."""
        if self.stub is not None:
            self.stub.send_command("exit 0")

    async def agent_running(self, seconds: float) -> bool:
        """Return whether the stub agent still holds its socket after this time."""
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._is_gone.wait()
        return not self._is_gone.is_set()

    def inherits_variable(self, name: str) -> bool:
        """Return whether the stub agent got this variable."""
        return self.stub is not None and name in self.stub.about.get("environment", [])


# A variable of the client's environment that an agent should see (docs/protocol/peers.md#sdk-environment).
CANARY = "DRAGOMAN_CHECK_CANARY"

# How much of a client's output is kept: enough for every mark, without filling memory. Bytes.
OUTPUT_LIMIT = 4 * 1024 * 1024


class CapturedOutput:
    """The output on a pipe, kept up to a limit."""

    def __init__(self, stream: asyncio.StreamReader) -> None:
        self._text = bytearray()
        self._task = asyncio.ensure_future(self._read(stream))

    async def _read(self, stream: asyncio.StreamReader) -> None:
        while piece := await stream.read(65536):
            self._text += piece[: max(OUTPUT_LIMIT - len(self._text), 0)]

    def text(self) -> str:
        """Return the output so far."""
        return self._text.decode("utf-8", "replace")

    async def close(self, seconds: float = 0.0) -> None:
        """Read what still comes for a moment, then stop."""
        await asyncio.wait([self._task], timeout=seconds)
        self._task.cancel()
        await asyncio.gather(self._task, return_exceptions=True)


class ClientProcess(StubEnvironment):
    """One run of the client: its process and its stub agent."""

    def __init__(self, child: asyncio.subprocess.Process, token: str, cwd: str, is_wrapped: bool) -> None:
        super().__init__(cwd, is_wrapped=is_wrapped, is_watched=True)
        self.child = child
        assert child.stdout is not None
        assert child.stderr is not None
        self._out, self._err = CapturedOutput(child.stdout), CapturedOutput(child.stderr)
        process = process_tree.read_process_stat(child.pid)
        self._tree = process_tree.ProcessTree(child.pid, process.start_time if process else 0, token)

    def exit_state(self) -> ClientExit:
        """Return the state of the client."""
        return ClientExit(self.child.returncode, self._out.text(), self._err.text())

    async def wait_exit(self, seconds: float) -> ClientExit:
        """Wait for its exit, and then for the rest of its output."""
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self.child.wait()
        if self.child.returncode is not None:
            await asyncio.gather(self._out.close(STOP_TIMEOUTS.eof), self._err.close(STOP_TIMEOUTS.eof))
        return self.exit_state()

    def interrupt(self) -> bool:
        """Send SIGINT to the whole group, as a terminal does. The stub agent ignores it."""
        with suppress(ProcessLookupError):
            os.killpg(self.child.pid, signal.SIGINT)
        return True

    async def close(self) -> None:
        """End every process of the run."""
        self._tree.living_members()  # while all parents still live
        await self.release()
        if not await self._tree.terminate(STOP_TIMEOUTS):
            self._tree.kill()
        await self.child.wait()
        await asyncio.gather(self._out.close(), self._err.close())


class CommandClient:
    """A client that a command starts, and that starts our stub agent."""

    way: str = ""

    def __init__(self, command: Sequence[str], dialect: str, *, timeouts: Timeouts = PROCESS) -> None:
        self.command = list(command)
        self.dialect = dialect
        self.timeouts = timeouts
        self.exits_after_turn: bool | None = None
        """Whether it exits after a turn; set before the run if known."""

    @asynccontextmanager
    async def start(self, requirement: Requirement) -> AsyncIterator[PeerUnderTest]:
        """Start a fresh run in a fresh folder; inconclusive when the client never starts its agent."""
        listener = StubListener()
        token = os.urandom(8).hex()
        run: ClientProcess | None = None
        peer: ClientUnderTest | None = None
        try:
            with workspace() as folder:
                try:
                    run = await self._start(listener.path, folder, token, requirement)
                    ended = asyncio.ensure_future(run.child.wait())
                    stub = asyncio.ensure_future(listener.accept())
                    what = "starting its agent"
                    channel = run.attach(await wait_for_client(stub, ended, run, self.timeouts, what))
                    peer = ClientUnderTest(channel, self.dialect, self.timeouts, run, needs=requirement.needs)
                    peer.exits_after_turn = self.exits_after_turn
                    yield peer
                finally:
                    if peer is not None:
                        peer.remove_files()
                    if run is not None:
                        await run.close()
        finally:
            WATCHDOG.unguard(token)
            listener.close()

    async def _start(self, path: str, folder: str, token: str, requirement: Requirement) -> ClientProcess:
        is_wrapped = requirement.id in WRAPPED
        written = rebase_command(self.command, os.getcwd(), folder)
        return await self._launch(
            client_command(written, stub_command(path, wrapped=is_wrapped), folder), folder, token, is_wrapped
        )

    async def _launch(
        self,
        command: list[str],
        folder: str,
        token: str,
        is_wrapped: bool = False,
        kind: type[ClientProcess] = ClientProcess,
    ) -> ClientProcess:
        outer = os.environ.get(process_tree.MARKER)
        marked = {process_tree.MARKER: f"{outer}:{token}" if outer else token, CANARY: "1"}
        WATCHDOG.guard(token, 0)
        try:
            child = await asyncio.create_subprocess_exec(
                *command,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                cwd=folder,
                env={**os.environ, **marked},
                start_new_session=True,
            )
        except OSError as error:
            raise StartFailed(f"cannot start {command[0]!r}: {error.strerror}") from None
        WATCHDOG.guard(token, child.pid)
        return kind(child, token, folder, is_wrapped)


async def wait_for_client(
    wanted: asyncio.Future[T], ended: asyncio.Future[Any], client: ClientEnvironment, timeouts: Timeouts, what: str
) -> T:
    """Return what we wait for; inconclusive when the client ends without `what`, or does not do it in time."""
    try:
        await asyncio.wait([wanted, ended], timeout=timeouts.start, return_when=asyncio.FIRST_COMPLETED)
        if not wanted.done():
            await asyncio.wait([wanted], timeout=timeouts.quiet)
        if wanted.done():
            return wanted.result()
    finally:
        wanted.cancel()
        await asyncio.gather(wanted, return_exceptions=True)
    ending = await client.wait_exit(0.0)
    if ending.status is None:
        raise Inconclusive(f"the client ran for {timeouts.start:g} seconds without {what}")
    raise Inconclusive(f"the client ended with status {ending.status} without {what}: {ending.stderr_excerpt()}")
