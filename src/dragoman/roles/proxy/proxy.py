"""Proxy: handle some messages between a client and an agent, forward the others. `translate` forwards all."""

from __future__ import annotations

import asyncio
import inspect
import os
import sys
from collections.abc import Awaitable, Callable, Sequence
from difflib import get_close_matches
from typing import Any, Protocol, TypeVar, get_type_hints

from dragoman.dialect.emulator import SessionIds
from dragoman.engine.codec import decode_as, json_values, with_unknown_members
from dragoman.engine.incoming import DoneCallback, Handler, Incoming
from dragoman.errors import AgentExited, ConnectionFailed, Kind, ProtocolError, TransportClosed
from dragoman.roles.agent.agent import Agent
from dragoman.roles.client.callbacks import is_login_run, run_agent_login
from dragoman.roles.client.dial import Dialer
from dragoman.roles.client.offers import Functions
from dragoman.roles.client.target import Target
from dragoman.roles.proxy.functions import FunctionHost, ProxyFunctions, Rewrite, typed_result
from dragoman.roles.proxy.relay import Relay, write_stderr
from dragoman.roles.proxy.relay_functions import RelayFunctions
from dragoman.schema.methods import METHODS, Method, find_method
from dragoman.schema.side import Side
from dragoman.transport.base import Transport
from dragoman.transport.sandbox.spec import Sandbox

# How long an agent may take to answer initialize. The first start of some agents downloads them
# (docs/protocol/peers.md#slow-start), and one that is started again in another dialect is slower still. Seconds.
START_TIMEOUT = 180.0

WHAT_TO_RETURN = "return what forward(...) returns"


R_co = TypeVar("R_co", covariant=True)


class Forward(Protocol[R_co]):
    """The second argument of a proxy's function: call it with the params to pass the message on.

    For a request, `await forward(params)` returns the result, as in `Forward[PromptResult]`. For a notification, a
    `Forward[None]`, there is nothing to wait for. `notify_client` and `notify_agent` send other notifications.
    """

    def __call__(self, params: Any, /) -> Awaitable[R_co]:
        """Send the message on, with these params."""

    def notify_client(self, method: str, params: Any) -> None:
        """Send a notification towards the client."""

    def notify_agent(self, method: str, params: Any) -> None:
        """Send a notification towards the agent."""


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
        self._rewrites: list[Rewrite] = []

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
                _check_function(self.name, function, row)
                _check_params_type(function, row)
            self._claims[receiver, method] = function
            return function

        return register

    def on_message(self, rewrite: Rewrite) -> Rewrite:
        """Decorator: see every message that passes, in both directions, as JSON, and return other JSON or None."""
        self._rewrites.append(rewrite)
        return rewrite

    def extend(self, functions: ProxyFunctions) -> Callable[[], Awaitable[None]]:
        """Add the functions of this proxy to a chain."""
        self.claim_calls(functions)
        functions.rewrites.extend(self._rewrites)
        return _release_nothing

    @property
    def needs_relay(self) -> bool:
        """Whether this proxy needs a relay with two connections of its own, for the MCP servers it offers."""
        return bool(self._tools)

    @property
    def fits_relay(self) -> bool:
        """Whether this proxy can work on a relay: it does not see every message."""
        return not self._rewrites

    def extend_relay(self, relay: Relay) -> Callable[[], Awaitable[None]]:
        """Add the functions of this proxy to a relay; return the function that releases what they use."""
        self.claim_calls(RelayFunctions(relay))
        if not self._tools:
            return _release_nothing
        from dragoman.roles.proxy.mcp_servers import RelayServers

        servers = RelayServers(relay, self._tools)
        servers.claim()
        return servers.close

    def claim_calls(self, functions: FunctionHost) -> None:
        """Register the functions of this proxy where they run."""
        for (receiver, method), function in self._claims.items():
            functions.claim(receiver, method, _claim_handler(self.name, functions, receiver, function))

    def run(self, command: str | Sequence[str] | None = None) -> None:
        """Serve one client over standard input and output, in front of the agent that the command starts.

        Without a command, serve a conductor: run as one proxy of its chain.
        """
        from dragoman.roles.proxy.chain import Chain

        chain = Chain([self], agent=command, client_dialect=self._client_dialect, agent_dialect=self._agent_dialect)
        chain.run()

    async def serve(
        self,
        transport: Transport,
        agent: Target | Agent | None,
        *,
        report: Callable[[str], None] | None = None,
    ) -> BaseException:
        """Serve the client on this transport until it or the agent disconnects; return the reason."""
        from dragoman.roles.proxy.chain import Chain

        chain = Chain([self], agent=agent, client_dialect=self._client_dialect, agent_dialect=self._agent_dialect)
        return await chain.serve(transport, report=report)


async def _release_nothing() -> None:
    pass


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


def _check_function(proxy: str, function: Any, row: Method) -> None:
    """Raise if a function cannot handle the requests of a method; one for notifications need not be asynchronous."""
    if not callable(function):
        raise TypeError(f"proxy {proxy}: the decorator for {row.name} stands directly above an async function")
    plain = inspect.unwrap(function) if inspect.isfunction(function) else None
    if plain is None or plain.__name__ == "<lambda>":
        return  # a lambda cannot be asynchronous, but it can return a coroutine
    where = f"{plain.__name__} ({os.path.basename(plain.__code__.co_filename)}:{plain.__code__.co_firstlineno})"
    if inspect.isasyncgenfunction(plain) or inspect.isgeneratorfunction(plain):
        raise TypeError(f"proxy {proxy}: {where} must not yield; {WHAT_TO_RETURN}")
    if row.result is not None and not row.either and not inspect.iscoroutinefunction(plain):
        raise TypeError(
            f"proxy {proxy}: {where} handles the request {row.name}; write: async def {plain.__name__}(params, forward)"
        )


def _check_answer(proxy: str, function: Callable[..., Any], row: Method | None, answer: Any) -> None:
    """Raise if what a function returned is no answer to a request of this method."""
    name = getattr(function, "__name__", "its function")
    if inspect.isawaitable(answer):
        if inspect.iscoroutine(answer):
            answer.close()  # or Python would warn about it, without these names
        raise _wrong_answer(proxy, f"{name} returned a coroutine; write: return await forward(...)")
    if row is None or row.result is None or row.result is Any or isinstance(answer, row.result):
        return
    text = f"{name} returned {answer!r:.80}"
    if answer is not None and not isinstance(answer, dict):
        raise _wrong_answer(proxy, f"{text}; {WHAT_TO_RETURN}, or a {row.result.__name__}")
    try:
        decode_as(row.result, answer)
    except ProtocolError as error:
        why = "" if answer is None else f", which is no {row.result.__name__}: {error.message}"
        raise _wrong_answer(proxy, f"{text}{why}; {WHAT_TO_RETURN}") from None


def _wrong_answer(proxy: str, message: str) -> ProtocolError:
    name = f"proxy {proxy}"
    return ProtocolError(Kind.INTERNAL_ERROR, f"{name}: {message}", {"component": name})


class _BoundForward:
    """What a function of a proxy gets to pass a call on."""

    def __init__(self, functions: FunctionHost, receiver: Side, incoming: Incoming) -> None:
        self._functions = functions
        self._receiver = receiver
        self._incoming = incoming
        self._source = incoming.values
        self.raw_result: Any = None  # the answer with unknown members

    def __call__(self, params: Any, /) -> Awaitable[Any]:
        params = with_unknown_members(params, self._source)
        if self._incoming.is_request:
            return self._request(params)
        return self._functions.notify(self._receiver, self._incoming.method, params) or _NoWait()

    def notify_client(self, method: str, params: Any) -> None:
        self._functions.notify(Side.CLIENT, method, params)

    def notify_agent(self, method: str, params: Any) -> None:
        self._functions.notify(Side.AGENT, method, params)

    async def _request(self, params: Any) -> Any:
        answered: asyncio.Future[Any] = asyncio.get_running_loop().create_future()

        def done(result: Any, error: ProtocolError | None) -> None:
            if answered.done():
                return
            if error is None:
                answered.set_result(result)
            else:
                answered.set_exception(error)

        incoming = self._incoming
        call = self._functions.request(self._receiver, incoming.method, params, done, getattr(incoming, "call", None))
        try:
            result = await answered
        except asyncio.CancelledError:
            call.cancel()
            raise
        self.raw_result = json_values(result)
        return typed_result(self._receiver, incoming.method, self.raw_result)


def _claim_handler(name: str, functions: FunctionHost, receiver: Side, function: Callable[..., Any]) -> Handler:
    def handler(incoming: Incoming, done: DoneCallback) -> Awaitable[None] | None:
        forward = _BoundForward(functions, receiver, incoming)
        answer = function(incoming.params, forward)

        def finish(answer: Any) -> None:
            if incoming.is_request:
                _check_answer(name, function, find_method(receiver, incoming.method), answer)
            done(answer if forward.raw_result is None else with_unknown_members(answer, forward.raw_result), None)

        if inspect.isawaitable(answer):
            return _finish_later(answer, finish)
        finish(answer)
        return None

    return handler


class _NoWait:
    """An awaitable that does nothing, also if it is not awaited."""

    def __await__(self) -> Any:
        return iter(())


async def _finish_later(work: Awaitable[Any], finish: Callable[[Any], None]) -> None:
    finish(await work)


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
