"""Server-sent events: frames with their numbers become the text of a stream, and the text events again. Pure, no I/O.

Many events are joined into one body chunk, for a write is the dearest thing. An update that the host took from a log
has the log's number behind its own in the id: `N.SEQ`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from dragoman.errors import Overloaded
from dragoman.transport.remote.headers import AFTER
from dragoman.wire.frames import MAX_FRAME

# One chunk of a body for up to this many bytes of frames: a write call takes about as much.
CHUNK = 256 * 1024

KEEPALIVE = b": keepalive\n\n"

_NOTHING: Mapping[int, bytes] = {}

# Where the host says which entry of the log an update is; no peer can say it, for what stands here is ours alone.
_SEQ = b'"dragoman":{"seq":'
_LONGEST = 20

# What an event has beside its data: field names, an id, a session's name.
_ROOM = 64 * 1024


def events(frames: list[bytes], first: int, after: Mapping[int, bytes] = _NOTHING) -> bytes:
    """The events of these frames, the first of which has this number; `after` has what some must not overtake."""
    whole = b"".join(frames)  # most chunks are plain, and looked at once for all their frames
    if not after and all(whole.find(odd) < 0 for odd in (_SEQ, b"\n", b"\r")):
        return b"".join([b"id: %d\ndata: %b\n\n" % each for each in enumerate(frames, first)])
    parts = []
    for number, frame in enumerate(frames, first):
        if number in after:
            parts.append(b"%b: %b\n" % (AFTER, after[number]))
        parts.append(_event(frame, number, frame.find(_SEQ)))
    return b"".join(parts)


def _event(frame: bytes, number: int, place: int) -> bytes:
    name = b"%d" % number
    if place >= 0:
        digits = frame[place + len(_SEQ) : place + len(_SEQ) + _LONGEST]
        seq = digits[: len(digits) - len(digits.lstrip(b"0123456789"))]
        if seq:
            name += b"." + seq
    if frame.find(b"\n") >= 0 or frame.find(b"\r") >= 0:  # JSON allows them between tokens
        frame = b"\ndata: ".join(frame.splitlines())
    return b"id: %b\ndata: %b\n\n" % (name, frame)


def cursor(last_event_id: str) -> int | None:
    """The number of a frame in its stream, from the id of its event; None for what is no id of ours."""
    number = last_event_id.strip().partition(".")[0]
    return int(number) if number.isascii() and number.isdigit() and len(number) < _LONGEST else None


class Event(NamedTuple):
    """One event as a client reads it: its data on one line, its id, and what it was written after."""

    data: bytes
    id: bytes = b""
    after: bytes = b""


class Batch(NamedTuple):
    """The events that some bytes completed: their data, the id of the last that had one, and what some come after."""

    frames: list[bytes]
    last: bytes = b""
    after: Mapping[int, bytes] = {}  # by their place in `frames`


class Parser:
    """Cuts the bytes of a stream into events; holds at most one unfinished event."""

    __slots__ = ("_limit", "_parts", "_return", "_size", "comments")

    def __init__(self, limit: int = MAX_FRAME) -> None:
        self.comments = 0  # a server that sends them keeps its streams alive
        self._limit = limit + _ROOM
        self._parts: list[bytes] = []
        self._size = 0
        self._return = False  # the last byte was a carriage return: it may be half of a line end

    def take(self, data: bytes) -> Batch:
        """Like `feed`, for whoever wants the data of many events at once."""
        whole = self._whole(data)
        pieces = whole.split(b"\n\nid: ")
        # All events are an id and one line of data, as ours are: one newline in the first, three for each that follows.
        if whole.startswith(b"id: ") and whole.count(b"\n") == 3 * len(pieces) - 2:
            frames = [piece.partition(b"\ndata: ")[2] for piece in pieces]
            if b"" not in frames:
                return Batch(frames, pieces[-1].partition(b"\n")[0].removeprefix(b"id: "))
        events = self._events(whole)
        last = next((event.id for event in reversed(events) if event.id), b"")
        after = {place: event.after for place, event in enumerate(events) if event.after}
        return Batch([event.data for event in events], last, after)

    def feed(self, data: bytes) -> list[Event]:
        """Take the next bytes; give the events they complete. Raises Overloaded for one beyond the limit."""
        return self._events(self._whole(data))

    def _whole(self, data: bytes) -> bytes:
        """The text of the events that these bytes complete, without the blank line behind the last of them."""
        if self._return or b"\r" in data:
            data = self._with_line_feeds(data)
        if b"\n\n" not in data and not (self._parts and self._parts[-1].endswith(b"\n") and data.startswith(b"\n")):
            self._hold(data)
            return b""
        text = b"".join([*self._parts, data])
        self._parts.clear()
        self._size = 0
        end = text.rindex(b"\n\n")
        self._hold(text[end + 2 :])
        return text[:end]

    def _events(self, whole: bytes) -> list[Event]:
        events = []
        for block in whole.split(b"\n\n") if whole else ():
            head, has_data, data = block.partition(b"data: ")
            if has_data and data.find(b"\n") < 0:
                if not head:  # all that both official servers send
                    events.append(Event(data))
                    continue
                if head.startswith(b"id: ") and head.find(b"\n") == len(head) - 1:  # nearly all that ours sends
                    events.append(Event(data, head[4:-1]))
                    continue
            if (event := self._read(block)) is not None:
                events.append(event)
        return events

    def _with_line_feeds(self, data: bytes) -> bytes:
        if self._return:
            data = b"\r" + data
        self._return = data.endswith(b"\r")
        if self._return:
            data = data[:-1]
        return data.replace(b"\r\n", b"\n").replace(b"\r", b"\n")

    def _hold(self, part: bytes) -> None:
        if part:
            self._parts.append(part)
            self._size += len(part)
            if self._size > self._limit:
                raise Overloaded(f"an event of more than {self._limit} bytes; the server should send less at once")

    def _read(self, block: bytes) -> Event | None:
        """An event from its lines; None when it has no data."""
        data, id, after = [], b"", b""
        for line in block.split(b"\n"):
            name, _, value = line.partition(b":")
            value = value.removeprefix(b" ")
            if name == b"data":
                data.append(value)
            elif name == b"id":
                id = value
            elif name == AFTER:
                after = value
            elif line and not name:
                self.comments += 1
        # Line ends in JSON stand between tokens only, and a frame has none.
        return Event(b" ".join(data), id, after) if data else None
