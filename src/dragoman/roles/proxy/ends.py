"""The two ends of a chain: the client, and the agent. Under another conductor both are that conductor."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

from msgspec import UNSET, Raw

from dragoman.dialect.dialects import DEFAULT_DIALECT, load_dialect
from dragoman.engine.codec import decode_as, json_values
from dragoman.engine.connection import Connection
from dragoman.engine.incoming import DoneCallback, Incoming, to_protocol_error
from dragoman.errors import ConnectionFailed, Kind, ProtocolError
from dragoman.roles.client.dial import ConnectedAgent, Dialer
from dragoman.roles.emulator_settings import emulator_settings
from dragoman.roles.proxy.call import Call
from dragoman.roles.proxy.functions import PassOn
from dragoman.roles.proxy.link import Link, Params
from dragoman.roles.proxy.relay import Relay, agent_params, initialize_answer
from dragoman.schema.base import encode
from dragoman.schema.initialize import InitializeParams
from dragoman.schema.side import Side
from dragoman.transport.base import Transport
from dragoman.transport.memory import internal_pair
from dragoman.wire.envelope import Envelope, read_error


class LinkEnd:
    """An end of the chain that is one side of a link: plain messages for the client, wrapped ones for a successor."""

    def __init__(self, name: str, link: Link, is_wrapped: bool) -> None:
        self.name = name
        self.is_initializing = False
        self._link = link
        self._is_wrapped = is_wrapped

    def takes(self, receiver: Side, method: str) -> bool:
        """Return True: there is nobody behind."""
        return True

    def send(
        self, receiver: Side, method: str, params: Params, call: Call | None, frame: bytes | None = None
    ) -> Awaitable[None] | None:
        """Send a message to this end."""
        if method == "initialize" and call is not None and self._is_wrapped:
            call = self._with_initializing(call)
        return self._link.send(self._is_wrapped, method, params, call, frame)

    def _with_initializing(self, call: Call) -> Call:
        self.is_initializing = True

        def answer(envelope: Envelope | None, error: ProtocolError | None) -> None:
            self.is_initializing = False
            call.finish(envelope, error)

        inner = Call(call.method, answer, id=call.id, parent=call.parent)
        call.hold(inner)
        return inner

    async def close(self) -> None:
        """Do nothing: the conductor closes its own connection."""


class AgentEnd:
    """The agent. One that speaks another dialect is reached through a relay."""

    def __init__(
        self,
        dialer: Dialer,
        pass_on: PassOn,
        fail: Callable[[BaseException, str], None],
        report: Callable[[str], None],
    ) -> None:
        self.name = f"agent {dialer.command[0]}"
        self.is_initializing = False
        self._dialer = dialer
        self._pass_on = pass_on
        self._fail_chain = fail
        self._report = report
        self._link: Link | None = None
        self._relay: asyncio.Task[BaseException] | None = None
        self._start: asyncio.Task[None] | None = None
        self._is_closing = False

    def takes(self, receiver: Side, method: str) -> bool:
        """Return True: there is nobody behind."""
        return True

    def send(
        self, receiver: Side, method: str, params: Params, call: Call | None, frame: bytes | None = None
    ) -> Awaitable[None] | None:
        """Send a message to the agent; initialize starts it."""
        if method == "initialize" and call is not None:
            if self._link is not None or self._start is not None:
                raise ProtocolError(Kind.INVALID_STATE, f"{self.name} is already initialized; open a new connection")
            self._start = asyncio.get_running_loop().create_task(self._initialize(params, call))
            return None
        if self._link is None:
            raise ProtocolError(Kind.INVALID_STATE, f"{method} arrived before initialize; send initialize first")
        return self._link.send(False, method, params, call, frame)

    async def close(self) -> None:
        """End the agent and everything it started."""
        self._is_closing = True
        tasks = [task for task in (self._start, self._relay) if task is not None]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        if self._link is not None:
            await self._link.connection.close()
        await self._dialer.close()
        self._link = self._start = self._relay = None
        self._is_closing = False

    # --- start ------------------------------------------------------------------------------------------------

    async def _initialize(self, params: Params, call: Call) -> None:
        self.is_initializing = True
        try:
            raw = json_values(params)
            typed = agent_params(self._dialer, decode_as(InitializeParams, params))
            connected = await self._dialer.start(typed, {}, self._on_early_call, raw, first_try=DEFAULT_DIALECT)
            values = self._connect(connected, raw)
        except (ConnectionFailed, ProtocolError) as error:
            self._start = None
            known = to_protocol_error(error)
            call.finish(None, ProtocolError(known.kind, known.message, {**(known.data or {}), "component": self.name}))
            return
        finally:
            self.is_initializing = False
        call.finish(Envelope(result=Raw(encode(values))), None)
        failure = connected.connection.failure
        if failure is not None:
            self._on_lost(failure)

    def _connect(self, connected: ConnectedAgent, raw_params: Any) -> Any:
        """Connect the chain to the agent, directly if it speaks the dialect of the chain; return its answer."""
        connection = connected.connection
        if connection.dialect.name == DEFAULT_DIALECT:
            connection.sender.emulation = connection.peer.emulator = None
            values = initialize_answer(connected)
        else:
            near, far = internal_pair("the chain", self.name)
            relay = Relay(far, self._dialer, client_dialect=DEFAULT_DIALECT, report=self._report)
            values = relay.adopt(connected, raw_params)
            self._relay = asyncio.get_running_loop().create_task(relay.run())
            connection = self._open_near(near)
        connection.on_close = self._on_lost
        self._link = Link(connection, self.name, self._route, may_wrap=False)
        return values

    def _open_near(self, near: Transport) -> Connection:
        connection = Connection(
            near,
            Side.CLIENT,
            {},
            fallback=self._on_early_call,
            settings=emulator_settings(),
            peer_dialect=load_dialect(DEFAULT_DIALECT),
            report=self._report,
        )
        connection.sender.emulation = connection.peer.emulator = None
        connection.start()
        return connection

    def _on_lost(self, error: BaseException) -> None:
        if not self._is_closing:
            self._fail_chain(error, self.name)

    # --- messages of the agent --------------------------------------------------------------------------------

    def _route(
        self, is_wrapped: bool, method: str, params: Params, call: Call | None, frame: bytes | None
    ) -> Awaitable[None] | None:
        return self._pass_on(Side.CLIENT, method, params, call, frame)

    def _on_early_call(self, incoming: Incoming, done: DoneCallback) -> Awaitable[None] | None:
        """Forward a call that the agent makes before it answers initialize."""
        params = Raw(encode(incoming.values))
        if not incoming.is_request:
            return self._pass_on(Side.CLIENT, incoming.method, params, None)

        def answer(envelope: Envelope | None, error: ProtocolError | None) -> None:
            if envelope is not None and envelope.error is not UNSET:
                wire = read_error(envelope.error)
                error = ProtocolError(Kind.INTERNAL_ERROR, wire.message, code=wire.code)
            done(None if envelope is None else json_values(envelope.result), error)

        return self._pass_on(Side.CLIENT, incoming.method, params, Call(incoming.method, answer))
