"""Play an agent for a client under test: in memory, or as a command that the client starts.

The command is `stub_agent`, which passes its pipes to the test through a socket. The scenario runs in the test, so
failures are raised there.
"""

from __future__ import annotations

import asyncio
import json
import os
import shlex
import socket
import sys
import tempfile
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from typing import Any, NamedTuple

from dragoman.errors import ConnectionFailed
from dragoman.testing import stub_agent
from dragoman.testing.connections import Wrap
from dragoman.testing.scenario import Expectation, Step
from dragoman.testing.scripted_peer import TIMEOUT, ScenarioFailed, ScenarioRun, ScriptedAgent, readable
from dragoman.transport.base import Transport
from dragoman.transport.memory import memory_pair
from dragoman.transport.stream import StreamTransport

# Placeholders in the command of a client under test: the agent's command, and the working directory.
AGENT_PLACEHOLDER = "{agent}"
CWD_PLACEHOLDER = "{cwd}"

# Seconds that an agent may need to connect after its client has exited: the start of an interpreter.
CONNECT_GRACE = 1.0

# Characters of a client's output shown if it never started its agent.
OUTPUT_SHOWN = 2000


# --- the stub agent, as seen by the test ------------------------------------------------------------------------------


def stub_command(path: str, *, wrapped: bool = False) -> list[str]:
    """Return the command of the stub agent that connects to this socket; `wrapped` starts it through a shell."""
    line = [sys.executable, "-I", os.path.abspath(stub_agent.__file__), path]
    return ["/bin/sh", "-c", f"{shlex.join(line)}; :"] if wrapped else line


class StubConnection:
    """A connected stub agent: its pipes, and the socket for commands."""

    def __init__(self, link: socket.socket, about: dict[str, Any], pipes: Sequence[int]) -> None:
        self.link = link
        self.about = about
        self.stdin, self.stdout, self.stderr = pipes

    def send_command(self, line: str) -> None:
        """Send it a command; ignored if it has exited."""
        with suppress(OSError):
            self.link.send(line.encode() + b"\n")

    def close(self) -> None:
        """Close the socket; the stub agent then exits."""
        self.link.close()
        with suppress(OSError):
            os.close(self.stderr)


class StubListener:
    """The private socket that stub agents connect to: at this unused path, or in a new directory."""

    def __init__(self, path: str = "") -> None:
        self._folder = "" if path else tempfile.mkdtemp(prefix="dragoman-")
        self.path = path or os.path.join(self._folder, "stub.sock")
        self._listener = socket.socket(socket.AF_UNIX)
        self._listener.bind(self.path)
        self._listener.listen(8)
        self._listener.setblocking(False)

    async def accept(self) -> StubConnection:
        """Wait for the next stub agent."""
        loop = asyncio.get_running_loop()
        link, _ = await loop.sock_accept(self._listener)
        link.setblocking(False)
        ready = asyncio.Event()
        loop.add_reader(link, ready.set)
        try:
            await ready.wait()
        finally:
            loop.remove_reader(link)
        report, pipes, _, _ = socket.recv_fds(link, 65536, 3)  # the pipes come with the first bytes
        while not report.endswith(b"\n"):
            more = await loop.sock_recv(link, 65536)
            if not more:
                raise ConnectionResetError("the stub agent exited before it sent its pipes")
            report += more
        return StubConnection(link, json.loads(report), pipes)

    def close(self) -> None:
        """Stop listening and remove the socket."""
        self._listener.close()
        for remove, path in ((os.unlink, self.path), (os.rmdir, self._folder)):
            with suppress(OSError):
                remove(path)


# --- the fake agent ---------------------------------------------------------------------------------------------------


class FakeAgent:
    """An agent that plays a scenario, for one client under test: in this process, or started by its command."""

    def __init__(self, timeout: float) -> None:
        self.timeout = timeout
        self._connected: asyncio.Future[Transport] = asyncio.get_running_loop().create_future()
        self._memory: Transport | None = None
        self._listener: StubListener | None = None
        self._stub: StubConnection | None = None
        self._accepting: asyncio.Task[None] | None = None

    @property
    def transport(self) -> Transport:
        """The client's end, in memory."""
        if self._memory is None:
            self._memory, ours = memory_pair()
            self._connected.set_result(ours)
        return self._memory

    @property
    def command(self) -> list[str]:
        """The command that starts it, as a list of arguments."""
        if self._listener is None:
            self._listener = StubListener()
            self._accepting = asyncio.ensure_future(self._accept(self._listener))
        return stub_command(self._listener.path)

    async def connected_within(self, seconds: float) -> bool:
        """Return whether a client connects within this many seconds."""
        await asyncio.wait([self._connected], timeout=seconds)
        return self._connected.done()

    async def _accept(self, listener: StubListener) -> None:
        self._stub = await listener.accept()
        self._connected.set_result(StreamTransport(self._stub.stdin, self._stub.stdout, peer="the client"))

    async def _play(self, scenario: Sequence[Step], ignore: Sequence[Expectation], wrap: Wrap | None) -> None:
        transport = await self._connected
        peer = ScriptedAgent(wrap(transport) if wrap else transport, self.timeout)
        try:
            run = ScenarioRun(peer, ignore)
            await run.play(scenario)
            await run.finish()
        finally:
            with suppress(ConnectionFailed):
                await peer.transport.close("the scenario is over")
            self._exit()

    def _exit(self) -> None:
        if self._stub is not None:
            self._stub.send_command("exit 0")
            self._stub.close()
            self._stub = None

    async def close(self) -> None:
        """Close the transport, the process and the socket."""
        if self._accepting is not None:
            self._accepting.cancel()
            await asyncio.gather(self._accepting, return_exceptions=True)
        if self._connected.done() and not self._connected.cancelled():
            await self._connected.result().close("the test is over")
        self._exit()
        if self._listener is not None:
            self._listener.close()


@asynccontextmanager
async def fake_agent(
    scenario: Sequence[Step],
    *,
    ignore: Sequence[Expectation] = (),
    timeout: float = TIMEOUT,
    wrap: Wrap | None = None,
) -> AsyncIterator[FakeAgent]:
    """Play an agent for a client under test, which connects to `transport` or starts `command`.

    On exit, raises ScenarioFailed if the scenario was not played to its end, or if the client sent anything else.
    """
    agent = FakeAgent(timeout)
    playing = asyncio.ensure_future(agent._play(scenario, ignore, wrap))
    try:
        try:
            yield agent
        except BaseException as error:
            if playing.done() and not playing.cancelled() and (failure := playing.exception()) is not None:
                raise failure from error
            raise
        done, _ = await asyncio.wait([playing], timeout=timeout)
        if not done:
            raise ScenarioFailed(f"the client did not finish the scenario within {timeout:g} seconds", [])
        await playing
    finally:
        playing.cancel()
        await asyncio.gather(playing, return_exceptions=True)
        await agent.close()


# --- the client under test --------------------------------------------------------------------------------------------


class CompletedClient(NamedTuple):
    """The exit status and output of a client under test."""

    status: int
    stdout: str
    stderr: str


async def run_client(
    command: str | Sequence[str],
    agent: FakeAgent,
    *,
    cwd: str | os.PathLike[str] | None = None,
    env: Mapping[str, str] | None = None,
) -> CompletedClient:
    """Run the command of a client under test to its end, with `{agent}` replaced by the agent's command.

    After `--` it becomes several arguments, elsewhere one quoted argument; without `{agent}` the command is appended.
    Raises ScenarioFailed if the client exits without starting the agent.
    """
    done = await run_command(command, agent.command, timeout=agent.timeout, cwd=cwd, env=env)
    if await agent.connected_within(min(CONNECT_GRACE, agent.timeout)):
        return done
    output = [
        f"its {name}: {readable(text.strip()[-OUTPUT_SHOWN:], OUTPUT_SHOWN)}"
        for name, text in (("stderr", done.stderr), ("stdout", done.stdout))
        if text.strip()
    ]
    how = f"exited with status {done.status}" if done.status >= 0 else f"was killed by signal {-done.status}"
    lines = [f"the client {how} and never started its agent", *(output or ["it printed nothing"])]
    raise ScenarioFailed("\n".join(lines), [])


async def run_command(
    command: str | Sequence[str],
    agent: Sequence[str],
    *,
    timeout: float = TIMEOUT,
    cwd: str | os.PathLike[str] | None = None,
    env: Mapping[str, str] | None = None,
) -> CompletedClient:
    """Do the same for any agent command; kill a client that does not exit in time."""
    line = client_command(shlex.split(command) if isinstance(command, str) else command, agent)
    try:
        process = await asyncio.create_subprocess_exec(
            *line,
            cwd=cwd,
            env=None if env is None else {**os.environ, **env},
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
        )
    except OSError as error:
        raise AssertionError(f"the client could not be started: {error.strerror}: {error.filename}") from None
    try:
        async with asyncio.timeout(timeout):
            out, err = await process.communicate()
    except TimeoutError:
        raise AssertionError(f"{shlex.join(line)} did not exit within {timeout:g} seconds") from None
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
    return CompletedClient(process.returncode or 0, out.decode("utf-8", "replace"), err.decode("utf-8", "replace"))


def client_command(command: Sequence[str], agent: Sequence[str], cwd: str = CWD_PLACEHOLDER) -> list[str]:
    """Return the client's command with `{agent}` and `{cwd}` filled in.

    `{agent}` after `--` becomes several arguments, elsewhere one quoted argument, as for `--agent {agent}`. Without it,
    the agent's command is appended.
    """
    made: list[str] = []
    for word in command:
        if word == AGENT_PLACEHOLDER and made and made[-1] == "--":
            made.extend(agent)
        else:
            made.append(word.replace(AGENT_PLACEHOLDER, shlex.join(agent)).replace(CWD_PLACEHOLDER, cwd))
    return made if any(AGENT_PLACEHOLDER in word for word in command) else [*made, *agent]
