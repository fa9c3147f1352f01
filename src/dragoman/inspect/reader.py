"""Open and read recordings, our own and those of other recorders, as far as possible.

Reads our own format, also several recordings in one file, the same lines without a header, and bare messages, one per
line, whose direction is guessed. Problems are collected by line.
"""

from __future__ import annotations

import os
import sys
import time
from base64 import b64decode
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Any, BinaryIO, NamedTuple

import msgspec
from msgspec import Raw

from dragoman.errors import DragomanError
from dragoman.schema.methods import METHODS
from dragoman.schema.side import Side
from dragoman.transport.recording.format import (
    DECODE_ERRORS,
    END,
    FORMAT,
    GAP,
    MAX_LINE,
    NOTE,
    OPPOSITE,
    STDERR,
    TO_AGENT,
    TO_CLIENT,
    TRAFFIC,
    Header,
    RecordedLine,
)

# Direction names of other recorders.
DIRECTION_NAMES = {
    "c2a": TO_AGENT, "client": TO_AGENT, "client_to_agent": TO_AGENT, "in": TO_AGENT, "stdin": TO_AGENT,
    "a2c": TO_CLIENT, "agent": TO_CLIENT, "agent_to_client": TO_CLIENT, "out": TO_CLIENT, "stdout": TO_CLIENT,
    "err": STDERR, "stderr": STDERR, "note": NOTE, "gap": GAP, "end": END,
}  # fmt: skip

# A file whose first lines are all noise is not a recording.
MAX_NOISE_LINES = 1000

# Problems listed one by one; more are only counted.
MAX_LISTED_PROBLEMS = 20

_MICROSECONDS_PER_SECOND = 1_000_000

# Direction names of our own recorder; without a header, only its times are known to be microseconds.
_OWN_DIRECTIONS = TRAFFIC | {GAP, END}

_ADVICE = "give a file that `dragoman inspect run` wrote, or one with one message per line"

# Bytes per read: large enough for little work per line, small enough for memory.
BLOCK_SIZE = 1024 * 1024

# Bytes of one line: the largest message, escaped or in base64, with its frame.
MAX_FILE_LINE = 2 * MAX_LINE + 1024 * 1024

# Seconds between two reads when following a file.
POLL_INTERVAL = 0.1

_DIRECTION = {Side.AGENT: TO_AGENT, Side.CLIENT: TO_CLIENT}

# Methods that other dialects name differently from the table.
_OTHER_AGENT_METHODS = frozenset({"cancel", "unstable_resumeSession", "session/set_model"})


class NotARecording(DragomanError):
    """The file is not a recording, or cannot be read."""


class ReadProblem(NamedTuple):
    """A line that could not be read, and why."""

    line: int
    reason: str


class RecordingEnd(msgspec.Struct):
    """The last line: how the agent ended."""

    reason: str = ""
    status: int | None = None
    frames: int = 0
    t: int | None = None


class _RawLine(msgspec.Struct):
    t: float | int | None = None
    dir: str = ""
    direction: str = ""
    msg: Raw = Raw(b"")
    raw: str | None = None
    b64: str | None = None
    eol: str = "\n"
    cut: int = 0
    lost: int = 0
    dragoman: str = ""
    format: int = 0
    command: list[str] = []
    cmd: list[str] = []
    cwd: str = ""
    jsonrpc: Any = None
    method: Any = None
    result: Raw = Raw(b"")
    error: Raw = Raw(b"")
    why: str = ""
    status: int | None = None
    frames: int = 0


_decode = msgspec.json.Decoder(_RawLine).decode
_decode_header = msgspec.json.Decoder(Header).decode


class RecordingReader:
    """Reads one file, line by line; keeps its headers and problems."""

    def __init__(self) -> None:
        self.header = Header(format=0)  # of the current recording
        self.headers: list[Header] = []  # several, if the file has several recordings
        self.endings: dict[int, RecordingEnd] = {}  # by recording
        self.problems: list[ReadProblem] = []
        self.problem_count = 0  # including those that are not listed
        self.lost_bytes = 0  # bytes that were not recorded
        self.line_count = 0
        self.is_recording = False  # whether any recorded line was read
        self._time_unit: int | None = None  # microseconds per unit of the file's times; 0 if unknown
        self._direction_guesser = DirectionGuesser()

    def read(self, lines: Iterable[bytes]) -> Iterator[RecordedLine]:
        """Yield the recorded lines; `lines` have line ends, because a last one without shows that it was cut."""
        for line in lines:
            found = self.read_line(line)
            if found is not None:
                yield found
        self.finish()

    def read_file(self, path: str, keep_waiting: Callable[[], bool] | None = None) -> Iterator[RecordedLine]:
        """Yield the recorded lines of a file; at its end, wait for more while `keep_waiting` returns true."""
        with open_recording(path) as file:
            yield from self.read(line for lines in read_blocks(file, self, keep_waiting) for line in lines)

    def finish(self) -> None:
        """Raise NotARecording if no recorded line was read."""
        if not self.is_recording:
            raise NotARecording(f"this is not a recording; {_ADVICE}" if self.line_count else f"empty; {_ADVICE}")

    @property
    def part(self) -> int:
        """The index of the current recording in the file."""
        return max(0, len(self.headers) - 1)

    @property
    def ending(self) -> RecordingEnd | None:
        """How the current recording ended; None if it has no end."""
        return self.endings.get(self.part)

    @property
    def is_incomplete(self) -> bool:
        """Whether the current recording is ours and has no end: it was cut, or is still being written."""
        return self.ending is None and self._time_unit == 1

    def to_microseconds(self, t: float | None, direction: str = TO_AGENT) -> int | None:
        """Convert a time of the file to microseconds since the start; None if its unit is unknown."""
        if t is None:
            return None
        if self._time_unit is None and t:
            self._time_unit = self._guess_time_unit(t, direction)
        # While all times were 0, the unit does not matter.
        return None if self._time_unit == 0 else round(t * (self._time_unit or 1))

    def _guess_time_unit(self, t: float, direction: str) -> int:
        """Guess the unit without a header: others write seconds with a fraction, we write microseconds."""
        if not isinstance(t, int):
            return _MICROSECONDS_PER_SECOND
        why = "the header is missing: the beginning was cut off, or cannot be read"
        if direction not in _OWN_DIRECTIONS:
            self.add_problem(1, f"{why}; the unit of the times is unknown, so no times are shown")
            return 0
        self.add_problem(1, f"{why}; the times are read as microseconds, and the start time is unknown")
        return 1

    def read_line(self, line: bytes) -> RecordedLine | None:
        """Read one line of the file; return None if it is not traffic."""
        self.line_count += 1
        number = self.line_count
        content = line.strip()
        if not content:
            return None
        try:
            decoded = _decode(content)
        except DECODE_ERRORS as error:
            self._note_malformed_line(number, line, error)
            return None
        if decoded.dragoman == "recording" and not decoded.dir:
            self._start_recording(number, content, decoded)
            return None
        found = self._parse_traffic(number, content, decoded)
        if found is not None:
            self.is_recording = True
        elif number >= MAX_NOISE_LINES and not self.is_recording:
            raise NotARecording(f"the first {number} lines are not those of a recording; {_ADVICE}")
        return found

    def add_problem(self, line: int, reason: str) -> None:
        """Note a line that could not be read."""
        self.problem_count += 1
        if len(self.problems) < MAX_LISTED_PROBLEMS:
            self.problems.append(ReadProblem(line, reason))

    def _start_recording(self, number: int, content: bytes, raw_line: _RawLine) -> None:
        if self.is_incomplete:
            self.add_problem(number, "another recording starts here, but the one before has no end")
        if self.is_recording and not self.headers:
            self.headers.append(self.header)  # of the previous recording, whose header is missing
        self._time_unit = 1
        self.is_recording = True
        if raw_line.format > FORMAT:
            self.add_problem(
                number,
                f"format {raw_line.format} is newer than this program supports ({FORMAT}); parts may be missing, "
                "upgrade dragoman to read all",
            )
        try:
            self.header = _decode_header(content)
        except msgspec.MsgspecError:
            self.header = Header(format=raw_line.format, command=raw_line.command)
        self.headers.append(self.header)

    def _parse_traffic(self, number: int, content: bytes, raw_line: _RawLine) -> RecordedLine | None:
        word = raw_line.dir or raw_line.direction
        way = DIRECTION_NAMES.get(word)
        if not word:
            if raw_line.method is not None or raw_line.result or raw_line.error or raw_line.jsonrpc is not None:
                return RecordedLine(
                    number, None, self._direction_guesser.guess_direction(content), content, part=self.part
                )
            self.add_problem(number, "neither a message nor a line of a recording; skipped")
            return None
        if way is None:
            self.add_problem(number, f"the direction {word[:40]!r} is unknown; skipped")
            return None
        t = self.to_microseconds(raw_line.t, word)
        if way in (NOTE, GAP, END):
            self._note_control_line(way, raw_line, t)
            return None
        data = self._traffic_data(number, raw_line)
        if data is None:
            return None
        return RecordedLine(number, t, way, data, raw_line.eol.encode("utf-8", "replace"), raw_line.cut, self.part)

    def _traffic_data(self, number: int, raw_line: _RawLine) -> bytes | None:
        if raw_line.msg:
            return bytes(raw_line.msg)
        if raw_line.raw is not None:
            return raw_line.raw.encode("utf-8", "replace")
        if raw_line.b64 is not None:
            try:
                return b64decode(raw_line.b64, validate=True)
            except ValueError:
                self.add_problem(number, "b64 is not base64; skipped")
                return None
        self.add_problem(number, "the line has no msg, raw or b64; skipped")
        return None

    def _note_control_line(self, direction: str, raw_line: _RawLine, t: int | None) -> None:
        if direction == GAP:
            self.lost_bytes += raw_line.lost
        elif direction == END:
            self.endings[self.part] = RecordingEnd(raw_line.why, raw_line.status, raw_line.frames, t)
        elif raw_line.cmd and not self.header.command:
            self.header.command, self.header.cwd = raw_line.cmd, raw_line.cwd

    def _note_malformed_line(self, number: int, line: bytes, error: Exception) -> None:
        if not line.endswith(b"\n"):
            self.add_problem(number, "the recording is cut in the middle of this line; all lines before it were read")
        else:
            self.add_problem(number, f"not a JSON line of a recording ({error}); skipped")
        if number >= MAX_NOISE_LINES and not self.is_recording:
            raise NotARecording(f"the first {number} lines are not JSON; this is not a recording")


# --- direction of bare messages ---------------------------------------------------------------------------------------


class _BareMessage(msgspec.Struct):
    id: Any = msgspec.UNSET
    method: Any = msgspec.UNSET


_decode_bare = msgspec.json.Decoder(_BareMessage).decode


class DirectionGuesser:
    """Guesses directions; remembers which side sent which request."""

    def __init__(self) -> None:
        self._pending: dict[str, list[str]] = {}

    def guess_direction(self, message: bytes) -> str:
        """Return the direction of the next message."""
        bare = _decode_bare(message)
        key = repr(bare.id)
        if isinstance(bare.method, str):
            way = method_direction(bare.method, is_request=bare.id is not msgspec.UNSET)
            if bare.id is not msgspec.UNSET:
                self._pending.setdefault(key, []).append(way)
            return way
        asked = self._pending.get(key)
        return OPPOSITE[asked.pop(0)] if asked else TO_CLIENT


def method_direction(method: str, is_request: bool) -> str:
    """Return the direction of a method; unknown requests go to the agent, notifications to the client."""
    sides = [side for side in (Side.AGENT, Side.CLIENT) if (side, method) in METHODS]
    if len(sides) == 1:
        return _DIRECTION[sides[0]]
    if method in _OTHER_AGENT_METHODS:
        return TO_AGENT
    return TO_AGENT if is_request else TO_CLIENT


# --- files ------------------------------------------------------------------------------------------------------------


@contextmanager
def open_recording(path: str) -> Iterator[BinaryIO]:
    """Open the file; errors name it and say what to do."""
    if path == "-":
        with _prefix_errors("standard input"):
            yield sys.stdin.buffer
        return
    try:
        file = open(path, "rb", buffering=0)  # noqa: SIM115  (closed below; errors of the caller are not ours)
    except OSError as error:
        raise NotARecording(f"{path}: {(error.strerror or str(error)).lower()}; give the path of a recording") from None
    with file, _prefix_errors(path):
        if os.path.isdir(path):
            raise NotARecording("this is a folder; name a recording")
        yield file


def wait_for_file(path: str, on_wait: Callable[[], None]) -> None:
    """Wait until a file exists, after calling `on_wait`; do not wait if its directory does not exist."""
    if path == "-" or os.path.exists(path) or not os.path.isdir(os.path.dirname(path) or "."):
        return
    on_wait()
    while not os.path.exists(path):  # until Ctrl-C
        time.sleep(POLL_INTERVAL)


@contextmanager
def _prefix_errors(path: str) -> Iterator[None]:
    """Put the path before the message: a command may read two files."""
    try:
        yield
    except NotARecording as error:
        raise NotARecording(f"{path}: {error}") from None


def read_blocks(
    file: BinaryIO, reader: RecordingReader, keep_waiting: Callable[[], bool] | None = None
) -> Iterator[list[bytes]]:
    """Yield the lines with their line ends, many at once, which is faster; at the end, wait as `read_file` does."""
    rest = b""
    while True:
        try:
            block = file.read(max(BLOCK_SIZE, len(rest)))  # read a very long line in growing steps
        except IsADirectoryError:
            raise NotARecording("this is a folder; name a recording") from None
        if not block:
            if keep_waiting is None or not keep_waiting():
                break
            time.sleep(POLL_INTERVAL)
            continue
        data = rest + block
        lines = data.splitlines(keepends=True) if b"\r" not in data else _split_lines(data)
        rest = lines.pop() if lines and not lines[-1].endswith(b"\n") else b""
        if lines:
            yield lines
        if len(rest) > MAX_FILE_LINE:
            reader.add_problem(reader.line_count + 1, f"longer than {MAX_FILE_LINE} bytes; reading stopped here")
            return
    if rest:
        yield [rest]


def _split_lines(data: bytes) -> list[bytes]:
    """Split at newlines alone: a CR inside a line of another recorder is not a line end."""
    lines = [line + b"\n" for line in data.split(b"\n")]
    lines[-1] = lines[-1][:-1]
    if not lines[-1]:
        lines.pop()
    return lines
