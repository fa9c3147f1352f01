"""The frames of one stream on their way out: numbered from 1, kept until the client has them. Pure, no I/O.

A transport adds frames and takes them for a socket; after a cut it rewinds to what the client says it received. The
receipt of the other direction is here too: how many frames came, and when that is worth telling.
"""

from __future__ import annotations

import re
from collections import deque

# Frames and bytes after which a receipt is told without waiting for the second to pass. A server that keeps little for
# its clients sends no more before it has one: so few bytes that a `buffered` of four times as many does not slow it.
ACK_FRAMES = 128
ACK_BYTES = 32 * 1024

# A receipt is told at the latest so long after the frame it is for. Seconds.
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
        """Bytes that nobody but us has: waiting, or sent and not acknowledged where that is asked for."""
        return self.waiting_size + self._taken_size if self.keep_bytes is None else self.waiting_size

    @property
    def last_number(self) -> int:
        """The number of the newest frame."""
        return self.last_taken + len(self._waiting_frames)

    def add(self, frame: bytes) -> None:
        """Put a frame at the end."""
        self._waiting_frames.append(frame)
        self.waiting_size += len(frame)

    def take(self, limit: int | None = None) -> list[bytes]:
        """The frames that wait, at least one and no more than `limit` bytes of the others; [] when none waits."""
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
        """The client has every frame up to this number."""
        surplus = min(cursor - (self.last_taken - len(self._taken_frames)), len(self._taken_frames))
        for _ in range(surplus):
            self._taken_size -= len(self._taken_frames.popleft())

    def first_waiting(self) -> bytes:
        """The first frame that waits; b"" when none does."""
        return self._waiting_frames[0] if self._waiting_frames else b""

    def replace_first(self, frame: bytes) -> None:
        """Send this in place of the first frame that waits, under its number."""
        self.waiting_size += len(frame) - len(self._waiting_frames[0])
        self._waiting_frames[0] = frame

    def rewind(self, cursor: int) -> None:
        """The client has the frames up to this number and no more: what came after waits again."""
        missing = self.last_taken - cursor
        if missing < 0 or missing > len(self._taken_frames):
            raise FramesGone(f"the frames after {cursor} are no longer kept")
        self.acknowledge(cursor)
        again = list(self._taken_frames)
        self._taken_frames.clear()
        self._waiting_frames[:0] = again
        self.waiting_size += self._taken_size
        self._taken_size = 0
        self.last_taken = cursor


class Acknowledgement:
    """How many frames were received, and whether the sender should hear of it now."""

    __slots__ = ("_unacknowledged_bytes", "acknowledged_count", "received_count")

    def __init__(self) -> None:
        self.received_count = 0
        self.acknowledged_count = 0
        self._unacknowledged_bytes = 0

    def count_frame(self, size: int) -> bool:
        """One more frame; whether a receipt is due at once."""
        self.received_count += 1
        self._unacknowledged_bytes += size
        return self.received_count - self.acknowledged_count >= ACK_FRAMES or self._unacknowledged_bytes >= ACK_BYTES

    def next_ack(self) -> bytes:
        """The frame that tells how far we are; frames of this kind are not counted themselves."""
        self.acknowledged_count = self.received_count
        self._unacknowledged_bytes = 0
        return encode_ack(self.received_count)


def encode_ack(cursor: int) -> bytes:
    """The notification that acknowledges all frames up to this number, always in these bytes."""
    return b'%b,"params":{"cursor":%d}}' % (_ACK_PREFIX, cursor)


def parse_ack(frame: object) -> int | None:
    """The number that a frame acknowledges; None for every other frame."""
    if type(frame) is not bytes or not frame.startswith(_ACK_PREFIX):
        return None
    found = _ACK_PATTERN.fullmatch(frame)
    return int(found[1]) if found else None
