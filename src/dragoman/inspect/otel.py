"""OpenTelemetry spans for the traffic: one for each request; that of a prompt is the turn.

`Spans` is a listener for a Tap. A request with W3C trace context in `_meta` becomes a child of that trace; a request of
the agent during a turn becomes a child of the turn. Needs the optional `opentelemetry-api`.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

from dragoman.errors import DragomanError
from dragoman.inspect.analyze import Analyzer
from dragoman.inspect.event import RecordedEvent
from dragoman.transport.recording.format import TO_AGENT, RecordedLine

if TYPE_CHECKING:
    from opentelemetry.trace import Span, TracerProvider

TRACER_NAME = "dragoman"


class TelemetryUnavailable(DragomanError):
    """opentelemetry is not installed."""


class Spans:
    """Creates the spans of one conversation."""

    def __init__(self, provider: TracerProvider | None = None, dialect: str = "auto") -> None:
        try:
            from opentelemetry import trace
        except ImportError:
            raise TelemetryUnavailable(
                "spans need opentelemetry; install it with: pip install 'dragoman[otel]'"
            ) from None
        self._tracer = trace.get_tracer(TRACER_NAME, tracer_provider=provider)
        self._analyzer = Analyzer(dialect)
        self._line_count = 0
        self._open_spans: dict[int, Span] = {}  # by the line of the request
        self._turn_spans: dict[int, Span] = {}  # by the number of the turn

    def __call__(self, direction: str, frame: bytes) -> None:
        """Process one frame."""
        self._line_count += 1
        now = time.time_ns()
        event = self._analyzer.analyze_line(RecordedLine(self._line_count, now // 1000, direction, frame))
        if event.kind == "request":
            self._start_span(event, now)
        elif event.request is not None:
            self._end_span(event, now)

    def close(self) -> None:
        """End the spans of unanswered requests, as errors."""
        for span in self._open_spans.values():
            self._set_error(span, "never answered")
            span.end()
        self._open_spans.clear()
        self._turn_spans.clear()

    def _start_span(self, event: RecordedEvent, now: int) -> None:
        from opentelemetry.trace import SpanKind

        is_turn = event.method == "session/prompt" and event.direction == TO_AGENT
        attributes = {
            "rpc.system": "jsonrpc",
            "rpc.method": event.wire_method,
            "rpc.jsonrpc.version": "2.0",
            "rpc.jsonrpc.request_id": event.id,
            "acp.method": event.method,
            "acp.to": "agent" if event.direction == TO_AGENT else "client",
            **({"acp.session.id": event.session} if event.session else {}),
            **({"acp.tool_call.id": event.tool_call.id} if event.tool_call is not None else {}),
        }
        span = self._tracer.start_span(
            "acp turn" if is_turn else event.method,
            context=self._parent_context(event, is_turn),
            kind=SpanKind.CLIENT if event.direction == TO_AGENT else SpanKind.SERVER,
            attributes=attributes,
            start_time=now,
        )
        self._open_spans[event.line] = span
        if is_turn and event.turn is not None:
            self._turn_spans[event.turn.number] = span

    def _parent_context(self, event: RecordedEvent, is_turn: bool) -> Any:
        from opentelemetry import trace
        from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

        if event.traceparent:
            carrier = {
                "traceparent": event.traceparent,
                **({"tracestate": event.tracestate} if event.tracestate else {}),
            }
            return TraceContextTextMapPropagator().extract(carrier)
        turn = self._turn_spans.get(event.turn.number) if event.turn is not None and not is_turn else None
        return trace.set_span_in_context(turn) if turn is not None else None

    def _end_span(self, event: RecordedEvent, now: int) -> None:
        assert event.request is not None
        span = self._open_spans.pop(event.request.line, None)
        if span is None:
            return
        if event.kind == "failure":
            self._set_error(span, event.outcome)
        elif event.outcome:
            span.set_attribute("acp.stop_reason", event.outcome)
        if event.method == "session/prompt" and event.turn is not None:
            self._turn_spans.pop(event.turn.number, None)
            span.set_attribute("acp.turn.tool_calls", len(event.turn.tool_calls))
        span.end(end_time=now)

    @staticmethod
    def _set_error(span: Span, text: str) -> None:
        from opentelemetry.trace import Status, StatusCode

        span.set_status(Status(StatusCode.ERROR, text))
