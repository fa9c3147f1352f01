"""Running a dialect's ledger on a connection: its flows take messages and the connection carries out their effects.

Takes what comes in or goes out and has a flow; what a flow passes on keeps its place in wire order. Requests whose
flows are under way can be called off: ours by the id that `run_outgoing` gives, the peer's by its own. Below are flows
(without I/O); beside it is the connection that owns it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from functools import partial
from typing import TYPE_CHECKING, Any

from msgspec import UNSET, UnsetType

from dragoman.dialect.emulator import Ask, Deliver, Flow, FlowMaker, Ledger, Pass, Report, Send, Sleep
from dragoman.engine.decode import carried, read
from dragoman.engine.errors import called_off
from dragoman.engine.flow import Execute, Flows, Run, Stop
from dragoman.engine.incoming import Incoming
from dragoman.engine.pending import Done
from dragoman.errors import ProtocolError
from dragoman.schema.methods import METHODS, Method
from dragoman.wire.envelope import Id

if TYPE_CHECKING:
    from dragoman.engine.connection import Connection


class Emulation:
    """What one connection does for a peer whose dialect lacks something."""

    def __init__(self, connection: Connection, ledger: Ledger) -> None:
        self._connection = connection
        self.ledger = ledger
        self._flows = Flows(self._carry_out)
        self._delivered = 0
        self._begun = 0
        self.ours: dict[Id, Run] = {}  # requests of ours whose flows are under way
        self.theirs: dict[Id, Run] = {}  # and the peer's, by its ids

    def end(self, error: ProtocolError) -> None:
        """The connection is over."""
        self._flows.end(error)
        self.ours.clear()
        self.theirs.clear()

    def call_off(self, id: Id, wait: bool) -> None:
        """Nobody needs the answer to this request of ours any more; told to wait, it is still answered."""
        run = self.ours.get(id)
        if run is not None:
            run.call_off(wait)

    def call_off_theirs(self, id: Id) -> bool:
        """The peer takes back a request, which is still answered; whether its flow is under way."""
        run = self.theirs.get(id)
        if run is None:
            return False
        run.call_off(True)
        return True

    def run_incoming(self, incoming: Incoming, make: FlowMaker) -> Awaitable[None] | None:
        """A call of the peer that the ledger has a flow for; what is returned must be awaited in order."""
        connection = self._connection
        id = incoming.id
        is_request = not isinstance(id, UnsetType)
        done: Done = nobody if isinstance(id, UnsetType) else connection.answering(id, incoming.method)
        try:
            params = incoming.params
            flow = make(self.ledger, params)
        except ProtocolError as error:
            done(None, error)
            return None
        awaited: list[Awaitable[None]] = []
        source = incoming.source

        def execute(effect: Any, answer: Done) -> Stop | None:
            if not isinstance(effect, Pass):
                return self._carry_out(effect, answer)
            if effect.params is not params:
                incoming.params = effect.params
                incoming.source = carried(effect.params, source)
            work = connection.handle(incoming, _typed(incoming.row, answer))
            if work is not None:
                awaited.append(work)
            if not is_request:
                answer(None, None)
            return self._taking_back(incoming.id)

        if isinstance(id, UnsetType):
            self._flows.start(flow, execute, done)
        else:
            self._run(flow, execute, done, self.theirs, id)
        return _all(awaited) if awaited else None

    def run_outgoing(self, method: str, source: Any, done: Done, *, raw: bool = False) -> Id | UnsetType:
        """A call of ours that the ledger has a flow for; `raw` asks for a result with what no type knows.

        Gives an id to call it off by, which the peer never sees; none when it was answered at once.
        """
        connection = self._connection
        row = METHODS.get((connection.we.other, method))
        try:
            params = read(row.params if row is not None else None, source)
        except ProtocolError as error:
            if row is not None and not row.request:
                connection.say_once(f"not passed on: {method}: {error.message}")
            done(None, error)
            return UNSET
        is_request = row is not None and row.request
        heard: list[Any] = []  # the result as the peer said it, with what no type knows

        def execute(effect: Any, answer: Done) -> Stop | None:
            if not isinstance(effect, Pass):
                return self._carry_out(effect, answer)
            said = source if effect.params is params else carried(effect.params, source)
            if is_request:
                typed = _typed(row, answer)

                def hear(result: Any, error: ProtocolError | None) -> None:
                    heard[:] = [result]
                    typed(result, error)

                return self._calling_off(connection.send_request(method, said, hear, raw=True))
            connection.send_notification(method, said, foreign=True)
            answer(None, None)
            return None

        def finish(result: Any, error: ProtocolError | None) -> None:
            if raw and error is None and heard:
                result = carried(result, heard[0])
            done(result, error)

        flow = self.ledger.outgoing[method](self.ledger, params)
        if not is_request:
            self._flows.start(flow, execute, finish)
            return UNSET
        self._begun += 1
        return self._run(flow, execute, finish, self.ours, f"flow:{self._begun}")

    def _run(self, flow: Flow, execute: Execute, done: Done, runs: dict[Id, Run], id: Id) -> Id | UnsetType:
        """Run the flow of a request, and have it in the table until it is answered; gives the id if it is there."""

        def finish(result: Any, error: ProtocolError | None) -> None:
            if (begun := runs.get(id)) is not None and begun.is_over:  # a peer may use an id twice at a time
                del runs[id]
            done(result, error)

        run = self._flows.start(flow, execute, finish)
        if run.is_over:
            return UNSET
        runs[id] = run
        return id

    def _calling_off(self, id: Id | UnsetType) -> Stop | None:
        """How to call off what the peer was asked; nothing when it has been answered already."""
        return None if isinstance(id, UnsetType) else lambda wait: self._connection.call_off(id, wait=wait)

    def _taking_back(self, id: Id | UnsetType) -> Stop | None:
        """How our own side is told that the peer needs no answer to what it was handed."""
        if isinstance(id, UnsetType):
            return None
        told = Deliver("$/cancel_request", {"requestId": id}, request=False)

        def take_back(_: bool) -> None:
            self._deliver(told, nobody)

        return take_back

    def _carry_out(self, effect: Any, answer: Done) -> Stop | None:
        """An effect that is the same whichever way its message goes."""
        connection = self._connection
        if isinstance(effect, Send):
            connection.send_notification(effect.method, effect.params, foreign=True)
            answer(None, None)
        elif isinstance(effect, Ask):
            return self._calling_off(connection.send_request(effect.method, effect.params, answer))
        elif isinstance(effect, Deliver):
            return self._taking_back(self._deliver(effect, answer))
        elif isinstance(effect, Sleep):
            alarm = asyncio.get_running_loop().call_later(effect.seconds, self._unless_ended, answer)
            return partial(_ring_now, alarm, answer)
        elif isinstance(effect, Report):
            connection.translated(effect.text)
            answer(None, None)
        else:
            raise TypeError(f"not an effect: {effect!r}")
        return None

    def _deliver(self, effect: Deliver, answer: Done) -> Id | UnsetType:
        """Hand our own side a call; gives the id that it is known by there."""
        connection = self._connection
        row = METHODS.get((connection.we, effect.method))
        self._delivered += 1
        id: Id | UnsetType = f"ledger:{self._delivered}" if effect.request else UNSET
        incoming = Incoming(id, effect.method, row, effect.params)
        work = connection.handle(incoming, _typed(row, answer))
        if work is not None:  # a notification made up by the ledger: attended like a request, nobody waits for it
            connection.inbound.start(incoming, work, nobody)
        if not effect.request:
            answer(None, None)
        return id

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


def _ring_now(alarm: asyncio.TimerHandle, answer: Done, _: bool) -> None:
    """Nobody waits for this alarm any more."""
    alarm.cancel()
    answer(None, called_off())


async def _all(works: list[Awaitable[None]]) -> None:
    for work in works:
        await work


def nobody(_: Any, __: ProtocolError | None) -> None:
    """Nobody waits for the answer."""
