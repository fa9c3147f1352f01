"""Running a dialect's ledger on a connection: its flows take messages and the connection carries out their effects.

Takes what comes in or goes out and has a flow; what a flow passes on keeps its place in wire order. Below are flows
(without I/O); beside it is the connection that owns it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from typing import TYPE_CHECKING, Any

from msgspec import UNSET, UnsetType

from dragoman.dialect.ledger import Ask, Deliver, FlowMaker, Ledger, Pass, Report, Send, Sleep
from dragoman.engine.exchange import Done
from dragoman.engine.flow import Flows
from dragoman.engine.message import Incoming
from dragoman.engine.reading import carried, read
from dragoman.errors import ProtocolError
from dragoman.schema.methods import METHODS, Method

if TYPE_CHECKING:
    from dragoman.engine.connection import Connection


class Emulation:
    """What one connection does for a peer whose dialect lacks something."""

    def __init__(self, connection: Connection, ledger: Ledger) -> None:
        self._connection = connection
        self.ledger = ledger
        self._flows = Flows(self._carry_out)
        self._delivered = 0

    def end(self, error: ProtocolError) -> None:
        """The connection is over."""
        self._flows.end(error)

    def run_incoming(self, incoming: Incoming, make: FlowMaker) -> Awaitable[None] | None:
        """A call of the peer that the ledger has a flow for; what is returned must be awaited in order."""
        connection = self._connection
        is_request = incoming.id is not UNSET
        done: Done = nobody
        if not isinstance(incoming.id, UnsetType):
            done = connection.answering(incoming.id, incoming.method)
        try:
            flow = make(self.ledger, incoming.params)
        except ProtocolError as error:
            done(None, error)
            return None
        awaited: list[Awaitable[None]] = []
        source = incoming.source

        def execute(effect: Any, answer: Done) -> None:
            if not isinstance(effect, Pass):
                self._carry_out(effect, answer)
                return
            incoming.params = effect.params
            incoming.source = carried(effect.params, source)
            work = connection.handle(incoming, _typed(incoming.row, answer))
            if work is not None:
                awaited.append(work)
            if not is_request:
                answer(None, None)

        self._flows.start(flow, execute, done)
        return _all(awaited) if awaited else None

    def run_outgoing(self, method: str, source: Any, done: Done, *, raw: bool = False) -> None:
        """A call of ours that the ledger has a flow for; `raw` asks for a result with what no type knows."""
        connection = self._connection
        row = METHODS.get((connection.we.other, method))
        try:
            params = read(row.params if row is not None else None, source)
        except ProtocolError as error:
            if row is not None and not row.request:
                connection.say_once(f"not passed on: {method}: {error.message}")
            done(None, error)
            return
        is_request = row is not None and row.request
        heard: list[Any] = []  # the result as the peer said it, with what no type knows

        def execute(effect: Any, answer: Done) -> None:
            if not isinstance(effect, Pass):
                self._carry_out(effect, answer)
            elif is_request:
                typed = _typed(row, answer)

                def hear(result: Any, error: ProtocolError | None) -> None:
                    heard[:] = [result]
                    typed(result, error)

                connection.send_request(method, carried(effect.params, source), hear, raw=True)
            else:
                connection.send_notification(method, carried(effect.params, source), foreign=True)
                answer(None, None)

        def finish(result: Any, error: ProtocolError | None) -> None:
            if raw and error is None and heard:
                result = carried(result, heard[0])
            done(result, error)

        self._flows.start(self.ledger.outgoing[method](self.ledger, params), execute, finish)

    def _carry_out(self, effect: Any, answer: Done) -> None:
        """An effect that is the same whichever way its message goes."""
        connection = self._connection
        if isinstance(effect, Send):
            connection.send_notification(effect.method, effect.params, foreign=True)
            answer(None, None)
        elif isinstance(effect, Ask):
            connection.send_request(effect.method, effect.params, answer)
        elif isinstance(effect, Deliver):
            self._deliver(effect, answer)
        elif isinstance(effect, Sleep):
            asyncio.get_running_loop().call_later(effect.seconds, self._unless_ended, answer)
        elif isinstance(effect, Report):
            connection.report(effect.text)
            answer(None, None)
        else:
            raise TypeError(f"not an effect: {effect!r}")

    def _deliver(self, effect: Deliver, answer: Done) -> None:
        connection = self._connection
        row = METHODS.get((connection.we, effect.method))
        self._delivered += 1
        id = f"ledger:{self._delivered}" if effect.request else UNSET
        incoming = Incoming(id, effect.method, row, effect.params)
        work = connection.handle(incoming, _typed(row, answer))
        if work is not None:  # a notification made up by the ledger: attended like a request, nobody waits for it
            connection.inbound.start(incoming, work, nobody)
        if not effect.request:
            answer(None, None)

    def _unless_ended(self, answer: Done) -> None:
        if self._connection.failure is None:
            answer(None, None)


def _typed(row: Method | None, answer: Done) -> Done:
    """Flows read results as Structs; a relay answers with plain values."""

    def done(result: Any, error: ProtocolError | None) -> None:
        if error is None and row is not None and row.result is not None:
            try:
                result = read(row.result, result)
            except ProtocolError as fault:
                result, error = None, fault
        answer(result, error)

    return done


async def _all(works: list[Awaitable[None]]) -> None:
    for work in works:
        await work


def nobody(_: Any, __: ProtocolError | None) -> None:
    """Nobody waits for the answer."""
