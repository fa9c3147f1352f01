"""Running a ledger's flows: steps a generator, carries out its effects, goes on when answers arrive.

No I/O and no tasks: an answer that comes at once is used at once, one that comes later resumes the flow from the
callback that brought it. So what a flow passes on keeps its place in the order of the wire.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from dragoman.dialect.ledger import Flow, Start, Wait, Wake
from dragoman.engine.fault import as_error
from dragoman.errors import ProtocolError

Done = Callable[[Any, ProtocolError | None], None]

# Carries out one effect and calls back with its answer: now, later, or never (the connection ended).
Execute = Callable[[Any, Done], None]


class Flows:
    """The flows of one connection."""

    __slots__ = ("_execute", "_waiting")

    def __init__(self, execute: Execute) -> None:
        self._execute = execute
        self._waiting: dict[str, list[Done]] = {}

    def start(self, flow: Flow, execute: Execute, done: Done) -> None:
        """Run a flow; `execute` may answer effects of its own (Pass), the rest go to the connection's."""
        _Run(self, flow, execute, done).step(None, None)

    def end(self, error: ProtocolError) -> None:
        """The connection is over: whoever waits is told so."""
        waiting = [done for queue in self._waiting.values() for done in queue]
        self._waiting.clear()
        for done in waiting:
            done(None, error)

    def carry_out(self, effect: Any, execute: Execute, answer: Done) -> None:
        """One effect: those between flows here, the others by the connection."""
        if isinstance(effect, Wait):
            self._waiting.setdefault(effect.key, []).append(answer)
        elif isinstance(effect, Wake):
            waiting = self._waiting.get(effect.key)
            if not waiting:
                answer(False, None)
                return
            first = waiting.pop(0)
            if not waiting:
                del self._waiting[effect.key]
            first(effect.value, None)
            answer(True, None)
        elif isinstance(effect, Start):
            self.start(effect.flow, self._execute, _ignore)
            answer(None, None)
        else:
            execute(effect, answer)


class _Run:
    """One flow under way. `_now` catches answers that arrive while their effect is still being carried out."""

    __slots__ = ("_done", "_execute", "_flow", "_flows", "_now", "_stepping")

    def __init__(self, flows: Flows, flow: Flow, execute: Execute, done: Done) -> None:
        self._flows = flows
        self._flow = flow
        self._execute = execute
        self._done = done
        self._stepping = False
        self._now: tuple[Any, ProtocolError | None] | None = None

    def step(self, value: Any, error: ProtocolError | None) -> None:
        if self._stepping:
            self._now = (value, error)
            return
        self._stepping = True
        try:
            while True:
                try:
                    effect = self._flow.send(value) if error is None else self._flow.throw(error)
                except StopIteration as stop:
                    self._done(stop.value, None)
                    return
                except Exception as fault:  # a fault in a ledger must not end the connection
                    self._done(None, as_error(fault))
                    return
                self._now = None
                try:
                    self._flows.carry_out(effect, self._execute, self.step)
                except Exception as fault:  # what cannot be carried out is an answer too
                    self._now = (None, as_error(fault))
                if self._now is None:
                    return
                value, error = self._now
        finally:
            self._stepping = False


def _ignore(_: Any, __: ProtocolError | None) -> None:
    return None
