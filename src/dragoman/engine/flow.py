"""Running a ledger's flows: steps a generator, carries out its effects, goes on when answers arrive.

No I/O and no tasks: an answer that comes at once is used at once, one that comes later resumes the flow from the
callback that brought it. So what a flow passes on keeps its place in the order of the wire. A flow whose answer nobody
wants any more is called off: what it waits for is told so, and the flow ends by an error raised where it stands.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from dragoman.dialect.emulator import Flow, Start, Wait, Wake
from dragoman.engine.errors import cancelled_error, to_protocol_error
from dragoman.errors import ProtocolError

DoneCallback = Callable[[Any, ProtocolError | None], None]

# Calls an effect off. Told to wait, the effect is still answered, now or later; else its answer is of no use.
CancelEffect = Callable[[bool], None]

# Carries out one effect and calls back with its answer: now, later, or never (the connection ended).
Execute = Callable[[Any, DoneCallback], CancelEffect | None]


class Flows:
    """The flows of one connection."""

    __slots__ = ("_execute", "_waiting")

    def __init__(self, execute: Execute) -> None:
        self._execute = execute
        self._waiting: dict[str, list[DoneCallback]] = {}

    def start(self, flow: Flow, execute: Execute, done: DoneCallback) -> FlowRun:
        """Run a flow; `execute` may answer effects of its own (Pass), the rest go to the connection's."""
        run = FlowRun(self, flow, execute, done)
        run.begin()
        return run

    def fail(self, error: ProtocolError) -> None:
        """The connection is over: whoever waits is told so."""
        waiting = [done for queue in self._waiting.values() for done in queue]
        self._waiting.clear()
        for done in waiting:
            done(None, error)

    def execute_effect(self, effect: Any, execute: Execute, answer: DoneCallback) -> CancelEffect | None:
        """One effect: those between flows here, the others by the connection."""
        if isinstance(effect, Wait):
            self._waiting.setdefault(effect.key, []).append(answer)
            return lambda _: self._cancel_wait(effect.key, answer)
        if isinstance(effect, Wake):
            waiting = self._waiting.get(effect.key)
            if not waiting:
                answer(False, None)
                return None
            first = waiting.pop(0)
            if not waiting:
                del self._waiting[effect.key]
            first(effect.value, None)
            answer(True, None)
        elif isinstance(effect, Start):
            self.start(effect.flow, self._execute, _ignore_answer)
            answer(None, None)
        else:
            return execute(effect, answer)
        return None

    def _cancel_wait(self, key: str, answer: DoneCallback) -> None:
        """A flow that is called off waits no more, and is not woken in another's place."""
        waiting = self._waiting.get(key, [])
        if answer in waiting:
            waiting.remove(answer)
        if not waiting:
            self._waiting.pop(key, None)
        answer(None, cancelled_error())


class FlowRun:
    """One flow under way. `_now` catches answers that arrive while their effect is still being carried out."""

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
        self._effect_number = 0  # which one the flow waits for: the answer to another comes too late
        self._cancel_effect: CancelEffect | None = None
        self._is_stepping = False
        self._early_answer: tuple[Any, ProtocolError | None] | None = None
        self.is_over = False

    def begin(self) -> None:
        """Take the flow to the first effect that is not answered at once."""
        self._step(None, None)

    def cancel(self, wait: bool) -> None:
        """Its answer is not wanted any more; told to wait, what it asked for is still let end by itself."""
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
            self._step(value, error)

    def _step(self, value: Any, error: ProtocolError | None) -> None:
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
                except Exception as fault:  # a fault in a ledger must not end the connection
                    self._end(None, to_protocol_error(fault))
                    return
                answer = partial(self._answer, self._effect_number)
                try:
                    self._cancel_effect = self._flows.execute_effect(effect, self._execute, answer)
                except Exception as fault:  # what cannot be carried out is an answer too
                    self._early_answer = (None, to_protocol_error(fault))
                if self._early_answer is None:
                    return
                value, error = self._early_answer
        finally:
            self._is_stepping = False

    def _end(self, value: Any, error: ProtocolError | None) -> None:
        self.is_over = True
        self._done(value, error)


def _ignore_answer(_: Any, __: ProtocolError | None) -> None:
    return None
