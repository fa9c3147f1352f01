"""Run an emulator's flows: step a generator, carry out its effects, resume it when answers arrive.

No I/O and no tasks. An answer that comes at once is used at once; a later one resumes the flow from its callback. So
what a flow passes on keeps its place in wire order. Cancelling a flow cancels what it waits for and raises an error in
it.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from dragoman.dialect.emulator import Flow, Start, Wait, Wake
from dragoman.engine.errors import cancelled_error, to_protocol_error
from dragoman.engine.pending import DoneCallback
from dragoman.errors import ProtocolError

# Cancels an effect. With True the effect is still answered, now or later; otherwise its answer is dropped.
CancelEffect = Callable[[bool], None]

# Carries out one effect and calls back with its answer: now, later, or never if the connection ended.
Execute = Callable[[Any, DoneCallback], CancelEffect | None]


class Flows:
    """The flows of one connection."""

    __slots__ = ("_execute", "_waiting")

    def __init__(self, execute: Execute) -> None:
        self._execute = execute
        self._waiting: dict[str, list[DoneCallback]] = {}

    def start(self, flow: Flow, execute: Execute, done: DoneCallback) -> FlowRun:
        """Run a flow; `execute` may carry out effects of its own (Pass) and leaves the rest to the connection."""
        run = FlowRun(self, flow, execute, done)
        run.begin()
        return run

    def fail(self, error: ProtocolError) -> None:
        """Fail every waiting flow: the connection ended."""
        waiting = [done for queue in self._waiting.values() for done in queue]
        self._waiting.clear()
        for done in waiting:
            done(None, error)

    def execute_effect(self, effect: Any, execute: Execute, answer: DoneCallback) -> CancelEffect | None:
        """Carry out one effect: those between flows here, the others by `execute`."""
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
            self.start(effect.flow, self._execute, ignore_answer)
            answer(None, None)
        else:
            return execute(effect, answer)
        return None

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

    def begin(self) -> None:
        """Run the flow until an effect is not answered at once."""
        self._step(None, None)

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
