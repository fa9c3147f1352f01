"""The fold over a recording: each line becomes an Event, with its partner, its turn and its flaws.

Takes Recorded lines in order, gives Events, and keeps only what is open: requests without an answer, turns, tool calls.
So it follows a live recording as well as a file of a million lines. Above are the views; below is hearing. Pure.
"""

from __future__ import annotations

from typing import Any

import msgspec
from msgspec import UNSET, Raw

from dragoman.errors import ProtocolError
from dragoman.inspect.decode import Hearing
from dragoman.inspect.event import Event, Flaw, ToolCall, Turn
from dragoman.inspect.format import STDERR, TO_AGENT, Recorded
from dragoman.inspect.one_line import gist, gist_of_error, stop_of, trace_of
from dragoman.schema.side import Side
from dragoman.wire.envelope import Malformed, parse, read_error

_OPENS = frozenset({"session/new", "session/load", "session/resume", "session/fork"})
_OF_A_CALL = ("fs/", "terminal/")

# Of so many answered requests the line is remembered, to tell a second answer from one to nobody.
_REMEMBERED = 10_000


class _Wire(msgspec.Struct):
    jsonrpc: Any = UNSET
    id: Any = UNSET
    method: Any = UNSET
    params: Raw = Raw(b"")
    result: Raw = Raw(b"")
    error: Raw = Raw(b"")


_decode = msgspec.json.Decoder(_Wire).decode


class Observer:
    """Follows one recording."""

    def __init__(self, dialect: str = "auto") -> None:
        self._dialect = dialect
        self._part = 0
        self._left: list[Event] = []  # what nobody answered in recordings before this one, in the same file
        self.hearing = Hearing(dialect)
        self.lines = 0
        self.turns: list[Turn] = []
        self.open: dict[tuple[str, str], Event] = {}  # requests without an answer, by way and id
        self._answered: dict[tuple[str, str], int] = {}
        self._running: dict[str, Turn] = {}
        self._between: dict[str, dict[str, ToolCall]] = {}  # tool calls outside of turns
        self._latest = ""  # the session that calls without one belong to

    def observe(self, recorded: Recorded) -> Event:
        """One more line."""
        self.lines += 1
        if recorded.part != self._part:
            self._begin(recorded.part)
        if recorded.way == STDERR:
            return Event(recorded, "stderr", text=recorded.data.decode("utf-8", "replace"))
        if not recorded.data.strip():
            return Event(recorded, "blank")
        if recorded.cut:
            flaw = Flaw("", f"{recorded.cut} bytes: too large to be recorded whole")
            return Event(recorded, "noise", text=recorded.data[:200].decode("utf-8", "replace"), flaws=[flaw])
        flaws: list[Flaw] = []
        try:
            wire = self._wire(recorded.data, flaws)
        except ProtocolError as error:
            text = recorded.data.decode("utf-8", "replace")
            return Event(recorded, "noise", text=text, flaws=[Flaw("", f"no message: {error.message}")])
        if wire.jsonrpc != "2.0":
            said = "is missing" if wire.jsonrpc is UNSET else "is not the string 2.0"
            flaws.append(Flaw("jsonrpc", said, False))
        event = self._call(recorded, wire) if isinstance(wire.method, str) else self._answer(recorded, wire)
        event.flaws = flaws + event.flaws
        return event

    @property
    def unanswered(self) -> list[Event]:
        """All requests without an answer."""
        return [*self._left, *self.open.values()]

    def _begin(self, part: int) -> None:
        """Another recording: nobody in it knows of the one before."""
        self._part = part
        self._left = self.unanswered
        self.hearing = Hearing(self._dialect)
        self._latest = ""
        for known in (self.open, self._answered, self._running, self._between):
            known.clear()

    def _wire(self, data: bytes, flaws: list[Flaw]) -> _Wire:
        try:
            wire = _decode(data)
            data.decode("utf-8")
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
            envelope = parse(data)  # raises Malformed, which is a ProtocolError
            wire = _Wire("2.0" if b'"2.0"' in data else UNSET, envelope.id, envelope.method)
            for name in ("params", "result", "error"):
                part = getattr(envelope, name)
                setattr(wire, name, Raw(b"") if part is UNSET else part)
            flaws.append(Flaw("", "not strictly JSON in UTF-8; read leniently", False))
        if not isinstance(wire.method, str) and not wire.result and not wire.error:
            raise Malformed("invalid_request", "neither a method, a result nor an error is in it")
        return wire

    # --- calls ----------------------------------------------------------------------------------------------

    def _call(self, recorded: Recorded, wire: _Wire) -> Event:
        to = Side.AGENT if recorded.way == TO_AGENT else Side.CLIENT
        is_request = wire.id is not UNSET
        name, params, flaws = self.hearing.call(to, wire.method, wire.params, is_request)
        event = Event(
            recorded,
            "request" if is_request else "notification",
            id=_id(wire.id),
            method=name,
            spelled=wire.method,
            text=gist(name, params),
            flaws=flaws,
        )
        event.trace, event.state = trace_of(params)
        event.session = self._session(params)
        if is_request:
            self._ask(event, wire.id)
        self._place(event, params)
        return event

    def _ask(self, event: Event, id: Any) -> None:
        key = (event.way, event.id)
        if id is None or isinstance(id, bool | dict | list):
            event.flaws.append(Flaw("id", "is a number or a string"))
        if key in self.open:
            event.flaws.append(Flaw("id", f"{event.id} is still in use by line {self.open[key].line}"))
        self.open[key] = event
        self._answered.pop(key, None)

    def _session(self, params: Any) -> str:
        said = params.get("sessionId") if isinstance(params, dict) else None
        return said if isinstance(said, str) and said else self._latest

    def _place(self, event: Event, params: Any) -> None:
        """Find the turn and the tool call that a call belongs to."""
        if event.method == "session/prompt" and event.way == TO_AGENT:
            begun = Turn(len(self.turns) + 1, event.session, event.text, event.line, event.line, event.t)
            self.turns.append(begun)
            self._running[event.session] = begun
        event.turn = turn = self._running.get(event.session) if event.method not in _OPENS else None
        calls = turn.calls if turn is not None else self._between.setdefault(event.session, {})
        if event.method == "session/update":
            update = params.get("update") if isinstance(params, dict) else None
            update = update if isinstance(update, dict) else {}
            event.update = str(update.get("sessionUpdate", ""))
            if event.update in ("tool_call", "tool_call_update"):
                event.call = _patched(calls, update, event)
        elif event.method == "session/request_permission" and isinstance(params, dict):
            patch = params.get("toolCall")
            event.call = _patched(calls, patch, event) if isinstance(patch, dict) else None
        elif event.way != TO_AGENT and event.method.startswith(_OF_A_CALL):
            running = [call for call in calls.values() if not call.is_over]
            event.call = running[-1] if len(running) == 1 else None
        if turn is not None:
            turn.last = event.line
            if event.update:
                turn.updates[event.update] += 1
            elif event.kind == "request" and event.way != TO_AGENT:
                turn.asked[event.method] += 1

    # --- answers --------------------------------------------------------------------------------------------

    def _answer(self, recorded: Recorded, wire: _Wire) -> Event:
        event = Event(recorded, "failure" if wire.error else "answer", id=_id(wire.id))
        if wire.error and wire.result and bytes(wire.result) != b"null":
            event.flaws.append(Flaw("", "has a result and an error"))
        back = "a2c" if recorded.way == TO_AGENT else TO_AGENT
        asked = self.open.pop((back, event.id), None)
        if asked is None:
            event.text = _short(wire.error or wire.result)
            event.flaws.append(self._stray(back, event.id))
            return event
        self._answered[back, event.id] = recorded.line
        if len(self._answered) > _REMEMBERED:
            del self._answered[next(iter(self._answered))]
        event.asked, event.method, event.spelled = asked.recorded, asked.method, asked.spelled
        event.session, event.turn, event.call = asked.session, asked.turn, asked.call
        event.trace, event.state = asked.trace, asked.state
        if recorded.t is not None and asked.t is not None:
            event.latency = recorded.t - asked.t
        if wire.error:
            event.text = event.outcome = gist_of_error(read_error(wire.error))
        else:
            by = Side.CLIENT if recorded.way == TO_AGENT else Side.AGENT
            result, event.flaws = self.hearing.result(by, asked.method, wire.result)
            event.text, event.outcome = gist(asked.method, result, is_result=True), stop_of(asked.method, result)
            if asked.method in _OPENS:
                event.session = self._session(result) if _has_session(result) else asked.session
                self._latest = event.session
        if asked.method == "session/prompt":
            self._end(event)
        return event

    def _stray(self, back: str, id: str) -> Flaw:
        if not id:
            return Flaw("id", "is missing: nobody can tell what this answers", False)
        before = self._answered.get((back, id))
        return Flaw("id", f"{id} was answered before, in line {before}" if before else f"{id}: nobody asked under it")

    def _end(self, event: Event) -> None:
        turn = event.turn
        if turn is None:
            return
        turn.end, turn.last = event.t, event.line
        turn.stop = f"error: {event.outcome}" if event.kind == "failure" else event.outcome
        if self._running.get(turn.session) is turn:
            del self._running[turn.session]


def _patched(calls: dict[str, ToolCall], patch: dict[str, Any], event: Event) -> ToolCall | None:
    """The tool call with what an update says of it; one that begins again after its end is another one."""
    id = patch.get("toolCallId")
    if not isinstance(id, str):
        return None
    call = calls.get(id)
    if call is None or (event.update == "tool_call" and call.is_over):
        call = calls[id] = ToolCall(id, first=event.line, start=event.t)
    for name in ("title", "kind", "status"):
        if isinstance(patch.get(name), str):
            setattr(call, name, patch[name])
    call.last = event.line
    if call.is_over:
        call.end = event.t
    return call


def _id(id: Any) -> str:
    return "" if id is UNSET else msgspec.json.encode(id).decode()


def _has_session(result: Any) -> bool:
    return isinstance(result, dict) and bool(result.get("sessionId"))


def _short(raw: Raw) -> str:
    return bytes(raw)[:200].decode("utf-8", "replace")
