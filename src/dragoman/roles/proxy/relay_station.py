"""RelayStation: a proxy of a chain in this process that needs two connections of its own, on a relay in memory.

For proxies that offer MCP servers or use language servers. Every message passes through its relay.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Awaitable, Callable

from dragoman.dialect.dialects import DEFAULT_DIALECT, load_dialect
from dragoman.engine.connection import Connection
from dragoman.engine.incoming import refuse_unknown
from dragoman.roles.client.dial import Dialer
from dragoman.roles.emulator_settings import emulator_settings
from dragoman.roles.proxy.call import Call
from dragoman.roles.proxy.component import RelayProxy
from dragoman.roles.proxy.functions import PassOn
from dragoman.roles.proxy.link import Link, Params
from dragoman.roles.proxy.relay import Relay
from dragoman.schema.side import Side
from dragoman.transport.base import Transport
from dragoman.transport.memory import internal_pair


class RelayStation:
    """One proxy on a relay between its two neighbors in the chain."""

    def __init__(
        self,
        name: str,
        proxy: RelayProxy,
        pass_on: PassOn,
        fail: Callable[[BaseException, str], None],
        report: Callable[[str], None],
    ) -> None:
        self.name = name
        self._proxy = proxy
        self._pass_on = pass_on
        self._fail_chain = fail
        self._report = report
        self._upper: Link | None = None  # where the relay has its client
        self._lower: Link | None = None  # where the relay has its agent
        self._running: asyncio.Task[None] | None = None

    def takes(self, receiver: Side, method: str) -> bool:
        """Return True: the relay sees everything."""
        return True

    def send(
        self, receiver: Side, method: str, params: Params, call: Call | None, frame: bytes | None = None
    ) -> Awaitable[None] | None:
        """Take a message on its way to `receiver`."""
        if self._upper is None or self._lower is None:
            self._upper, self._lower = self._start()
        link = self._upper if receiver is Side.AGENT else self._lower
        return link.send(False, method, params, call, frame)

    def _start(self) -> tuple[Link, Link]:
        above, client_end = internal_pair("the chain", self.name)
        below, agent_end = internal_pair("the successor", self.name)
        dialer = Dialer(agent_end, dialect=DEFAULT_DIALECT, cwd=os.getcwd(), report=self._report)
        relay = Relay(client_end, dialer, client_dialect=DEFAULT_DIALECT, report=lambda _: None)
        self._running = asyncio.get_running_loop().create_task(self._run(relay, self._proxy.extend_relay(relay)))
        return (
            open_link(above, Side.CLIENT, self.name, self._pass_on, self._report),
            open_link(below, Side.AGENT, self.name, self._pass_on, self._report),
        )

    async def _run(self, relay: Relay, close: Callable[[], Awaitable[None]]) -> None:
        try:
            reason = await relay.run()
        finally:
            await close()
        self._fail_chain(reason, self.name)

    async def close(self) -> None:
        """End the relay and what its proxy uses."""
        if self._running is not None:
            self._running.cancel()
            await asyncio.gather(self._running, return_exceptions=True)
        for link in (self._upper, self._lower):
            if link is not None:
                await link.connection.close()
        self._upper = self._lower = self._running = None


def open_link(transport: Transport, side: Side, name: str, pass_on: PassOn, report: Callable[[str], None]) -> Link:
    """Open the link to one side of a relay; what the relay says there goes on to that side of the chain."""
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

    def route(
        is_wrapped: bool, method: str, params: Params, call: Call | None, frame: bytes | None
    ) -> Awaitable[None] | None:
        return pass_on(side, method, params, call, frame)

    link = Link(connection, name, route, may_wrap=False)
    connection.start()
    return link
