"""The format of a recording: one header line, then one line for each line that passed (docs/inspect.md).

Takes lines of traffic and gives lines of a recording. A line that is JSON is embedded as it is, byte for byte, so that
`jq` reads a recording and nothing is escaped twice; what is no JSON stands in a string, what is no UTF-8 in base64.
From a recording the traffic can be restored to the byte. Pure; `reading` is the way back, `recorder` does the writing.
"""

from __future__ import annotations

from base64 import b64encode
from typing import NamedTuple

import msgspec
from msgspec import Raw

from dragoman.wire.depth import is_too_deep

# Grows when a reader of the old format would misread a new recording; new members alone do not count.
FORMAT = 1

# Who wrote a line: the client, the agent, or the agent on its stderr; and what the recorder itself has to say.
TO_AGENT, TO_CLIENT, STDERR = "c2a", "a2c", "err"
NOTE, GAP, END = "note", "gap", "end"
TRAFFIC = frozenset({TO_AGENT, TO_CLIENT, STDERR})

# Of a longer line only the beginning is kept: the largest message a transport takes (wire/frames.py).
MAX_LINE = 64 * 1024 * 1024
KEPT_OF_LONG_LINE = 4 * 1024


class Header(msgspec.Struct, kw_only=True, omit_defaults=True):
    """The first line: what was recorded, when, by which format; times of the lines count from `epoch`."""

    dragoman: str = "recording"
    format: int = FORMAT
    version: str = ""
    command: list[str] = []
    cwd: str = ""
    start: str = ""
    epoch: int = 0  # microseconds since 1970; two recordings of one conversation are put together by it
    redacted: bool = False


class RecordedLine(msgspec.Struct, gc=False):
    """One line of traffic as it was recorded; `t` is microseconds since the start, None where nobody noted it."""

    line: int
    t: int | None
    direction: str
    data: bytes
    eol: bytes = b"\n"
    cut: int = 0  # the size the line really had, when only its beginning was kept
    part: int = 0  # how many recordings stand before its own, in a file that several were put into


_encode = msgspec.json.Encoder().encode
_validate = msgspec.json.Decoder(Raw).decode


def header_line(header: Header) -> bytes:
    """The first line of a recording; what makes it one is always said."""
    said = msgspec.to_builtins(header)
    return bytes(_encode({"dragoman": header.dragoman, "format": header.format, **said})) + b"\n"


def frame_line(t: int, direction: str, data: bytes, eol: bytes = b"\n", cut: int = 0) -> bytes:
    """The line for a line of traffic. The message is its last member, so readers can tell its size without parsing."""
    ending = b"" if eol == b"\n" else b',"eol":%b' % _encode(eol.decode("ascii"))
    if cut:
        ending += b',"cut":%d' % cut
    return b'{"t":%d,"dir":"%b"%b,%b}\n' % (t, direction.encode("ascii"), ending, _encode_body(data, bool(cut)))


def restore_bytes(frames: list[RecordedLine], direction: str) -> bytes:
    """The bytes that passed in one direction."""
    return b"".join(frame.data + frame.eol for frame in frames if frame.direction == direction)


def end_line(t: int, reason: str, status: int | None, frames: int) -> bytes:
    """The last line: how it ended. A recording without it was cut."""
    return bytes(_encode({"t": t, "dir": END, "why": reason, "status": status, "frames": frames})) + b"\n"


def gap_line(t: int, lost: int) -> bytes:
    """So many bytes passed unrecorded, because the disk could not keep up."""
    return bytes(_encode({"t": t, "dir": GAP, "lost": lost})) + b"\n"


def _encode_body(data: bytes, is_cut: bool) -> bytes:
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError:
        return b'"b64":"%b"' % b64encode(data)
    if data[:1] == b"{" and data[-1:] == b"}" and not is_cut:
        try:
            _validate(data)
        except (msgspec.MsgspecError, RecursionError):
            pass
        else:
            if not is_too_deep(data):
                return b'"msg":%b' % data
    return b'"raw":%b' % _encode(text)


class StreamLine(NamedTuple):
    """One line of a stream, its line end, and the real size of one that was cut."""

    data: bytes
    eol: bytes
    cut: int


class TrafficSplitter:
    """Cuts one direction of traffic into lines and keeps their line ends; only of giants the rest is dropped."""

    __slots__ = ("_last_byte", "_limit", "_parts", "_size")

    def __init__(self, limit: int = MAX_LINE) -> None:
        self._limit = limit
        self._parts: list[bytes] = []
        self._size = 0
        self._last_byte = b""

    def feed(self, data: bytes) -> list[StreamLine]:
        """The lines that these bytes complete."""
        lines = data.split(b"\n")
        rest = lines.pop()
        found: list[StreamLine] = []
        for line in lines:
            if self._size:
                self._buffer_part(line)
                found.append(self._take_buffered(b"\n"))
            elif line[-1:] == b"\r":
                found.append(self._build_line(line[:-1], b"\r\n", len(line) - 1))
            else:
                found.append(self._build_line(line, b"\n", len(line)))
        if rest:
            self._buffer_part(rest)
        return found

    def finish(self) -> list[StreamLine]:
        """The stream ended: what stood after the last line end."""
        return [self._take_buffered(b"")] if self._size else []

    def _buffer_part(self, part: bytes) -> None:
        was, self._size = self._size, self._size + len(part)
        self._last_byte = part[-1:] or self._last_byte
        if was <= self._limit + 1:  # one more: a CR may still fall away
            self._parts.append(part)
            if self._size > self._limit + 1:
                self._parts = [b"".join(self._parts)[:KEPT_OF_LONG_LINE]]

    def _take_buffered(self, eol: bytes) -> StreamLine:
        data, size = b"".join(self._parts), self._size
        self._parts, self._size = [], 0
        if eol and self._last_byte == b"\r":
            data, size, eol = data[: size - 1], size - 1, b"\r\n"
        return self._build_line(data, eol, size)

    def _build_line(self, data: bytes, eol: bytes, size: int) -> StreamLine:
        return StreamLine(data, eol, 0) if size <= self._limit else StreamLine(data[:KEPT_OF_LONG_LINE], eol, size)
