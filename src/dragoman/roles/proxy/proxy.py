"""Proxy: handle some messages between a client and an agent, forward the others. `translate` forwards all."""

from __future__ import annotations

import inspect
import os
import sys
from collections.abc import Awaitable, Callable, Sequence
from difflib import get_close_matches
from typing import Any, Protocol, TypeVar, get_type_hints

from dragoman.dialect.emulator import SessionIds
from dragoman.engine.codec import decode_as, with_unknown_members
from dragoman.engine.incoming import DoneCallback, Handler, Incoming
from dragoman.engine.loop import run as run_loop
from dragoman.errors import AgentExited, ConnectionFailed, TransportClosed
from dragoman.roles.client.callbacks import is_login_run, run_agent_login
from dragoman.roles.client.dial import Dialer
from dragoman.roles.client.offers import Functions
from dragoman.roles.proxy.relay import Relay, write_stderr
from dragoman.schema.initialize import InitializeParams
from dragoman.schema.methods import METHODS, Method, find_method
from dragoman.schema.side import Side
from dragoman.transport.base import Transport
from dragoman.transport.sandbox.spec import Sandbox
from dragoman.transport.stdio import stdio

# How long an agent may take to answer initialize. The first start of some agents downloads them
# (docs/protocol/peers.md#slow-start), and one that is started again in another dialect is slower still. Seconds.
START_TIMEOUT = 180.0


R_co = TypeVar("R_co", covariant=True)


class Forward(Protocol[R_co]):
    """The second argument of a proxy's function: call it with the params to pass the message on.

    For a request, `await forward(params)` returns the result, as in `Forward[PromptResult]`. For a notification, a
    `Forward[None]`, there is nothing to wait for.
    """

    def __call__(self, params: Any, /) -> Awaitable[R_co]:
        """Send the message on, with these params."""


F = TypeVar("F", bound=Callable[[Any, Forward[Any]], Any])


# Adds handlers to a relay; returns the function that releases what they use.
RelayExtension = Callable[[Relay], Callable[[], Awaitable[None]]]


class Proxy:
    """A proxy between a client and an agent.

    A claimed function gets the params, of the type that the method has, and a `Forward`. For a request it returns the
    answer, its own or `await forward(params)`. For a notification it calls `forward(params)` or drops it. Forwarding
    `initialize` starts the agent; nothing can be forwarded to the agent before that. `tools` are functions that the
    agent can use in its sessions, as those of `connect` (extra `mcp`).
    """

    def __init__(
        self,
        name: str = "proxy",
        *,
        client_dialect: str = "auto",
        agent_dialect: str = "auto",
        tools: Functions = (),
    ) -> None:
        self.name = name
        self._client_dialect = client_dialect
        self._agent_dialect = agent_dialect
        self._tools = tools
        self._claims: dict[tuple[Side, str], Callable[..., Any]] = {}

    def from_client(self, method: str) -> Callable[[F], F]:
        """Decorator: handle a method that the client calls."""
        return self._claim(Side.AGENT, method)

    def from_agent(self, method: str) -> Callable[[F], F]:
        """Decorator: handle a method that the agent calls."""
        return self._claim(Side.CLIENT, method)

    def _claim(self, receiver: Side, method: str) -> Callable[[F], F]:
        row = find_method(receiver, method)
        if row is None and not method.startswith("_"):
            raise ValueError(_unknown_method(receiver, method))

        def register(function: F) -> F:
            if row is not None:
                _check_params_type(function, row)
            self._claims[receiver, method] = function
            return function

        return register

    def run(self, command: str | Sequence[str]) -> None:
        """Serve one client over standard input and output, in front of the agent that the command starts."""

        async def serve() -> None:
            await self.serve(stdio(), command, report=lambda text: print(f"{self.name}: {text}", file=sys.stderr))

        try:
            if is_login_run(os.environ):
                sys.exit(run_loop(run_agent_login(command, os.environ)))
            run_loop(serve())
        except KeyboardInterrupt:
            sys.exit(130)

    async def serve(
        self,
        transport: Transport,
        agent: str | Sequence[str] | Transport,
        *,
        report: Callable[[str], None] | None = None,
    ) -> BaseException:
        """Serve the client on this transport until it or the agent disconnects; return the reason."""
        report = report or (lambda _: None)
        relay = Relay(
            transport,
            Dialer(agent, dialect=self._agent_dialect, cwd=os.getcwd(), report=report, stderr=write_stderr),
            client_dialect=self._client_dialect,
            report=report,
        )
        for (receiver, method), function in self._claims.items():
            relay.claim(receiver, method, _claim_handler(relay, receiver, function))
        if not self._tools:
            return await relay.run()
        from dragoman.roles.proxy.mcp_servers import RelayServers

        servers = RelayServers(relay, self._tools)
        servers.claim()
        try:
            return await relay.run()
        finally:
            await servers.close()


def _unknown_method(receiver: Side, method: str) -> str:
    """Return the error for a method that this side does not receive: where it is, or the closest one."""
    known = [name for side, name in METHODS if side is receiver]
    if find_method(Side.CLIENT if receiver is Side.AGENT else Side.AGENT, method) is not None:
        advice = f"use {'from_agent' if receiver is Side.AGENT else 'from_client'}"
    elif close := get_close_matches(method, known, 1):
        advice = f"did you mean {close[0]!r}?"
    else:
        advice = "an extension method begins with _"
    sender = "client calls" if receiver is Side.AGENT else "agent calls"
    return f"there is no method {method!r} that a {sender}; {advice}"


def _check_params_type(function: Callable[..., Any], row: Method) -> None:
    """Raise if the function is annotated with other params than its method has."""
    try:
        hints = get_type_hints(function)
        name = next(iter(inspect.signature(function).parameters))
    except (NameError, TypeError, ValueError, StopIteration):  # a name for the type checker only, or no plain function
        return
    hint = hints.get(name)
    if hint is not Any and isinstance(hint, type) and not issubclass(row.params, hint):
        raise TypeError(
            f"{function.__name__}: the params of {row.name} are {row.params.__module__}.{row.params.__name__}, "
            f"not {hint.__name__}"
        )


def _claim_handler(relay: Relay, receiver: Side, function: Callable[..., Any]) -> Handler:
    def handler(incoming: Incoming, done: DoneCallback) -> Awaitable[None] | None:
        source = incoming.values
        raw_results: list[Any] = []  # the target's answer, with unknown members

        async def request(params: Any) -> Any:
            if receiver is Side.AGENT and incoming.method == "initialize":  # this starts the agent
                raw_results[:] = [await relay.start_agent(decode_as(InitializeParams, params), params)]
            else:
                raw_results[:] = [await relay.connection_to(receiver).request_raw(incoming.method, params)]
            return decode_as(incoming.row.result if incoming.row is not None else None, raw_results[0])

        def forward(params: Any) -> Awaitable[Any]:
            params = with_unknown_members(params, source)
            if incoming.is_request:
                return request(params)
            target = relay.connection_to(receiver)
            target.notify(incoming.method, params)
            outbox = target.sender.outbox
            return outbox.throttle() if outbox.should_throttle else _NoWait()

        answer = function(incoming.params, forward)
        if inspect.isawaitable(answer):
            return _answer_when_done(answer, done, raw_results)
        done(answer, None)
        return None

    return handler


class _NoWait:
    """An awaitable that does nothing, also if it is not awaited."""

    def __await__(self) -> Any:
        return iter(())


async def _answer_when_done(work: Awaitable[Any], done: DoneCallback, raw_results: list[Any]) -> None:
    answer = await work
    done(with_unknown_members(answer, raw_results[0]) if raw_results else answer, None)


async def translate(
    command: Sequence[str],
    *,
    client_dialect: str = "auto",
    agent_dialect: str = "auto",
    permission: str = "ask",
    detection: str = "ladder",
    report: Callable[[str], None] | None = None,
    transport: Transport | None = None,
    sandbox: Sandbox | None = None,
    session_ids: SessionIds | None = None,
    extension: RelayExtension | None = None,
) -> int:
    """Run a Relay until the client or the agent disconnects; return the exit code.

    With `session_ids`, a client finds its sessions by the ids that it chose, also in a later process. An `extension`
    handles some calls.
    """
    if is_login_run(os.environ):
        return await run_agent_login(command, os.environ)
    if transport is None:
        from dragoman.transport.stdio import stdio

        transport = stdio()
    report = report or (lambda text: print(f"dragoman translate: {text}", file=sys.stderr, flush=True))
    dialer = Dialer(
        command,
        dialect=agent_dialect,
        cwd=os.getcwd(),
        report=report,
        stderr=write_stderr,
        initialize_timeout=START_TIMEOUT,
        detection=detection,
        permission=permission,
        sandbox=sandbox,
    )
    relay = Relay(
        transport,
        dialer,
        client_dialect=client_dialect,
        permission=permission,
        session_ids=session_ids,
        report=report,
    )
    close = None if extension is None else extension(relay)
    try:
        reason = await relay.run()
    finally:
        if close is not None:
            await close()
    if isinstance(reason, AgentExited) or not isinstance(reason, TransportClosed):
        return 1 if isinstance(reason, ConnectionFailed) else 0
    return 0
