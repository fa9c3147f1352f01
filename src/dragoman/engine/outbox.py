"""What we say, on its way to the transport: written at once or in bursts, and told when it is too much.

Takes frames, and forms: a frame with a gap for one text, for the chunks of a stream differ in nothing else. Knows when
a producer should give way, to a peer that reads slowly or to our own reader, so that a cancel gets through.
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
    """The way out of one connection."""

    __slots__ = ("_send", "_transport", "_unyielded_bytes", "is_closed", "should_throttle")

    def __init__(self, transport: Transport) -> None:
        self._transport = transport
        self._send = transport.send
        self._unyielded_bytes = 0  # bytes since the producer last gave way
        self.should_throttle = False  # whether a producer should await `give_way`
        self.is_closed = False

    def write(self, frame: bytes) -> None:
        """Send a frame; nothing happens any more once the connection has ended."""
        if self.is_closed:
            return
        self._unyielded_bytes += (
            len(frame) + 1
        )  # as the transport counts: a turn then ends with a full block, not just after it
        if self._unyielded_bytes >= YIELD_BYTES:
            self.should_throttle = True
        try:
            self._send(frame)
        except ConnectionFailed:
            pass  # the reader hears of it and ends the connection with the reason

    def send_template(self, template: FrameTemplate, text: str) -> bool:
        """Send a form with this text in its gap; whether the sender should give way now."""
        head, tail = template
        try:  # no name for what is put together: a large text would be held once more
            frame = head + encode_plain(text) + tail
        except UnicodeEncodeError:
            frame = head + encode(text) + tail
        self.write(frame)
        return self.should_throttle

    async def throttle(self) -> None:
        """Let the peer catch up when it reads too slowly, or our own reader when we have said a lot."""
        self._unyielded_bytes = 0
        self.should_throttle = False
        if self._transport.congested():
            await self._transport.drain()
        else:
            await asyncio.sleep(0)


def build_template(frame: bytes, placeholder: str) -> FrameTemplate | None:
    """The frame as a form with a gap where this text stands; None where it does not stand."""
    head, mark, tail = frame.partition(encode(placeholder))
    return FrameTemplate(head, tail) if mark else None
