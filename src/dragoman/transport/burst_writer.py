"""Join the frames of a burst, so that a loop pass makes few writes (decision 0012)."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from dragoman.errors import ConnectionFailed

# One write call takes up to this many bytes: the size of the default pipe; larger writes gain nothing.
COALESCE_SIZE = 64 * 1024

# The first write of a long pass comes early, so that the peer can start working. After each full block the next is
# twice as large; passes that reached the largest size keep it.
FIRST_BLOCK_SIZE = 4 * 1024


class BurstWriter:
    """Gives frames to `write`: one that is alone in its loop pass at once, those of a burst in blocks that grow.

    Transports offer its `send` as their own.
    """

    __slots__ = (
        "_block_size",
        "_frames",
        "_had_full_block",
        "_loop",
        "_pass_frames",
        "_was_burst",
        "_write",
        "error",
        "is_blocked",
        "size",
    )

    def __init__(self, write: Callable[[list[bytes], int], None]) -> None:
        self._write = write  # gets the frames of a block and its size
        self._loop = asyncio.get_running_loop()
        self.error: ConnectionFailed | None = None  # why nothing more can be sent
        self.is_blocked = False  # whether the peer takes nothing now: only full blocks are tried
        self.size = 0  # bytes of the frames that are not written, and a newline for each
        self._frames: list[bytes] = []
        self._pass_frames = 0  # how many frames this loop pass has
        self._was_burst = False  # whether the last pass had several
        self._block_size = FIRST_BLOCK_SIZE  # how many bytes are written before the pass ends
        self._had_full_block = False  # whether this pass had a full block

    def send(self, data: bytes, session: str | None = None) -> None:
        """Queue one frame; alone it is written at once, in a burst together with others."""
        if self.error is not None:
            raise self.error.with_traceback(None)
        self._frames.append(data)
        self.size += len(data) + 1
        self._pass_frames += 1
        if self._pass_frames == 1:
            self._loop.call_soon(self._end_pass)
        # After a burst another is likely, so the first frame waits for the next ones: a write is expensive. A blocked
        # peer is tried again at each full block: it may have read on while our pass is far from its end.
        if self.size >= self._block_size or (self._pass_frames == 1 and not self._was_burst and not self.is_blocked):
            self.flush()

    def flush(self) -> None:
        """Write the queued frames now."""
        frames, size = self._frames, self.size
        if frames:
            self._frames, self.size = [], 0
            if size >= self._block_size:
                self._block_size, self._had_full_block = min(self._block_size * 2, COALESCE_SIZE), True
            self._write(frames, size)

    def fail(self, error: ConnectionFailed) -> None:
        """Drop the queued frames and refuse later ones; the first error counts."""
        self.error = self.error or error
        self._frames, self.size = [], 0

    def _end_pass(self) -> None:
        self._was_burst = self._pass_frames > 1
        self._pass_frames = 0
        if self._block_size < COALESCE_SIZE or not self._had_full_block:
            self._block_size = FIRST_BLOCK_SIZE
        self._had_full_block = False
        if not self.is_blocked:
            self.flush()
