"""Chain: proxies before an agent, as an agent of its own: served on a transport, run on stdio, or connected to."""

from __future__ import annotations

import asyncio
import os
import shlex
import sys
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from dragoman.dialect import detect
from dragoman.dialect.dialects import DEFAULT_DIALECT, DIALECT_NAMES
from dragoman.dialect.peek import decode_frame
from dragoman.engine.loop import run as run_loop
from dragoman.errors import AgentExited, ConnectionFailed, TransportClosed
from dragoman.roles.agent.agent import Agent
from dragoman.roles.client.callbacks import is_login_run, run_agent_login
from dragoman.roles.client.dial import Dialer, parse_command
from dragoman.roles.client.target import Target, target_of
from dragoman.roles.proxy.component import Component, InProcessProxy
from dragoman.roles.proxy.conductor import START_TIMEOUT, Conductor
from dragoman.roles.proxy.hop_recorder import HopRecorder
from dragoman.roles.proxy.proxy import Proxy
from dragoman.roles.proxy.relay import Relay, write_stderr
from dragoman.transport.base import FrameConsumer, Transport, WrappedTransport
from dragoman.transport.memory import internal_pair
from dragoman.transport.sandbox.spec import Sandbox
from dragoman.wire.frames import Frame

AnyProxy = str | Sequence[str] | InProcessProxy | Component


class Chain:
    """Proxies in order, the first one next to the client, before an agent.

    A proxy is a command, the name of a built-in proxy with its options ("budget --tokens 50000"), a `Proxy` object, or
    a `Component` that says more about one of these. The agent is a command, an address, a transport or an `Agent`. A
    chain without an agent is itself a proxy: it runs under another conductor.

        chain = Chain(["context", my_proxy, "their-proxy --verbose"], agent="my-agent --acp")
        chain.run()                           # serve a client over standard input and output
        async with connect(chain) as agent:   # or use it in this program
    """

    def __init__(
        self,
        proxies: Sequence[AnyProxy],
        *,
        agent: Target | Agent | None = None,
        client_dialect: str = "auto",
        agent_dialect: str = "auto",
        agent_env: Mapping[str, str] | None = None,
        agent_sandbox: Sandbox | None = None,
        name: str = "chain",
        start_timeout: float = START_TIMEOUT,
        wrap: Callable[[Transport, str], Transport] | None = None,
        record: str | os.PathLike[str] | None = None,
    ) -> None:
        """`record` is a file for the messages between the client and the first component; those of the other hops are
        recorded next to it. `wrap` may put something around the transport of each component; it gets its name. The
        variables and the sandbox are for the agent alone.
        """
        self.name = name
        self.peer = name
        self._proxies = list(proxies)
        self._agent = target_of(agent, "agent= of Chain") if agent else None
        self._client_dialect = client_dialect
        self._agent_dialect = agent_dialect
        self._agent_env = dict(agent_env or {})
        self._agent_sandbox = agent_sandbox
        self._start_timeout = start_timeout
        self._wrap = wrap
        self._record = None if record is None else os.path.abspath(record)
        self._first_hop = 1
        self._components()  # find mistakes now
        for dialect in (client_dialect, agent_dialect):
            if dialect not in ("auto", *DIALECT_NAMES):
                raise ValueError(f"unknown dialect {dialect!r}; choose one of auto, {', '.join(DIALECT_NAMES)}")

    def record_behind(self, path: str) -> None:
        """Record every hop but the first one, whose recording is this file."""
        self._record, self._first_hop = path, 2

    @property
    def agent_command(self) -> list[str]:
        """The command of the agent; empty if the chain has none of its own."""
        return parse_command(self._agent) if isinstance(self._agent, str | Sequence) else []

    @property
    def proxy_components(self) -> list[Component]:
        """The proxies, in order."""
        return self._components()

    def _components(self) -> list[Component]:
        return [component_of(proxy) for proxy in self._proxies]

    def run(self) -> None:
        """Serve one client over standard input and output, and exit."""
        from dragoman.transport.stdio import stdio

        def report(text: str) -> None:
            print(f"{self.name}: {text}", file=sys.stderr, flush=True)

        async def serve() -> int:
            return exit_code(await self.serve(stdio(), report=report))

        try:
            if is_login_run(os.environ) and self.agent_command:
                sys.exit(run_loop(run_agent_login(self.agent_command, {**os.environ, **self._agent_env})))
            status = run_loop(serve())
        except KeyboardInterrupt:
            sys.exit(130)
        if status:
            sys.exit(status)

    async def serve(self, transport: Transport, *, report: Callable[[str], None] | None = None) -> BaseException:
        """Serve the client on this transport until it or a component disconnects; return the reason."""
        report = report or _ignore
        dialect = self._client_dialect
        if self._agent is None:
            dialect = DEFAULT_DIALECT
        elif dialect == "auto":
            try:
                transport, dialect = await _detect_client(transport)
            except ConnectionFailed as error:
                await transport.close()
                return error
        only = self._only_proxy()
        if only is not None and (dialect != DEFAULT_DIALECT or only.needs_relay):
            return await self._serve_relay(only, transport, dialect, report)
        if dialect == DEFAULT_DIALECT:
            return await self._conductor(transport, report).run()
        return await self._serve_translated(transport, dialect, report)

    def _only_proxy(self) -> Proxy | None:
        """The proxy of a chain that is no more than a relay, in which two peers of one dialect keep their messages."""
        components = self._components()
        proxy = components[0].proxy if len(components) == 1 and self._agent is not None else None
        return proxy if isinstance(proxy, Proxy) and proxy.fits_relay else None

    async def _serve_relay(
        self, proxy: Proxy, transport: Transport, dialect: str, report: Callable[[str], None]
    ) -> BaseException:
        dialer = self._dialer(report, write_stderr)
        assert dialer is not None
        relay = Relay(transport, dialer, client_dialect=dialect, report=report)
        close = proxy.extend_relay(relay)
        try:
            return await relay.run()
        finally:
            await close()

    def _dialer(self, report: Callable[[str], None], stderr: Callable[[bytes], None]) -> Dialer | None:
        if self._agent is None:
            return None
        wrap = self._wrap
        return Dialer(
            self._agent,
            dialect=self._agent_dialect,
            cwd=os.getcwd(),
            env=self._agent_env or None,
            sandbox=self._agent_sandbox,
            report=report,
            stderr=stderr,
            initialize_timeout=self._start_timeout,
            trace=None if wrap is None else (lambda transport: wrap(transport, "agent")),
        )

    def _conductor(
        self,
        transport: Transport,
        report: Callable[[str], None],
        stderr: Callable[[bytes], None] = write_stderr,
    ) -> Conductor:
        dialer = self._dialer(report, stderr)
        options: dict[str, Any] = {} if self._wrap is None else {"wrap": self._wrap}
        if self._record is not None:
            path, first = self._record, self._first_hop
            options["record"] = lambda names: HopRecorder(path, names, report, first)
        return Conductor(
            transport,
            self._components(),
            dialer,
            report=report,
            stderr=stderr,
            start_timeout=self._start_timeout,
            **options,
        )

    async def _serve_translated(
        self, transport: Transport, dialect: str, report: Callable[[str], None]
    ) -> BaseException:
        """Serve a client of another dialect through a relay: the components of a chain speak the default one."""
        near, far = internal_pair("the client", self.name)
        running = asyncio.ensure_future(self._conductor(far, report).run())
        dialer = Dialer(
            near, dialect=DEFAULT_DIALECT, cwd=os.getcwd(), report=report, initialize_timeout=self._start_timeout
        )
        try:
            return await Relay(transport, dialer, client_dialect=dialect, report=report).run()
        finally:
            await near.close()
            await running

    async def open_transport(
        self, report: Callable[[str], None] | None = None, stderr: Callable[[bytes], None] | None = None
    ) -> Transport:
        """Start the chain in this process; return the transport of its client."""
        near, far = internal_pair("the client", self.name)
        conductor = self._conductor(far, report or _ignore, stderr or _ignore)
        return _ChainTransport(near, asyncio.ensure_future(conductor.run()))


def _ignore(_: object) -> None:
    pass


class _ChainTransport(WrappedTransport):
    """The client's end of a chain in this process; closing it ends the chain."""

    def __init__(self, transport: Transport, running: asyncio.Future[BaseException]) -> None:
        super().__init__(transport)
        self._running = running

    async def close(self, reason: str = "") -> None:
        """End the chain and all its components."""
        await super().close(reason)
        await asyncio.wait([self._running])


class _UnreadTransport(WrappedTransport):
    """A transport whose first frames were read already and are returned again."""

    def __init__(self, transport: Transport, frames: list[Frame]) -> None:
        super().__init__(transport)
        self._frames = frames

    async def receive(self) -> list[Frame]:
        """Return the next frames."""
        if self._frames:
            frames, self._frames = self._frames, []
            return frames
        return await self._transport.receive()

    def listen(self, take: FrameConsumer) -> None:
        """Let the transport offer its frames; the first ones are returned before."""
        self._transport.listen(take)


async def _detect_client(transport: Transport) -> tuple[Transport, str]:
    """Return the dialect that a client's first message shows, and a transport that returns that message again."""
    frames = await transport.receive()
    dialect = None
    for frame in frames:
        message = decode_frame(frame) if isinstance(frame, bytes) else None
        if message is not None and isinstance(message.get("method"), str):
            dialect = detect.dialect_of_client(message["method"], message.get("params"))
            break
    return _UnreadTransport(transport, frames), dialect or DEFAULT_DIALECT


def component_of(proxy: AnyProxy) -> Component:
    """Return one item of a chain as a component; a string may name a built-in proxy."""
    if isinstance(proxy, Component):
        if isinstance(proxy.proxy, str | Sequence) and (found := _built_in(proxy.command)) is not None:
            return Component(proxy=found, name=proxy.name)
        return proxy
    if isinstance(proxy, str | Sequence):
        words = shlex.split(proxy) if isinstance(proxy, str) else list(proxy)
        found = _built_in(words)
        return Component(proxy=words if found is None else found)
    return Component(proxy=proxy)


def _built_in(words: list[str]) -> InProcessProxy | None:
    from dragoman.roles.proxy.built_in import table

    return table.make_proxy(words)


def exit_code(reason: BaseException) -> int:
    """Return the exit code of a program that served a chain: 1 if a component failed, 0 if the client left."""
    if isinstance(reason, AgentExited) or not isinstance(reason, TransportClosed):
        return 1 if isinstance(reason, ConnectionFailed) else 0
    return 0
