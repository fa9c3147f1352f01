"""Write frames to the transport and tell producers when to slow down.

A FrameTemplate is a frame with a gap for one text, since the chunks of a stream differ in nothing else. Producers wait
for a peer that reads slowly, and for our own reader, so that a cancel gets through.
"""

from __future__ import annotations

import asyncio
from typing import NamedTuple

from dragoman.engine.limits import YIELD_BYTES
from dragoman.errors import ConnectionFailed
from dragoman.schema.base import encode, encode_plain
from dragoman.transport.base import Transport


class FrameTemplate(NamedTuple):
    """A frame with a gap for one text."""

    head: bytes
    tail: bytes


class Outbox:
    """The outgoing frames of one connection."""

    __slots__ = ("_send", "_transport", "_unyielded_bytes", "is_closed", "should_throttle")

    def __init__(self, transport: Transport) -> None:
        self._transport = transport
        self._send = transport.send
        self._unyielded_bytes = 0  # bytes since the producer last waited
        self.should_throttle = False  # whether a producer should await `throttle`
        self.is_closed = False

    def write(self, frame: bytes) -> None:
        """Send a frame; do nothing once the connection has ended."""
        if self.is_closed:
            return
        # Counted like the transport does, so that a turn ends with a full block, not just after it.
        self._unyielded_bytes += len(frame) + 1
        if self._unyielded_bytes >= YIELD_BYTES:
            self.should_throttle = True
        try:
            self._send(frame)
        except ConnectionFailed:
            pass  # the reader gets the same error and ends the connection with it

    def send_template(self, template: FrameTemplate, text: str) -> bool:
        """Send a template with this text in its gap; return whether the sender should await `throttle`."""
        head, tail = template
        try:  # the joined text has no name, so that a large one is not kept longer
            frame = head + encode_plain(text) + tail
        except UnicodeEncodeError:
            frame = head + encode(text) + tail
        self.write(frame)
        return self.should_throttle

    async def throttle(self) -> None:
        """Wait for a peer that reads too slowly, or let our own reader run after much output."""
        self._unyielded_bytes = 0
        self.should_throttle = False
        if self._transport.congested():
            await self._transport.drain()
        else:
            await asyncio.sleep(0)


def build_template(frame: bytes, placeholder: str) -> FrameTemplate | None:
    """Make a template from a frame, with a gap in place of the placeholder; None when the frame does not contain it."""
    head, separator, tail = frame.partition(encode(placeholder))
    return FrameTemplate(head, tail) if separator else None
