"""Writes a recording beside the traffic, from a thread of its own, so that a slow disk never slows a message.

Takes pieces of traffic with the moment they passed and gives a file of mode 0600. What waits to be written is bounded:
beyond it traffic passes unrecorded and the recording says how much. A disk that refuses ends the recording, which is
said once; it never ends the traffic. Above are the pump and the tap; below is the format.
"""

from __future__ import annotations

import os
import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from datetime import UTC, datetime

from dragoman.inspect.format import TRAFFIC, Header, Lines, end_line, frame_line, gap_line, header_line
from dragoman.inspect.output_files import fresh

# How often what passed is written down. Nobody is woken for a message; `tail -f` still looks live. Seconds.
EVERY = 0.05

# So much may wait for a slow disk before traffic passes unrecorded: seconds of the fastest stream. Bytes.
HELD = 128 * 1024 * 1024

# One write call for about so many bytes.
BATCH = 256 * 1024

# How long the end waits for a disk that takes nothing of the rest. Seconds; whoever ended the agent waits for it.
PATIENCE = 5.0


class Recorder:
    """One recording being written: to `path`, or where something is there already, to the next free name beside it."""

    def __init__(self, path: str, command: Sequence[str], say: Callable[[str], None]) -> None:
        self._fd, self.path = fresh(path)
        self.frames = 0
        self._say = say
        self._queue: deque[tuple[int, str, bytes]] = deque()
        self._came = 0  # bytes that were offered and taken; only the traffic's thread counts here
        self._went = 0  # bytes that were written; only the writer's thread counts here
        self._lost = 0
        self._is_over = False
        self._wake = threading.Event()
        self._lines = {way: Lines() for way in TRAFFIC}
        now = time.time_ns() // 1000
        self._start = time.monotonic_ns() // 1000
        self._header = header_line(_header(command, now))
        self._thread = threading.Thread(target=self._work, name="recorder", daemon=True)
        self._thread.start()

    def take(self, way: str, data: bytes) -> None:
        """These bytes passed just now. Never blocks, never raises."""
        if self._is_over:
            return
        if self._came - self._went > HELD:
            self._lost += len(data)
            return
        self._came += len(data)
        self._queue.append((time.monotonic_ns() // 1000 - self._start, way, data))

    def close(self, why: str, status: int | None = None) -> None:
        """Write what is left, as long as that goes on, and how it ended."""
        if not self._is_over:
            self._queue.append(
                (time.monotonic_ns() // 1000 - self._start, why, b"" if status is None else b"%d" % status)
            )
        self._is_over = True
        self._wake.set()
        went = -1
        while self._thread.is_alive() and went != self._went:
            went = self._went
            self._thread.join(PATIENCE)
        if self._thread.is_alive():
            self._say(f"the recording {self.path} is not complete: its disk took too long")

    # --- in the writer's thread -----------------------------------------------------------------------------

    def _work(self) -> None:
        try:
            self._write(self._header)
            while not self._wake.wait(EVERY):
                self._flush()
            self._flush()
        except OSError as error:
            self._is_over = True
            self._queue.clear()
            self._say(
                f"the recording {self.path} ended after {self.frames} frames: {error.strerror}; the traffic goes on"
            )
        finally:
            os.close(self._fd)

    def _flush(self) -> None:
        queue, batch, size = self._queue, [], 0
        while queue:
            t, way, data = queue.popleft()
            lines = self._of(t, way, data)
            self._went += len(data)
            batch += lines
            size += sum(map(len, lines))
            if size > BATCH:
                self._write(b"".join(batch))
                batch, size = [], 0
        if self._lost:
            lost, self._lost = self._lost, 0
            batch.append(gap_line(time.monotonic_ns() // 1000 - self._start, lost))
            self._say(f"the disk of {self.path} cannot keep up: {lost} bytes passed unrecorded")
        if batch:
            self._write(b"".join(batch))

    def _of(self, t: int, way: str, data: bytes) -> list[bytes]:
        cutter = self._lines.get(way)
        if cutter is None:
            return self._last(t, way, data)
        lines = [frame_line(t, way, *line) for line in cutter.feed(data)]
        self.frames += len(lines)
        return lines

    def _last(self, t: int, why: str, status: bytes) -> list[bytes]:
        lines = [frame_line(t, way, *line) for way, cutter in self._lines.items() for line in cutter.finish()]
        self.frames += len(lines)
        return [*lines, end_line(t, why, int(status) if status else None, self.frames)]

    def _write(self, data: bytes) -> None:
        view = memoryview(data)
        while view:
            view = view[os.write(self._fd, view) :]


def _header(command: Sequence[str], now: int) -> Header:
    from dragoman import __version__

    start = datetime.fromtimestamp(now / 1e6, UTC).isoformat(timespec="microseconds").replace("+00:00", "Z")
    return Header(version=__version__, command=list(command), cwd=os.getcwd(), start=start, epoch=now)
