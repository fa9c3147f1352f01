"""Reading recordings: ours, and those of others, as far as they go.

Takes the lines of a file and gives what was recorded; what it could not read it says, by line, and goes on where that
makes sense. Understands our own format, also several recordings one after the other, lines of the same shape without a
header, and bare messages one a line, whose direction is found out from the method table. Pure; `opening` has the files.
"""

from __future__ import annotations

from base64 import b64decode
from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

import msgspec
from msgspec import Raw

from dragoman.errors import DragomanError
from dragoman.inspect.direction import Guess
from dragoman.inspect.format import END, FORMAT, GAP, NOTE, STDERR, TO_AGENT, TO_CLIENT, TRAFFIC, Header, Recorded

# Other recorders' words for who spoke.
WAYS = {
    "c2a": TO_AGENT, "client": TO_AGENT, "client_to_agent": TO_AGENT, "in": TO_AGENT, "stdin": TO_AGENT,
    "a2c": TO_CLIENT, "agent": TO_CLIENT, "agent_to_client": TO_CLIENT, "out": TO_CLIENT, "stdout": TO_CLIENT,
    "err": STDERR, "stderr": STDERR, "note": NOTE, "gap": GAP, "end": END,
}  # fmt: skip

# A file whose first lines are all noise is something else than a recording. Lines.
ALL_NOISE = 1000

# So many troubles are told one by one; more of them say nothing new.
TOLD = 20

_SECOND = 1_000_000

# How our own recorder calls directions; only its times are known to count microseconds where no header says so.
_OURS = TRAFFIC | {GAP, END}

_ADVICE = "give a file that `dragoman inspect run` wrote, or one with a message a line"


class NotRecorded(DragomanError):
    """The file is no recording, or cannot be read at all."""


class Trouble(NamedTuple):
    """What could not be read, and in which line."""

    line: int
    why: str


class Ending(msgspec.Struct):
    """What the last line says: how the agent ended."""

    why: str = ""
    status: int | None = None
    frames: int = 0
    t: int | None = None


class _Line(msgspec.Struct):
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


_decode = msgspec.json.Decoder(_Line).decode
_decode_header = msgspec.json.Decoder(Header).decode


class Reader:
    """Reads one recording, line by line; remembers its header and everything that could not be read."""

    def __init__(self) -> None:
        self.header = Header(format=0)  # of the recording that is being read
        self.headers: list[Header] = []  # more than one, where several recordings were put into one file
        self.endings: dict[int, Ending] = {}  # how each of them ended
        self.troubles: list[Trouble] = []
        self.troubled = 0  # all of them, also those that are not listed
        self.lost = 0  # bytes that passed unrecorded
        self.lines = 0
        self.is_understood = False  # whether anything was read that makes it a recording
        self._unit: int | None = None  # microseconds in one of the file's times; 0 when nothing tells
        self._guess = Guess()

    def read(self, lines: Iterable[bytes]) -> Iterator[Recorded]:
        """What was recorded; `lines` come with their line ends, for a last one without shows that it was cut."""
        for line in lines:
            found = self.take(line)
            if found is not None:
                yield found
        self.finish()

    def finish(self) -> None:
        """All lines were read; raises where nothing among them was of a recording."""
        if not self.is_understood:
            raise NotRecorded(
                f"there is nothing of a recording in it; {_ADVICE}" if self.lines else f"empty; {_ADVICE}"
            )

    @property
    def part(self) -> int:
        """How many recordings stand before the one that is being read."""
        return max(0, len(self.headers) - 1)

    @property
    def ending(self) -> Ending | None:
        """How the one that is being read ended; None when it has no end."""
        return self.endings.get(self.part)

    @property
    def is_unended(self) -> bool:
        """Whether one of our own recordings has no end: it was cut, or it is still being written."""
        return self.ending is None and self._unit == 1

    def time(self, t: float | None, way: str = TO_AGENT) -> int | None:
        """Microseconds since the start, of a time as a line has it; None when nobody knows what it counts."""
        if t is None:
            return None
        if self._unit is None and t:
            self._unit = self._clock(t, way)
        return None if self._unit == 0 else round(t * (self._unit or 1))  # the unit of nothing but 0 is all the same

    def _clock(self, t: float, way: str) -> int:
        """What times count where no header says it: others write seconds with a fraction, we whole microseconds."""
        if not isinstance(t, int):
            return _SECOND
        why = "the header is missing: the beginning was cut off, or cannot be read"
        if way not in _OURS:
            self.trouble(1, f"{why}; nothing tells what the times count, so none are shown")
            return 0
        self.trouble(1, f"{why}; the times are taken for microseconds, and when it began is not known")
        return 1

    def take(self, line: bytes) -> Recorded | None:
        """One line of the file; None when it is no traffic."""
        self.lines += 1
        number = self.lines
        content = line.strip()
        if not content:
            return None
        try:
            said = _decode(content)
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
            self._unreadable(number, line, error)
            return None
        if said.dragoman == "recording" and not said.dir:
            self._open(number, content, said)
            return None
        found = self._recorded(number, content, said)
        if found is not None:
            self.is_understood = True
        elif number >= ALL_NOISE and not self.is_understood:
            raise NotRecorded(f"the first {number} lines have nothing of a recording; {_ADVICE}")
        return found

    def trouble(self, line: int, why: str) -> None:
        """Remember what could not be read."""
        self.troubled += 1
        if len(self.troubles) < TOLD:
            self.troubles.append(Trouble(line, why))

    def _open(self, number: int, content: bytes, said: _Line) -> None:
        if self.is_unended:
            self.trouble(number, "another recording begins here, and the one before it has no end")
        if self.is_understood and not self.headers:
            self.headers.append(self.header)  # of the one before, whose header is missing
        self._unit = 1
        self.is_understood = True
        if said.format > FORMAT:
            self.trouble(
                number,
                f"format {said.format} is newer than this program knows ({FORMAT}); what it knows is read, "
                "a newer dragoman reads the rest",
            )
        try:
            self.header = _decode_header(content)
        except msgspec.MsgspecError:
            self.header = Header(format=said.format, command=said.command)
        self.headers.append(self.header)

    def _recorded(self, number: int, content: bytes, said: _Line) -> Recorded | None:
        word = said.dir or said.direction
        way = WAYS.get(word)
        if not word:
            if said.method is not None or said.result or said.error or said.jsonrpc is not None:
                return Recorded(number, None, self._guess.way(content), content, part=self.part)
            self.trouble(number, "neither a message nor a line of a recording; skipped")
            return None
        if way is None:
            self.trouble(number, f"the direction {word[:40]!r} is not known here; skipped")
            return None
        t = self.time(said.t, word)
        if way in (NOTE, GAP, END):
            self._aside(way, said, t)
            return None
        data = self._data(number, said)
        if data is None:
            return None
        return Recorded(number, t, way, data, said.eol.encode("utf-8", "replace"), said.cut, self.part)

    def _data(self, number: int, said: _Line) -> bytes | None:
        if said.msg:
            return bytes(said.msg)
        if said.raw is not None:
            return said.raw.encode("utf-8", "replace")
        if said.b64 is not None:
            try:
                return b64decode(said.b64, validate=True)
            except ValueError:
                self.trouble(number, "b64 is not base64; skipped")
                return None
        self.trouble(number, "the line has no msg, raw or b64 that this program knows; skipped")
        return None

    def _aside(self, way: str, said: _Line, t: int | None) -> None:
        if way == GAP:
            self.lost += said.lost
        elif way == END:
            self.endings[self.part] = Ending(said.why, said.status, said.frames, t)
        elif said.cmd and not self.header.command:
            self.header.command, self.header.cwd = said.cmd, said.cwd

    def _unreadable(self, number: int, line: bytes, error: Exception) -> None:
        if not line.endswith(b"\n"):
            self.trouble(number, "the recording is cut in the middle of this line; all before it was read")
        else:
            self.trouble(number, f"no JSON of a recording ({error}); skipped")
        if number >= ALL_NOISE and not self.is_understood:
            raise NotRecorded(f"the first {number} lines are no JSON; this is no recording")
