"""Weighs what an HTTP/2 socket sends, before anything is done about it. Pure.

Takes the bytes of a client as they come, gives whether they are still bearable: frames that bring little or nothing
(pings, settings, priorities, windows, headers, crumbs of a body) and requests that are taken back cost far more to read
than to send. It finds where frames begin and understands nothing else of them. Above is http2.py.
"""

from __future__ import annotations

from dragoman.transport.remote.server.limits import Bucket, Limits

# What every HTTP/2 client says first, also without TLS (RFC 9113 section 3.4).
PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"

# What stands before the payload of a frame: three bytes of length, its type, flags, four bytes of stream (section 4.1).
_HEAD = 9
_RST_STREAM = 3

# A frame of this size is worth reading: so few of them fit on a line that their number needs no bound. Bytes.
WORTH = 4096

# How many seconds' worth of frames, and of resets, may come at once.
AT_ONCE = 2.0
RESETS_AT_ONCE = 4.0


class Meter:
    """The frames of one socket."""

    def __init__(self, limits: Limits) -> None:
        self._frames = Bucket(limits.frames, limits.frames * AT_ONCE)
        self._resets = Bucket(limits.resets, limits.resets * RESETS_AT_ONCE)
        self._skip = len(PREFACE)  # bytes until the next frame begins
        self._head = b""  # the beginning of its head, where that came in pieces

    def bears(self, data: bytes, now: float) -> bool:
        """Count what came; False when it is too much."""
        frames = resets = 0
        place, end = self._skip, len(data)
        if self._head:
            data = self._head + data
            end, self._head = len(data), b""
        while end - place >= _HEAD:
            size = int.from_bytes(data[place : place + 3], "big")
            frames += size < WORTH
            resets += data[place + 3] == _RST_STREAM
            place += _HEAD + size
        if place < end:
            self._head, place = data[place:], end
        self._skip = place - end
        return self._frames.take(frames, now) and self._resets.take(resets, now)
