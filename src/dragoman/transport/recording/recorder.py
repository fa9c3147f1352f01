"""Write a recording from a thread, so that a slow disk never delays a message.

The file has mode 0600 and a free name. The queue is bounded: beyond it, traffic is not recorded and the recording says
how much. A disk error ends the recording and is reported once; the traffic continues. Also writes copies.
"""

from __future__ import annotations

import fcntl
import os
import stat
import tempfile
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from typing import BinaryIO

from dragoman.errors import DragomanError
from dragoman.transport.recording.format import (
    TRAFFIC,
    Header,
    StreamLine,
    TrafficSplitter,
    end_line,
    frame_line,
    gap_line,
    header_line,
)

# Seconds between two writes: no wake-up per message, and `tail -f` still looks live.
FLUSH_INTERVAL = 0.05

# Bytes queued for a slow disk before traffic is dropped from the recording: seconds of the fastest stream.
MAX_QUEUED_BYTES = 128 * 1024 * 1024

# Bytes per write call, about.
WRITE_SIZE = 256 * 1024

# Seconds that close() waits for a disk that makes no progress.
CLOSE_TIMEOUT = 5.0

# Recordings with one name; beyond it the user should clean up.
MAX_RECORDINGS = 10_000

_MODE = 0o600  # recordings contain private conversations
_FLAGS = os.O_WRONLY | os.O_CLOEXEC


class Recorder:
    """One recording being written: to `path`, or to the next free name if that exists."""

    def __init__(
        self,
        path: str,
        command: Sequence[str],
        report: Callable[[str], None],
        redact: Callable[[bytes], bytes] = lambda frame: frame,
        between: Sequence[str] = (),
    ) -> None:
        """`redact` gets each frame before it is written, in the thread of the writer."""
        self._redact = redact
        self._fd, self.path = create_recording_file(path)
        self.frames = 0
        self._report = report
        self._queue: deque[tuple[int, str, bytes]] = deque()
        self._queued_bytes = 0  # bytes accepted; only the traffic thread changes it
        self._written_bytes = 0  # bytes written; only the writer thread changes it
        self._lost_bytes = 0
        self._is_closed = False
        self._wake = threading.Event()
        self._splitters = {way: TrafficSplitter() for way in TRAFFIC}
        now = time.time_ns() // 1000
        self._start = time.monotonic_ns() // 1000
        header = _build_header(command, now)
        header.between = list(between)
        self._header = header_line(header)
        self._thread = threading.Thread(target=self._run_writer, name="recorder", daemon=True)
        self._thread.start()

    def record(self, direction: str, data: bytes) -> None:
        """Record these bytes with the current time. Never blocks, never raises."""
        if self._is_closed:
            return
        if self._queued_bytes - self._written_bytes > MAX_QUEUED_BYTES:
            self._lost_bytes += len(data)
            return
        self._queued_bytes += len(data)
        self._queue.append((time.monotonic_ns() // 1000 - self._start, direction, data))

    def close(self, reason: str, status: int | None = None) -> None:
        """Write what is queued, while the disk makes progress, and how it ended."""
        if not self._is_closed:
            self._queue.append(
                (time.monotonic_ns() // 1000 - self._start, reason, b"" if status is None else b"%d" % status)
            )
        self._is_closed = True
        self._wake.set()
        written = -1
        while self._thread.is_alive() and written != self._written_bytes:
            written = self._written_bytes
            self._thread.join(CLOSE_TIMEOUT)
        if self._thread.is_alive():
            self._report(f"the recording {self.path} is incomplete: the disk was too slow")

    # --- writer thread --------- -----------------------------------------------------------------------------

    def _run_writer(self) -> None:
        try:
            self._write(self._header)
            while not self._wake.wait(FLUSH_INTERVAL):
                self._flush()
            self._flush()
        except OSError as error:
            self._is_closed = True
            self._queue.clear()
            self._report(
                f"the recording {self.path} ended after {self.frames} frames: {error.strerror}; the traffic continues"
            )
        finally:
            os.close(self._fd)

    def _flush(self) -> None:
        queue, batch, size = self._queue, [], 0
        while queue:
            t, way, data = queue.popleft()
            lines = self._recording_lines(t, way, data)
            self._written_bytes += len(data)
            batch += lines
            size += sum(map(len, lines))
            if size > WRITE_SIZE:
                self._write(b"".join(batch))
                batch, size = [], 0
        if self._lost_bytes:
            lost, self._lost_bytes = self._lost_bytes, 0
            batch.append(gap_line(time.monotonic_ns() // 1000 - self._start, lost))
            self._report(f"the disk of {self.path} is too slow: {lost} bytes were not recorded")
        if batch:
            self._write(b"".join(batch))

    def _recording_lines(self, t: int, direction: str, data: bytes) -> list[bytes]:
        """Return the lines for some bytes of a direction; at the end, the reason and the status are in their place."""
        if direction in self._splitters:
            lines = [self._frame_line(t, direction, line) for line in self._splitters[direction].feed(data)]
            self.frames += len(lines)
            return lines
        splitters = self._splitters.items()
        lines = [self._frame_line(t, way, line) for way, splitter in splitters for line in splitter.finish()]
        self.frames += len(lines)
        return [*lines, end_line(t, direction, int(data) if data else None, self.frames)]

    def _frame_line(self, t: int, direction: str, line: StreamLine) -> bytes:
        return frame_line(t, direction, self._redact(line.data), line.eol, line.cut)

    def _write(self, data: bytes) -> None:
        view = memoryview(data)
        while view:
            view = view[os.write(self._fd, view) :]


def _build_header(command: Sequence[str], now: int) -> Header:
    from importlib.metadata import PackageNotFoundError, version

    try:
        own_version = version("dragoman")
    except PackageNotFoundError:  # run from a source tree
        own_version = ""
    start = datetime.fromtimestamp(now / 1e6, UTC).isoformat(timespec="microseconds").replace("+00:00", "Z")
    return Header(version=own_version, command=list(command), cwd=os.getcwd(), start=start, epoch=now)


# --- files ------------------------------------------------------------------------------------------------------------


class NotWritable(DragomanError):
    """A recording or a copy cannot be written; the message says what to try."""


def create_recording_file(path: str) -> tuple[int, str]:
    """Create a file for a recording; return its descriptor and path: this one, or talk-2.ndjson if it exists."""
    stem, ending = os.path.splitext(path)
    for number in range(1, MAX_RECORDINGS):
        name = path if number == 1 else f"{stem}-{number}{ending}"
        try:
            fd = os.open(name, _FLAGS | os.O_CREAT | (os.O_EXCL if _has_content(name) else 0), _MODE)
        except FileExistsError:
            continue
        except OSError as error:
            why = f"cannot record to {name}: {error.strerror}; choose another file"
            raise NotWritable(f"{why}, or create the folder" if isinstance(error, FileNotFoundError) else why) from None
        if _try_lock(fd):
            return fd, name
        os.close(fd)
    raise NotWritable(
        f"cannot record to {path}: there are {MAX_RECORDINGS} recordings of that name; choose another file"
    )


def _has_content(name: str) -> bool:
    """Return whether the file must not be overwritten; an empty file, a pipe or a device may be."""
    try:
        there = os.stat(name)
    except OSError:
        return os.path.islink(name)
    return stat.S_ISREG(there.st_mode) and there.st_size > 0


def _try_lock(fd: int) -> bool:
    """Lock the file; return False if another process records to it."""
    if not stat.S_ISREG(os.fstat(fd).st_mode):
        return True
    with suppress(OSError):
        os.fchmod(fd, _MODE)  # the file may exist already
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)  # held while the recording is open
    except BlockingIOError:
        return False
    except OSError:
        pass  # a file system without locks
    return os.fstat(fd).st_size == 0


def check_not_source(path: str, sources: Sequence[str]) -> None:
    """Refuse to write a copy to one of the files it is made of."""
    for source in sources:
        with suppress(OSError):  # one of them does not exist
            if os.path.samefile(path, source):
                raise NotWritable(f"{path} is the recording itself; choose another file with --out")


@contextmanager
def open_replacement(path: str) -> Iterator[BinaryIO]:
    """Open a file that replaces `path` when it is complete; on an error nothing changes."""
    try:
        if os.path.exists(path) and not os.path.isfile(path):  # a pipe or a device cannot be replaced
            with open(path, "wb") as file:
                yield file
            return
        target = os.path.realpath(path)
        fd, draft = tempfile.mkstemp(prefix=f".{os.path.basename(target)}.", dir=os.path.dirname(target))
        try:
            with os.fdopen(fd, "wb") as file:
                yield file
            os.replace(draft, target)
        except BaseException:
            with suppress(OSError):
                os.unlink(draft)
            raise
    except OSError as error:
        raise NotWritable(f"cannot write {path}: {error.strerror}; choose another file with --out") from None
