"""Agents and clients under test, for plain test functions without `async`.

Each test has its own event loop, which runs only during a call and stops between calls. Every call has a timeout. The
pytest plug-in uses this; async tests use `connect`, `connect_in_memory` and the scripted peers directly.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, AsyncExitStack
from types import TracebackType
from typing import Any, TypeVar, get_args

import msgspec

from dragoman.errors import DragomanError
from dragoman.roles.agent.agent import Agent
from dragoman.roles.client.connect import connect
from dragoman.roles.client.remote_agent import RemoteAgent
from dragoman.roles.client.session import ClientSession
from dragoman.schema.base import Unknown
from dragoman.schema.content import ContentBlock
from dragoman.schema.plan import PlanEntry
from dragoman.schema.update import AgentMessageChunk, KnownUpdate, SessionUpdate
from dragoman.session.toolcall import ToolCall
from dragoman.testing.connections import Target, Wrap, connect_in_memory, scripted_client
from dragoman.testing.fake_agents import CompletedClient, fake_agent, run_client
from dragoman.testing.scenario import Expectation, Step
from dragoman.testing.scripted_peer import ScenarioFailed, ScriptedClient
from dragoman.transport.base import Transport

T = TypeVar("T")

# The names of updates, as they are sent.
UPDATE_KINDS: tuple[str, ...] = tuple(str(kind.__struct_config__.tag) for kind in get_args(KnownUpdate))

# Seconds that one call of a test may take; real agents start and answer within it.
TIMEOUT = 30.0

# Seconds for cleanup after a test, whatever the test's own timeout is.
CLEANUP_TIMEOUT = 15.0


class _NotFinished(Exception):
    """A call of a test took longer than its timeout."""


class Loop:
    """The event loop of one test: runs only during a call."""

    def __init__(self, timeout: float = TIMEOUT) -> None:
        self.timeout = timeout
        self._runner = asyncio.Runner()
        self._stack = AsyncExitStack()

    def run(self, work: Awaitable[T], timeout: float | None = None) -> T:
        """Wait for the result; raise AssertionError after the timeout."""
        seconds = self.timeout if timeout is None else timeout

        async def bounded() -> T:
            limit = asyncio.timeout(seconds)
            try:
                async with limit:
                    return await work
            except TimeoutError:
                if not limit.expired():
                    raise
                raise _NotFinished from None

        __tracebackhide__ = True  # so that pytest shows the line of the test
        try:
            return self._runner.run(bounded())
        except _NotFinished:
            raise AssertionError(
                f"not finished after {seconds:g} seconds; change it with @pytest.mark.acp_timeout or --acp-timeout"
            ) from None
        except (ScenarioFailed, DragomanError) as error:
            frames = _frames_of_test(error.__traceback__)  # the message is enough; our frames add nothing
            raise error.with_traceback(frames) from error.__cause__

    def enter(self, manager: AbstractAsyncContextManager[T]) -> T:
        """Enter a context manager that is exited after the test."""
        __tracebackhide__ = True
        return self.run(self._stack.enter_async_context(manager))

    def close(self) -> None:
        """Exit all context managers, the last first."""
        try:
            self.run(self._stack.aclose(), CLEANUP_TIMEOUT)
        finally:
            self._runner.close()


class TurnResult(msgspec.Struct, frozen=True):
    """A finished turn: the agent's text, the stop reason, and all updates in order."""

    text: str
    stop_reason: str
    updates: list[SessionUpdate]


class SessionUnderTest:
    """A session of the agent under test."""

    def __init__(self, loop: Loop, session: ClientSession) -> None:
        self.session = session
        """The underlying session; pass its coroutines to `run`."""
        self._loop = loop

    @property
    def cwd(self) -> str:
        """The working directory."""
        return self.session.cwd

    @property
    def tool_calls(self) -> list[ToolCall]:
        """The current state of every tool call, in the order of their start."""
        return list(self.session.tool_calls.values())

    @property
    def plan(self) -> list[PlanEntry]:
        """The current plan."""
        return self.session.plan

    def run(self, work: Awaitable[T]) -> T:
        """Wait for a coroutine of the session: `run(session.session.set_mode("plan"))`."""
        __tracebackhide__ = True
        return self._loop.run(work)

    def ask(self, prompt: str | Sequence[ContentBlock]) -> str:
        """Prompt, wait for the end of the turn, and return the agent's text."""
        __tracebackhide__ = True
        return self.run(self.session.ask(prompt))

    def turn(self, prompt: str | Sequence[ContentBlock], *, cancel_at: str = "") -> TurnResult:
        """Prompt and return the whole turn; cancel it at the first update of kind `cancel_at`."""
        __tracebackhide__ = True
        if cancel_at and cancel_at not in UPDATE_KINDS and not cancel_at.startswith("_"):
            raise ValueError(f"there is no update {cancel_at!r}; cancel_at is one of {', '.join(UPDATE_KINDS)}")
        return self.run(self._turn(prompt, cancel_at))

    async def _turn(self, prompt: str | Sequence[ContentBlock], cancel_at: str) -> TurnResult:
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
        return TurnResult("".join(texts), result.stop_reason, updates)


class AgentUnderTest:
    """The agent under test, connected."""

    def __init__(self, loop: Loop, remote: RemoteAgent, folder: str) -> None:
        self.remote = remote
        """The underlying connection; pass its coroutines to `run`."""
        self._loop = loop
        self._folder = folder

    @classmethod
    def start(
        cls, loop: Loop, target: Target, *, cwd: str, options: Mapping[str, Any], trace: Wrap | None = None
    ) -> AgentUnderTest:
        """Start the agent, or connect to it in memory; `options` are those of `connect`."""
        __tracebackhide__ = True
        given = {"trace": trace, "timeout": loop.timeout, **options}
        if isinstance(target, Agent):
            return cls(loop, loop.enter(connect_in_memory(target, **given)), cwd)
        remote: AbstractAsyncContextManager[RemoteAgent] = connect(target, **{"cwd": cwd, **given})
        return cls(loop, loop.enter(remote), cwd)

    def run(self, work: Awaitable[T]) -> T:
        """Wait for a coroutine of the connection."""
        __tracebackhide__ = True
        return self._loop.run(work)

    def open(self, cwd: str | os.PathLike[str] | None = None, **options: Any) -> SessionUnderTest:
        """Open a session, by default in the test's temporary directory."""
        __tracebackhide__ = True
        session = self.run(self.remote.open_session(os.fspath(cwd or self._folder), **options))
        return SessionUnderTest(self._loop, session)


class WireClient:
    """A scripted client connected to the agent under test: it sends only what the test sends."""

    def __init__(self, loop: Loop, client: ScriptedClient) -> None:
        self.client = client
        self._loop = loop

    @classmethod
    def start(cls, loop: Loop, target: Target, *, cwd: str, trace: Wrap | None = None) -> WireClient:
        """Start the agent; send nothing yet."""
        __tracebackhide__ = True
        return cls(loop, loop.enter(scripted_client(target, cwd=cwd, timeout=loop.timeout, wrap=trace)))

    @property
    def exchange(self) -> list[str]:
        """Everything sent and received, one line each."""
        return self.client.exchange

    def run_scenario(self, scenario: Sequence[Step], *, ignore: Sequence[Expectation] = ()) -> dict[str, Any]:
        """Play a scenario, or its next part; return the values of its variables."""
        __tracebackhide__ = True
        return self._loop.run(self.client.run_scenario(scenario, ignore=ignore), self._loop.timeout + 1)


class ClientTester:
    """Plays an agent for a client under test."""

    def __init__(self, loop: Loop, trace: Wrap | None = None) -> None:
        self._loop = loop
        self._trace = trace

    def run_client(
        self,
        client: str | Sequence[str] | Callable[[Transport], Awaitable[T]],
        scenario: Sequence[Step],
        *,
        ignore: Sequence[Expectation] = (),
        cwd: str | os.PathLike[str] | None = None,
        env: Mapping[str, str] | None = None,
    ) -> Any:
        """Run the client against an agent that plays this scenario.

        A command is run to its end, with `{agent}` replaced by the agent's command; return a CompletedClient. An async
        function is called with a transport; return its result.
        """
        __tracebackhide__ = True

        async def play() -> Any:
            timeout = self._loop.timeout
            async with fake_agent(scenario, ignore=ignore, timeout=timeout, wrap=self._trace) as agent:
                if isinstance(client, str | Sequence):
                    return await run_client(client, agent, cwd=cwd, env=env)
                return await client(agent.transport)

        result: CompletedClient | T = self._loop.run(play(), 2 * self._loop.timeout + 1)  # of client, then scenario
        return result


def _frames_of_test(trace: TracebackType | None) -> TracebackType | None:
    """Return the part of a traceback that is the test's own code: a coroutine that it gave to `run`."""
    if trace is None:
        return None
    rest = _frames_of_test(trace.tb_next)
    module = str(trace.tb_frame.f_globals.get("__name__", "")).partition(".")[0]
    if module in ("dragoman", "asyncio", "contextlib"):
        return rest
    return TracebackType(rest, trace.tb_frame, trace.tb_lasti, trace.tb_lineno)


def _kind(update: SessionUpdate) -> str:
    return update.tag if isinstance(update, Unknown) else str(update.__struct_config__.tag)
