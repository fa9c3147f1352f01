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
from dragoman.engine.errors import as_error, called_off
from dragoman.errors import ProtocolError

Done = Callable[[Any, ProtocolError | None], None]

# Calls an effect off. Told to wait, the effect is still answered, now or later; else its answer is of no use.
Stop = Callable[[bool], None]

# Carries out one effect and calls back with its answer: now, later, or never (the connection ended).
Execute = Callable[[Any, Done], Stop | None]


class Flows:
    """The flows of one connection."""

    __slots__ = ("_execute", "_waiting")

    def __init__(self, execute: Execute) -> None:
        self._execute = execute
        self._waiting: dict[str, list[Done]] = {}

    def start(self, flow: Flow, execute: Execute, done: Done) -> Run:
        """Run a flow; `execute` may answer effects of its own (Pass), the rest go to the connection's."""
        run = Run(self, flow, execute, done)
        run.begin()
        return run

    def end(self, error: ProtocolError) -> None:
        """The connection is over: whoever waits is told so."""
        waiting = [done for queue in self._waiting.values() for done in queue]
        self._waiting.clear()
        for done in waiting:
            done(None, error)

    def carry_out(self, effect: Any, execute: Execute, answer: Done) -> Stop | None:
        """One effect: those between flows here, the others by the connection."""
        if isinstance(effect, Wait):
            self._waiting.setdefault(effect.key, []).append(answer)
            return lambda _: self._leave(effect.key, answer)
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
            self.start(effect.flow, self._execute, _ignore)
            answer(None, None)
        else:
            return execute(effect, answer)
        return None

    def _leave(self, key: str, answer: Done) -> None:
        """A flow that is called off waits no more, and is not woken in another's place."""
        waiting = self._waiting.get(key, [])
        if answer in waiting:
            waiting.remove(answer)
        if not waiting:
            self._waiting.pop(key, None)
        answer(None, called_off())


class Run:
    """One flow under way. `_now` catches answers that arrive while their effect is still being carried out."""

    __slots__ = ("_done", "_effect", "_execute", "_flow", "_flows", "_now", "_stepping", "_stop", "is_over")

    def __init__(self, flows: Flows, flow: Flow, execute: Execute, done: Done) -> None:
        self._flows = flows
        self._flow = flow
        self._execute = execute
        self._done = done
        self._effect = 0  # which one the flow waits for: the answer to another comes too late
        self._stop: Stop | None = None
        self._stepping = False
        self._now: tuple[Any, ProtocolError | None] | None = None
        self.is_over = False

    def begin(self) -> None:
        """Take the flow to the first effect that is not answered at once."""
        self._step(None, None)

    def call_off(self, wait: bool) -> None:
        """Its answer is not wanted any more; told to wait, what it asked for is still let end by itself."""
        stop, effect = self._stop, self._effect
        if stop is not None:
            stop(wait)
        if stop is None or not wait:
            self._answer(effect, None, called_off())

    def _answer(self, effect: int, value: Any, error: ProtocolError | None) -> None:
        if effect != self._effect or self.is_over:
            return
        if self._stepping:
            self._now = (value, error)
        else:
            self._step(value, error)

    def _step(self, value: Any, error: ProtocolError | None) -> None:
        self._stepping = True
        try:
            while True:
                self._effect += 1
                self._stop = self._now = None
                try:
                    effect = self._flow.send(value) if error is None else self._flow.throw(error)
                except StopIteration as stop:
                    self._end(stop.value, None)
                    return
                except Exception as fault:  # a fault in a ledger must not end the connection
                    self._end(None, as_error(fault))
                    return
                answer = partial(self._answer, self._effect)
                try:
                    self._stop = self._flows.carry_out(effect, self._execute, answer)
                except Exception as fault:  # what cannot be carried out is an answer too
                    self._now = (None, as_error(fault))
                if self._now is None:
                    return
                value, error = self._now
        finally:
            self._stepping = False

    def _end(self, value: Any, error: ProtocolError | None) -> None:
        self.is_over = True
        self._done(value, error)


def _ignore(_: Any, __: ProtocolError | None) -> None:
    return None
