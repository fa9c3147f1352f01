"""Server-sent events: encode numbered frames, many to a chunk, and parse a stream of events. Pure, no I/O.

An update from a session log has the log's number after its own in the id: `N.SEQ`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from dragoman.errors import Overloaded
from dragoman.transport.remote.headers import AFTER_FIELD
from dragoman.wire.frames import MAX_FRAME

# The most bytes of frames in one body chunk: about one write call.
CHUNK_SIZE = 256 * 1024

KEEPALIVE = b": keepalive\n\n"

_NO_AFTER: Mapping[int, bytes] = {}

# Where the host puts the log number of an update; peers cannot set it.
_SEQ_PREFIX = b'"dragoman":{"seq":'
_MAX_DIGITS = 20

# The size of an event besides its data: field names, an id, a session id.
_EVENT_OVERHEAD = 64 * 1024


def encode_events(frames: list[bytes], first: int, after: Mapping[int, bytes] = _NO_AFTER) -> bytes:
    """Encode frames as events, the first with this number; `after` holds the field for frames that must come after
    others.
    """
    joined = b"".join(frames)  # one check for all frames, since most chunks are plain
    if not after and all(joined.find(pattern) < 0 for pattern in (_SEQ_PREFIX, b"\n", b"\r")):
        return b"".join([b"id: %d\ndata: %b\n\n" % numbered for numbered in enumerate(frames, first)])
    parts = []
    for number, frame in enumerate(frames, first):
        if number in after:
            parts.append(b"%b: %b\n" % (AFTER_FIELD, after[number]))
        parts.append(_encode_event(frame, number, frame.find(_SEQ_PREFIX)))
    return b"".join(parts)


def _encode_event(frame: bytes, number: int, seq_at: int) -> bytes:
    name = b"%d" % number
    if seq_at >= 0:
        digits = frame[seq_at + len(_SEQ_PREFIX) : seq_at + len(_SEQ_PREFIX) + _MAX_DIGITS]
        seq = digits[: len(digits) - len(digits.lstrip(b"0123456789"))]
        if seq:
            name += b"." + seq
    if frame.find(b"\n") >= 0 or frame.find(b"\r") >= 0:  # JSON allows them between tokens
        frame = b"\ndata: ".join(frame.splitlines())
    return b"id: %b\ndata: %b\n\n" % (name, frame)


def parse_cursor(last_event_id: str) -> int | None:
    """Return the frame number in an event id; None for an id that is not ours."""
    number = last_event_id.strip().partition(".")[0]
    return int(number) if number.isascii() and number.isdigit() and len(number) < _MAX_DIGITS else None


class ServerSentEvent(NamedTuple):
    """One event: its data on one line, its id, and what it was written after."""

    data: bytes
    id: bytes = b""
    after: bytes = b""


class EventBatch(NamedTuple):
    """The events that some bytes completed: their data, the last id, and what some were written after."""

    frames: list[bytes]
    last_id: bytes = b""
    after: Mapping[int, bytes] = {}  # by index in `frames`


class EventParser:
    """Splits the bytes of a stream into events; holds at most one unfinished event."""

    __slots__ = ("_ends_with_cr", "_limit", "_parts", "_size", "comment_count")

    def __init__(self, limit: int = MAX_FRAME) -> None:
        self.comment_count = 0  # a server that sends comments keeps its streams alive
        self._limit = limit + _EVENT_OVERHEAD
        self._parts: list[bytes] = []
        self._size = 0
        self._ends_with_cr = False  # the last byte was a carriage return, which may be half of a line end

    def feed_batch(self, data: bytes) -> EventBatch:
        """Do the same as `feed`, for the data of many events at once."""
        text = self._complete_text(data)
        pieces = text.split(b"\n\nid: ")
        # All events are an id and one line of data, as ours are: one newline in the first, three for each that follows.
        if text.startswith(b"id: ") and text.count(b"\n") == 3 * len(pieces) - 2:
            frames = [piece.partition(b"\ndata: ")[2] for piece in pieces]
            if b"" not in frames:
                return EventBatch(frames, pieces[-1].partition(b"\n")[0].removeprefix(b"id: "))
        events = self._parse_events(text)
        last = next((event.id for event in reversed(events) if event.id), b"")
        after = {index: event.after for index, event in enumerate(events) if event.after}
        return EventBatch([event.data for event in events], last, after)

    def feed(self, data: bytes) -> list[ServerSentEvent]:
        """Add bytes and return the events they complete. Raise Overloaded for one above the limit."""
        return self._parse_events(self._complete_text(data))

    def _complete_text(self, data: bytes) -> bytes:
        """Return the text of the events that these bytes complete, without the blank line after the last one."""
        if self._ends_with_cr or b"\r" in data:
            data = self._normalize_line_ends(data)
        if b"\n\n" not in data and not (self._parts and self._parts[-1].endswith(b"\n") and data.startswith(b"\n")):
            self._buffer(data)
            return b""
        text = b"".join([*self._parts, data])
        self._parts.clear()
        self._size = 0
        end = text.rindex(b"\n\n")
        self._buffer(text[end + 2 :])
        return text[:end]

    def _parse_events(self, text: bytes) -> list[ServerSentEvent]:
        events = []
        for block in text.split(b"\n\n") if text else ():
            head, has_data, data = block.partition(b"data: ")
            if has_data and data.find(b"\n") < 0:
                if not head:  # all that both official servers send
                    events.append(ServerSentEvent(data))
                    continue
                if head.startswith(b"id: ") and head.find(b"\n") == len(head) - 1:  # nearly all that ours sends
                    events.append(ServerSentEvent(data, head[4:-1]))
                    continue
            if (event := self._parse_event(block)) is not None:
                events.append(event)
        return events

    def _normalize_line_ends(self, data: bytes) -> bytes:
        if self._ends_with_cr:
            data = b"\r" + data
        self._ends_with_cr = data.endswith(b"\r")
        if self._ends_with_cr:
            data = data[:-1]
        return data.replace(b"\r\n", b"\n").replace(b"\r", b"\n")

    def _buffer(self, part: bytes) -> None:
        if part:
            self._parts.append(part)
            self._size += len(part)
            if self._size > self._limit:
                raise Overloaded(f"an event of more than {self._limit} bytes; the server should send less at once")

    def _parse_event(self, block: bytes) -> ServerSentEvent | None:
        """Parse the lines of an event; None when it has no data."""
        data, id, after = [], b"", b""
        for line in block.split(b"\n"):
            name, _, value = line.partition(b":")
            value = value.removeprefix(b" ")
            if name == b"data":
                data.append(value)
            elif name == b"id":
                id = value
            elif name == AFTER_FIELD:
                after = value
            elif line and not name:
                self.comment_count += 1
        # Line ends in JSON are only between tokens, and a frame has none.
        return ServerSentEvent(b" ".join(data), id, after) if data else None
