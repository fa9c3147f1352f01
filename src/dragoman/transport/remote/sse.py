"""Server-sent events: frames with their numbers become the text of a stream, and the text events again. Pure, no I/O.

Many events are joined into one body chunk, for a write is the dearest thing. An update that the host took from a log
has the log's number behind its own in the id: `N.SEQ`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from dragoman.errors import Overloaded
from dragoman.transport.remote.headers import AFTER_FIELD
from dragoman.wire.frames import MAX_FRAME

# One chunk of a body for up to this many bytes of frames: a write call takes about as much.
CHUNK_SIZE = 256 * 1024

KEEPALIVE = b": keepalive\n\n"

_NO_AFTER: Mapping[int, bytes] = {}

# Where the host says which entry of the log an update is; no peer can say it, for what stands here is ours alone.
_SEQ_PREFIX = b'"dragoman":{"seq":'
_MAX_DIGITS = 20

# What an event has beside its data: field names, an id, a session's name.
_EVENT_OVERHEAD = 64 * 1024


def encode_events(frames: list[bytes], first: int, after: Mapping[int, bytes] = _NO_AFTER) -> bytes:
    """The events of these frames, the first of which has this number; `after` has what some must not overtake."""
    whole = b"".join(frames)  # most chunks are plain, and looked at once for all their frames
    if not after and all(whole.find(odd) < 0 for odd in (_SEQ_PREFIX, b"\n", b"\r")):
        return b"".join([b"id: %d\ndata: %b\n\n" % each for each in enumerate(frames, first)])
    parts = []
    for number, frame in enumerate(frames, first):
        if number in after:
            parts.append(b"%b: %b\n" % (AFTER_FIELD, after[number]))
        parts.append(_encode_event(frame, number, frame.find(_SEQ_PREFIX)))
    return b"".join(parts)


def _encode_event(frame: bytes, number: int, place: int) -> bytes:
    name = b"%d" % number
    if place >= 0:
        digits = frame[place + len(_SEQ_PREFIX) : place + len(_SEQ_PREFIX) + _MAX_DIGITS]
        seq = digits[: len(digits) - len(digits.lstrip(b"0123456789"))]
        if seq:
            name += b"." + seq
    if frame.find(b"\n") >= 0 or frame.find(b"\r") >= 0:  # JSON allows them between tokens
        frame = b"\ndata: ".join(frame.splitlines())
    return b"id: %b\ndata: %b\n\n" % (name, frame)


def parse_cursor(last_event_id: str) -> int | None:
    """The number of a frame in its stream, from the id of its event; None for what is no id of ours."""
    number = last_event_id.strip().partition(".")[0]
    return int(number) if number.isascii() and number.isdigit() and len(number) < _MAX_DIGITS else None


class ServerSentEvent(NamedTuple):
    """One event as a client reads it: its data on one line, its id, and what it was written after."""

    data: bytes
    id: bytes = b""
    after: bytes = b""


class EventBatch(NamedTuple):
    """The events that some bytes completed: their data, the id of the last that had one, and what some come after."""

    frames: list[bytes]
    last_id: bytes = b""
    after: Mapping[int, bytes] = {}  # by their place in `frames`


class EventParser:
    """Cuts the bytes of a stream into events; holds at most one unfinished event."""

    __slots__ = ("_ends_with_cr", "_limit", "_parts", "_size", "comment_count")

    def __init__(self, limit: int = MAX_FRAME) -> None:
        self.comment_count = 0  # a server that sends them keeps its streams alive
        self._limit = limit + _EVENT_OVERHEAD
        self._parts: list[bytes] = []
        self._size = 0
        self._ends_with_cr = False  # the last byte was a carriage return: it may be half of a line end

    def feed_batch(self, data: bytes) -> EventBatch:
        """Like `feed`, for whoever wants the data of many events at once."""
        whole = self._complete_text(data)
        pieces = whole.split(b"\n\nid: ")
        # All events are an id and one line of data, as ours are: one newline in the first, three for each that follows.
        if whole.startswith(b"id: ") and whole.count(b"\n") == 3 * len(pieces) - 2:
            frames = [piece.partition(b"\ndata: ")[2] for piece in pieces]
            if b"" not in frames:
                return EventBatch(frames, pieces[-1].partition(b"\n")[0].removeprefix(b"id: "))
        events = self._parse_events(whole)
        last = next((event.id for event in reversed(events) if event.id), b"")
        after = {place: event.after for place, event in enumerate(events) if event.after}
        return EventBatch([event.data for event in events], last, after)

    def feed(self, data: bytes) -> list[ServerSentEvent]:
        """Take the next bytes; give the events they complete. Raises Overloaded for one beyond the limit."""
        return self._parse_events(self._complete_text(data))

    def _complete_text(self, data: bytes) -> bytes:
        """The text of the events that these bytes complete, without the blank line behind the last of them."""
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

    def _parse_events(self, whole: bytes) -> list[ServerSentEvent]:
        events = []
        for block in whole.split(b"\n\n") if whole else ():
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
        """An event from its lines; None when it has no data."""
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
        # Line ends in JSON stand between tokens only, and a frame has none.
        return ServerSentEvent(b" ".join(data), id, after) if data else None
