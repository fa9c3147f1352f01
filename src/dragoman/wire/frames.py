"""Newline-delimited framing: split bytes in any chunking into frames, in order.

Blank lines are dropped. A line over the limit is not held: only its size, head and tail are kept, so that its id can
still be found and answered.
"""

from __future__ import annotations

from typing import NamedTuple

# 64 MiB: real agents send whole files and images in one message (docs/protocol/peers.md#reports-size); more is a defect
# or an attack.
MAX_FRAME = 64 * 1024 * 1024

# Enough of either end to find an id, wherever the peer's encoder puts it (docs/protocol/peers.md#id-shapes).
EXCERPT_SIZE = 4 * 1024


class Oversize(NamedTuple):
    """A line that is too large to hold: its size and both ends."""

    size: int
    head: bytes
    tail: bytes


Frame = bytes | Oversize


class LineSplitter:
    """Splits a byte stream into frames; holds at most one unfinished line."""

    __slots__ = ("_limit", "_parts", "_size", "_skipped")

    def __init__(self, limit: int = MAX_FRAME) -> None:
        self._limit = limit
        self._parts: list[bytes] = []
        self._size = 0
        self._skipped: Oversize | None = None

    def feed(self, data: bytes) -> list[Frame]:
        """Add bytes and return the frames they complete."""
        lines = data.split(b"\n")
        rest = lines.pop()
        frames: list[Frame] = []
        if lines:
            if self._parts or self._skipped is not None:
                first = self._complete_line(lines[0])
                if first:
                    frames.append(first)
                del lines[0]
            limit = self._limit
            if len(data) <= limit and data.find(b"\r") < 0:  # nearly always: only blank lines to drop
                frames += [line for line in lines if line and not line.isspace()]
                lines = []
            for line in lines:
                if line.endswith(b"\r"):
                    line = line[:-1]
                if len(line) > limit:
                    frames.append(_oversize_of(line))
                elif line and not line.isspace():
                    frames.append(line)
        if rest:
            self._buffer(rest)
        return frames

    def finish(self) -> list[Frame]:
        """Return the last line if the stream ended without its newline."""
        if not self._parts and self._skipped is None:
            return []
        last = self._complete_line(b"")
        return [last] if last else []

    def _buffer(self, part: bytes) -> None:
        if self._skipped is not None:
            size, head, tail = self._skipped
            head = (head + part[:EXCERPT_SIZE])[:EXCERPT_SIZE]
            self._skipped = Oversize(size + len(part), head, (tail + part)[-EXCERPT_SIZE - 1 :])
            return
        self._parts.append(part)
        self._size += len(part)
        if self._size > self._limit + 1:  # one more byte, which may be a CR
            line = b"".join(self._parts)
            self._skipped = Oversize(len(line), line[:EXCERPT_SIZE], line[-EXCERPT_SIZE - 1 :])
            self._parts.clear()
            self._size = 0

    def _complete_line(self, part: bytes) -> Frame | None:
        """Complete the unfinished line with its last part."""
        if part:
            self._buffer(part)
        skipped, self._skipped = self._skipped, None
        if skipped is not None:
            size, head, tail = skipped
            if tail.endswith(b"\r"):
                size, head, tail = size - 1, head[: size - 1], tail[:-1]
            return Oversize(size, head, tail[-EXCERPT_SIZE:])
        line = b"".join(self._parts)
        self._parts.clear()
        self._size = 0
        if line.endswith(b"\r"):
            line = line[:-1]
        if len(line) > self._limit:
            return _oversize_of(line)
        return None if not line or line.isspace() else line


def _oversize_of(line: bytes) -> Oversize:
    return Oversize(len(line), line[:EXCERPT_SIZE], line[-EXCERPT_SIZE:])
