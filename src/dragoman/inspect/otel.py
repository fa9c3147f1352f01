"""OpenTelemetry spans for what passes: one for each request, and the turn is that of its prompt.

A listener for a Tap (or for any source of frames in order). A request that carries W3C trace context in `_meta` becomes
a child of that trace; what an agent asks during a turn becomes a child of the turn. Needs `opentelemetry-api`, which is
imported here and nowhere else; without it, making Spans says what to install.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

from dragoman.errors import DragomanError
from dragoman.inspect.analyze import Observer
from dragoman.inspect.event import Event
from dragoman.inspect.format import TO_AGENT, Recorded

if TYPE_CHECKING:
    from opentelemetry.trace import Span, TracerProvider

NAME = "dragoman"


class NoTelemetry(DragomanError):
    """opentelemetry is not installed."""


class Spans:
    """Follows one conversation and makes its spans."""

    def __init__(self, provider: TracerProvider | None = None, dialect: str = "auto") -> None:
        try:
            from opentelemetry import trace
        except ImportError:
            raise NoTelemetry("spans need opentelemetry; install it with: pip install 'dragoman[otel]'") from None
        self._tracer = trace.get_tracer(NAME, tracer_provider=provider)
        self._observer = Observer(dialect)
        self._lines = 0
        self._open: dict[int, Span] = {}  # by the line of the request
        self._turns: dict[int, Span] = {}  # by the number of the turn

    def __call__(self, way: str, frame: bytes) -> None:
        """One frame passed."""
        self._lines += 1
        now = time.time_ns()
        event = self._observer.observe(Recorded(self._lines, now // 1000, way, frame))
        if event.kind == "request":
            self._begin(event, now)
        elif event.asked is not None:
            self._end(event, now)

    def close(self) -> None:
        """Nothing more will pass: what was never answered ends now, as an error."""
        for span in self._open.values():
            self._fail(span, "never answered")
            span.end()
        self._open.clear()
        self._turns.clear()

    def _begin(self, event: Event, now: int) -> None:
        from opentelemetry.trace import SpanKind

        is_turn = event.method == "session/prompt" and event.way == TO_AGENT
        attributes = {
            "rpc.system": "jsonrpc",
            "rpc.method": event.spelled,
            "rpc.jsonrpc.version": "2.0",
            "rpc.jsonrpc.request_id": event.id,
            "acp.method": event.method,
            "acp.to": "agent" if event.way == TO_AGENT else "client",
            **({"acp.session.id": event.session} if event.session else {}),
            **({"acp.tool_call.id": event.call.id} if event.call is not None else {}),
        }
        span = self._tracer.start_span(
            "acp turn" if is_turn else event.method,
            context=self._parent(event, is_turn),
            kind=SpanKind.CLIENT if event.way == TO_AGENT else SpanKind.SERVER,
            attributes=attributes,
            start_time=now,
        )
        self._open[event.line] = span
        if is_turn and event.turn is not None:
            self._turns[event.turn.number] = span

    def _parent(self, event: Event, is_turn: bool) -> Any:
        from opentelemetry import trace
        from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

        if event.trace:
            carrier = {"traceparent": event.trace, **({"tracestate": event.state} if event.state else {})}
            return TraceContextTextMapPropagator().extract(carrier)
        turn = self._turns.get(event.turn.number) if event.turn is not None and not is_turn else None
        return trace.set_span_in_context(turn) if turn is not None else None

    def _end(self, event: Event, now: int) -> None:
        assert event.asked is not None
        span = self._open.pop(event.asked.line, None)
        if span is None:
            return
        if event.kind == "failure":
            self._fail(span, event.outcome)
        elif event.outcome:
            span.set_attribute("acp.stop_reason", event.outcome)
        if event.method == "session/prompt" and event.turn is not None:
            self._turns.pop(event.turn.number, None)
            span.set_attribute("acp.turn.tool_calls", len(event.turn.calls))
        span.end(end_time=now)

    @staticmethod
    def _fail(span: Span, text: str) -> None:
        from opentelemetry.trace import Status, StatusCode

        span.set_status(Status(StatusCode.ERROR, text))
