"""Reading recordings: ours, and those of others, as far as they go.

Takes the lines of a file and gives what was recorded; what it could not read it says, by line, and goes on where that
makes sense. Understands our own format, lines of the same shape without a header (times in seconds), and bare messages
one a line, whose direction is found out from the method table. Pure; files are opened in `opening`.
"""

from __future__ import annotations

from base64 import b64decode
from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

import msgspec
from msgspec import Raw

from dragoman.errors import DragomanError
from dragoman.inspect.direction import Guess
from dragoman.inspect.recording import END, FORMAT, GAP, NOTE, STDERR, TO_AGENT, TO_CLIENT, Header, Recorded

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
        self.header = Header(format=0)
        self.ending: Ending | None = None
        self.troubles: list[Trouble] = []
        self.troubled = 0  # all of them, also those that are not listed
        self.lost = 0  # bytes that passed unrecorded
        self.lines = 0
        self._understood = False
        self.unit: int = _SECOND  # microseconds in one of the file's times
        self._guess = Guess()

    def read(self, lines: Iterable[bytes]) -> Iterator[Recorded]:
        """What was recorded; `lines` come with their line ends, for a last one without shows that it was cut."""
        for line in lines:
            found = self.take(line)
            if found is not None:
                yield found

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
            self._understood = True
        elif number >= ALL_NOISE and not self._understood:
            raise NotRecorded(
                f"the first {number} lines have nothing of a recording; give a file that `dragoman inspect run` wrote, "
                "or one with a message a line"
            )
        return found

    def trouble(self, line: int, why: str) -> None:
        """Remember what could not be read."""
        self.troubled += 1
        if len(self.troubles) < TOLD:
            self.troubles.append(Trouble(line, why))

    def _open(self, number: int, content: bytes, said: _Line) -> None:
        self.unit = 1
        self._understood = True
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

    def _recorded(self, number: int, content: bytes, said: _Line) -> Recorded | None:
        word = said.dir or said.direction
        way = WAYS.get(word)
        if not word:
            if said.method is not None or said.result or said.error or said.jsonrpc is not None:
                return Recorded(number, None, self._guess.way(content), content)
            self.trouble(number, "neither a message nor a line of a recording; skipped")
            return None
        if way is None:
            self.trouble(number, f"the direction {word[:40]!r} is not known here; skipped")
            return None
        t = None if said.t is None else round(said.t * self.unit)
        if way in (NOTE, GAP, END):
            self._aside(way, said)
            return None
        data = self._data(number, said)
        return None if data is None else Recorded(number, t, way, data, said.eol.encode("utf-8", "replace"), said.cut)

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

    def _aside(self, way: str, said: _Line) -> None:
        if way == GAP:
            self.lost += said.lost
        elif way == END:
            self.ending = Ending(said.why, said.status, said.frames)
        elif said.cmd and not self.header.command:
            self.header.command, self.header.cwd = said.cmd, said.cwd

    def _unreadable(self, number: int, line: bytes, error: Exception) -> None:
        if not line.endswith(b"\n"):
            self.trouble(number, "the recording is cut in the middle of this line; all before it was read")
        else:
            self.trouble(number, f"no JSON of a recording ({error}); skipped")
        if number >= ALL_NOISE and not self._understood:
            raise NotRecorded(f"the first {number} lines are no JSON; this is no recording")
