"""Detect floods on an HTTP/2 socket before anything is processed. Pure.

Small frames (pings, settings, priorities, windows, headers, tiny parts of a body) and cancelled requests cost far more
to process than to send. This finds where frames begin and parses nothing else.
"""

from __future__ import annotations

from dragoman.transport.remote.server.limits import ServerLimits, TokenBucket

# The first bytes of every HTTP/2 client, also without TLS (RFC 9113 section 3.4).
PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"

# The header of a frame: three bytes of length, its type, flags, four bytes of stream (section 4.1).
_FRAME_HEADER_SIZE = 9
_RST_STREAM = 3

# Larger frames need no limit, since bandwidth limits their number. Bytes.
SMALL_FRAME = 4096

# How many seconds' worth of frames, and of resets, may come at once.
BURST_SECONDS = 2.0
RESET_BURST_SECONDS = 4.0


class FloodMeter:
    """Counts the frames of one socket."""

    def __init__(self, limits: ServerLimits) -> None:
        self._frame_bucket = TokenBucket(limits.frames, limits.frames * BURST_SECONDS)
        self._reset_bucket = TokenBucket(limits.resets, limits.resets * RESET_BURST_SECONDS)
        self._skip = len(PREFACE)  # bytes until the next frame begins
        self._head = b""  # the beginning of a frame header that came in pieces

    def accept(self, data: bytes, now: float) -> bool:
        """Count the bytes; return False when it is too much."""
        frames = resets = 0
        position, end = self._skip, len(data)
        if self._head:
            data = self._head + data
            end, self._head = len(data), b""
        while end - position >= _FRAME_HEADER_SIZE:
            size = int.from_bytes(data[position : position + 3], "big")
            frames += size < SMALL_FRAME
            resets += data[position + 3] == _RST_STREAM
            position += _FRAME_HEADER_SIZE + size
        if position < end:
            self._head, position = data[position:], end
        self._skip = position - end
        return self._frame_bucket.take(frames, now) and self._reset_bucket.take(resets, now)
