"""Weighs what an HTTP/2 socket sends, before anything is done about it. Pure.

Takes the bytes of a client as they come, gives whether they are still bearable: frames that bring little or nothing
(pings, settings, priorities, windows, headers, crumbs of a body) and requests that are taken back cost far more to read
than to send. It finds where frames begin and understands nothing else of them. Above is http2.py.
"""

from __future__ import annotations

from dragoman.transport.remote.server.limits import ServerLimits, TokenBucket

# What every HTTP/2 client says first, also without TLS (RFC 9113 section 3.4).
PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"

# What stands before the payload of a frame: three bytes of length, its type, flags, four bytes of stream (section 4.1).
_FRAME_HEADER_SIZE = 9
_RST_STREAM = 3

# A frame of this size is worth reading: so few of them fit on a line that their number needs no bound. Bytes.
SMALL_FRAME = 4096

# How many seconds' worth of frames, and of resets, may come at once.
BURST_SECONDS = 2.0
RESET_BURST_SECONDS = 4.0


class FloodMeter:
    """The frames of one socket."""

    def __init__(self, limits: ServerLimits) -> None:
        self._frame_bucket = TokenBucket(limits.frames, limits.frames * BURST_SECONDS)
        self._reset_bucket = TokenBucket(limits.resets, limits.resets * RESET_BURST_SECONDS)
        self._skip = len(PREFACE)  # bytes until the next frame begins
        self._head = b""  # the beginning of its head, where that came in pieces

    def accept(self, data: bytes, now: float) -> bool:
        """Count what came; False when it is too much."""
        frames = resets = 0
        place, end = self._skip, len(data)
        if self._head:
            data = self._head + data
            end, self._head = len(data), b""
        while end - place >= _FRAME_HEADER_SIZE:
            size = int.from_bytes(data[place : place + 3], "big")
            frames += size < SMALL_FRAME
            resets += data[place + 3] == _RST_STREAM
            place += _FRAME_HEADER_SIZE + size
        if place < end:
            self._head, place = data[place:], end
        self._skip = place - end
        return self._frame_bucket.take(frames, now) and self._reset_bucket.take(resets, now)
