"""One command that runs for an agent: its output, its exit, and signals.

Keeps the tail of the output. The process leads its own group, which is killed as a whole; a daemon that leaves the
group survives until all terminals are closed. A real terminal also takes input from the user.
"""

from __future__ import annotations

import asyncio
import codecs
import errno
import os
import signal
from collections.abc import Callable
from typing import NamedTuple

from dragoman.errors import Kind, ProtocolError
from dragoman.workspace.spawn import StartedCommand, TerminalSize, resize_terminal

# Seconds from SIGTERM to SIGKILL: enough to remove lock files, short enough for a waiting agent.
KILL_GRACE = 2.0

# Seconds to wait after SIGKILL; only a process stuck in the kernel takes longer.
KILL_TIMEOUT = 5.0

_READ_SIZE = 64 * 1024

STREAMS = ("stdout", "stderr")

# Bytes read after the exit: a child that was left behind may write forever.
_MAX_DRAIN = 4 * 1024 * 1024

# Bytes of input that a command has not read yet.
MAX_PENDING_INPUT = 64 * 1024

# Bytes over the limit before the buffer is cut, so that not every chunk copies it.
_TAIL_SLACK = 64 * 1024

_TERM = int(signal.SIGTERM)
_KILL = int(signal.SIGKILL)


class OutputTail:
    """The last `limit` bytes of a stream, as UTF-8 text cut between characters.

    See docs/protocol/files-terminals.md#truncation.
    """

    __slots__ = ("_data", "limit", "total")

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self.total = 0
        self._data = bytearray()

    def feed(self, chunk: bytes) -> None:
        """Append bytes."""
        self.total += len(chunk)
        self._data += chunk
        excess = len(self._data) - self.limit
        if excess > _TAIL_SLACK:
            del self._data[:excess]

    def read(self, final: bool = True) -> tuple[str, bool]:
        """Return the kept text, and whether it is truncated; unless `final`, omit an incomplete character."""
        excess = len(self._data) - self.limit
        data = bytes(self._data[excess:] if excess > 0 else self._data)
        truncated = self.total > self.limit
        if truncated:
            data = _from_character_start(data)
        text = codecs.getincrementaldecoder("utf-8")("replace").decode(data, final)
        # An undecodable byte becomes the three bytes of U+FFFD, so the text may be over the limit once more.
        if "\ufffd" in text and len(data := text.encode()) > self.limit:
            return _from_character_start(data[-self.limit :]).decode(), True
        return text, truncated


def _from_character_start(data: bytes) -> bytes:
    """Remove the rest of a character whose start was cut off (at most three bytes)."""
    start = 0
    while start < min(3, len(data)) and data[start] & 0xC0 == 0x80:
        start += 1
    return data[start:]


class CommandExit(NamedTuple):
    """How a command ended: its exit code, or the name of the signal that killed it."""

    code: int | None
    signal: str | None


class CommandOutput(NamedTuple):
    """The output of a command so far, whether it is truncated, and how the command ended if it has."""

    text: str
    truncated: bool
    exit: CommandExit | None


class Terminal:
    """One command, available by its id until it is released."""

    def __init__(
        self,
        id: str,
        started: StartedCommand,
        tail: OutputTail,
        grace: float,
        on_release: Callable[[], object],
    ) -> None:
        self.id = id
        self.pid = started.process.pid
        self.timed_out = False
        self._process = started.process
        pipes = started.output_fds
        # One pipe has both streams in order; two keep them separate.
        self._pipes = dict(zip(pipes, STREAMS, strict=False))
        self._tail = tail
        self._stream_tails = {name: OutputTail(tail.limit) for name in STREAMS} if len(pipes) == 2 else {}
        self._grace = grace
        self._on_release = on_release
        self._loop = asyncio.get_running_loop()
        self._timers: list[asyncio.TimerHandle] = []
        self._exit: CommandExit | None = None
        self._exit_event = asyncio.Event()
        self._is_released = False
        self._input_fd = pipes[0] if started.is_terminal else None
        self._pending_input = bytearray()  # not written to the terminal yet
        for pipe in pipes:
            self._loop.add_reader(pipe, self._read_pipe, pipe)
        self._watch_process()

    @property
    def is_reaped(self) -> bool:
        """Whether the process was reaped."""
        return self._process.returncode is not None

    def output(self) -> CommandOutput:
        """Return the output so far; never waits."""
        text, truncated = self._tail.read(final=not self._pipes)
        return CommandOutput(text, truncated, self._exit)

    @property
    def is_interactive(self) -> bool:
        """Whether the command runs in a real terminal and takes input."""
        return self._input_fd is not None

    def write_input(self, text: str) -> None:
        """Send input to the command; only in a real terminal."""
        keyboard = self._require_input_fd()
        data = text.encode("utf-8", "replace")
        if len(self._pending_input) + len(data) > MAX_PENDING_INPUT:
            raise ProtocolError(
                Kind.RATE_LIMITED, f"the command has not read {len(self._pending_input)} bytes of earlier input"
            )
        self._pending_input += data
        self._loop.add_writer(keyboard, self._flush_input, keyboard)

    def resize(self, rows: int, columns: int) -> None:
        """Resize the terminal; the system notifies the command."""
        resize_terminal(self._require_input_fd(), TerminalSize(rows, columns))

    def _require_input_fd(self) -> int:
        if self._input_fd is None:
            raise ProtocolError(Kind.INVALID_STATE, f"terminal {self.id} takes no input: it has ended, or is not a pty")
        return self._input_fd

    def _flush_input(self, input_fd: int) -> None:
        try:
            del self._pending_input[: os.write(input_fd, self._pending_input)]
        except BlockingIOError:
            return
        except OSError:
            self._pending_input.clear()  # no process reads it
        if not self._pending_input:
            self._loop.remove_writer(input_fd)

    def streams(self) -> dict[str, str]:
        """Return the output of each stream so far; empty if the streams are not separate."""
        return {name: tail.read(final=not self._pipes)[0] for name, tail in self._stream_tails.items()}

    async def wait(self) -> CommandExit:
        """Wait for the exit of the command; safe to cancel."""
        await self._exit_event.wait()
        return self._exit or CommandExit(None, None)

    def kill(self, signal: str = "SIGTERM", force: bool = False) -> bool:
        """Signal the whole process group; SIGKILL follows SIGTERM after a delay. Return False if it had ended."""
        number = _signal_number("SIGKILL" if force else signal)
        running = self._exit is None
        self._signal_group(number)
        if running and number == _TERM:
            self._timers.append(self._loop.call_later(self._grace, self._signal_group, _KILL))
        return running

    async def release(self) -> None:
        """Terminate the whole process group and drop the id; the output stays readable here."""
        self._on_release()
        if self._is_released:
            await self._wait_at_most(self._grace + KILL_TIMEOUT)
            return
        self._is_released = True
        try:
            if self._exit is None:
                self._signal_group(_TERM)
                await self._wait_at_most(self._grace)
        finally:
            self._signal_group(_KILL)
            if self._exit is not None:
                self._reap()
        await self._wait_at_most(KILL_TIMEOUT)
        self._set_exit(CommandExit(None, "SIGKILL"))  # only if the process is stuck in the kernel

    def kill_after(self, seconds: float) -> None:
        """Kill the command after this time and set `timed_out`."""
        self._timers.append(self._loop.call_later(seconds, self._on_timeout))

    def _on_timeout(self) -> None:
        self.timed_out = self.kill()

    async def _wait_at_most(self, seconds: float) -> None:
        try:
            async with asyncio.timeout(seconds):
                await self._exit_event.wait()
        except TimeoutError:
            pass

    def _watch_process(self) -> None:
        """Call _on_exit when the process ends, by a pidfd or else a thread."""
        try:
            pidfd = os.pidfd_open(self.pid)
        except (AttributeError, OSError):
            import threading

            threading.Thread(target=self._wait_in_thread, name=self.id, daemon=True).start()
            return
        self._loop.add_reader(pidfd, self._pidfd_ready, pidfd)

    def _pidfd_ready(self, pidfd: int) -> None:
        self._loop.remove_reader(pidfd)
        os.close(pidfd)
        self._on_exit(_wait_without_reaping(self.pid))

    def _wait_in_thread(self) -> None:
        status = (
            _wait_without_reaping(self.pid) if hasattr(os, "waitid") else _exit_from_returncode(self._process.wait())
        )
        try:
            self._loop.call_soon_threadsafe(self._on_exit, status)
        except RuntimeError:
            pass  # the loop is closed

    def _on_exit(self, status: CommandExit) -> None:
        self._drain()
        self._set_exit(status)
        if self._is_released:
            self._reap()

    def _set_exit(self, status: CommandExit) -> None:
        if self._exit is None:
            self._exit = status
            self._exit_event.set()
            for timer in self._timers:
                timer.cancel()
            self._timers.clear()

    def _reap(self) -> None:
        """Kill the rest of the group, then reap: only then can the system reuse the id of the group."""
        self._signal_group(_KILL)
        self._process.poll()
        self._drain()
        for pipe in list(self._pipes):
            self._close_pipe(pipe)

    def _signal_group(self, number: int) -> None:
        if self._process.returncode is None:
            try:
                os.killpg(self.pid, number)
            except (ProcessLookupError, PermissionError):
                pass  # gone, or a set-user-id program; on macOS also a zombie

    def _drain(self) -> None:
        for pipe in list(self._pipes):
            taken = 0
            while taken < _MAX_DRAIN and (size := self._read_pipe(pipe)):
                taken += size

    def _read_pipe(self, pipe: int) -> int:
        """Read a pipe into the tail; return the number of bytes, 0 if there are none."""
        stream = self._pipes.get(pipe)
        if stream is None:
            return 0
        try:
            chunk = os.read(pipe, _READ_SIZE)
        except BlockingIOError:
            return 0
        except OSError as error:
            if error.errno != errno.EIO:  # a terminal without processes
                raise
            chunk = b""
        if not chunk:
            self._close_pipe(pipe)
        self._tail.feed(chunk)
        if self._stream_tails:
            self._stream_tails[stream].feed(chunk)
        return len(chunk)

    def _close_pipe(self, pipe: int) -> None:
        self._loop.remove_reader(pipe)
        if pipe == self._input_fd:
            self._loop.remove_writer(pipe)
            self._input_fd = None
        os.close(pipe)
        del self._pipes[pipe]


def _signal_number(name: str) -> int:
    full = name.upper() if name.upper().startswith("SIG") else f"SIG{name.upper()}"
    try:
        return int(signal.Signals[full])
    except KeyError:
        raise ProtocolError(Kind.INVALID_PARAMS, f"unknown signal {name}", {"signal": name}) from None


def _wait_without_reaping(pid: int) -> CommandExit:
    """Wait for a process without reaping it, so that its id and group id are not reused."""
    try:
        status = os.waitid(os.P_PID, pid, os.WEXITED | os.WNOWAIT)
    except ChildProcessError:
        return CommandExit(None, None)  # other code in this program waited for all children
    if status is None or status.si_code == os.CLD_EXITED:
        return CommandExit(status.si_status if status else None, None)
    return _exit_from_returncode(-status.si_status)


def _exit_from_returncode(returncode: int) -> CommandExit:
    if returncode >= 0:
        return CommandExit(returncode, None)
    try:
        return CommandExit(None, signal.Signals(-returncode).name)
    except ValueError:
        return CommandExit(None, f"SIG{-returncode}")  # a real-time signal has no name of its own
