"""An emulator without a connection: the peer's messages go in, in its dialect, and every effect is recorded.

There is no event loop: the flows run on engine.emulation, and the test plays both the peer and our own side.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from dragoman.dialect.dialects import load_dialect
from dragoman.dialect.emulator import (
    AllowReply,
    Deliver,
    EmulatorSettings,
    Flow,
    FlowMaker,
    NotifyUser,
    Pass,
    Reply,
    SendNotification,
    SendRequest,
    SessionIds,
    Sleep,
)
from dragoman.dialect.narrow.emulator import NarrowingEmulator
from dragoman.engine.codec import decode_as, json_values
from dragoman.engine.emulation import FlowRun, Flows
from dragoman.errors import ProtocolError
from dragoman.schema.methods import METHODS
from dragoman.schema.side import Side

Answer = Callable[[Any, ProtocolError | None], None]


class EmulatedCall:
    """One call and its answer; `is_open` until it is answered."""

    def __init__(self, spell: Callable[[Any], Any] = json_values) -> None:
        self.is_open = True
        self._spell = spell
        self._result: Any = None
        self._error: ProtocolError | None = None

    def done(self, result: Any, error: ProtocolError | None) -> None:
        assert self.is_open, "answered twice"
        self.is_open, self._result, self._error = False, result, error

    @property
    def result(self) -> Any:
        assert not self.is_open, "not answered yet"
        assert self._error is None, self._error
        return self._spell(self._result)

    @property
    def error(self) -> ProtocolError:
        assert self._error is not None
        return self._error


class EmulatorHarness:
    """One end of a connection whose other end is `peer` and uses the dialect `name`.

    With `narrows`, our end sends what only v2 has.
    """

    def __init__(
        self,
        name: str,
        peer: Side,
        *,
        permission: str = "ask",
        cwd: str = "/work",
        session_ids: SessionIds | None = None,
        narrows: bool = False,
    ) -> None:
        numbers = iter(range(1, 1_000_000))
        self.spelling = load_dialect(name)
        settings = EmulatorSettings(
            cwd=cwd,
            permission=permission,
            now=lambda: "2025-01-01T00:00:00Z",
            new_id=lambda: f"id-{next(numbers)}",
            session_ids=session_ids,
        )
        self.settings, self.peer, self.we = settings, peer, peer.other
        self.emulator = self.spelling.open_emulator(peer, settings)
        if narrows:
            self.emulator = NarrowingEmulator(peer, settings, self.emulator)
        assert self.emulator is not None
        self.wire: list[tuple[str, Any]] = []  # what the peer gets, as it spells it
        self.ours: list[tuple[str, Any]] = []  # what our side gets, in the vocabulary
        self.reports: list[str] = []
        self.runs: list[FlowRun] = []  # of the peer's calls
        self._flows = Flows(self._execute)
        self._theirs_open: list[tuple[str, Answer]] = []
        self._ours_open: list[tuple[str, Answer]] = []
        self._asleep: list[Answer] = []
        self._replies: dict[str, EmulatedCall] = {}

    # --- what the test does -------------------------------------------------------------------------------------

    def receive_call(self, method: str, params: Any) -> EmulatedCall:
        """The peer calls; the result is as the peer would read it."""
        assert self.emulator is not None
        name, lifted = self.spelling.lift_call(self.we, method, params)
        row = METHODS[self.we, name]
        asked = EmulatedCall(
            lambda result: self.spelling.lower_result(self.we, name, json_values({} if result is None else result))
        )
        struct = decode_as(row.params, lifted)
        if name == "initialize":
            self.emulator.note_initialize(struct)
        make: FlowMaker = self.emulator.incoming.get(name, _pass)
        execute = self._passing(name, row.request, self._deliver)

        def execute_or_allow(effect: Any, answer: Answer) -> Any:
            if not isinstance(effect, AllowReply):
                return execute(effect, answer)
            self._replies[effect.key] = asked
            answer(None, None)
            return None

        def done(result: Any, error: ProtocolError | None) -> None:
            if asked.is_open:
                asked.done(result, error)

        self.runs.append(self._flows.start(make(self.emulator, struct), execute_or_allow, done))
        return asked

    def send_call(self, method: str, params: Any) -> EmulatedCall:
        """Our side calls the peer; the result is in the vocabulary."""
        assert self.emulator is not None
        row, asked = METHODS[self.peer, method], EmulatedCall()
        make: FlowMaker = self.emulator.outgoing.get(method, _pass)
        flow = make(self.emulator, decode_as(row.params, params))
        self._flows.start(flow, self._passing(method, row.request, self._send), asked.done)
        return asked

    def answer(self, result: Any, which: int = 0) -> None:
        """Our side answers the oldest request it has, or this one of them, in the vocabulary."""
        self._ours_open.pop(which)[1](*_either(result))

    def wake_all(self) -> None:
        """End the sleep of every flow that sleeps."""
        asleep, self._asleep = self._asleep, []
        for wake in asleep:
            wake(None, None)

    def reply(self, result: Any) -> None:
        """The peer answers the oldest request it has, as it spells the answer."""
        method, answer = self._theirs_open.pop(0)
        if isinstance(result, ProtocolError):
            answer(None, result)
            return
        row = METHODS.get((self.peer, method))
        lifted = decode_as(row.result if row else None, self.spelling.lift_result(self.peer, method, result))
        assert self.emulator is not None
        if method == "initialize":
            self.emulator.note_initialize_result(lifted)
        if method in self.emulator.result_observers:
            self.emulator.result_observers[method](self.emulator, lifted)
        answer(lifted, None)

    # --- effects ------------------------------------------------------------------------------------------------

    def _passing(self, method: str, request: bool, on: Callable[[str, Any, bool, Answer], None]) -> Any:
        def execute(effect: Any, answer: Answer) -> None:
            if isinstance(effect, Pass):
                on(method, effect.params, request, answer)
            else:
                self._execute(effect, answer)

        return execute

    def _execute(self, effect: Any, answer: Answer) -> None:
        if isinstance(effect, SendNotification):
            self._send(effect.method, effect.params, False, answer)
        elif isinstance(effect, SendRequest):
            self._send(effect.method, effect.params, True, answer)
        elif isinstance(effect, Deliver):
            self._deliver(effect.method, effect.params, effect.request, answer)
        elif isinstance(effect, Sleep):
            self._asleep.append(answer)
        elif isinstance(effect, Reply):
            asked = self._replies.pop(effect.key, None)
            if asked is not None:
                asked.done(effect.result, effect.error)
                self.wire.append(("answer", asked.result if effect.error is None else effect.error.kind))
            answer(None, None)
        else:
            assert isinstance(effect, NotifyUser), effect
            self.reports.append(effect.text)
            answer(None, None)

    def _send(self, method: str, params: Any, request: bool, answer: Answer) -> None:
        self.wire.append(self.spelling.lower_call(self.peer, method, json_values(params)))
        if request:
            self._theirs_open.append((method, answer))
        else:
            answer(None, None)

    def _deliver(self, method: str, params: Any, request: bool, answer: Answer) -> None:
        self.ours.append((method, json_values(params)))
        if request:
            self._ours_open.append((method, answer))
        else:
            answer(None, None)


def _either(result: Any) -> tuple[Any, ProtocolError | None]:
    return (None, result) if isinstance(result, ProtocolError) else (result, None)


def _pass(_: Any, params: Any) -> Flow:
    return (yield Pass(params))
