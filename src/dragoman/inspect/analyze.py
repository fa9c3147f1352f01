"""Analyze a recording line by line: each becomes an event with its request, its turn and its faults.

Keeps only open requests, turns and tool calls, so it can follow a live recording or a file of a million lines.
"""

from __future__ import annotations

from collections import Counter
from typing import Any

import msgspec
from msgspec import UNSET, Raw

from dragoman.errors import ProtocolError
from dragoman.inspect.decode import RecordingDecoder
from dragoman.inspect.event import RecordedEvent, RecordedToolCall, RecordedTurn
from dragoman.inspect.one_line import error_line, message_line, stop_reason_of, trace_context_of
from dragoman.schema.lenient import Fault
from dragoman.schema.methods import methods_that
from dragoman.schema.side import Side
from dragoman.transport.recording.format import DECODE_ERRORS, OPPOSITE, STDERR, TO_AGENT, RecordedLine
from dragoman.wire.envelope import Malformed, parse_envelope, read_error

_OPEN_METHODS = methods_that("opens", "forks", "reopens")
_TOOL_METHOD_PREFIXES = ("fs/", "terminal/")

# The errors with the id null that answer a line which could not be read (docs/protocol/json-rpc.md#robust-reading).
_UNREADABLE = (-32700, -32600)

# Answered requests to remember, to tell a second answer from one without a request.
_MAX_ANSWERED = 10_000


class _RawMessage(msgspec.Struct):
    jsonrpc: Any = UNSET
    id: Any = UNSET
    method: Any = UNSET
    params: Raw = Raw(b"")
    result: Raw = Raw(b"")
    error: Raw = Raw(b"")


_decode = msgspec.json.Decoder(_RawMessage).decode


class Analyzer:
    """Analyzes one recording."""

    def __init__(self, dialect: str = "auto") -> None:
        self._dialect = dialect
        self._part = 0
        self._earlier_unanswered: list[RecordedEvent] = []  # from earlier recordings in the same file
        self.decoder = RecordingDecoder(dialect)
        self.line_count = 0
        self.turns: list[RecordedTurn] = []
        self.pending: dict[tuple[str, str], RecordedEvent] = {}  # requests without an answer, by direction and id
        self._answered: dict[tuple[str, str], int] = {}
        self._unreadable: Counter[str] = Counter()  # lines that may be answered with the id null, by direction
        self._running_turns: dict[str, RecordedTurn] = {}
        self._calls_outside_turns: dict[str, dict[str, RecordedToolCall]] = {}  # by session
        self._latest_session = ""  # assumed for calls without a session id

    def analyze_line(self, recorded: RecordedLine) -> RecordedEvent:
        """Return the event of the next line."""
        self.line_count += 1
        if recorded.part != self._part:
            self._start_part(recorded.part)
        if recorded.direction == STDERR:
            return RecordedEvent(recorded, "stderr", text=recorded.data.decode("utf-8", "replace"))
        if not recorded.data.strip():
            return RecordedEvent(recorded, "blank")
        if recorded.cut:
            self._unreadable[recorded.direction] += 1
            fault = Fault("", f"{recorded.cut} bytes: too large; only the beginning was recorded")
            return RecordedEvent(recorded, "noise", text=recorded.data[:200].decode("utf-8", "replace"), faults=[fault])
        faults: list[Fault] = []
        try:
            wire = self._parse_message(recorded.data, recorded.direction, faults)
        except ProtocolError as error:
            text = recorded.data.decode("utf-8", "replace")
            self._unreadable[recorded.direction] += 1
            return RecordedEvent(recorded, "noise", text=text, faults=[Fault("", f"not a message: {error.message}")])
        if wire.jsonrpc != "2.0":
            problem = "is missing" if wire.jsonrpc is UNSET else "is not the string 2.0"
            faults.append(Fault("jsonrpc", problem, False))
        analyze = self._analyze_call if isinstance(wire.method, str) else self._analyze_answer
        event = analyze(recorded, wire)
        event.faults = faults + event.faults
        return event

    @property
    def unanswered(self) -> list[RecordedEvent]:
        """All requests without an answer."""
        return [*self._earlier_unanswered, *self.pending.values()]

    def _start_part(self, part: int) -> None:
        """Start another recording of the same file, with no state from the one before."""
        self._part = part
        self._earlier_unanswered = self.unanswered
        self.decoder = RecordingDecoder(self._dialect)
        self._latest_session = ""
        for known in (self.pending, self._answered, self._unreadable, self._running_turns, self._calls_outside_turns):
            known.clear()

    def _parse_message(self, data: bytes, direction: str, faults: list[Fault]) -> _RawMessage:
        try:
            wire = _decode(data)
            data.decode("utf-8")
        except DECODE_ERRORS:
            envelope = parse_envelope(data)  # raises Malformed, which is a ProtocolError
            wire = _RawMessage("2.0" if b'"2.0"' in data else UNSET, envelope.id, envelope.method)
            for name in ("params", "result", "error"):
                part = getattr(envelope, name)
                setattr(wire, name, Raw(b"") if part is UNSET else part)
            faults.append(Fault("", "not valid JSON in UTF-8; parsed leniently", False))
            self._unreadable[direction] += 1
        if not isinstance(wire.method, str) and not wire.result and not wire.error:
            raise Malformed("invalid_request", "no method, result or error")
        return wire

    # --- calls ----------------------------------------------------------------------------------------------

    def _analyze_call(self, recorded: RecordedLine, message: _RawMessage) -> RecordedEvent:
        to = Side.AGENT if recorded.direction == TO_AGENT else Side.CLIENT
        is_request = message.id is not UNSET
        name, params, faults = self.decoder.decode_call(to, message.method, message.params, is_request)
        event = RecordedEvent(
            recorded,
            "request" if is_request else "notification",
            id=_render_id(message.id),
            method=name,
            wire_method=message.method,
            text=message_line(name, params),
            faults=faults,
        )
        event.traceparent, event.tracestate = trace_context_of(params)
        event.session = _session_id(params, self._latest_session)
        if is_request:
            self._add_pending(event, message.id)
        self._assign_turn(event, params)
        return event

    def _add_pending(self, event: RecordedEvent, id: Any) -> None:
        key = (event.direction, event.id)
        if id is None or isinstance(id, bool | dict | list):
            event.faults.append(Fault("id", "must be a number or a string"))
        if key in self.pending:
            event.faults.append(Fault("id", f"{event.id} is still in use by line {self.pending[key].line}"))
        self.pending[key] = event
        self._answered.pop(key, None)

    def _assign_turn(self, event: RecordedEvent, params: Any) -> None:
        """Set the turn and the tool call that a message belongs to."""
        if event.method == "session/prompt" and event.direction == TO_AGENT:
            started = RecordedTurn(len(self.turns) + 1, event.session, event.text, event.line, event.line, event.t)
            self.turns.append(started)
            self._running_turns[event.session] = started
        event.turn = turn = self._running_turns.get(event.session) if event.method not in _OPEN_METHODS else None
        calls = turn.tool_calls if turn is not None else self._calls_outside_turns.setdefault(event.session, {})
        if event.method == "session/update":
            update = params.get("update") if isinstance(params, dict) else None
            update = update if isinstance(update, dict) else {}
            event.update = str(update.get("sessionUpdate", ""))
            if event.update in ("tool_call", "tool_call_update"):
                event.tool_call = _update_tool_call(calls, update, event)
        elif event.method == "session/request_permission" and isinstance(params, dict):
            patch = params.get("toolCall")
            event.tool_call = _update_tool_call(calls, patch, event) if isinstance(patch, dict) else None
        elif event.direction != TO_AGENT and event.method.startswith(_TOOL_METHOD_PREFIXES):
            running = [call for call in calls.values() if not call.is_finished]
            event.tool_call = running[-1] if len(running) == 1 else None
        if turn is not None:
            turn.last_line = event.line
            if event.update:
                turn.updates[event.update] += 1
            elif event.kind == "request" and event.direction != TO_AGENT:
                turn.client_requests[event.method] += 1

    # --- answers --------------------------------------------------------------------------------------------

    def _analyze_answer(self, recorded: RecordedLine, message: _RawMessage) -> RecordedEvent:
        event = RecordedEvent(recorded, "failure" if message.error else "answer", id=_render_id(message.id))
        if message.error and message.result and bytes(message.result) != b"null":
            event.faults.append(Fault("", "has a result and an error"))
        back = OPPOSITE[recorded.direction]
        asked = self.pending.pop((back, event.id), None)
        if asked is None and event.id == "null" and message.error and self._unreadable[back]:
            error = read_error(message.error)
            if error.code in _UNREADABLE:
                self._unreadable[back] -= 1
                event.text = event.outcome = error_line(error)
                return event
        if asked is None:
            event.text = bytes(message.error or message.result)[:200].decode("utf-8", "replace")
            event.faults.append(self._stray_answer_fault(back, event.id))
            return event
        self._answered[back, event.id] = recorded.line
        if len(self._answered) > _MAX_ANSWERED:
            del self._answered[next(iter(self._answered))]
        event.request, event.method, event.wire_method = asked.recorded, asked.method, asked.wire_method
        event.session, event.turn, event.tool_call = asked.session, asked.turn, asked.tool_call
        event.traceparent, event.tracestate = asked.traceparent, asked.tracestate
        if recorded.t is not None and asked.t is not None:
            event.latency = recorded.t - asked.t
        if message.error:
            event.text = event.outcome = error_line(read_error(message.error))
        else:
            by = Side.CLIENT if recorded.direction == TO_AGENT else Side.AGENT
            result, event.faults = self.decoder.decode_result(by, asked.method, message.result)
            event.text = message_line(asked.method, result, is_result=True)
            event.outcome = stop_reason_of(asked.method, result)
            if asked.method in _OPEN_METHODS:
                event.session = self._latest_session = _session_id(result, asked.session)
        if asked.method == "session/prompt":
            self._end_turn(event)
        return event

    def _stray_answer_fault(self, request_direction: str, id: str) -> Fault:
        if not id:
            return Fault("id", "is missing: the answer belongs to no request", False)
        before = self._answered.get((request_direction, id))
        return Fault("id", f"{id} was answered before, in line {before}" if before else f"{id} is the id of no request")

    def _end_turn(self, event: RecordedEvent) -> None:
        turn = event.turn
        if turn is None:
            return
        turn.end, turn.last_line = event.t, event.line
        turn.stop_reason = f"error: {event.outcome}" if event.kind == "failure" else event.outcome
        if self._running_turns.get(turn.session) is turn:
            del self._running_turns[turn.session]


def _update_tool_call(
    calls: dict[str, RecordedToolCall], patch: dict[str, Any], event: RecordedEvent
) -> RecordedToolCall | None:
    """Apply an update to its tool call and return that; a finished call that starts again is a new one."""
    id = patch.get("toolCallId")
    if not isinstance(id, str):
        return None
    call = calls.get(id)
    if call is None or (event.update == "tool_call" and call.is_finished):
        call = calls[id] = RecordedToolCall(id, first_line=event.line, start=event.t)
    for name in ("title", "kind", "status"):
        if isinstance(patch.get(name), str):
            setattr(call, name, patch[name])
    call.last_line = event.line
    if call.is_finished:
        call.end = event.t
    return call


def _render_id(id: Any) -> str:
    return "" if id is UNSET else msgspec.json.encode(id).decode()


def _session_id(value: Any, default: str) -> str:
    id = value.get("sessionId") if isinstance(value, dict) else None
    return id if isinstance(id, str) and id else default
