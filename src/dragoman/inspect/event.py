"""What one recorded line means: its kind, its partner, its place in a session, and what is wrong with it.

Plain values, made by `observer` and read by everything that shows, checks or compares. A Turn and a ToolCall are what
events are gathered under. Nothing here knows of JSON or files.
"""

from __future__ import annotations

from collections import Counter
from typing import Literal, NamedTuple

import msgspec

from dragoman.inspect.format import RecordedLine

Kind = Literal["request", "notification", "answer", "failure", "noise", "stderr", "blank"]


class Flaw(NamedTuple):
    """One thing that is wrong: where in the message, and what. A flaw that is not fatal costs only that part."""

    path: str
    message: str
    fatal: bool = True

    def __str__(self) -> str:
        return f"{self.path} {self.message}" if self.path else self.message


class RecordedToolCall(msgspec.Struct, eq=False):
    """One tool call as the recording tells it."""

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
        """Whether it will change no more."""
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
    stop_reason: str = ""  # the stop reason, "error: ..." or nothing while it runs
    tool_calls: dict[str, RecordedToolCall] = {}
    updates: Counter[str] = msgspec.field(default_factory=Counter)
    client_requests: Counter[str] = msgspec.field(default_factory=Counter)  # what the agent asked of the client

    @property
    def duration(self) -> int | None:
        """Microseconds from the prompt to its answer."""
        return None if self.start is None or self.end is None else self.end - self.start


class RecordedEvent(msgspec.Struct, eq=False):
    """One line of traffic, understood."""

    recorded: RecordedLine
    kind: Kind
    id: str = ""  # as JSON, so that 1 and "1" stay apart
    method: str = ""  # of the vocabulary; an answer has that of its request
    wire_method: str = ""  # the method as the peer spells it
    update: str = ""
    session: str = ""
    text: str = ""  # what it says, in a few words; text of peers
    request: RecordedLine | None = None  # of an answer: the request
    latency: int | None = None
    outcome: str = ""  # of an answer: its stop reason or error
    turn: RecordedTurn | None = None
    tool_call: RecordedToolCall | None = None
    traceparent: str = ""  # W3C traceparent
    tracestate: str = ""  # W3C tracestate
    flaws: list[Flaw] = []

    @property
    def line(self) -> int:
        """Where it stands in the recording."""
        return self.recorded.line

    @property
    def t(self) -> int | None:
        """When it passed: microseconds since the start."""
        return self.recorded.t

    @property
    def direction(self) -> str:
        """Who said it."""
        return self.recorded.direction

    @property
    def size(self) -> int:
        """Its bytes, without the line end."""
        return self.recorded.cut or len(self.recorded.data)

    @property
    def name(self) -> str:
        """How it is called in listings."""
        return f"{self.method} {self.update}" if self.update else self.method
