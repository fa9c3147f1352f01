"""Run the flows of a dialect's emulator on a connection and carry out their effects.

Messages that a flow passes on keep their place in wire order. A request whose flow is running can be cancelled: ours by
the id that `run_outgoing` returns, the peer's by its own id.
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
from dragoman.engine.flow import CancelEffect, Execute, FlowRun, Flows, ignore_answer
from dragoman.engine.incoming import Incoming
from dragoman.engine.pending import DoneCallback
from dragoman.errors import ProtocolError
from dragoman.schema.methods import METHODS, Method
from dragoman.wire.envelope import Id

if TYPE_CHECKING:
    from dragoman.engine.connection import Connection


class Emulation:
    """What one connection does for a peer whose dialect lacks a feature."""

    def __init__(self, connection: Connection, emulator: Emulator) -> None:
        self._connection = connection
        self.emulator = emulator
        self._flows = Flows(self._execute_effect)
        self._delivered_count = 0
        self._started_count = 0
        self.outgoing_runs: dict[Id, FlowRun] = {}  # our requests whose flows are running
        self.incoming_runs: dict[Id, FlowRun] = {}  # the peer's, by its ids

    def fail(self, error: ProtocolError) -> None:
        """Fail every flow: the connection ended."""
        self._flows.fail(error)
        self.outgoing_runs.clear()
        self.incoming_runs.clear()

    def cancel_request(self, id: Id, wait: bool) -> None:
        """Cancel this request of ours; with `wait`, it is still answered."""
        run = self.outgoing_runs.get(id)
        if run is not None:
            run.cancel(wait)

    def cancel_peer_request(self, id: Id) -> bool:
        """Cancel a request of the peer, which is still answered; return whether its flow is running."""
        run = self.incoming_runs.get(id)
        if run is None:
            return False
        run.cancel(True)
        return True

    def run_incoming(self, incoming: Incoming, make_flow: FlowMaker) -> Awaitable[None] | None:
        """Run the flow of a call of the peer; what it returns must be awaited in order."""
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
        works: list[Awaitable[None]] = []
        source = incoming.source

        def execute(effect: Any, answer: DoneCallback) -> CancelEffect | None:
            if not isinstance(effect, Pass):
                return self._execute_effect(effect, answer)
            if effect.params is not params:
                incoming.params = effect.params
                incoming.source = with_unknown_members(effect.params, source)
            work = connection.handle(incoming, _with_typed_result(incoming.row, answer))
            if work is not None:
                works.append(work)
            if not is_request:
                answer(None, None)
            return self._delivery_canceller(incoming.id)

        if isinstance(id, UnsetType):
            self._flows.start(flow, execute, done)
        else:
            self._run_request_flow(flow, execute, done, self.incoming_runs, id)
        return _await_all(works) if works else None

    def run_outgoing(self, method: str, source: Any, done: DoneCallback, *, raw: bool = False) -> Id | UnsetType:
        """Run the flow of a call of ours; `raw` asks for a result with unknown members.

        Return an id to cancel it by, which the peer never sees; UNSET when it was answered at once.
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
        wire_result: list[Any] = []  # the peer's result, with unknown members

        def execute(effect: Any, answer: DoneCallback) -> CancelEffect | None:
            if not isinstance(effect, Pass):
                return self._execute_effect(effect, answer)
            outgoing = source if effect.params is params else with_unknown_members(effect.params, source)
            if is_request:
                typed = _with_typed_result(row, answer)

                def note_result(result: Any, error: ProtocolError | None) -> None:
                    wire_result[:] = [result]
                    typed(result, error)

                return self._request_canceller(connection.send_request(method, outgoing, note_result, raw=True))
            connection.send_notification(method, outgoing, foreign=True)
            answer(None, None)
            return None

        def finish(result: Any, error: ProtocolError | None) -> None:
            if raw and error is None and wire_result:
                result = with_unknown_members(result, wire_result[0])
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
        """Run a request's flow and keep it in `runs` until it is answered; return its id if it is still running."""

        def finish(result: Any, error: ProtocolError | None) -> None:
            if (current := runs.get(id)) is not None and current.is_over:  # a peer may use an id twice at a time
                del runs[id]
            done(result, error)

        run = self._flows.start(flow, execute, finish)
        if run.is_over:
            return UNSET
        runs[id] = run
        return id

    def _request_canceller(self, id: Id | UnsetType) -> CancelEffect | None:
        """Return a function that cancels this request to the peer; None when it is already answered."""
        return None if isinstance(id, UnsetType) else lambda wait: self._connection.cancel_request(id, wait=wait)

    def _delivery_canceller(self, id: Id | UnsetType) -> CancelEffect | None:
        """Return a function that tells our side that the peer cancelled a request."""
        if isinstance(id, UnsetType):
            return None
        cancel = Deliver("$/cancel_request", {"requestId": id}, request=False)

        def deliver_cancel(_: bool) -> None:
            self._deliver(cancel, ignore_answer)

        return deliver_cancel

    def _execute_effect(self, effect: Any, answer: DoneCallback) -> CancelEffect | None:
        """Carry out an effect that is the same in both directions."""
        connection = self._connection
        if isinstance(effect, SendNotification):
            connection.send_notification(effect.method, effect.params, foreign=True)
            answer(None, None)
        elif isinstance(effect, SendRequest):
            return self._request_canceller(connection.send_request(effect.method, effect.params, answer))
        elif isinstance(effect, Deliver):
            return self._delivery_canceller(self._deliver(effect, answer))
        elif isinstance(effect, Sleep):
            timer = asyncio.get_running_loop().call_later(effect.seconds, self._answer_if_open, answer)
            return partial(_cancel_sleep, timer, answer)
        elif isinstance(effect, NotifyUser):
            connection.report_translation(effect.text)
            answer(None, None)
        else:
            raise TypeError(f"not an effect: {effect!r}")
        return None

    def _deliver(self, effect: Deliver, answer: DoneCallback) -> Id | UnsetType:
        """Deliver a call to our own side; return the id it has there."""
        connection = self._connection
        row = METHODS.get((connection.side, effect.method))
        self._delivered_count += 1
        id: Id | UnsetType = f"ledger:{self._delivered_count}" if effect.request else UNSET
        incoming = Incoming(id, effect.method, row, effect.params)
        work = connection.handle(incoming, _with_typed_result(row, answer))
        if work is not None:  # a notification made by the emulator: run it as a task, since nothing awaits it
            connection.running_requests.start(incoming, work, ignore_answer)
        if not effect.request:
            answer(None, None)
        return id

    def _answer_if_open(self, answer: DoneCallback) -> None:
        if self._connection.failure is None:
            answer(None, None)


def _with_typed_result(row: Method | None, answer: DoneCallback) -> DoneCallback:
    """Convert results to Structs for a flow; a relay answers with plain values."""

    def done(result: Any, error: ProtocolError | None) -> None:
        if error is None and row is not None and row.result is not None:
            try:
                result = decode_as(row.result, result)
            except ProtocolError as fault:
                result, error = None, fault
        answer(result, error)

    return done


def _cancel_sleep(timer: asyncio.TimerHandle, answer: DoneCallback, _: bool) -> None:
    timer.cancel()
    answer(None, cancelled_error())


async def _await_all(works: list[Awaitable[None]]) -> None:
    for work in works:
        await work
