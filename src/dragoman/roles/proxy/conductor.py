"""Conductor: run a chain: a client, proxies, and an agent (docs/protocol/proxy-chains.md). It looks like an agent to
the client, or like one proxy to another conductor. Every message between two components goes through it, in order.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from typing import Protocol

from msgspec import UNSET

from dragoman.dialect.dialects import DEFAULT_DIALECT, load_dialect
from dragoman.engine.connection import Connection
from dragoman.engine.incoming import refuse_unknown
from dragoman.errors import ConnectionFailed, Kind, ProtocolError
from dragoman.roles.client.dial import Dialer
from dragoman.roles.emulator_settings import emulator_settings
from dragoman.roles.proxy.call import Call
from dragoman.roles.proxy.component import Component, RelayProxy
from dragoman.roles.proxy.ends import AgentEnd, LinkEnd
from dragoman.roles.proxy.functions import ProxyFunctions
from dragoman.roles.proxy.hop_recorder import HopRecorder
from dragoman.roles.proxy.last_answers import LastAnswers
from dragoman.roles.proxy.link import INITIALIZE_METHODS, Link, Params
from dragoman.roles.proxy.process_proxy import ProxyProcess
from dragoman.roles.proxy.relay_station import RelayStation
from dragoman.roles.proxy.translated_proxy import TranslatedProxy
from dragoman.schema.side import Side
from dragoman.transport.base import Transport
from dragoman.wire.envelope import Envelope

# How long the components may take together to answer initialize. The first start of some agents downloads them
# (docs/protocol/peers.md#slow-start), and one that is started again in another dialect is slower still. Seconds.
START_TIMEOUT = 180.0


class Station(Protocol):
    """One component as its neighbors in the chain see it."""

    name: str

    def takes(self, receiver: Side, method: str) -> bool:
        """Whether a message must go through this component."""

    def send(
        self, receiver: Side, method: str, params: Params, call: Call | None, frame: bytes | None = None
    ) -> Awaitable[None] | None:
        """Take a message on its way to `receiver`; return what to await before the next one."""

    async def close(self) -> None:
        """End the component."""


# What to do with a chain that was started as an agent, but has none.
HOW_TO_START = "start it with dragoman conduct, or give proxy.run(COMMAND)"


class Conductor:
    """One client, the proxies in order, and an agent."""

    def __init__(
        self,
        transport: Transport,
        components: Sequence[Component],
        dialer: Dialer | None,
        *,
        report: Callable[[str], None],
        stderr: Callable[[bytes], None],
        wrap: Callable[[Transport, str], Transport] = lambda transport, _: transport,
        start_timeout: float = START_TIMEOUT,
        record: Callable[[Sequence[str]], HopRecorder] | None = None,
        successor: Transport | None = None,
        name: str = "",
    ) -> None:
        """Without a `dialer` the chain is itself a proxy: its successor is behind the transport.

        `wrap` may put something around the transport of each component that has a process. `record` gets the names of
        all components and returns a recorder of the messages between them. With a `successor`, messages for it go there
        as they are, in any dialect.
        """
        self._report = report
        self._name = name  # of the only proxy
        labels = " and ".join(component.label for component in components) or "this chain"
        self._labels = f"{labels} are proxies" if len(components) > 1 else f"{labels} is a proxy"
        self._stderr = stderr
        self._start_timeout = start_timeout
        self._is_proxy = dialer is None and successor is None
        self._state = "new"
        self._stopping: asyncio.Task[None] | None = None
        self._starting: asyncio.Task[None] | None = None
        self._has_failed = False
        self._closers: list[Callable[[], Awaitable[None]]] = []
        self.client = _open_raw(transport, Side.AGENT, report)
        self._last_answers = LastAnswers(self.client, self._has_open_requests)
        self._client_link = Link(self.client, "the client", self._route, may_wrap=self._is_proxy)
        self._stations: list[Station] = [LinkEnd("the client", self._client_link, is_wrapped=False)]
        for number, component in enumerate(components, 1):
            self._stations.append(self._open_station(number, component, wrap))
        last = len(self._stations)
        self._successor: Connection | None = None
        if successor is not None:
            self._successor = _open_raw(successor, Side.CLIENT, report)
            link = Link(self._successor, "the successor", partial(self._route_back, last), may_wrap=False)
            self._stations.append(LinkEnd("the successor", link, is_wrapped=False))
        elif dialer is None:
            self._stations.append(LinkEnd("the successor", self._client_link, is_wrapped=True))
        else:
            self._stations.append(AgentEnd(dialer, partial(self._pass_on, last), self._fail, report))
        names = ["Client", *(component.label for component in components), "Successor" if self._is_proxy else "Agent"]
        self._recorder = None if record is None else record(names)

    def _open_station(self, number: int, component: Component, wrap: Callable[[Transport, str], Transport]) -> Station:
        name = self._name or f"proxy {number} ({component.label})"
        pass_on = partial(self._pass_on, number)
        if component.command and component.dialect != DEFAULT_DIALECT and not self._name:
            return TranslatedProxy(name, component, pass_on, self._fail, self._report, self._open_inner)
        if component.command:
            return ProxyProcess(name, component, pass_on, self._fail, self._report, self._stderr, wrap)
        proxy = component.in_process
        if isinstance(proxy, RelayProxy) and proxy.needs_relay:
            return RelayStation(name, proxy, pass_on, self._fail, self._report)
        functions = ProxyFunctions(name, pass_on, self._report)
        self._closers.append(proxy.extend(functions))
        return functions

    def _open_inner(self, name: str, component: Component, client: Transport, successor: Transport) -> Conductor:
        """Return a conductor for one proxy that speaks another dialect than this chain."""
        return Conductor(
            client, [component], None, report=self._report, stderr=self._stderr, successor=successor, name=name
        )

    def _route_back(
        self, last: int, is_wrapped: bool, method: str, params: Params, call: Call | None, frame: bytes | None
    ) -> Awaitable[None] | None:
        return self._pass_on(last, Side.CLIENT, method, params, call, frame)

    async def run(self) -> BaseException:
        """Run until the client disconnects or a component ends; return the reason."""
        self.client.start()
        if self._successor is not None:
            self._successor.start()
        try:
            await self.client.ended.wait()
        finally:
            if self._starting is not None:
                self._starting.cancel()
                await asyncio.gather(self._starting, return_exceptions=True)
            await self._stop()
            for close in self._closers:
                await close()
            if self._recorder is not None:
                self._recorder.close("the chain ended")
            if self._successor is not None:
                await self._successor.close()
            await self.client.close()
        assert self.client.failure is not None
        return self.client.failure

    async def _stop(self) -> None:
        await asyncio.gather(*(station.close() for station in self._stations))

    # --- messages ---------------------------------------------------------------------------------------------

    def _pass_on(
        self, index: int, receiver: Side, method: str, params: Params, call: Call | None, frame: bytes | None = None
    ) -> Awaitable[None] | None:
        """Send a message of one component to the next that takes it."""
        stations, source, step = self._stations, index, 1 if receiver is Side.AGENT else -1
        index += step
        while not (station := stations[index]).takes(receiver, method):
            index += step
        if self._recorder is not None:
            call = self._recorder.record(source, index, receiver, method, params, call)
        return station.send(receiver, method, params, call, frame)

    def _route(
        self, is_wrapped: bool, method: str, params: Params, call: Call | None, frame: bytes | None
    ) -> Awaitable[None] | None:
        """Forward what the client sends, or the conductor that runs this chain as a proxy."""
        if method == "initialize" or method in INITIALIZE_METHODS:
            if is_wrapped:
                raise ProtocolError(Kind.INVALID_REQUEST, "a successor cannot send initialize")
            if call is not None:
                self._initialize(method, params, call)
            return None
        if is_wrapped:
            return self._pass_on(len(self._stations) - 1, Side.CLIENT, method, params, call)
        return self._pass_on(0, Side.AGENT, method, params, call, frame)

    def _has_open_requests(self, besides: str) -> bool:
        return any(call.method != besides for call in self._client_link.received.values())

    # --- initialize -------------------------------------------------------------------------------------------

    def _initialize(self, method: str, params: Params, call: Call) -> None:
        spelling = INITIALIZE_METHODS.get(method)
        if spelling is None and self._is_proxy:
            # Not invalid_request, after which a client would try every other dialect.
            raise ProtocolError(Kind.INVALID_STATE, f"{self._labels} without an agent; {HOW_TO_START}")
        if spelling is not None and not self._is_proxy:
            raise ProtocolError(
                Kind.INVALID_REQUEST, f"expected initialize, not {method}: this chain has its own agent and is no proxy"
            )
        if self._state != "new":
            raise ProtocolError(Kind.INVALID_STATE, "this connection is already initialized; open a new one")
        if spelling is not None:
            self._client_link.spelling = spelling
        self._state = "starting"
        self._starting = asyncio.get_running_loop().create_task(self._start(params, call))

    async def _start(self, params: Params, call: Call) -> None:
        """Start all proxies at once, then send initialize along the chain."""
        if self._stopping is not None:  # a try before this one failed
            await self._stopping
        processes = [station for station in self._stations if isinstance(station, ProxyProcess)]
        results = await asyncio.gather(*(process.start() for process in processes), return_exceptions=True)
        errors = [error for error in results if isinstance(error, BaseException)]
        if errors:
            await self._stop()
            self._state = "new"
            call.finish(None, ProtocolError(Kind.INTERNAL_ERROR, "; ".join(map(str, errors))))
            return

        def answer(envelope: Envelope | None, error: ProtocolError | None) -> None:
            timer.cancel()
            if envelope is not None and envelope.error is UNSET:
                self._state = "ready"
            else:
                self._state = "new"
                self._stopping = asyncio.get_running_loop().create_task(self._stop())
            call.finish(envelope, error)
            self._last_answers.note_answer()

        inner = Call("initialize", answer, id=call.id)
        timer = asyncio.get_running_loop().call_later(self._start_timeout, self._give_up, inner)
        call.hold(inner)
        try:
            self._pass_on(0, Side.AGENT, "initialize", params, inner)
        except ProtocolError as error:
            inner.finish(None, error)

    def _give_up(self, call: Call) -> None:
        """End an initialize that takes too long; name the last component that got it."""
        waiting = [station.name for station in self._stations if getattr(station, "is_initializing", False)]
        name = waiting[-1] if waiting else "the chain"
        text = f"{name} did not answer initialize within {self._start_timeout:g} s"
        call.finish(None, ProtocolError(Kind.TIMEOUT, text, {"component": name}))

    # --- the end ----------------------------------------------------------------------------------------------

    def _fail(self, error: BaseException, name: str) -> None:
        """End the chain because a component is lost; open requests get an error that names it."""
        if self._has_failed or self.client.ended.is_set():
            return
        self._has_failed = True
        text = str(error) if name in str(error) else f"{name}: {error}"
        self._report(text)
        for call in list(self._client_link.received.values()):
            data = {"closed": True, "component": name}
            call.finish(None, ProtocolError(Kind.INTERNAL_ERROR, text, data))
        self.client.close_soon(error if isinstance(error, ConnectionFailed) else ConnectionFailed(text))


def _open_raw(transport: Transport, side: Side, report: Callable[[str], None]) -> Connection:
    """Return a connection whose messages a link takes as they are."""
    connection = Connection(
        transport,
        side,
        {},
        fallback=refuse_unknown,
        settings=emulator_settings(),
        peer_dialect=load_dialect(DEFAULT_DIALECT),
        report=report,
    )
    connection.sender.emulation = connection.peer.emulator = None
    return connection
