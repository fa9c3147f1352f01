"""Counts, sizes and latencies of a recording, made as its lines stream by.

Takes blocks of lines, gives Figures. A recording may have millions of lines, so each is decoded once, in C, and only as
deep as a figure needs; whatever does not fit that shape goes the slow way through the reader. Keeps counts and open
requests, never lines. Pure; above is the command, below are reading and recording.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable
from typing import Any

import msgspec
from msgspec import UNSET

from dragoman.errors import ProtocolError
from dragoman.inspect.format import STDERR, TO_AGENT, TO_CLIENT, TRAFFIC, Recorded
from dragoman.inspect.reader import WAYS, Reader
from dragoman.wire.envelope import parse

# Counted exactly below this, with nine significant bits above: enough for any percentile, and bounded.
_EXACT = 4096
_BITS = 9

_BACK = {TO_AGENT: TO_CLIENT, TO_CLIENT: TO_AGENT}
_PROMPT = "session/prompt"

# How our headers begin.
_HEADER = b'{"dragoman":"recording"'

# Beside a message stand `"msg":`, the brace and the newline; the message is the last member of its line.
_AROUND = 8


class Spread:
    """How values are spread, in bounded memory."""

    __slots__ = ("counts", "largest", "total")

    def __init__(self) -> None:
        self.counts: dict[int, int] = {}
        self.total = 0
        self.largest = 0

    def add(self, value: int, times: int = 1) -> None:
        """One more value, or several of it."""
        self.total += value * times
        if value > self.largest:
            self.largest = value
        if value >= _EXACT:
            shift = value.bit_length() - _BITS
            value = value >> shift << shift
        self.counts[value] = self.counts.get(value, 0) + times

    def add_all(self, values: list[int]) -> None:
        """Many at once, most of them alike."""
        for value, times in Counter(values).items():
            self.add(value, times)

    def at(self, share: float) -> int | None:
        """The value below which this share of them lies; None when there are none."""
        if not self.counts:
            return None
        wanted = share * sum(self.counts.values())
        seen = 0
        for value in sorted(self.counts):
            seen += self.counts[value]
            if seen >= wanted:
                return min(value, self.largest)
        return self.largest


class MethodFigures:
    """All messages of one method in one direction."""

    __slots__ = ("count", "failed", "latency", "requests", "sizes")

    def __init__(self) -> None:
        self.count = 0
        self.requests = 0
        self.failed = 0
        self.sizes = Spread()
        self.latency = Spread()


class _Update(msgspec.Struct, gc=False):
    kind: str = msgspec.field(default="", name="sessionUpdate")
    crow: str = msgspec.field(default="", name="@type")
    type: str = ""


class _Params(msgspec.Struct, gc=False):
    update: _Update | None = None
    type: Any = None


class _Message(msgspec.Struct, gc=False):
    id: int | str | float | msgspec.UnsetType | None = UNSET
    method: str | None = None
    params: _Params | None = None
    error: Any = UNSET


class _Line(msgspec.Struct, gc=False):
    dir: str
    msg: _Message
    t: float | int | None = None


_line = msgspec.json.Decoder(_Line)
_decode, _decode_lines = _line.decode, _line.decode_lines
_decode_message = msgspec.json.Decoder(_Message).decode
_STOP = re.compile(rb'"stop_?[rR]eason"\s*:\s*"([a-z_]{1,40})"')
_NOT_PLAIN = (msgspec.MsgspecError, UnicodeDecodeError, RecursionError)


class Figures:
    """What a recording amounts to."""

    def __init__(self) -> None:
        self.reader = Reader()
        self.frames: Counter[str] = Counter()
        self.bytes: Counter[str] = Counter()
        self.methods: dict[tuple[str, str], MethodFigures] = {}
        self.turns = Spread()  # durations; a turn without times counts in `stops` alone
        self.stops: Counter[str] = Counter()
        self.noise = 0
        self.strays = 0
        self.first: int | None = None
        self.last: int | None = None
        self._length: int | None = None  # of the recordings before the one that is being counted
        self._start: int | None = None
        self._left: Counter[str] = Counter()  # what nobody answered in those
        self._spoken: dict[tuple[str, str | None, str], list[int]] = {}
        self._gathered: list[tuple[str, MethodFigures, list[int]]] = []
        self._open: dict[tuple[str, Any], tuple[int | None, str, MethodFigures]] = {}

    @property
    def unanswered(self) -> Counter[str]:
        """Requests that nobody answered, by method."""
        return self._left + Counter(method for _, method, _ in self._open.values())

    @property
    def length(self) -> int | None:
        """Microseconds from the first line to the last; of several recordings, all of them together."""
        if self._start is None or self.last is None:
            return self._length
        return (self._length or 0) + self.last - self._start

    def count(self, blocks: Iterable[list[bytes]]) -> None:
        """Count all lines; raises NotRecorded where nothing is of a recording."""
        for lines in blocks:
            start = 0
            for place in [place for place, line in enumerate(lines) if line.startswith(_HEADER)]:
                self._block(lines[start:place])
                self._begin()
                start = place
            self._block(lines[start:])
        self._understand()
        self.reader.finish()

    def _understand(self) -> None:
        """The reader has not seen the plain lines, which make a file a recording."""
        self.reader.is_understood = self.reader.is_understood or bool(self.frames or self._gathered)

    def _begin(self) -> None:
        """A recording begins; what was open in one before it stays so."""
        self._length, self._start, self.last = self.length, None, None
        self._left = self.unanswered
        self._open.clear()

    def _block(self, lines: list[bytes]) -> None:
        """One block: decoded at once when all of its lines are plain, else each for itself."""
        if not lines:
            return
        try:
            decoded: list[_Line | None] = list(_decode_lines(b"".join(lines)))
        except _NOT_PLAIN:
            decoded = []
        is_plain = len(decoded) == len(lines) and {said.dir for said in decoded if said} <= TRAFFIC
        if not is_plain or not lines[-1].endswith(b"\n"):
            decoded = [_tried(line) for line in lines]
        spoken = self._spoken
        base = self.reader.lines
        for number, (said, line) in enumerate(zip(decoded, lines, strict=True)):
            if said is None:
                self.reader.lines = base + number
                self._slowly(line)
                continue
            message = said.msg
            if message.id is UNSET and (params := message.params) is not None and (update := params.update) is not None:
                key = (said.dir, message.method, update.kind or update.crow or update.type)
                sizes = spoken.get(key) or self._new(key)
                sizes.append(len(line) - line.find(b'"msg":') - _AROUND)
            else:
                self._singly(said, line)
        self.reader.lines = base + len(lines)
        self._fold(decoded)

    def _new(self, key: tuple[str, str | None, str]) -> list[int]:
        """Where the sizes of a kind of news are gathered, until the block is over."""
        way = WAYS.get(key[0], "")
        figures = self.methods.setdefault((way, f"{key[1]} {key[2]}"), MethodFigures())
        sizes = self._spoken[key] = []
        self._gathered.append((way, figures, sizes))
        return sizes

    def _fold(self, decoded: list[_Line | None]) -> None:
        for way, figures, sizes in self._gathered:
            figures.count += len(sizes)
            figures.sizes.add_all(sizes)
            self.frames[way] += len(sizes)
            self.bytes[way] += sum(sizes)
        self._gathered.clear()
        self._spoken.clear()
        for some in (decoded, reversed(decoded)):
            first = next((said for said in some if said is not None and said.t is not None), None)
            self._at(None if first is None else self.reader.time(first.t, first.dir))

    def _at(self, t: int | None) -> None:
        if t is not None:
            self.first = t if self.first is None else self.first
            self._start = t if self._start is None else min(self._start, t)
            self.last = t if self.last is None else max(self.last, t)

    def _singly(self, said: _Line, line: bytes) -> None:
        """A request, an answer, or news that are no update."""
        t = self.reader.time(said.t, said.dir)
        size = len(line) - line.find(b'"msg":') - _AROUND
        self._message(WAYS[said.dir], said.msg, t, size, line)

    def _message(self, way: str, message: _Message, t: int | None, size: int, line: bytes) -> None:
        self.frames[way] += 1
        self.bytes[way] += size
        name = message.method
        if name is None:
            self._reply(way, message, t, size, line)
            return
        figures = self._of(way, name)
        figures.count += 1
        figures.sizes.add(size)
        if message.id is not UNSET:
            figures.requests += 1
            self._open[way, message.id] = (t, name, figures)

    def _of(self, way: str, name: str) -> MethodFigures:
        figures = self.methods.get((way, name))
        if figures is None:
            figures = self.methods[way, name] = MethodFigures()
        return figures

    def _reply(self, way: str, message: _Message, t: int | None, size: int, line: bytes) -> None:
        asked = self._open.pop((_BACK.get(way, way), message.id), None)
        if asked is None:
            self.strays += 1
            return
        start, name, figures = asked
        if message.error is not UNSET:
            figures.failed += 1
        if t is not None and start is not None:
            figures.latency.add(max(0, t - start))
        answers = self._of(way, f"{name} (answer)")
        answers.count += 1
        answers.sizes.add(size)
        if name == _PROMPT:
            self._turn(message, t, start, line)

    def _turn(self, message: _Message, t: int | None, start: int | None, line: bytes) -> None:
        found = _STOP.search(line)
        self.stops["error" if message.error is not UNSET else found[1].decode() if found else ""] += 1
        if t is not None and start is not None:
            self.turns.add(max(0, t - start))

    def _slowly(self, line: bytes) -> None:
        """A line that is no plain message of a recording: noise, a header, another form."""
        self._understand()
        found = self.reader.take(line)
        if found is None:
            return
        self._at(found.t)
        size = found.cut or len(found.data)
        message = None if found.way == STDERR else _plainly(found)
        if message is not None:
            self._message(found.way, message, found.t, size, line)
            return
        self.frames[found.way] += 1
        self.bytes[found.way] += size
        if found.way != STDERR and found.data.strip():
            self.noise += 1


def _tried(line: bytes) -> _Line | None:
    """A line as a plain message, or None for the slow way."""
    try:
        said = _decode(line)
    except _NOT_PLAIN:
        return None
    return said if WAYS.get(said.dir) in TRAFFIC and line.endswith(b"\n") else None


def _plainly(found: Recorded) -> _Message | None:
    """The outside of a message, read leniently; None when it is none."""
    try:
        return _decode_message(found.data)
    except _NOT_PLAIN:
        pass
    try:
        envelope = parse(found.data)
    except ProtocolError:
        return None
    method = None if envelope.method is UNSET else envelope.method
    return _Message(envelope.id, method, None, UNSET if envelope.error is UNSET else {})
