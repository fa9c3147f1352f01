"""Outgoing frames that are kept until they are acknowledged, numbered from 1. No I/O.

After a cut a transport rewinds to what the peer says it received. Acknowledgement counts the other direction.
"""

from __future__ import annotations

import asyncio
import re
from collections import deque
from collections.abc import Callable

from dragoman.wire.frames import Frame

# Frames and bytes after which an acknowledgement is sent without waiting for ACK_DELAY. A server with a small buffer
# waits for one: these are few enough that a `buffered` of four times as many does not slow it.
ACK_FRAMES = 128
ACK_BYTES = 32 * 1024

# An acknowledgement is sent at the latest this long after its frame. Seconds.
ACK_DELAY = 1.0

ACK_METHOD = "_dragoman/ack"
_ACK_PREFIX = b'{"jsonrpc":"2.0","method":"_dragoman/ack"'
_ACK_PATTERN = re.compile(rb'\{"jsonrpc":"2\.0","method":"_dragoman/ack","params":\{"cursor":(\d{1,18})\}\}')


class FramesGone(LookupError):
    """The frames after a cursor are no longer kept, or were never sent."""


class ResumeBuffer:
    """Frames of one stream. `keep` bytes are kept after they were taken; None: all, until acknowledged."""

    __slots__ = ("_taken_frames", "_taken_size", "_waiting_frames", "keep_bytes", "last_taken", "waiting_size")

    def __init__(self, keep_bytes: int | None) -> None:
        self.keep_bytes = keep_bytes
        self.last_taken = 0  # the number of the last frame that was taken
        self.waiting_size = 0
        self._waiting_frames: list[bytes] = []
        self._taken_frames: deque[bytes] = deque()  # the last ones taken, the newest at the end
        self._taken_size = 0

    @property
    def unacknowledged_size(self) -> int:
        """Bytes that only we have: waiting, or sent and not acknowledged where acknowledgements are used."""
        return self.waiting_size + self._taken_size if self.keep_bytes is None else self.waiting_size

    @property
    def last_number(self) -> int:
        """The number of the newest frame."""
        return self.last_taken + len(self._waiting_frames)

    def add(self, frame: bytes) -> None:
        """Append a frame."""
        self._waiting_frames.append(frame)
        self.waiting_size += len(frame)

    def extend(self, frames: list[bytes]) -> None:
        """Append the frames of a block."""
        self._waiting_frames += frames
        self.waiting_size += sum(map(len, frames))

    def take(self, limit: int | None = None) -> list[bytes]:
        """Take the waiting frames: at least one, and no more than `limit` bytes of the others; [] when none waits."""
        frames, size = self._waiting_frames, self.waiting_size
        if limit is not None and size > limit:
            count = size = 0
            for frame in frames:
                if count and size + len(frame) > limit:
                    break
                size += len(frame)
                count += 1
            self._waiting_frames, frames = frames[count:], frames[:count]
        else:
            self._waiting_frames = []
        self.waiting_size -= size
        self.last_taken += len(frames)
        if self.keep_bytes != 0:
            self._taken_frames.extend(frames)
            self._taken_size += size
            if self.keep_bytes is not None:
                while self._taken_size > self.keep_bytes and self._taken_frames:
                    self._taken_size -= len(self._taken_frames.popleft())
        return frames

    def acknowledge(self, cursor: int) -> None:
        """Drop every frame up to this number: the client has them."""
        count = min(cursor - (self.last_taken - len(self._taken_frames)), len(self._taken_frames))
        for _ in range(count):
            self._taken_size -= len(self._taken_frames.popleft())

    def first_waiting(self) -> bytes:
        """Return the first frame that waits; b"" when none does."""
        return self._waiting_frames[0] if self._waiting_frames else b""

    def replace_first(self, frame: bytes) -> None:
        """Send this instead of the first frame that waits, under its number."""
        self.waiting_size += len(frame) - len(self._waiting_frames[0])
        self._waiting_frames[0] = frame

    def rewind(self, cursor: int) -> None:
        """Let every frame after this number wait again: the client has no more than that."""
        missing = self.last_taken - cursor
        if missing < 0 or missing > len(self._taken_frames):
            raise FramesGone(f"the frames after {cursor} are no longer kept")
        self.acknowledge(cursor)
        frames = list(self._taken_frames)
        self._taken_frames.clear()
        self._waiting_frames[:0] = frames
        self.waiting_size += self._taken_size
        self._taken_size = 0
        self.last_taken = cursor


class Acknowledgement:
    """Counts received frames and acknowledges them in time; frees our own frames that the peer acknowledges.

    `send` sends an acknowledgement, and returns whether it could.
    """

    __slots__ = ("_acknowledged_count", "_buffer", "_send", "_timer", "_unacknowledged_bytes", "received_count")

    def __init__(self, buffer: ResumeBuffer, send: Callable[[bytes], bool]) -> None:
        self.received_count = 0
        self._acknowledged_count = 0
        self._unacknowledged_bytes = 0
        self._buffer = buffer
        self._send = send
        self._timer: asyncio.TimerHandle | None = None

    def count_frames(self, frames: list[Frame], size: int) -> list[Frame]:
        """Count the frames of a block; return them without the peer's acknowledgements, which are not counted."""
        cursors = [parse_ack(frame) for frame in frames if type(frame) is bytes and frame.startswith(_ACK_PREFIX)]
        if cursors:
            self._buffer.acknowledge(max(cursor or 0 for cursor in cursors))
            frames = [frame for frame in frames if parse_ack(frame) is None]
            if not frames:
                return frames
        self.received_count += len(frames)
        self._unacknowledged_bytes += size
        unacknowledged_count = self.received_count - self._acknowledged_count
        if unacknowledged_count >= ACK_FRAMES or self._unacknowledged_bytes >= ACK_BYTES:
            self._acknowledge()
        elif self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(ACK_DELAY, self._acknowledge)
        return frames

    def stop(self) -> None:
        """Stop the timer."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _acknowledge(self) -> None:
        self.stop()
        if self.received_count > self._acknowledged_count and self._send(encode_ack(self.received_count)):
            self._acknowledged_count, self._unacknowledged_bytes = self.received_count, 0


def encode_ack(cursor: int) -> bytes:
    """Encode the notification that acknowledges all frames up to this number, always in these bytes."""
    return b'%b,"params":{"cursor":%d}}' % (_ACK_PREFIX, cursor)


def parse_ack(frame: object) -> int | None:
    """Return the number that a frame acknowledges; None for every other frame."""
    if type(frame) is not bytes or not frame.startswith(_ACK_PREFIX):
        return None
    match = _ACK_PATTERN.fullmatch(frame)
    return int(match[1]) if match else None
