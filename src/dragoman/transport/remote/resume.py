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

ACK = "_dragoman/ack"
_ACK_HEAD = b'{"jsonrpc":"2.0","method":"_dragoman/ack"'
_ACK = re.compile(rb'\{"jsonrpc":"2\.0","method":"_dragoman/ack","params":\{"cursor":(\d{1,18})\}\}')


class Gone(LookupError):
    """The frames after a cursor are no longer kept, or were never sent."""


class Spool:
    """Frames of one stream. `keep` bytes are kept after they were taken; None: all, until acknowledged."""

    __slots__ = ("_kept", "_kept_size", "_waiting", "keep", "taken", "waiting_size")

    def __init__(self, keep: int | None) -> None:
        self.keep = keep
        self.taken = 0  # the number of the last frame that was taken
        self.waiting_size = 0
        self._waiting: list[bytes] = []
        self._kept: deque[bytes] = deque()  # the last ones taken, the newest at the end
        self._kept_size = 0

    @property
    def size(self) -> int:
        """Bytes that nobody but us has: waiting, or sent and not acknowledged where that is asked for."""
        return self.waiting_size + self._kept_size if self.keep is None else self.waiting_size

    @property
    def last(self) -> int:
        """The number of the newest frame."""
        return self.taken + len(self._waiting)

    def add(self, frame: bytes) -> None:
        """Put a frame at the end."""
        self._waiting.append(frame)
        self.waiting_size += len(frame)

    def take(self, limit: int | None = None) -> list[bytes]:
        """The frames that wait, at least one and no more than `limit` bytes of the others; [] when none waits."""
        frames, size = self._waiting, self.waiting_size
        if limit is not None and size > limit:
            count = size = 0
            for frame in frames:
                if count and size + len(frame) > limit:
                    break
                size += len(frame)
                count += 1
            self._waiting, frames = frames[count:], frames[:count]
        else:
            self._waiting = []
        self.waiting_size -= size
        self.taken += len(frames)
        if self.keep != 0:
            self._kept.extend(frames)
            self._kept_size += size
            if self.keep is not None:
                while self._kept_size > self.keep and self._kept:
                    self._kept_size -= len(self._kept.popleft())
        return frames

    def acknowledge(self, cursor: int) -> None:
        """The client has every frame up to this number."""
        surplus = min(cursor - (self.taken - len(self._kept)), len(self._kept))
        for _ in range(surplus):
            self._kept_size -= len(self._kept.popleft())

    def first(self) -> bytes:
        """The first frame that waits; b"" when none does."""
        return self._waiting[0] if self._waiting else b""

    def swap(self, frame: bytes) -> None:
        """Send this in place of the first frame that waits, under its number."""
        self.waiting_size += len(frame) - len(self._waiting[0])
        self._waiting[0] = frame

    def rewind(self, cursor: int) -> None:
        """The client has the frames up to this number and no more: what came after waits again."""
        missing = self.taken - cursor
        if missing < 0 or missing > len(self._kept):
            raise Gone(f"the frames after {cursor} are no longer kept")
        self.acknowledge(cursor)
        again = list(self._kept)
        self._kept.clear()
        self._waiting[:0] = again
        self.waiting_size += self._kept_size
        self._kept_size = 0
        self.taken = cursor


class Receipt:
    """How many frames were received, and whether the sender should hear of it now."""

    __slots__ = ("_bytes", "count", "told")

    def __init__(self) -> None:
        self.count = 0
        self.told = 0
        self._bytes = 0

    def add(self, size: int) -> bool:
        """One more frame; whether a receipt is due at once."""
        self.count += 1
        self._bytes += size
        return self.count - self.told >= ACK_FRAMES or self._bytes >= ACK_BYTES

    def tell(self) -> bytes:
        """The frame that tells how far we are; frames of this kind are not counted themselves."""
        self.told = self.count
        self._bytes = 0
        return say_ack(self.count)


def say_ack(cursor: int) -> bytes:
    """The notification that acknowledges all frames up to this number, always in these bytes."""
    return b'%b,"params":{"cursor":%d}}' % (_ACK_HEAD, cursor)


def read_ack(frame: object) -> int | None:
    """The number that a frame acknowledges; None for every other frame."""
    if type(frame) is not bytes or not frame.startswith(_ACK_HEAD):
        return None
    found = _ACK.fullmatch(frame)
    return int(found[1]) if found else None
