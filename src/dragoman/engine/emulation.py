"""Run the flows of a dialect's emulator on a connection: step generators and carry out their effects, without tasks.

An answer that comes at once is used at once; a later one resumes the flow from its callback. So what a flow passes on
keeps its place in wire order. Cancelling a flow cancels what it waits for and raises an error in it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from functools import partial
from typing import TYPE_CHECKING, Any

from msgspec import UNSET, UnsetType

from dragoman.dialect import emulator as effects
from dragoman.dialect.emulator import Deliver, Emulator, Flow, FlowMaker, Pass
from dragoman.engine.codec import decode_as, with_unknown_members
from dragoman.engine.incoming import DoneCallback, Incoming, cancelled_error, to_protocol_error
from dragoman.errors import ProtocolError
from dragoman.schema.methods import METHODS, Method
from dragoman.wire.envelope import Id

if TYPE_CHECKING:
    from dragoman.engine.connection import Connection


# Cancels an effect. With True the effect is still answered, now or later; otherwise its answer is dropped.
CancelEffect = Callable[[bool], None]

# Carries out one effect and calls back with its answer: now, later, or never if the connection ended.
Execute = Callable[[Any, DoneCallback], CancelEffect | None]


class Flows:
    """The flows of one connection."""

    __slots__ = ("_execute", "_named", "_waiting")

    def __init__(self, execute: Execute) -> None:
        self._execute = execute
        self._named: dict[str, FlowRun] = {}  # started flows that can be stopped
        self._waiting: dict[str, list[DoneCallback]] = {}

    def start(self, flow: Flow, execute: Execute, done: DoneCallback) -> FlowRun:
        """Run a flow; `execute` may carry out effects of its own (Pass) and leaves the rest to the connection."""
        run = FlowRun(self, flow, execute, done)
        run.step(None, None)
        return run

    def fail(self, error: ProtocolError) -> None:
        """Fail every waiting flow: the connection ended."""
        waiting = [done for queue in self._waiting.values() for done in queue]
        self._waiting.clear()
        for done in waiting:
            done(None, error)

    def execute_effect(self, effect: Any, execute: Execute, answer: DoneCallback) -> CancelEffect | None:
        """Carry out one effect: those between flows here, the others by `execute`."""
        if isinstance(effect, effects.Wait):
            self._waiting.setdefault(effect.key, []).append(answer)
            return lambda _: self._cancel_wait(effect.key, answer)
        if isinstance(effect, effects.Wake):
            waiting = self._waiting.get(effect.key)
            if not waiting:
                answer(False, None)
                return None
            first = waiting.pop(0)
            if not waiting:
                del self._waiting[effect.key]
            first(effect.value, None)
            answer(True, None)
        elif isinstance(effect, effects.Start):
            self._start_parallel(effect)
            answer(None, None)
        elif isinstance(effect, effects.Stop):
            run = self._named.pop(effect.name, None)
            if run is not None:
                run.cancel(False)
            answer(None, None)
        else:
            return execute(effect, answer)
        return None

    def _start_parallel(self, effect: effects.Start) -> None:
        def forget(_: Any, __: ProtocolError | None) -> None:
            self._named.pop(effect.name, None)

        run = self.start(effect.flow, self._execute, forget)
        if effect.name and not run.is_over:
            self._named[effect.name] = run

    def _cancel_wait(self, key: str, answer: DoneCallback) -> None:
        """Stop waiting; a later Wake goes to another flow."""
        waiting = self._waiting.get(key, [])
        if answer in waiting:
            waiting.remove(answer)
        if not waiting:
            self._waiting.pop(key, None)
        answer(None, cancelled_error())


class FlowRun:
    """One running flow. `_early_answer` holds an answer that arrives while its effect is still being carried out."""

    __slots__ = (
        "_cancel_effect",
        "_done",
        "_early_answer",
        "_effect_number",
        "_execute",
        "_flow",
        "_flows",
        "_is_stepping",
        "is_over",
    )

    def __init__(self, flows: Flows, flow: Flow, execute: Execute, done: DoneCallback) -> None:
        self._flows = flows
        self._flow = flow
        self._execute = execute
        self._done = done
        self._effect_number = 0  # the effect that the flow waits for; answers to others are too late
        self._cancel_effect: CancelEffect | None = None
        self._is_stepping = False
        self._early_answer: tuple[Any, ProtocolError | None] | None = None
        self.is_over = False

    def cancel(self, wait: bool) -> None:
        """Cancel the flow; with `wait`, what it waits for may still end by itself."""
        stop, effect = self._cancel_effect, self._effect_number
        if stop is not None:
            stop(wait)
        if stop is None or not wait:
            self._answer(effect, None, cancelled_error())

    def _answer(self, effect: int, value: Any, error: ProtocolError | None) -> None:
        if effect != self._effect_number or self.is_over:
            return
        if self._is_stepping:
            self._early_answer = (value, error)
        else:
            self.step(value, error)

    def step(self, value: Any, error: ProtocolError | None) -> None:
        """Resume the flow with this answer, and run it until an effect is not answered at once."""
        self._is_stepping = True
        try:
            while True:
                self._effect_number += 1
                self._cancel_effect = self._early_answer = None
                try:
                    effect = self._flow.send(value) if error is None else self._flow.throw(error)
                except StopIteration as stop:
                    self._end(stop.value, None)
                    return
                except Exception as fault:  # a defect in an emulator must not end the connection
                    self._end(None, to_protocol_error(fault))
                    return
                answer = partial(self._answer, self._effect_number)
                try:
                    self._cancel_effect = self._flows.execute_effect(effect, self._execute, answer)
                except Exception as fault:  # an effect that fails is answered by its error
                    self._early_answer = (None, to_protocol_error(fault))
                if self._early_answer is None:
                    return
                value, error = self._early_answer
        finally:
            self._is_stepping = False

    def _end(self, value: Any, error: ProtocolError | None) -> None:
        self.is_over = True
        self._done(value, error)


def ignore_answer(_: Any, __: ProtocolError | None) -> None:
    """Ignore the answer."""


class Emulation:
    """What one connection does for a peer whose dialect lacks a feature.

    A request whose flow is running can be cancelled: ours by the id that `run_outgoing` returns, the peer's by its own.
    """

    def __init__(self, connection: Connection, emulator: Emulator) -> None:
        self._connection = connection
        self._sender = connection.sender
        self.emulator = emulator
        self._flows = Flows(self._execute_effect)
        self._delivered_count = 0
        self._started_count = 0
        self._early_replies: dict[str, DoneCallback] = {}  # answers of the peer's requests that any flow may give
        self.outgoing_runs: dict[Id, FlowRun] = {}  # our requests whose flows are running
        self.incoming_runs: dict[Id, FlowRun] = {}  # the peer's, by its ids

    def fail(self, error: ProtocolError) -> None:
        """Fail every flow: the connection ended."""
        self._flows.fail(error)
        self.outgoing_runs.clear()
        self.incoming_runs.clear()

    def flush(self, session_id: str) -> None:
        """Send what the emulator still collects for a session."""
        flow = self.emulator.flush(session_id)
        if flow is not None:
            self._flows.start(flow, self._execute_effect, ignore_answer)

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
            ignore_answer if isinstance(id, UnsetType) else self._sender.answer_callback(id, incoming.method)
        )
        try:
            params = incoming.params
            flow = make_flow(self.emulator, params)
        except ProtocolError as error:
            done(None, error)
            return None
        works: list[Awaitable[None]] = []
        source = incoming.source
        reply_keys: list[str] = []

        def execute(effect: Any, answer: DoneCallback) -> CancelEffect | None:
            if isinstance(effect, effects.AllowReply):
                self._early_replies[effect.key] = done
                reply_keys.append(effect.key)
                answer(None, None)
                return None
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

        def finish(result: Any, error: ProtocolError | None) -> None:
            if all(self._early_replies.pop(key, None) is not None for key in reply_keys):
                done(result, error)

        if isinstance(id, UnsetType):
            self._flows.start(flow, execute, done)
        else:
            self._run_request_flow(flow, execute, finish, self.incoming_runs, id)
        return _await_all(works) if works else None

    def run_outgoing(self, method: str, source: Any, done: DoneCallback, *, raw: bool = False) -> Id | UnsetType:
        """Run the flow of a call of ours; `raw` asks for a result with unknown members.

        Return an id to cancel it by, which the peer never sees; UNSET when it was answered at once.
        """
        sender = self._sender
        row = METHODS.get((sender.peer_side, method))
        try:
            params = decode_as(row.params if row is not None else None, source)
        except ProtocolError as error:
            if row is not None and not row.request:
                sender.report_once(f"not passed on: {method}: {error.message}")
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

                return self._request_canceller(sender.send_request(method, outgoing, note_result, raw=True))
            sender.send_notification(method, outgoing, foreign=True)
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
        return None if isinstance(id, UnsetType) else lambda wait: self._sender.cancel_request(id, wait=wait)

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
        if isinstance(effect, effects.SendNotification):
            self._sender.send_notification(effect.method, effect.params, foreign=True)
            answer(None, None)
        elif isinstance(effect, effects.SendRequest):
            return self._request_canceller(self._sender.send_request(effect.method, effect.params, answer))
        elif isinstance(effect, Deliver):
            return self._delivery_canceller(self._deliver(effect, answer))
        elif isinstance(effect, effects.Sleep):
            return self._sleep(effect.seconds, answer)
        elif isinstance(effect, effects.Reply):
            reply = self._early_replies.pop(effect.key, None)
            if reply is not None:
                reply(effect.result, effect.error)
            answer(None, None)
        elif isinstance(effect, effects.NotifyUser):
            self._sender.report_translation(effect.text)
            answer(None, None)
        else:
            raise TypeError(f"not an effect: {effect!r}")
        return None

    def _deliver(self, effect: Deliver, answer: DoneCallback) -> Id | UnsetType:
        """Deliver a call to our own side; return the id it has there."""
        connection = self._connection
        row = METHODS.get((connection.side, effect.method))
        self._delivered_count += 1
        id: Id | UnsetType = f"emulator:{self._delivered_count}" if effect.request else UNSET
        incoming = Incoming(id, effect.method, row, effect.params)
        work = connection.handle(incoming, _with_typed_result(row, answer))
        if work is not None:  # a notification made by the emulator: run it as a task, since nothing awaits it
            connection.running_requests.start(incoming, work, ignore_answer)
        if not effect.request:
            answer(None, None)
        return id

    def _sleep(self, seconds: float, answer: DoneCallback) -> CancelEffect:
        def wake() -> None:
            if self._connection.failure is None:
                answer(None, None)

        def cancel(_: bool) -> None:
            timer.cancel()
            answer(None, cancelled_error())

        timer = asyncio.get_running_loop().call_later(seconds, wake)
        return cancel


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


async def _await_all(works: list[Awaitable[None]]) -> None:
    for work in works:
        await work
