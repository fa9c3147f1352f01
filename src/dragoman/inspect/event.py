"""The meaning of one recorded line: its kind, its request, its session and turn, and its faults.

`analyze` creates these values; the views, checks and comparisons read them.
"""

from __future__ import annotations

from collections import Counter
from typing import Literal

import msgspec

from dragoman.schema.lenient import Fault
from dragoman.transport.recording.format import RecordedLine

Kind = Literal["request", "notification", "answer", "failure", "noise", "stderr", "blank"]


class RecordedToolCall(msgspec.Struct, eq=False):
    """One tool call of a recording."""

    id: str
    title: str = ""
    kind: str = ""
    status: str = ""
    first_line: int = 0  # lines of the recording
    last_line: int = 0
    start: int | None = None
    end: int | None = None

    @property
    def is_finished(self) -> bool:
        """Whether the status is final."""
        return self.status in ("completed", "failed", "denied", "cancelled")


class RecordedTurn(msgspec.Struct, eq=False):
    """From a prompt to its stop reason."""

    number: int
    session: str
    prompt: str = ""
    first_line: int = 0
    last_line: int = 0
    start: int | None = None
    end: int | None = None
    stop_reason: str = ""  # the stop reason, "error: ..." or "" while it runs
    tool_calls: dict[str, RecordedToolCall] = {}
    updates: Counter[str] = msgspec.field(default_factory=Counter)
    client_requests: Counter[str] = msgspec.field(default_factory=Counter)  # requests of the agent to the client

    @property
    def duration(self) -> int | None:
        """Microseconds from the prompt to its answer."""
        return None if self.start is None or self.end is None else self.end - self.start


class RecordedEvent(msgspec.Struct, eq=False):
    """One analyzed line of traffic."""

    recorded: RecordedLine
    kind: Kind
    id: str = ""  # as JSON, so that 1 and "1" differ
    method: str = ""  # of the schema; an answer has that of its request
    wire_method: str = ""  # the method as sent
    update: str = ""
    session: str = ""
    text: str = ""  # one-line summary; untrusted text of a peer
    request: RecordedLine | None = None  # of an answer: the request
    latency: int | None = None
    outcome: str = ""  # of an answer: its stop reason or error
    turn: RecordedTurn | None = None
    tool_call: RecordedToolCall | None = None
    traceparent: str = ""  # W3C traceparent
    tracestate: str = ""  # W3C tracestate
    faults: list[Fault] = []

    @property
    def line(self) -> int:
        """The line number in the recording."""
        return self.recorded.line

    @property
    def t(self) -> int | None:
        """Microseconds since the start."""
        return self.recorded.t

    @property
    def direction(self) -> str:
        """The direction."""
        return self.recorded.direction

    @property
    def size(self) -> int:
        """The size in bytes, without the line end."""
        return self.recorded.cut or len(self.recorded.data)

    @property
    def name(self) -> str:
        """The name shown in listings."""
        return f"{self.method} {self.update}" if self.update else self.method
