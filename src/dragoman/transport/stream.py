"""Frames over two file descriptors (pipes, sockets, ttys, files): one read per block, one write per burst.

Uses `os.read` and `os.write`, since asyncio streams would copy and wake once more for each block.
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
    HALF_CLOSED_GRACE,
    HIGH_WATER,
    READ_SIZE,
    WRITE_STALL,
    ClosedOnce,
    FrameQueue,
    Framing,
    Splitter,
)
from dragoman.transport.burst_writer import COALESCE_SIZE, BurstWriter
from dragoman.transport.flow_control import FlowControl
from dragoman.wire.frames import MAX_FRAME, Frame, LineSplitter

_NEWLINE = memoryview(b"\n")


class StreamTransport(ClosedOnce):
    """A peer behind a readable and a writable descriptor; create it inside a running loop."""

    def __init__(
        self,
        read_fd: int,
        write_fd: int,
        *,
        peer: str = "the peer",
        stall: float = WRITE_STALL,
        max_frame: int = MAX_FRAME,
        framing: Framing | None = None,
    ) -> None:
        self.peer = peer
        self._loop = asyncio.get_running_loop()
        self._stall = stall

        self._read_fd = read_fd
        self._framing = framing  # None: one line for each frame
        self._splitter: Splitter = LineSplitter(max_frame) if framing is None else framing.open_splitter()
        self._incoming = FrameQueue()
        self.listen = self._incoming.listen
        self._reading = False
        self._discarding = False
        self._read_is_pollable = _is_pollable(read_fd)

        self._write_fd = write_fd
        self._writer = BurstWriter(self._write_block)
        self.send = self._writer.send
        self._backlog: deque[memoryview] = deque()  # what a write call did not take
        self._awaits_writable = False  # whether the loop calls us when the peer takes more
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
        return await self._incoming.receive()

    def _start_reading(self) -> None:
        if self._reading or self._incoming.is_ended:
            return
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
        if not self._discarding and not self._incoming.is_empty:
            # Nobody took the last block yet: let the pipe fill, so that the producer slows down.
            self._stop_reading()
            self._incoming.call_when_drained(self._start_reading)
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
            if frames:
                self._incoming.deliver(frames)
            return
        self._incoming.deliver(self._splitter.finish())
        self._end_reading(TransportClosed(f"{self.peer} closed the connection"))

    def _end_reading(self, error: ConnectionFailed) -> None:
        self._stop_reading()
        self._incoming.end(error)

    def write_raw(self, data: bytes) -> None:
        """Write bytes without a line end, to test how a peer handles them."""
        if self._writer.error is not None:
            raise self._writer.error.with_traceback(None)
        self._writer.flush()
        self._flow_control.queued_bytes += len(data)
        self._backlog.append(memoryview(data))
        if not self._awaits_writable:
            self._write_or_wait()

    async def send_eof(self) -> None:
        """Close our output, so that the peer sees the end of its input; it can still send."""
        await self._close_writing(TransportClosed(f"the output to {self.peer} is closed"))

    def has_reader(self) -> bool:
        """Whether anybody can still read what we write."""
        if self._writer.error is not None or self._write_fd < 0:
            return False
        poll = select.poll()
        poll.register(self._write_fd, 0)  # POLLERR and POLLHUP are reported without being requested
        return not poll.poll(0)

    def congested(self) -> bool:
        """Whether more than HIGH_WATER bytes are queued."""
        return self._flow_control.queued_bytes + self._writer.size > HIGH_WATER

    async def drain(self) -> None:
        """Wait for LOW_WATER."""
        await self._flow_control.drain()

    def _write_block(self, frames: list[bytes], size: int) -> None:
        """Join frames to lines, or by the framing of the peer, and write as much as the peer takes."""
        if self._framing is not None:
            block = self._framing.join(frames)
            self._flow_control.queued_bytes += len(block)
            self._backlog.append(memoryview(block))
            self._write_or_wait()
            return
        self._flow_control.queued_bytes += size
        if len(frames) == 1 and len(frames[0]) > COALESCE_SIZE:  # a whole file or image: do not copy it for one newline
            self._backlog.extend((memoryview(frames[0]), _NEWLINE))
        else:
            frames.append(b"")
            self._backlog.append(memoryview(b"\n".join(frames)))
        self._write_or_wait()

    def _write_or_wait(self) -> None:
        """Write from the backlog; the rest is written when the peer takes more."""
        self._write_backlog()
        self._writer.is_blocked = bool(self._backlog)
        if self._backlog and not self._awaits_writable:
            self._awaits_writable = True
            self._loop.add_writer(self._write_fd, self._on_writable)
            self._flow_control.start_stall_timer()

    def _on_writable(self) -> None:
        self._write_backlog()
        if self._backlog:
            return
        self._awaits_writable = self._writer.is_blocked = False
        self._loop.remove_writer(self._write_fd)
        self._writer.flush()

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
        if self._awaits_writable and self._write_fd >= 0:
            self._loop.remove_writer(self._write_fd)
        self._awaits_writable = False
        self._backlog.clear()
        self._writer.fail(error)
        self._flow_control.fail(error)

    def _on_stall(self) -> None:
        error = WriteStalled(
            f"{self.peer} took no bytes for {self._stall:g} seconds "
            f"while {self._flow_control.queued_bytes} were waiting"
        )
        self._stop_writing(error)
        self._end_reading(error)

    async def _release(self, error: ConnectionFailed, reason: str) -> None:
        """Flush for a bounded time, then close both descriptors."""
        try:
            await self._close_writing(error)
        finally:
            self._close_reading(error)

    async def _close_writing(self, error: ConnectionFailed, timeout: float = CLOSE_TIMEOUT) -> None:
        """Flush what is queued, then close our output. New frames are refused at once."""
        self._writer.error = self._writer.error or error
        self._writer.flush()
        try:
            async with asyncio.timeout(timeout):
                await self._flow_control.wait_empty()
        except (TimeoutError, ConnectionFailed):
            pass
        finally:
            self._stop_writing(error)
            fd, self._write_fd = self._write_fd, -1
            if fd >= 0 and fd != self._read_fd:
                os.close(fd)

    def _close_reading(self, error: ConnectionFailed) -> None:
        self._end_reading(error)
        fd, self._read_fd = self._read_fd, -1
        if fd >= 0:
            os.close(fd)


def _is_pollable(fd: int) -> bool:
    """Whether the loop can watch it: epoll refuses regular files and devices like /dev/null."""
    mode = os.fstat(fd).st_mode
    return stat.S_ISFIFO(mode) or stat.S_ISSOCK(mode) or os.isatty(fd)
