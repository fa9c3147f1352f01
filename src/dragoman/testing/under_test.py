"""Agents and clients under test, spoken to from plain test functions: no `async`, no plug-in for asyncio.

Each test has a loop of its own that runs while a call of the test waits and stands still between the calls, so nothing
happens behind the test's back. Every call has an end: the test's timeout. Above is the pytest plug-in; below are
`connect`, `joined` and the scripted peers. Who has an event loop already uses those.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, AsyncExitStack
from typing import Any, TypeVar

import msgspec

from dragoman.roles.agent.agent import Agent
from dragoman.roles.client.connect import connect
from dragoman.roles.client.remote_agent import RemoteAgent
from dragoman.roles.client.session import ClientSession
from dragoman.schema.base import Unknown
from dragoman.schema.content import ContentBlock
from dragoman.schema.plan import PlanEntry
from dragoman.schema.update import AgentMessageChunk, SessionUpdate
from dragoman.session.toolcall import ToolCall
from dragoman.testing.pairs import joined
from dragoman.testing.scenario import Expectation, Step
from dragoman.testing.scenario_runner import Departure
from dragoman.testing.scripted_peer import ScriptedClient
from dragoman.testing.stand_ins import Finished, Target, Wrap, run_client, scripted_client, stand_in
from dragoman.transport.base import Transport

T = TypeVar("T")

# No call of a test takes longer unless something hangs. Seconds; real agents start and think within it.
TIMEOUT = 30.0

# How long what was started is given to end, whatever the test's own timeout is. Seconds.
FAREWELL = 15.0


class Loop:
    """The event loop of one test: runs while a call waits."""

    def __init__(self, timeout: float = TIMEOUT) -> None:
        self.timeout = timeout
        self._runner = asyncio.Runner()
        self._stack = AsyncExitStack()

    def run(self, work: Awaitable[T], timeout: float | None = None) -> T:
        """Wait for this; a call that takes too long fails the test."""
        seconds = self.timeout if timeout is None else timeout

        async def bounded() -> T:
            limit = asyncio.timeout(seconds)
            try:
                async with limit:
                    return await work
            except TimeoutError:
                if not limit.expired():
                    raise
                raise AssertionError(
                    f"no end after {seconds:g} seconds; @pytest.mark.acp_timeout(...) or --acp-timeout gives it longer"
                ) from None

        __tracebackhide__ = True  # so that pytest shows the line of the test
        try:
            return self._runner.run(bounded())
        except Departure as error:
            raise error.with_traceback(
                None
            ) from error.__cause__  # it tells all there is to tell; our own frames say nothing more

    def enter(self, manager: AbstractAsyncContextManager[T]) -> T:
        """Enter something that is left when the test is over."""
        return self.run(self._stack.enter_async_context(manager))

    def close(self) -> None:
        """Leave everything that was entered, the last first."""
        try:
            self.run(self._stack.aclose(), FAREWELL)
        finally:
            self._runner.close()


class TurnSeen(msgspec.Struct, frozen=True):
    """A turn after its end: the agent's text, why it ended, and every update in order."""

    text: str
    stop_reason: str
    updates: list[SessionUpdate]


class SessionUnderTest:
    """A session of the agent under test."""

    def __init__(self, loop: Loop, session: ClientSession) -> None:
        self.session = session
        """The session itself, for everything that is not here; `run` waits for what it gives."""
        self._loop = loop

    @property
    def cwd(self) -> str:
        """Its folder."""
        return self.session.cwd

    @property
    def tool_calls(self) -> list[ToolCall]:
        """Every tool call as it stands now, in the order they began."""
        return list(self.session.tool_calls.values())

    @property
    def plan(self) -> list[PlanEntry]:
        """The plan as it stands now."""
        return self.session.plan

    def run(self, work: Awaitable[T]) -> T:
        """Wait for anything that the session itself can do: `run(session.session.set_mode("plan"))`."""
        return self._loop.run(work)

    def ask(self, prompt: str | Sequence[ContentBlock]) -> str:
        """Prompt, wait for the end of the turn, and give the agent's text."""
        __tracebackhide__ = True
        return self.run(self.session.ask(prompt))

    def turn(self, prompt: str | Sequence[ContentBlock], *, cancel_at: str = "") -> TurnSeen:
        """Prompt and see the whole turn; it is cancelled at the first update of the kind `cancel_at`."""
        __tracebackhide__ = True
        return self.run(self._turn(prompt, cancel_at))

    async def _turn(self, prompt: str | Sequence[ContentBlock], cancel_at: str) -> TurnSeen:
        updates: list[Any] = []
        texts: list[str] = []
        async with self.session.prompt(prompt) as turn:
            async for update in turn:
                updates.append(update)
                if isinstance(update, AgentMessageChunk) and (text := getattr(update.content, "text", None)):
                    texts.append(text)
                if cancel_at and _kind(update) == cancel_at:
                    turn.cancel()
            result = await turn.wait()
        return TurnSeen("".join(texts), result.stop_reason, updates)


class AgentUnderTest:
    """The agent under test, connected."""

    def __init__(self, loop: Loop, remote: RemoteAgent, folder: str) -> None:
        self.remote = remote
        """The connection itself, for everything that is not here; `run` waits for what it gives."""
        self._loop = loop
        self._folder = folder

    @classmethod
    def start(
        cls, loop: Loop, target: Target, *, cwd: str, options: Mapping[str, Any], trace: Wrap | None = None
    ) -> AgentUnderTest:
        """Start it, or join it in memory; `options` are those of `connect`."""
        given = {"trace": trace, "timeout": loop.timeout, **options}
        if isinstance(target, Agent):
            return cls(loop, loop.enter(joined(target, **given)), cwd)
        return cls(loop, loop.enter(_connected(target, {"cwd": cwd, **given})), cwd)

    def run(self, work: Awaitable[T]) -> T:
        """Wait for anything that the connection itself can do."""
        return self._loop.run(work)

    def open(self, cwd: str | os.PathLike[str] | None = None, **options: Any) -> SessionUnderTest:
        """Open a session, in the test's own folder unless another is given."""
        session = self.run(self.remote.open_session(os.fspath(cwd or self._folder), **options))
        return SessionUnderTest(self._loop, session)


class WireClient:
    """A scripted client before the agent under test: nothing is said but what the test says."""

    def __init__(self, loop: Loop, client: ScriptedClient) -> None:
        self.client = client
        self._loop = loop

    @classmethod
    def start(cls, loop: Loop, target: Target, *, cwd: str, trace: Wrap | None = None) -> WireClient:
        """Start the agent; it has heard nothing yet."""
        return cls(loop, loop.enter(scripted_client(target, cwd=cwd, patience=loop.timeout, through=trace)))

    @property
    def exchange(self) -> list[str]:
        """Everything said and heard, a line each."""
        return self.client.exchange

    def follow(self, scenario: Sequence[Step], *, ignoring: Sequence[Expectation] = ()) -> dict[str, Any]:
        """Play a scenario, or its next part; gives the values of its names."""
        __tracebackhide__ = True
        return self._loop.run(self.client.follow(scenario, ignoring=ignoring), self._loop.timeout + 1)


class ClientTester:
    """Plays an agent for a client under test."""

    def __init__(self, loop: Loop, trace: Wrap | None = None) -> None:
        self._loop = loop
        self._trace = trace

    def meets(
        self,
        client: str | Sequence[str] | Callable[[Transport], Awaitable[T]],
        scenario: Sequence[Step],
        *,
        ignoring: Sequence[Expectation] = (),
        cwd: str | os.PathLike[str] | None = None,
        env: Mapping[str, str] | None = None,
    ) -> Any:
        """Let the client meet an agent that plays this scenario.

        A command is run to its end, with `{agent}` for the agent's command, and gives what it printed (Finished); an
        async function is called with a transport and gives what it returns.
        """
        __tracebackhide__ = True

        async def scene() -> Any:
            patience = self._loop.timeout
            async with stand_in(scenario, ignoring=ignoring, patience=patience, through=self._trace) as agent:
                if isinstance(client, str | Sequence):
                    return await run_client(client, agent, cwd=cwd, env=env)
                return await client(agent.transport)

        result: Finished | T = self._loop.run(scene(), 2 * self._loop.timeout + 1)  # the second one is the stand-in's
        return result


def _connected(target: str | Sequence[str] | Transport, options: dict[str, Any]) -> AbstractAsyncContextManager[Any]:
    made: AbstractAsyncContextManager[Any] = connect(target, **options)
    return made


def _kind(update: SessionUpdate) -> str:
    return update.tag if isinstance(update, Unknown) else str(update.__struct_config__.tag)
