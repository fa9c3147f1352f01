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

from dragoman.dialect.emulator import (
    Deliver,
    Emulator,
    Flow,
    FlowMaker,
    NotifyUser,
    Pass,
    SendNotification,
    SendRequest,
    Sleep,
)
from dragoman.engine.decode import decode_as, with_unknown_members
from dragoman.engine.errors import cancelled_error
from dragoman.engine.flow import CancelEffect, Execute, FlowRun, Flows
from dragoman.engine.incoming import Incoming
from dragoman.engine.pending import DoneCallback
from dragoman.errors import ProtocolError
from dragoman.schema.methods import METHODS, Method
from dragoman.wire.envelope import Id

if TYPE_CHECKING:
    from dragoman.engine.connection import Connection


class Emulation:
    """What one connection does for a peer whose dialect lacks something."""

    def __init__(self, connection: Connection, emulator: Emulator) -> None:
        self._connection = connection
        self.emulator = emulator
        self._flows = Flows(self._execute_effect)
        self._delivered_count = 0
        self._started_count = 0
        self.outgoing_runs: dict[Id, FlowRun] = {}  # requests of ours whose flows are under way
        self.incoming_runs: dict[Id, FlowRun] = {}  # and the peer's, by its ids

    def fail(self, error: ProtocolError) -> None:
        """The connection is over."""
        self._flows.fail(error)
        self.outgoing_runs.clear()
        self.incoming_runs.clear()

    def cancel_request(self, id: Id, wait: bool) -> None:
        """Nobody needs the answer to this request of ours any more; told to wait, it is still answered."""
        run = self.outgoing_runs.get(id)
        if run is not None:
            run.cancel(wait)

    def cancel_peer_request(self, id: Id) -> bool:
        """The peer takes back a request, which is still answered; whether its flow is under way."""
        run = self.incoming_runs.get(id)
        if run is None:
            return False
        run.cancel(True)
        return True

    def run_incoming(self, incoming: Incoming, make_flow: FlowMaker) -> Awaitable[None] | None:
        """A call of the peer that the ledger has a flow for; what is returned must be awaited in order."""
        connection = self._connection
        id = incoming.id
        is_request = not isinstance(id, UnsetType)
        done: DoneCallback = (
            ignore_answer if isinstance(id, UnsetType) else connection.answer_callback(id, incoming.method)
        )
        try:
            params = incoming.params
            flow = make_flow(self.emulator, params)
        except ProtocolError as error:
            done(None, error)
            return None
        awaited: list[Awaitable[None]] = []
        source = incoming.source

        def execute(effect: Any, answer: DoneCallback) -> CancelEffect | None:
            if not isinstance(effect, Pass):
                return self._execute_effect(effect, answer)
            if effect.params is not params:
                incoming.params = effect.params
                incoming.source = with_unknown_members(effect.params, source)
            work = connection.handle(incoming, _with_typed_result(incoming.row, answer))
            if work is not None:
                awaited.append(work)
            if not is_request:
                answer(None, None)
            return self._delivery_canceller(incoming.id)

        if isinstance(id, UnsetType):
            self._flows.start(flow, execute, done)
        else:
            self._run_request_flow(flow, execute, done, self.incoming_runs, id)
        return _await_all(awaited) if awaited else None

    def run_outgoing(self, method: str, source: Any, done: DoneCallback, *, raw: bool = False) -> Id | UnsetType:
        """A call of ours that the ledger has a flow for; `raw` asks for a result with what no type knows.

        Gives an id to call it off by, which the peer never sees; none when it was answered at once.
        """
        connection = self._connection
        row = METHODS.get((connection.side.other, method))
        try:
            params = decode_as(row.params if row is not None else None, source)
        except ProtocolError as error:
            if row is not None and not row.request:
                connection.report_once(f"not passed on: {method}: {error.message}")
            done(None, error)
            return UNSET
        is_request = row is not None and row.request
        heard: list[Any] = []  # the result as the peer said it, with what no type knows

        def execute(effect: Any, answer: DoneCallback) -> CancelEffect | None:
            if not isinstance(effect, Pass):
                return self._execute_effect(effect, answer)
            said = source if effect.params is params else with_unknown_members(effect.params, source)
            if is_request:
                typed = _with_typed_result(row, answer)

                def hear(result: Any, error: ProtocolError | None) -> None:
                    heard[:] = [result]
                    typed(result, error)

                return self._request_canceller(connection.send_request(method, said, hear, raw=True))
            connection.send_notification(method, said, foreign=True)
            answer(None, None)
            return None

        def finish(result: Any, error: ProtocolError | None) -> None:
            if raw and error is None and heard:
                result = with_unknown_members(result, heard[0])
            done(result, error)

        flow = self.emulator.outgoing[method](self.emulator, params)
        if not is_request:
            self._flows.start(flow, execute, finish)
            return UNSET
        self._started_count += 1
        return self._run_request_flow(flow, execute, finish, self.outgoing_runs, f"flow:{self._started_count}")

    def _run_request_flow(
        self, flow: Flow, execute: Execute, done: DoneCallback, runs: dict[Id, FlowRun], id: Id
    ) -> Id | UnsetType:
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

    def _request_canceller(self, id: Id | UnsetType) -> CancelEffect | None:
        """How to call off what the peer was asked; nothing when it has been answered already."""
        return None if isinstance(id, UnsetType) else lambda wait: self._connection.cancel_request(id, wait=wait)

    def _delivery_canceller(self, id: Id | UnsetType) -> CancelEffect | None:
        """How our own side is told that the peer needs no answer to what it was handed."""
        if isinstance(id, UnsetType):
            return None
        told = Deliver("$/cancel_request", {"requestId": id}, request=False)

        def take_back(_: bool) -> None:
            self._deliver(told, ignore_answer)

        return take_back

    def _execute_effect(self, effect: Any, answer: DoneCallback) -> CancelEffect | None:
        """An effect that is the same whichever way its message goes."""
        connection = self._connection
        if isinstance(effect, SendNotification):
            connection.send_notification(effect.method, effect.params, foreign=True)
            answer(None, None)
        elif isinstance(effect, SendRequest):
            return self._request_canceller(connection.send_request(effect.method, effect.params, answer))
        elif isinstance(effect, Deliver):
            return self._delivery_canceller(self._deliver(effect, answer))
        elif isinstance(effect, Sleep):
            alarm = asyncio.get_running_loop().call_later(effect.seconds, self._answer_if_open, answer)
            return partial(_cancel_sleep, alarm, answer)
        elif isinstance(effect, NotifyUser):
            connection.report_translation(effect.text)
            answer(None, None)
        else:
            raise TypeError(f"not an effect: {effect!r}")
        return None

    def _deliver(self, effect: Deliver, answer: DoneCallback) -> Id | UnsetType:
        """Hand our own side a call; gives the id that it is known by there."""
        connection = self._connection
        row = METHODS.get((connection.side, effect.method))
        self._delivered_count += 1
        id: Id | UnsetType = f"ledger:{self._delivered_count}" if effect.request else UNSET
        incoming = Incoming(id, effect.method, row, effect.params)
        work = connection.handle(incoming, _with_typed_result(row, answer))
        if work is not None:  # a notification made up by the ledger: attended like a request, nobody waits for it
            connection.running_requests.start(incoming, work, ignore_answer)
        if not effect.request:
            answer(None, None)
        return id

    def _answer_if_open(self, answer: DoneCallback) -> None:
        if self._connection.failure is None:
            answer(None, None)


def _with_typed_result(row: Method | None, answer: DoneCallback) -> DoneCallback:
    """Flows read results as Structs; a relay answers with plain values."""

    def done(result: Any, error: ProtocolError | None) -> None:
        if error is None and row is not None and row.result is not None:
            try:
                result = decode_as(row.result, result)
            except ProtocolError as fault:
                result, error = None, fault
        answer(result, error)

    return done


def _cancel_sleep(timer: asyncio.TimerHandle, answer: DoneCallback, _: bool) -> None:
    """Nobody waits for this alarm any more."""
    timer.cancel()
    answer(None, cancelled_error())


async def _await_all(works: list[Awaitable[None]]) -> None:
    for work in works:
        await work


def ignore_answer(_: Any, __: ProtocolError | None) -> None:
    """Nobody waits for the answer."""
