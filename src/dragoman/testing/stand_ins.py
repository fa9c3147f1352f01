"""Run scenarios: `rehearse` plays the client for an agent under test, `stand_in` the agent for a client under test.

Both work in memory, for an Agent object or a client in this process, and over real pipes, for a command. Failures are
raised in the test, whichever process the peer runs in.
"""

from __future__ import annotations

import asyncio
import os
import shlex
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from typing import Any, NamedTuple

from dragoman.errors import ConnectionFailed
from dragoman.roles.agent.agent import Agent
from dragoman.testing.reception import Reception, StubConnection, words
from dragoman.testing.scenario import Expectation, Step
from dragoman.testing.scenario_runner import Departure, Following, readable
from dragoman.testing.scripted_peer import TIMEOUT, ScriptedAgent, ScriptedClient
from dragoman.transport.base import Transport
from dragoman.transport.memory import memory_pair
from dragoman.transport.process.transport import spawn
from dragoman.transport.stream import StreamTransport

Target = Agent | str | Sequence[str] | Transport
Wrap = Callable[[Transport], Transport]

# Placeholders in the command of a client under test: the agent's command, and the working directory.
PLACE = "{agent}"
FOLDER = "{cwd}"

# Seconds that an agent may need to connect after its client has exited: the start of an interpreter.
GRACE = 1.0

# Characters of a client's output shown if it never started its agent.
LAST_WORDS = 2000


@asynccontextmanager
async def scripted_client(
    target: Target,
    *,
    cwd: str | os.PathLike[str] | None = None,
    env: Mapping[str, str] | None = None,
    timeout: float = TIMEOUT,
    wrap: Wrap | None = None,
) -> AsyncIterator[ScriptedClient]:
    """Connect a scripted client to an agent under test: an Agent, a command, a list of arguments, or a transport.

    `wrap` wraps the transport, to add faults or to record it.
    """
    serving = None
    if isinstance(target, Agent):
        transport, theirs = memory_pair()
        serving = target.start_connection(theirs)
    elif isinstance(target, str | Sequence):
        transport = await spawn(shlex.split(target) if isinstance(target, str) else list(target), cwd=cwd, env=env)  # type: ignore[assignment]
    else:
        transport = target  # type: ignore[assignment]
    wrapped = wrap(transport) if wrap else transport
    try:
        yield ScriptedClient(wrapped, timeout)
    finally:
        await wrapped.close("the test is over")
        if serving is not None:
            await serving.close()


async def rehearse(
    target: Target, scenario: Sequence[Step], *, ignore: Sequence[Expectation] = (), **options: Any
) -> dict[str, Any]:
    """Play a scenario with an agent under test; raises Departure if the agent deviates.

    `options` are those of `scripted_client`. Return the values of the scenario's names.
    """
    async with scripted_client(target, **options) as client:
        return await client.follow(scenario, ignore=ignore)


class StandIn:
    """An agent that plays a scenario, for one client under test: in this process, or started by its command."""

    def __init__(self, timeout: float) -> None:
        self.timeout = timeout
        self._met: asyncio.Future[Transport] = asyncio.get_running_loop().create_future()
        self._memory: Transport | None = None
        self._reception: Reception | None = None
        self._visitor: StubConnection | None = None
        self._accepting: asyncio.Task[None] | None = None

    @property
    def transport(self) -> Transport:
        """The client's end, in memory."""
        if self._memory is None:
            self._memory, ours = memory_pair()
            self._met.set_result(ours)
        return self._memory

    @property
    def command(self) -> list[str]:
        """The command that starts it, as a list of arguments."""
        if self._reception is None:
            self._reception = Reception()
            self._accepting = asyncio.ensure_future(self._accept(self._reception))
        return words(self._reception.path)

    async def visited(self) -> Transport:
        """Wait for a client; return our end of the transport."""
        return await self._met

    async def was_visited(self, within: float) -> bool:
        """Return whether a client connects within this many seconds."""
        await asyncio.wait([self._met], timeout=within)
        return self._met.done()

    async def _accept(self, reception: Reception) -> None:
        self._visitor = await reception.accept()
        self._met.set_result(StreamTransport(self._visitor.stdin, self._visitor.stdout, peer="the client"))

    def let_go(self, status: int = 0) -> None:
        """End the agent process with this status."""
        if self._visitor is not None:
            self._visitor.order(f"exit {status}")
            self._visitor.let_go()
            self._visitor = None

    async def close(self) -> None:
        """Close the transport, the process and the socket."""
        if self._accepting is not None:
            self._accepting.cancel()
            await asyncio.gather(self._accepting, return_exceptions=True)
        if self._met.done() and not self._met.cancelled():
            await self._met.result().close("the test is over")
        self.let_go()
        if self._reception is not None:
            self._reception.close()


@asynccontextmanager
async def stand_in(
    scenario: Sequence[Step],
    *,
    ignore: Sequence[Expectation] = (),
    timeout: float = TIMEOUT,
    wrap: Wrap | None = None,
) -> AsyncIterator[StandIn]:
    """Play an agent for a client under test, which connects to `transport` or starts `command`.

    On exit, raises Departure if the scenario was not played to its end, or if the client sent anything else.
    """
    agent = StandIn(timeout)
    playing = asyncio.ensure_future(_play(agent, scenario, ignore, wrap))
    try:
        try:
            yield agent
        except BaseException as error:
            if playing.done() and not playing.cancelled() and (departure := playing.exception()) is not None:
                raise departure from error
            raise
        done, _ = await asyncio.wait([playing], timeout=timeout)
        if not done:
            raise Departure(f"the client did not finish the scenario within {timeout:g} seconds", [])
        await playing
    finally:
        playing.cancel()
        await asyncio.gather(playing, return_exceptions=True)
        await agent.close()


async def _play(agent: StandIn, scenario: Sequence[Step], ignore: Sequence[Expectation], wrap: Wrap | None) -> None:
    transport = await agent.visited()
    peer = ScriptedAgent(wrap(transport) if wrap else transport, agent.timeout)
    try:
        following = Following(peer, ignore)
        await following.play(scenario)
        await following.finish()
    finally:
        with suppress(ConnectionFailed):
            await peer.transport.close("the scenario is over")
        agent.let_go()


class Finished(NamedTuple):
    """The exit status and output of a client under test."""

    status: int
    stdout: str
    stderr: str


async def run_client(
    command: str | Sequence[str],
    agent: StandIn,
    *,
    cwd: str | os.PathLike[str] | None = None,
    env: Mapping[str, str] | None = None,
) -> Finished:
    """Run the command of a client under test to its end, with `{agent}` replaced by the agent's command.

    After `--` it becomes several arguments, elsewhere one quoted argument; without `{agent}` the command is appended.
    Raises Departure if the client exits without starting the agent.
    """
    done = await run_command(command, agent.command, timeout=agent.timeout, cwd=cwd, env=env)
    if not await agent.was_visited(min(GRACE, agent.timeout)):
        raise Departure(_unmet(done), [])
    return done


def _unmet(done: Finished) -> str:
    printed = (("stderr", done.stderr), ("stdout", done.stdout))
    said = [f"its {name}: {readable(text.strip()[-LAST_WORDS:], LAST_WORDS)}" for name, text in printed if text.strip()]
    how = f"exited with status {done.status}" if done.status >= 0 else f"was killed by signal {-done.status}"
    return "\n".join([f"the client {how} and never started its agent", *(said or ["it printed nothing"])])


async def run_command(
    command: str | Sequence[str],
    agent: Sequence[str],
    *,
    timeout: float = TIMEOUT,
    cwd: str | os.PathLike[str] | None = None,
    env: Mapping[str, str] | None = None,
) -> Finished:
    """Do the same for any agent command; kill a client that does not exit in time."""
    line = filled_in(shlex.split(command) if isinstance(command, str) else command, agent)
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
    return Finished(process.returncode or 0, out.decode("utf-8", "replace"), err.decode("utf-8", "replace"))


def filled_in(command: Sequence[str], agent: Sequence[str], cwd: str = FOLDER) -> list[str]:
    """Return the client's command with `{agent}` and `{cwd}` filled in.

    `{agent}` after `--` becomes several arguments, elsewhere one quoted argument, as for `--agent {agent}`. Without it,
    the agent's command is appended.
    """
    made: list[str] = []
    for word in command:
        if word == PLACE and made and made[-1] == "--":
            made.extend(agent)
        else:
            made.append(word.replace(PLACE, shlex.join(agent)).replace(FOLDER, cwd))
    return made if any(PLACE in word for word in command) else [*made, *agent]
