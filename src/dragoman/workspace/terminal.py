"""One command that runs for an agent: its output so far, its end, and the signals it gets.

Takes a started process and where its output comes out, gives the bounded tail of that and how it ended. The process
leads a group of its own, which is killed as a whole; what leaves the group (a daemon) is not found again. A real
terminal takes input too, from the client's user. Terminals start commands and are above; knows no folders and ids.
"""

from __future__ import annotations

import asyncio
import errno
import os
import signal
from collections.abc import Callable
from typing import NamedTuple

from dragoman.errors import Kind, ProtocolError
from dragoman.workspace.output_tail import OutputTail
from dragoman.workspace.spawn import StartedCommand, TerminalSize, resize_terminal

# From SIGTERM to SIGKILL: enough to remove lock files, short enough for an agent that waits for the end.
KILL_GRACE = 2.0

# After SIGKILL only a process stuck in the kernel lives on; it is left behind after this long.
KILL_TIMEOUT = 5.0

_READ_SIZE = 64 * 1024

STREAMS = ("stdout", "stderr")

# Read at most after the end: what the command wrote lies in the pipe; a child left behind may write forever.
_MAX_DRAIN = 4 * 1024 * 1024

# Input that a command has not read yet; nobody types so far ahead.
MAX_PENDING_INPUT = 64 * 1024

_TERM = int(signal.SIGTERM)
_KILL = int(signal.SIGKILL)


class CommandExit(NamedTuple):
    """How a command ended: a code, or the name of the signal that ended it."""

    code: int | None
    signal: str | None


class CommandOutput(NamedTuple):
    """What a command wrote so far, whether its start was dropped, and how it ended if it has."""

    text: str
    truncated: bool
    exit: CommandExit | None


class Terminal:
    """One command: running until its process ends, known by its id until it is released."""

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
        # One pipe carries both streams in the order they were written; two keep them apart.
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
        self._pending_input = bytearray()  # what the terminal had no room for yet
        for pipe in pipes:
            self._loop.add_reader(pipe, self._read_pipe, pipe)
        self._watch_process()

    @property
    def is_reaped(self) -> bool:
        """Whether nothing is left of the process."""
        return self._process.returncode is not None

    def output(self) -> CommandOutput:
        """What the command wrote until now; never waits."""
        text, truncated = self._tail.read(final=not self._pipes)
        return CommandOutput(text, truncated, self._exit)

    @property
    def is_interactive(self) -> bool:
        """Whether the command runs in a real terminal and can still be typed to."""
        return self._input_fd is not None

    def write_input(self, text: str) -> None:
        """Give the command input, as its user would; only in a real terminal."""
        keyboard = self._require_input_fd()
        data = text.encode("utf-8", "replace")
        if len(self._pending_input) + len(data) > MAX_PENDING_INPUT:
            raise ProtocolError(
                Kind.RATE_LIMITED, f"the command has not read the {len(self._pending_input)} bytes before"
            )
        self._pending_input += data
        self._loop.add_writer(keyboard, self._flush_input, keyboard)

    def resize(self, rows: int, columns: int) -> None:
        """Make its terminal another size; the command is told by the system."""
        resize_terminal(self._require_input_fd(), TerminalSize(rows, columns))

    def _require_input_fd(self) -> int:
        if self._input_fd is None:
            raise ProtocolError(Kind.INVALID_STATE, f"terminal {self.id} takes no input: it has ended, or is no pty")
        return self._input_fd

    def _flush_input(self, input_fd: int) -> None:
        try:
            del self._pending_input[: os.write(input_fd, self._pending_input)]
        except BlockingIOError:
            return
        except OSError:
            self._pending_input.clear()  # nobody is there to read it
        if not self._pending_input:
            self._loop.remove_writer(input_fd)

    def streams(self) -> dict[str, str]:
        """What it wrote to each stream until now; empty when they are not kept apart."""
        return {name: tail.read(final=not self._pipes)[0] for name, tail in self._stream_tails.items()}

    async def wait(self) -> CommandExit:
        """Wait for the end of the command; may be cancelled without harm."""
        await self._exit_event.wait()
        return self._exit or CommandExit(None, None)

    def kill(self, signal: str = "SIGTERM", force: bool = False) -> bool:
        """Signal the whole process group; SIGTERM becomes SIGKILL after the grace. False if it had ended."""
        number = _signal_number("SIGKILL" if force else signal)
        running = self._exit is None
        self._signal_group(number)
        if running and number == _TERM:
            self._timers.append(self._loop.call_later(self._grace, self._signal_group, _KILL))
        return running

    async def release(self) -> None:
        """End the whole process group and forget the id; what was written can still be read here."""
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
        self._set_exit(CommandExit(None, "SIGKILL"))  # no effect unless the kernel holds on to it

    def kill_after(self, seconds: float) -> None:
        """Kill the command if it still runs then, and remember that this was why."""
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
        """Have _exited called when the process ends: by its descriptor, or by a thread if it has none."""
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
            pass  # the loop is closed: nobody asks any more

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
        """Kill what is left of the group, then take the status: only then can the group's id be reused."""
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
                pass  # gone, or a set-user-id program; macOS says the latter of a zombie too

    def _drain(self) -> None:
        for pipe in list(self._pipes):
            taken = 0
            while taken < _MAX_DRAIN and (size := self._read_pipe(pipe)):
                taken += size

    def _read_pipe(self, pipe: int) -> int:
        """Move what a pipe holds to the tail; 0 when it holds nothing now, or nothing ever again."""
        stream = self._pipes.get(pipe)
        if stream is None:
            return 0
        try:
            chunk = os.read(pipe, _READ_SIZE)
        except BlockingIOError:
            return 0
        except OSError as error:
            if error.errno != errno.EIO:  # how a terminal says that nobody is left in it
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
        raise ProtocolError(Kind.INVALID_PARAMS, f"there is no signal {name}", {"signal": name}) from None


def _wait_without_reaping(pid: int) -> CommandExit:
    """How a process ended, waiting for it, without taking its status: its id, and its group's, stay ours."""
    try:
        status = os.waitid(os.P_PID, pid, os.WEXITED | os.WNOWAIT)
    except ChildProcessError:
        return CommandExit(None, None)  # somebody else in this program waited for all children
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
