"""Where scenarios are played: `rehearse` holds one with an agent under test, `stand_in` plays the agent for a client.

Both work in memory, for an Agent object or a client in this process, and over real pipes, for a command. Failures of
the scenario come out here, in the test, whichever process the other end lives in. Below are the scripted peers.
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
from dragoman.testing.reception import Reception, Visitor, words
from dragoman.testing.scenario import Expectation, Step
from dragoman.testing.scenario_runner import Departure, Following, readable
from dragoman.testing.scripted_peer import PATIENCE, ScriptedAgent, ScriptedClient
from dragoman.transport.base import Transport
from dragoman.transport.memory import memory_pair
from dragoman.transport.process.transport import spawn
from dragoman.transport.stream import StreamTransport

Target = Agent | str | Sequence[str] | Transport
Wrap = Callable[[Transport], Transport]

# Where the agent's command goes in that of a client under test, and where its folder.
PLACE = "{agent}"
FOLDER = "{cwd}"

# After a client has ended, an agent that it started may still be on its way to us: an interpreter's start. Seconds.
GRACE = 1.0

# Of what a client printed, so much is told when it went without a word to us. Characters.
LAST_WORDS = 2000


@asynccontextmanager
async def scripted_client(
    target: Target,
    *,
    cwd: str | os.PathLike[str] | None = None,
    env: Mapping[str, str] | None = None,
    patience: float = PATIENCE,
    through: Wrap | None = None,
) -> AsyncIterator[ScriptedClient]:
    """A scripted client before an agent under test: an Agent, a command, its words, or a transport.

    `through` wraps the transport, for faults or to overhear it.
    """
    serving = None
    if isinstance(target, Agent):
        transport, theirs = memory_pair()
        serving = target.start_connection(theirs)
    elif isinstance(target, str | Sequence):
        transport = await spawn(shlex.split(target) if isinstance(target, str) else list(target), cwd=cwd, env=env)  # type: ignore[assignment]
    else:
        transport = target  # type: ignore[assignment]
    wrapped = through(transport) if through else transport
    try:
        yield ScriptedClient(wrapped, patience)
    finally:
        await wrapped.close("the test is over")
        if serving is not None:
            await serving.close()


async def rehearse(
    target: Target, scenario: Sequence[Step], *, ignoring: Sequence[Expectation] = (), **options: Any
) -> dict[str, Any]:
    """Hold a conversation with an agent under test; raises Departure where it does not go as written.

    `options` are those of `scripted_client`. Gives the values of the scenario's names.
    """
    async with scripted_client(target, **options) as client:
        return await client.follow(scenario, ignoring=ignoring)


class StandIn:
    """An agent that plays a scenario, for one client under test: in this process, or started by its command."""

    def __init__(self, patience: float) -> None:
        self.patience = patience
        self._met: asyncio.Future[Transport] = asyncio.get_running_loop().create_future()
        self._memory: Transport | None = None
        self._reception: Reception | None = None
        self._visitor: Visitor | None = None
        self._accepting: asyncio.Task[None] | None = None

    @property
    def transport(self) -> Transport:
        """The client's end of it, in memory."""
        if self._memory is None:
            self._memory, ours = memory_pair()
            self._met.set_result(ours)
        return self._memory

    @property
    def command(self) -> list[str]:
        """The command by which a client starts it, as words."""
        if self._reception is None:
            self._reception = Reception()
            self._accepting = asyncio.ensure_future(self._accept(self._reception))
        return words(self._reception.path)

    async def visited(self) -> Transport:
        """Our end, as soon as a client is there."""
        return await self._met

    async def was_visited(self, within: float) -> bool:
        """Whether a client is there, or comes within so many seconds."""
        await asyncio.wait([self._met], timeout=within)
        return self._met.done()

    async def _accept(self, reception: Reception) -> None:
        self._visitor = await reception.visitor()
        self._met.set_result(StreamTransport(self._visitor.stdin, self._visitor.stdout, peer="the client"))

    def let_go(self, status: int = 0) -> None:
        """The agent's process ends with this status."""
        if self._visitor is not None:
            self._visitor.order(f"exit {status}")
            self._visitor.let_go()
            self._visitor = None

    async def close(self) -> None:
        """Leave nothing behind."""
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
    ignoring: Sequence[Expectation] = (),
    patience: float = PATIENCE,
    through: Wrap | None = None,
) -> AsyncIterator[StandIn]:
    """An agent that plays a scenario for a client under test: connect to its `transport`, or start its `command`.

    On the way out it has been played to its end, else Departure is raised; the client may say no more than is in it.
    """
    stage = StandIn(patience)
    playing = asyncio.ensure_future(_play(stage, scenario, ignoring, through))
    try:
        try:
            yield stage
        except BaseException as error:
            if playing.done() and not playing.cancelled() and (departure := playing.exception()) is not None:
                raise departure from error
            raise
        done, _ = await asyncio.wait([playing], timeout=patience)
        if not done:
            raise Departure(f"the client has not played its part {patience:g} seconds after it was done", [])
        await playing
    finally:
        playing.cancel()
        await asyncio.gather(playing, return_exceptions=True)
        await stage.close()


async def _play(
    stage: StandIn, scenario: Sequence[Step], ignoring: Sequence[Expectation], through: Wrap | None
) -> None:
    transport = await stage.visited()
    peer = ScriptedAgent(through(transport) if through else transport, stage.patience)
    try:
        following = Following(peer, ignoring)
        await following.play(scenario)
        await following.finish()
    finally:
        with suppress(ConnectionFailed):
            await peer.transport.close("the scenario is over")
        stage.let_go()


class Finished(NamedTuple):
    """A client under test after its end: its exit status and what it printed."""

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
    """Run the command of a client under test to its end; `{agent}` in it stands for the agent's command.

    After `--` it becomes the words of that command, elsewhere one quoted word; without it they follow at the end. A
    client that ends without having started it is a Departure.
    """
    done = await run_command(command, agent.command, patience=agent.patience, cwd=cwd, env=env)
    if not await agent.was_visited(min(GRACE, agent.patience)):
        raise Departure(_unmet(done), [])
    return done


def _unmet(done: Finished) -> str:
    printed = (("stderr", done.stderr), ("stdout", done.stdout))
    said = [f"its {name}: {readable(text.strip()[-LAST_WORDS:], LAST_WORDS)}" for name, text in printed if text.strip()]
    how = f"exited with status {done.status}" if done.status >= 0 else f"was ended by signal {-done.status}"
    return "\n".join([f"the client {how} and never started its agent", *(said or ["it printed nothing"])])


async def run_command(
    command: str | Sequence[str],
    agent: Sequence[str],
    *,
    patience: float = PATIENCE,
    cwd: str | os.PathLike[str] | None = None,
    env: Mapping[str, str] | None = None,
) -> Finished:
    """The same for any agent by its words; a client that does not end in time is ended."""
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
        async with asyncio.timeout(patience):
            out, err = await process.communicate()
    except TimeoutError:
        raise AssertionError(f"{shlex.join(line)} did not end within {patience:g} seconds") from None
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
    return Finished(process.returncode or 0, out.decode("utf-8", "replace"), err.decode("utf-8", "replace"))


def filled_in(command: Sequence[str], agent: Sequence[str], cwd: str = FOLDER) -> list[str]:
    """The client's command with the agent's in its place, and the folder; without a place the agent's words follow.

    A word that is nothing but the place becomes all words of the agent when the one before is `--`, else one quoted
    word, as for `--agent {agent}`.
    """
    made: list[str] = []
    for word in command:
        if word == PLACE and made and made[-1] == "--":
            made.extend(agent)
        else:
            made.append(word.replace(PLACE, shlex.join(agent)).replace(FOLDER, cwd))
    return made if any(PLACE in word for word in command) else [*made, *agent]
