"""Frames over two file descriptors (pipes, sockets, ttys, files): one read per block, one write per burst.

Owns the descriptors. Uses only `os.read`, `os.write` and the loop's readiness callbacks, since asyncio streams would
copy and wake once more for each block.
"""

from __future__ import annotations

import asyncio
import os
import select
import stat
from collections import deque

from dragoman.errors import ConnectionFailed, TransportClosed, WriteStalled
from dragoman.transport.base import (
    CLOSE_TIMEOUT,
    COALESCE_SIZE,
    FIRST_BLOCK_SIZE,
    HALF_CLOSED_GRACE,
    READ_SIZE,
    WRITE_STALL,
    FrameConsumer,
    close_error,
)
from dragoman.transport.flow_control import FlowControl
from dragoman.wire.frames import MAX_FRAME, Frame, LineSplitter

_NEWLINE = memoryview(b"\n")


class StreamTransport:
    """A peer behind a readable and a writable descriptor; create it inside a running loop."""

    def __init__(
        self,
        read_fd: int,
        write_fd: int,
        *,
        peer: str = "the peer",
        stall: float = WRITE_STALL,
        max_frame: int = MAX_FRAME,
    ) -> None:
        self.peer = peer
        self._loop = asyncio.get_running_loop()
        self._stall = stall
        self._receive_error: ConnectionFailed | None = None  # why no more frames come
        self._send_error: ConnectionFailed | None = None  # why no more frames can be sent
        self._closing: asyncio.Future[None] | None = None

        self._read_fd = read_fd
        self._splitter = LineSplitter(max_frame)
        self._batch: list[Frame] = []
        self._waiter: asyncio.Future[None] | None = None
        self._consumer: FrameConsumer | None = None
        self._reading = False
        self._discarding = False
        self._read_is_pollable = _is_pollable(read_fd)

        self._write_fd = write_fd
        self._unwritten: list[bytes] = []  # frames of this loop pass
        self._unwritten_size = 0
        self._backlog: deque[memoryview] = deque()  # what a write call did not take
        self._awaits_writable = False  # whether the loop calls us when the peer takes more
        self._pass_frames = 0  # how many frames this loop pass has
        self._was_burst = False  # whether the last pass had several
        self._block_size = FIRST_BLOCK_SIZE  # how many bytes are written before the pass ends
        self._had_full_block = False  # whether this pass had a full block
        self._flow_control = FlowControl(stall, self._on_stall)
        # A tty keeps its blocking mode: we share that flag with the shell.
        self._write_is_pollable = _is_pollable(write_fd) and not os.isatty(write_fd)
        if self._write_is_pollable:
            os.set_blocking(write_fd, False)
        if self._read_is_pollable and not os.isatty(read_fd):
            os.set_blocking(read_fd, False)
        self._start_reading()

    async def receive(self) -> list[Frame]:
        """Return the frames of the next block; after the last one, raise TransportClosed or WriteStalled."""
        while not self._batch:
            if self._receive_error is not None:
                raise self._receive_error.with_traceback(None)
            if self._waiter is not None:
                raise RuntimeError("receive() is already waiting; a transport has one receiver")
            self._waiter = self._loop.create_future()
            try:
                await self._waiter
            finally:
                self._waiter = None
        batch, self._batch = self._batch, []
        if not self._reading and self._receive_error is None:
            self._start_reading()
        return batch

    def listen(self, take: FrameConsumer) -> None:
        """Offer each block to `take` as it is read, while nothing older is queued."""
        self._consumer = take

    def _start_reading(self) -> None:
        self._reading = True
        if self._read_is_pollable:
            self._loop.add_reader(self._read_fd, self._on_readable)
        else:  # a file is always ready, and epoll refuses it
            self._loop.call_soon(self._read_file)

    def _stop_reading(self) -> None:
        if self._reading:
            self._reading = False
            if self._read_is_pollable:
                self._loop.remove_reader(self._read_fd)

    def _read_file(self) -> None:
        if self._reading:
            self._on_readable()
            if self._reading:
                self._loop.call_soon(self._read_file)

    def _on_readable(self) -> None:
        if self._batch and not self._discarding:
            # Nobody took the last block yet: let the pipe fill, so that the producer slows down.
            self._stop_reading()
            return
        try:
            data = os.read(self._read_fd, READ_SIZE)
        except (BlockingIOError, InterruptedError):
            return
        except OSError as error:
            self._end_reading(TransportClosed(f"reading from {self.peer} failed: {error.strerror}"))
            return
        if self._discarding:
            if not data:
                self._stop_reading()
            return
        if data:
            frames = self._splitter.feed(data)
            if frames and not (self._consumer is not None and self._waiter is not None and self._consumer(frames)):
                self._batch = frames
                self._wake_receiver()
            return
        self._batch = self._splitter.finish()
        self._end_reading(TransportClosed(f"{self.peer} closed the connection"))

    def _end_reading(self, error: ConnectionFailed) -> None:
        self._stop_reading()
        if self._receive_error is None:
            self._receive_error = error
        self._wake_receiver()

    def _wake_receiver(self) -> None:
        waiter = self._waiter
        if waiter is not None and not waiter.done():
            waiter.set_result(None)

    def send(self, data: bytes, session: str | None = None) -> None:
        """Queue one frame; alone it is written at once, in a burst together with others."""
        if self._send_error is not None:
            raise self._send_error.with_traceback(None)
        self._unwritten.append(data)
        self._unwritten_size += len(data) + 1
        self._flow_control.queued_bytes += len(data) + 1
        self._pass_frames += 1
        if self._pass_frames == 1:
            self._loop.call_soon(self._end_pass)
        # After a burst another is likely, so the first frame waits for the next ones: a write is expensive. A backlog
        # is tried again at each full block: the peer may have read on while our pass is far from its end.
        if self._unwritten_size >= self._block_size or (
            self._pass_frames == 1 and not self._was_burst and not self._backlog
        ):
            self._flush()

    def write_raw(self, data: bytes) -> None:
        """Write bytes without a line end, to test how a peer handles them."""
        if self._send_error is not None:
            raise self._send_error.with_traceback(None)
        if self._unwritten:
            self._flush()
        self._flow_control.queued_bytes += len(data)
        self._backlog.append(memoryview(data))
        if not self._awaits_writable:
            self._write_or_wait()

    async def send_eof(self) -> None:
        """Close our output, so that the peer sees the end of its input; it can still send."""
        await self._close_writing(TransportClosed(f"the output to {self.peer} is closed"))

    def has_reader(self) -> bool:
        """Whether anybody can still read what we write."""
        if self._send_error is not None or self._write_fd < 0:
            return False
        poll = select.poll()
        poll.register(self._write_fd, 0)  # POLLERR and POLLHUP are reported without being requested
        return not poll.poll(0)

    def congested(self) -> bool:
        """Whether more than HIGH_WATER bytes are queued."""
        return self._flow_control.congested()

    async def drain(self) -> None:
        """Wait for LOW_WATER."""
        await self._flow_control.drain()

    def _end_pass(self) -> None:
        self._was_burst = self._pass_frames > 1
        self._pass_frames = 0
        if self._block_size < COALESCE_SIZE or not self._had_full_block:
            self._block_size = FIRST_BLOCK_SIZE
        self._had_full_block = False
        if self._unwritten and not self._backlog:
            self._flush()

    def _flush(self) -> None:
        """Join the new frames and write as much as the peer takes."""
        frames, size = self._unwritten, self._unwritten_size
        self._unwritten, self._unwritten_size = [], 0
        if size >= self._block_size:
            self._block_size, self._had_full_block = min(self._block_size * 2, COALESCE_SIZE), True
        if len(frames) == 1 and len(frames[0]) > COALESCE_SIZE:  # a whole file or image: do not copy it for one newline
            self._backlog.extend((memoryview(frames[0]), _NEWLINE))
        else:
            frames.append(b"")
            self._backlog.append(memoryview(b"\n".join(frames)))
        self._write_or_wait()

    def _write_or_wait(self) -> None:
        """Write from the backlog; the rest is written when the peer takes more."""
        self._write_backlog()
        if self._backlog and self._send_error is None and not self._awaits_writable:
            self._awaits_writable = True
            self._loop.add_writer(self._write_fd, self._on_writable)
            self._flow_control.start_stall_timer()

    def _on_writable(self) -> None:
        self._write_backlog()
        if self._backlog:
            return
        self._awaits_writable = False
        self._loop.remove_writer(self._write_fd)
        if self._unwritten and self._send_error is None:
            self._flush()

    def _write_backlog(self) -> None:
        """Write from the backlog until it is empty or the descriptor takes no more."""
        backlog = self._backlog
        while backlog:
            piece = backlog[0]
            try:
                written = os.write(self._write_fd, piece)
            except (BlockingIOError, InterruptedError):
                return
            except OSError as error:
                self._on_write_error(error)
                return
            self._flow_control.remove(written)
            if written == len(piece):
                backlog.popleft()
            else:
                backlog[0] = piece[written:]
                if self._write_is_pollable:
                    return

    def _on_write_error(self, error: OSError) -> None:
        """Read on for a moment before giving up: the peer reads nothing more, but may have sent why."""
        closed_error = TransportClosed(f"{self.peer} no longer reads: {error.strerror}")
        self._stop_writing(closed_error)
        self._loop.call_later(HALF_CLOSED_GRACE, self._end_reading, closed_error)

    def _stop_writing(self, error: ConnectionFailed) -> None:
        if self._send_error is None:
            self._send_error = error
        if self._awaits_writable and self._write_fd >= 0:
            self._loop.remove_writer(self._write_fd)
        self._awaits_writable = False
        self._backlog.clear()
        self._unwritten, self._unwritten_size = [], 0
        self._flow_control.fail(error)

    def _on_stall(self) -> None:
        error = WriteStalled(
            f"{self.peer} took no bytes for {self._stall:g} seconds "
            f"while {self._flow_control.queued_bytes} were waiting"
        )
        self._stop_writing(error)
        self._end_reading(error)

    async def close(self, reason: str = "") -> None:
        """Flush for a bounded time, then close both descriptors."""
        if self._closing is not None:
            await asyncio.shield(self._closing)
            return
        self._closing = self._loop.create_future()
        closed_error = close_error(self.peer, reason)
        try:
            await self._close_writing(closed_error)
        finally:
            self._release(closed_error)
            self._closing.set_result(None)

    async def _close_writing(self, error: ConnectionFailed, timeout: float = CLOSE_TIMEOUT) -> None:
        """Flush what is queued, then close our output. New frames are refused at once."""
        if self._send_error is None:
            self._send_error = error
        try:
            async with asyncio.timeout(timeout):
                await self._flow_control.wait_empty()
        except (TimeoutError, ConnectionFailed):
            pass
        finally:
            self._stop_writing(error)
            self._close_write_fd()

    def _close_write_fd(self) -> None:
        fd, self._write_fd = self._write_fd, -1
        if fd >= 0 and fd != self._read_fd:
            os.close(fd)

    def _release(self, error: ConnectionFailed) -> None:
        self._end_reading(error)
        fd, self._read_fd = self._read_fd, -1
        if fd >= 0:
            os.close(fd)


def _is_pollable(fd: int) -> bool:
    """Whether the loop can watch it: epoll refuses regular files and devices like /dev/null."""
    mode = os.fstat(fd).st_mode
    return stat.S_ISFIFO(mode) or stat.S_ISSOCK(mode) or os.isatty(fd)
