"""The framing of LSP: a header with Content-Length, then the JSON text. Takes bytes in any chunking, without I/O.

Noise between messages is dropped. A body over the limit is not held; only its size, head and tail are kept.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from dragoman.wire.frames import EXCERPT_SIZE, Frame, Oversize

# Bytes of one message: a symbol search of a large project has a few; more is a defect.
MAX_BODY = 32 * 1024 * 1024

# Bytes of a header: real ones have less than a hundred.
MAX_HEADER = 4 * 1024

# Bytes without a header after which the output is reported: banners and stray prints are far shorter.
MAX_NOISE = 1024 * 1024

_LENGTH = re.compile(rb"content-length:[ \t]*(\d{1,15})[ \t]*\r?\n", re.IGNORECASE)
_END = re.compile(rb"\n\r?\n")
_NAME = b"content-length:"


class HeaderSplitter:
    """Splits the output of a language server into messages.

    Noise beyond MAX_NOISE is reported as an Oversize frame without a head.
    """

    def __init__(self, max_body: int = MAX_BODY, max_noise: int = MAX_NOISE) -> None:
        self._max_body = max_body
        self._max_noise = max_noise
        self._buffer = bytearray()
        self._missing = -1  # bytes of the body that are awaited; -1 while a header is read
        self._oversize: Oversize | None = None
        self._noise = 0

    def feed(self, data: bytes) -> list[Frame]:
        """Add bytes and return the messages they complete."""
        self._buffer += data
        frames: list[Frame] = []
        while self._take_header(frames) if self._missing < 0 else self._take_body(frames):
            pass
        return frames

    def finish(self) -> list[Frame]:
        """Return nothing: a message that is cut off cannot be read."""
        return []

    def _take_header(self, frames: list[Frame]) -> bool:
        """Take the next header; return whether there was one."""
        buffer = self._buffer
        found = _LENGTH.search(buffer)
        if found is None:
            self._drop_noise(len(buffer) - _partial_header(buffer), frames)
            return False
        end = _END.search(buffer, found.end() - 1)
        if end is None or end.start() - found.start() > MAX_HEADER:
            if len(buffer) - found.start() <= MAX_HEADER:
                return False
            self._drop_noise(found.end(), frames)
            return True
        size = int(found[1])
        self._drop_noise(found.start(), frames)
        del buffer[: end.end() - found.start()]
        self._noise = 0
        self._missing = size
        self._oversize = Oversize(size, b"", b"") if size > self._max_body else None
        return True

    def _take_body(self, frames: list[Frame]) -> bool:
        """Take the body; return whether it was complete."""
        buffer = self._buffer
        if self._oversize is not None:
            return self._skip_body(self._oversize, frames)
        if len(buffer) < self._missing:
            return False
        if self._missing:
            frames.append(bytes(buffer[: self._missing]))
        del buffer[: self._missing]
        self._missing = -1
        return True

    def _skip_body(self, oversize: Oversize, frames: list[Frame]) -> bool:
        buffer = self._buffer
        part = bytes(buffer[: self._missing])
        del buffer[: len(part)]
        self._missing -= len(part)
        head = (oversize.head + part[:EXCERPT_SIZE])[:EXCERPT_SIZE]
        self._oversize = Oversize(oversize.size, head, (oversize.tail + part[-EXCERPT_SIZE:])[-EXCERPT_SIZE:])
        if self._missing:
            return False
        frames.append(self._oversize)
        self._missing = -1
        return True

    def _drop_noise(self, size: int, frames: list[Frame]) -> None:
        if size <= 0:
            return
        del self._buffer[:size]
        self._noise += size
        if self._noise > self._max_noise:
            frames.append(Oversize(self._noise, b"", b""))
            self._noise = 0


def _partial_header(buffer: bytearray) -> int:
    """Return how many bytes at the end may be the beginning of a header."""
    tail = bytes(buffer[-MAX_HEADER:]).lower()
    start = tail.rfind(_NAME)
    if start >= 0 and b"\n" not in tail[start:]:
        return len(tail) - start
    return next((size for size in range(min(len(_NAME), len(tail)), 0, -1) if tail.endswith(_NAME[:size])), 0)


class HeaderFraming:
    """Messages with a Content-Length header, for the transport of a process."""

    def open_splitter(self) -> HeaderSplitter:
        """Return the splitter of one stream."""
        return HeaderSplitter()

    def join(self, frames: Sequence[bytes]) -> bytes:
        """Return the bytes of some messages."""
        return b"".join(b"Content-Length: %d\r\n\r\n%b" % (len(frame), frame) for frame in frames)
