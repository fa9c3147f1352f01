"""TranslatedProxy: a proxy of a chain whose process speaks another dialect, between two relays that translate."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Awaitable, Callable
from typing import Protocol

from dragoman.dialect.dialects import DEFAULT_DIALECT
from dragoman.roles.client.dial import Dialer
from dragoman.roles.proxy.call import Call
from dragoman.roles.proxy.component import Component
from dragoman.roles.proxy.functions import PassOn
from dragoman.roles.proxy.link import Link, Params
from dragoman.roles.proxy.relay import Relay
from dragoman.roles.proxy.relay_station import open_link
from dragoman.schema.side import Side
from dragoman.transport.base import Transport
from dragoman.transport.memory import internal_pair, memory_pair


class _Conductor(Protocol):
    """The conductor of one proxy."""

    async def run(self) -> BaseException:
        """Run until an end disconnects; return the reason."""


class TranslatedProxy:
    """One proxy in its own process and its own dialect."""

    def __init__(
        self,
        name: str,
        component: Component,
        pass_on: PassOn,
        fail: Callable[[BaseException, str], None],
        report: Callable[[str], None],
        open_inner: Callable[[str, Component, Transport, Transport], _Conductor],
    ) -> None:
        """`open_inner` makes the conductor of this one proxy."""
        self.name = name
        self._component = component
        self._pass_on = pass_on
        self._fail_chain = fail
        self._report = report
        self._open_inner = open_inner
        self._links: tuple[Link, Link] | None = None  # to the relays above and below the process
        self._running: list[asyncio.Task[BaseException]] = []
        self._is_closing = False

    def takes(self, receiver: Side, method: str) -> bool:
        """Return True: the process sees everything."""
        return True

    def send(
        self, receiver: Side, method: str, params: Params, call: Call | None, frame: bytes | None = None
    ) -> Awaitable[None] | None:
        """Take a message on its way to `receiver`."""
        if self._links is None:
            self._links = self._start()
        above, below = self._links
        return (above if receiver is Side.AGENT else below).send(False, method, params, call, frame)

    def _start(self) -> tuple[Link, Link]:
        above, client_end = internal_pair("the chain", self.name)
        below, agent_end = internal_pair("the successor", self.name)
        upper, inner_client = memory_pair()
        inner_agent, lower = memory_pair()
        spoken, cwd = self._component.dialect, os.getcwd()
        relays = (
            Relay(
                client_end,
                Dialer(upper, dialect=spoken, cwd=cwd, report=self._report),
                client_dialect=DEFAULT_DIALECT,
                report=self._report,
            ),
            Relay(
                lower,
                Dialer(agent_end, dialect=DEFAULT_DIALECT, cwd=cwd, report=self._report),
                client_dialect=spoken,
                report=self._report,
            ),
        )
        inner = self._open_inner(self.name, self._component, inner_client, inner_agent)
        loop = asyncio.get_running_loop()
        self._running = [loop.create_task(each.run()) for each in (*relays, inner)]
        for task in self._running:
            task.add_done_callback(self._on_end)
        return (
            open_link(above, Side.CLIENT, self.name, self._pass_on, self._report),
            open_link(below, Side.AGENT, self.name, self._pass_on, self._report),
        )

    def _on_end(self, task: asyncio.Task[BaseException]) -> None:
        if not self._is_closing and not task.cancelled() and task.exception() is None:
            self._fail_chain(task.result(), self.name)

    async def close(self) -> None:
        """End the process and the relays."""
        self._is_closing = True
        for task in self._running:
            task.cancel()
        await asyncio.gather(*self._running, return_exceptions=True)
        for link in self._links or ():
            await link.connection.close()
        self._links, self._running, self._is_closing = None, [], False
