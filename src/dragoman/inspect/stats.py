"""Counts, sizes and latencies of a recording, computed while reading.

A recording may have millions of lines, so each is decoded once, and only as deep as needed; lines of another form go
through the slower reader. Keeps counts and open requests, never lines.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterable
from typing import Any

import msgspec
from msgspec import UNSET

from dragoman.errors import ProtocolError
from dragoman.inspect.reader import DIRECTION_NAMES, RecordingReader
from dragoman.transport.recording.format import DECODE_ERRORS, OPPOSITE, STDERR, TRAFFIC, RecordedLine
from dragoman.wire.envelope import parse_envelope

# Exact below this, nine significant bits above: precise enough for percentiles, and bounded.
_MAX_EXACT = 4096
_SIGNIFICANT_BITS = 9

_PROMPT = "session/prompt"

# The start of our headers.
_HEADER_PREFIX = b'{"dragoman":"recording"'

# The length of `"msg":`, the brace and the newline; the message is the last member of its line.
_MESSAGE_OVERHEAD = 8


class Distribution(msgspec.Struct):
    """A histogram of values, in bounded memory."""

    counts: dict[int, int] = {}
    total: int = 0
    largest: int = 0

    def add(self, value: int, times: int = 1) -> None:
        """Add a value, one or more times."""
        self.total += value * times
        if value > self.largest:
            self.largest = value
        if value >= _MAX_EXACT:
            shift = value.bit_length() - _SIGNIFICANT_BITS
            value = value >> shift << shift
        self.counts[value] = self.counts.get(value, 0) + times

    def add_all(self, values: list[int]) -> None:
        """Add many values, most of them equal."""
        for value, times in Counter(values).items():
            self.add(value, times)

    def quantile(self, fraction: float) -> int | None:
        """Return the value at this quantile; None if there are no values."""
        if not self.counts:
            return None
        wanted = fraction * sum(self.counts.values())
        seen = 0
        for value in sorted(self.counts):
            seen += self.counts[value]
            if seen >= wanted:
                return min(value, self.largest)
        return self.largest


class MethodStats(msgspec.Struct):
    """The statistics of one method in one direction."""

    count: int = 0
    requests: int = 0
    failed: int = 0
    sizes: Distribution = msgspec.field(default_factory=Distribution)
    latency: Distribution = msgspec.field(default_factory=Distribution)


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


class _PlainLine(msgspec.Struct, gc=False):
    dir: str
    msg: _Message
    t: float | int | None = None


_line_decoder = msgspec.json.Decoder(_PlainLine)
_decode, _decode_lines = _line_decoder.decode, _line_decoder.decode_lines
_decode_message = msgspec.json.Decoder(_Message).decode
_STOP_REASON = re.compile(rb'"stop_?[rR]eason"\s*:\s*"([a-z_]{1,40})"')


class RecordingStats:
    """The statistics of a recording."""

    def __init__(self) -> None:
        self.reader = RecordingReader()
        self.frames: Counter[str] = Counter()
        self.bytes: Counter[str] = Counter()
        self.methods: defaultdict[tuple[str, str], MethodStats] = defaultdict(MethodStats)
        self.turns = Distribution()  # durations; a turn without times is only in `stop_reasons`
        self.stop_reasons: Counter[str] = Counter()
        self.noise = 0
        self.stray_answers = 0
        self.first_time: int | None = None
        self.last_time: int | None = None
        self._earlier_duration: int | None = None  # of the previous recordings in the file
        self._part_start: int | None = None
        self._earlier_unanswered: Counter[str] = Counter()  # in those recordings
        self._update_sizes: dict[tuple[str, str | None, str], list[int]] = {}
        self._pending_sizes: list[tuple[str, MethodStats, list[int]]] = []
        self._pending: dict[tuple[str, Any], tuple[int | None, str, MethodStats]] = {}

    @property
    def unanswered(self) -> Counter[str]:
        """Requests without an answer, by method."""
        return self._earlier_unanswered + Counter(method for _, method, _ in self._pending.values())

    @property
    def duration(self) -> int | None:
        """Microseconds from the first line to the last; the sum for several recordings."""
        if self._part_start is None or self.last_time is None:
            return self._earlier_duration
        return (self._earlier_duration or 0) + self.last_time - self._part_start

    def count(self, blocks: Iterable[list[bytes]]) -> None:
        """Count all lines; raises NotARecording if there are no recorded lines."""
        for lines in blocks:
            start = 0
            for place in [place for place, line in enumerate(lines) if line.startswith(_HEADER_PREFIX)]:
                self._count_block(lines[start:place])
                self._start_part()
                start = place
            self._count_block(lines[start:])
        self._note_recording()
        self.reader.finish()

    def _note_recording(self) -> None:
        """Tell the reader that recorded lines were found, because it does not see the plain ones."""
        self.reader.is_recording = self.reader.is_recording or bool(self.frames or self._pending_sizes)

    def _start_part(self) -> None:
        """Start another recording; open requests of the previous one stay unanswered."""
        self._earlier_duration, self._part_start, self.last_time = self.duration, None, None
        self._earlier_unanswered = self.unanswered
        self._pending.clear()

    def _count_block(self, lines: list[bytes]) -> None:
        """Count one block: decode it at once if all lines are plain, else line by line."""
        if not lines:
            return
        try:
            decoded: list[_PlainLine | None] = list(_decode_lines(b"".join(lines)))
        except DECODE_ERRORS:
            decoded = []
        is_plain = len(decoded) == len(lines) and {each.dir for each in decoded if each} <= TRAFFIC
        if not is_plain or not lines[-1].endswith(b"\n"):
            decoded = [_decode_plain_line(line) for line in lines]
        sizes_by_update = self._update_sizes
        base = self.reader.line_count
        for number, (each, line) in enumerate(zip(decoded, lines, strict=True)):
            if each is None:
                self.reader.line_count = base + number
                self._count_other_line(line)
                continue
            message = each.msg
            if message.id is UNSET and (params := message.params) is not None and (update := params.update) is not None:
                key = (each.dir, message.method, update.kind or update.crow or update.type)
                sizes = sizes_by_update.get(key) or self._add_update_sizes(key)
                sizes.append(len(line) - line.find(b'"msg":') - _MESSAGE_OVERHEAD)
            else:
                t = self.reader.to_microseconds(each.t, each.dir)
                size = len(line) - line.find(b'"msg":') - _MESSAGE_OVERHEAD
                self._count_message(DIRECTION_NAMES[each.dir], message, t, size, line)
        self.reader.line_count = base + len(lines)
        self._fold_updates(decoded)

    def _add_update_sizes(self, key: tuple[str, str | None, str]) -> list[int]:
        """Create the list that collects the sizes of one kind of update in this block."""
        way = DIRECTION_NAMES.get(key[0], "")
        figures = self.methods[way, f"{key[1]} {key[2]}"]
        sizes = self._update_sizes[key] = []
        self._pending_sizes.append((way, figures, sizes))
        return sizes

    def _fold_updates(self, decoded: list[_PlainLine | None]) -> None:
        for way, figures, sizes in self._pending_sizes:
            figures.count += len(sizes)
            figures.sizes.add_all(sizes)
            self.frames[way] += len(sizes)
            self.bytes[way] += sum(sizes)
        self._pending_sizes.clear()
        self._update_sizes.clear()
        for some in (decoded, reversed(decoded)):
            first = next((each for each in some if each is not None and each.t is not None), None)
            self._note_time(None if first is None else self.reader.to_microseconds(first.t, first.dir))

    def _note_time(self, t: int | None) -> None:
        if t is not None:
            self.first_time = t if self.first_time is None else self.first_time
            self._part_start = t if self._part_start is None else min(self._part_start, t)
            self.last_time = t if self.last_time is None else max(self.last_time, t)

    def _count_message(self, direction: str, message: _Message, t: int | None, size: int, line: bytes) -> None:
        self.frames[direction] += 1
        self.bytes[direction] += size
        name = message.method
        if name is None:
            self._count_answer(direction, message, t, size, line)
            return
        figures = self.methods[direction, name]
        figures.count += 1
        figures.sizes.add(size)
        if message.id is not UNSET:
            figures.requests += 1
            self._pending[direction, message.id] = (t, name, figures)

    def _count_answer(self, direction: str, message: _Message, t: int | None, size: int, line: bytes) -> None:
        asked = self._pending.pop((OPPOSITE.get(direction, direction), message.id), None)
        if asked is None:
            self.stray_answers += 1
            return
        start, name, figures = asked
        if message.error is not UNSET:
            figures.failed += 1
        if t is not None and start is not None:
            figures.latency.add(max(0, t - start))
        answers = self.methods[direction, f"{name} (answer)"]
        answers.count += 1
        answers.sizes.add(size)
        if name == _PROMPT:
            found = _STOP_REASON.search(line)
            self.stop_reasons["error" if message.error is not UNSET else found[1].decode() if found else ""] += 1
            if t is not None and start is not None:
                self.turns.add(max(0, t - start))

    def _count_other_line(self, line: bytes) -> None:
        """Count a line that is not a plain message: noise, a header, another form."""
        self._note_recording()
        found = self.reader.read_line(line)
        if found is None:
            return
        self._note_time(found.t)
        size = found.cut or len(found.data)
        message = None if found.direction == STDERR else _read_message(found)
        if message is not None:
            self._count_message(found.direction, message, found.t, size, line)
            return
        self.frames[found.direction] += 1
        self.bytes[found.direction] += size
        if found.direction != STDERR and found.data.strip():
            self.noise += 1


def _decode_plain_line(line: bytes) -> _PlainLine | None:
    """Decode a line as a plain message; None for the slow path."""
    try:
        each = _decode(line)
    except DECODE_ERRORS:
        return None
    return each if DIRECTION_NAMES.get(each.dir) in TRAFFIC and line.endswith(b"\n") else None


def _read_message(recorded: RecordedLine) -> _Message | None:
    """Parse a message leniently; None if it is not a message."""
    try:
        return _decode_message(recorded.data)
    except DECODE_ERRORS:
        pass
    try:
        envelope = parse_envelope(recorded.data)
    except ProtocolError:
        return None
    method = None if envelope.method is UNSET else envelope.method
    return _Message(envelope.id, method, None, UNSET if envelope.error is UNSET else {})
