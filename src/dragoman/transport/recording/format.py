"""The format of a recording: one header line, then one line for each line of traffic (docs/inspect.md).

A JSON line is embedded byte for byte, so `jq` can read a recording; other text is in a string, other bytes in base64.
The traffic can be restored exactly. `reader` parses recordings, `recorder` writes them.
"""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Callable
from typing import Any, NamedTuple

import msgspec
from msgspec import Raw

from dragoman.wire.depth import is_too_deep

# Increased when an old reader would misread a new recording; not for new members.
FORMAT = 1

# The direction of a line: from the client, from the agent, or the agent's stderr; then the recorder's own lines.
TO_AGENT, TO_CLIENT, STDERR = "c2a", "a2c", "err"
NOTE, GAP, END = "note", "gap", "end"
TRAFFIC = frozenset({TO_AGENT, TO_CLIENT, STDERR})
OPPOSITE = {TO_AGENT: TO_CLIENT, TO_CLIENT: TO_AGENT}

# Takes the direction and the bytes of some traffic.
TrafficListener = Callable[[str, bytes], None]

# Of a longer line only the beginning is kept. The largest message that a transport accepts (wire/frames.py).
MAX_LINE = 64 * 1024 * 1024
KEPT_OF_LONG_LINE = 4 * 1024


class Header(msgspec.Struct, kw_only=True, omit_defaults=True):
    """The first line: what was recorded, when, in which format; line times are relative to `epoch`."""

    dragoman: str = "recording"
    format: int = FORMAT
    version: str = ""
    command: list[str] = []
    cwd: str = ""
    start: str = ""
    epoch: int = 0  # microseconds since 1970; aligns two recordings of one conversation
    redacted: bool = False
    between: list[str] = []  # the two components of a chain whose messages these are


class RecordedLine(msgspec.Struct, gc=False):
    """One recorded line of traffic; `t` is microseconds since the start, None if unknown."""

    line: int
    t: int | None
    direction: str
    data: bytes
    eol: bytes = b"\n"
    cut: int = 0  # the original size, if only the beginning was kept
    part: int = 0  # index of its recording, in a file that has several


# What decoding a line may raise: not JSON, not UTF-8, or nested too deeply.
DECODE_ERRORS = (msgspec.MsgspecError, UnicodeDecodeError, RecursionError)

_encode = msgspec.json.Encoder().encode
_validate = msgspec.json.Decoder(Raw).decode


def parse_json(data: bytes) -> Any:
    """Return the JSON value of a line; None if it has none."""
    try:
        return msgspec.json.decode(data)
    except DECODE_ERRORS:
        return None


def header_line(header: Header) -> bytes:
    """Return the first line of a recording, always with its type and format."""
    members = msgspec.to_builtins(header)
    return bytes(_encode({"dragoman": header.dragoman, "format": header.format, **members})) + b"\n"


def frame_line(t: int, direction: str, data: bytes, eol: bytes = b"\n", cut: int = 0) -> bytes:
    """Return the recording line for a line of traffic. The message comes last, so its size is known without parsing."""
    ending = b"" if eol == b"\n" else b',"eol":%b' % _encode(eol.decode("ascii"))
    if cut:
        ending += b',"cut":%d' % cut
    return b'{"t":%d,"dir":"%b"%b,%b}\n' % (t, direction.encode("ascii"), ending, _encode_body(data, bool(cut)))


def restore_bytes(frames: list[RecordedLine], direction: str) -> bytes:
    """Return the original bytes of one direction."""
    return b"".join(frame.data + frame.eol for frame in frames if frame.direction == direction)


def end_line(t: int, reason: str, status: int | None, frames: int) -> bytes:
    """Return the last line: how it ended. A recording without it is incomplete."""
    return bytes(_encode({"t": t, "dir": END, "why": reason, "status": status, "frames": frames})) + b"\n"


def gap_line(t: int, lost: int) -> bytes:
    """Return the line that says how many bytes were not recorded because the disk was too slow."""
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
    """One line of a stream, its line end, and its original size if it was cut."""

    data: bytes
    eol: bytes
    cut: int


class TrafficSplitter:
    """Splits one direction of traffic into lines and keeps the line ends; cuts lines over the limit."""

    __slots__ = ("_last_byte", "_limit", "_parts", "_size")

    def __init__(self, limit: int = MAX_LINE) -> None:
        self._limit = limit
        self._parts: list[bytes] = []
        self._size = 0
        self._last_byte = b""

    def feed(self, data: bytes) -> list[StreamLine]:
        """Return the lines that these bytes complete."""
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
        """Return what follows the last line end, at the end of the stream."""
        return [self._take_buffered(b"")] if self._size else []

    def _buffer_part(self, part: bytes) -> None:
        was, self._size = self._size, self._size + len(part)
        self._last_byte = part[-1:] or self._last_byte
        if was <= self._limit + 1:  # one more: a CR may still be removed
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
