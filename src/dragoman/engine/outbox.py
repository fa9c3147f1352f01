"""What we say, on its way to the transport: written at once or in bursts, and told when it is too much.

Takes frames, and forms: a frame with a gap for one text, for the chunks of a stream differ in nothing else. Knows when
a producer should give way, to a peer that reads slowly or to our own reader, so that a cancel gets through.
"""

from __future__ import annotations

import asyncio
from typing import NamedTuple

from dragoman.engine.limits import TURN_BYTES
from dragoman.errors import ConnectionFailed
from dragoman.schema.base import encode, encode_plain
from dragoman.transport.base import Transport


class Form(NamedTuple):
    """A frame with a gap for one text."""

    head: bytes
    tail: bytes


class Outbox:
    """The way out of one connection."""

    __slots__ = ("_said", "_send", "_transport", "closed", "should_wait")

    def __init__(self, transport: Transport) -> None:
        self._transport = transport
        self._send = transport.send
        self._said = 0  # bytes since the producer last gave way
        self.should_wait = False  # whether a producer should await `give_way`
        self.closed = False

    def write(self, frame: bytes) -> None:
        """Send a frame; nothing happens any more once the connection has ended."""
        if self.closed:
            return
        self._said += len(frame) + 1  # as the transport counts: a turn then ends with a full block, not just after it
        if self._said >= TURN_BYTES:
            self.should_wait = True
        try:
            self._send(frame)
        except ConnectionFailed:
            pass  # the reader hears of it and ends the connection with the reason

    def fill(self, form: Form, text: str) -> bool:
        """Send a form with this text in its gap; whether the sender should give way now."""
        head, tail = form
        try:  # no name for what is put together: a large text would be held once more
            frame = head + encode_plain(text) + tail
        except UnicodeEncodeError:
            frame = head + encode(text) + tail
        self.write(frame)
        return self.should_wait

    async def give_way(self) -> None:
        """Let the peer catch up when it reads too slowly, or our own reader when we have said a lot."""
        self._said = 0
        self.should_wait = False
        if self._transport.congested():
            await self._transport.drain()
        else:
            await asyncio.sleep(0)


def form(frame: bytes, gap: str) -> Form | None:
    """The frame as a form with a gap where this text stands; None where it does not stand."""
    head, mark, tail = frame.partition(encode(gap))
    return Form(head, tail) if mark else None
