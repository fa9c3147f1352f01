"""Copy bytes unchanged between a client on stdin and stdout and an agent that it starts, and report them.

Passes on end of file, EPIPE, back-pressure, stderr, signals and the exit status of the agent. Uses one thread and
`poll`.
"""

from __future__ import annotations

import os
import select
import signal
import time
from collections.abc import Sequence
from contextlib import suppress
from types import FrameType
from typing import NamedTuple

from dragoman.transport.base import HALF_CLOSED_GRACE, READ_SIZE
from dragoman.transport.process import pidfiles
from dragoman.transport.process.launch import LaunchedProcess, launch
from dragoman.transport.process.process_tree import ProcessTree, StopTimeouts
from dragoman.transport.process.watchdog import WATCHDOG
from dragoman.transport.recording.format import STDERR, TO_AGENT, TO_CLIENT, TrafficListener
from dragoman.transport.stdio import private_descriptor

# Signals for the agent. SIGTSTP and the like stop this process as usual.
FORWARDED_SIGNALS = ("SIGHUP", "SIGINT", "SIGQUIT", "SIGTERM", "SIGUSR1", "SIGUSR2", "SIGWINCH")

# Milliseconds between two checks without a wake-up.
POLL_MILLISECONDS = 50

_WAIT_FLAGS = getattr(os, "WEXITED", 0) | getattr(os, "WNOWAIT", 0) | getattr(os, "WNOHANG", 0)


class PumpResult(NamedTuple):
    """How the agent ended: its exit status, or the negative signal number."""

    status: int

    @property
    def description(self) -> str:
        """The result as text."""
        if self.status >= 0:
            return f"the agent exited with status {self.status}"
        try:
            return f"the agent was killed by {signal.Signals(-self.status).name}"
        except ValueError:
            return f"the agent was killed by signal {-self.status}"


def pump_stdio(command: Sequence[str], listener: TrafficListener) -> PumpResult:
    """Run the agent between our standard streams until it ends; raises StartFailed."""
    pidfiles.reap_orphans()
    token = os.urandom(8).hex()
    WATCHDOG.guard(token, 0)
    try:
        launched = launch(command, token)
    except BaseException:
        WATCHDOG.unguard(token)
        raise
    WATCHDOG.guard(token, launched.pid)
    pidfiles.write(token, launched.pid, launched.start_time, list(command))
    tree = ProcessTree(launched.pid, launched.start_time, token)
    is_over = False
    try:
        _Pump(launched, listener).run()
        is_over = True
    finally:
        gone = _end_tree(tree, immediately=not is_over)
        status = os.waitstatus_to_exitcode(os.waitpid(launched.pid, 0)[1])
        launched.mark_reaped()
        WATCHDOG.unguard(token)
        if gone:
            pidfiles.remove(token)
    return PumpResult(status)


def exit_like_agent(result: PumpResult) -> int:
    """Return the same exit status; if a signal killed the agent, kill this process with it, so the client sees it."""
    if result.status >= 0:
        return result.status
    import resource

    number = -result.status
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))  # a core dump of this process would be useless
    with suppress(OSError, ValueError):  # SIGKILL cannot be set, and need not
        signal.signal(number, signal.SIG_DFL)
    os.kill(os.getpid(), number)
    return 128 + number


class _Pipe:
    """One direction: its source, its sink, and the bytes not written yet."""

    __slots__ = ("direction", "pending", "sink", "source")

    def __init__(self, direction: str, source: int, sink: int) -> None:
        self.direction = direction
        self.source = source
        self.sink = sink
        self.pending = memoryview(b"")

    def close(self) -> None:
        """Close both ends."""
        for fd in (self.source, self.sink):
            if fd >= 0:
                os.close(fd)
        self.source = self.sink = -1
        self.pending = memoryview(b"")


class _Pump:
    def __init__(self, launched: LaunchedProcess, listener: TrafficListener) -> None:
        self._pid = launched.pid
        self._listener = listener
        own = [private_descriptor(fd, flags) for fd, flags in ((0, os.O_RDONLY), (1, os.O_WRONLY), (2, os.O_WRONLY))]
        null = os.open(os.devnull, os.O_RDWR)
        for fd in (0, 1):  # an open copy of stdout would hide the end of the agent's output from the client
            os.dup2(null, fd)
        os.close(null)
        self._to_agent = _Pipe(TO_AGENT, own[0], launched.stdin)
        self._to_client = _Pipe(TO_CLIENT, launched.stdout, own[1])
        self._stderr = _Pipe(STDERR, launched.stderr, own[2])
        self._pipes = (self._to_agent, self._to_client, self._stderr)
        self._blocking = [(fd, os.get_blocking(fd)) for fd in own]
        for pipe in self._pipes:
            os.set_blocking(pipe.source, False)
            os.set_blocking(pipe.sink, False)
        self._poll = select.poll()
        self._registered: dict[int, int] = {}
        self._has_ended = False
        self._deadline: float | None = None
        self._pidfd = os.pidfd_open(launched.pid) if hasattr(os, "pidfd_open") else -1
        if self._pidfd >= 0:
            self._poll.register(self._pidfd, select.POLLIN)

    def run(self) -> None:
        """Run until the agent exited and its output was passed on, or until the client is gone."""
        before = self._forward_signals()
        try:
            self._update_poll()
            while not self._has_ended:
                if self._deadline is not None and time.monotonic() > self._deadline:
                    return
                self._poll_once(None if self._pidfd >= 0 and self._deadline is None else POLL_MILLISECONDS)
                if self._pidfd < 0:
                    self._has_ended = os.waitid(os.P_PID, self._pid, _WAIT_FLAGS) is not None
            self._drain()
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)
            for fd, was in self._blocking:
                with suppress(OSError):  # closed since
                    os.set_blocking(fd, was)
            for pipe in self._pipes:
                pipe.close()
            if self._pidfd >= 0:
                os.close(self._pidfd)

    # --- passing bytes --------------------------------------------------------------------------------------

    def _poll_once(self, milliseconds: int | None) -> bool:
        ready = self._poll.poll(milliseconds)
        for fd, _ in ready:
            if fd == self._pidfd:
                self._has_ended = True
                self._poll.unregister(fd)
                continue
            for pipe in self._pipes:
                if fd == pipe.sink and pipe.pending:
                    self._flush_pipe(pipe)
                elif fd == pipe.source and not pipe.pending:
                    self._read_pipe(pipe)
                elif fd == pipe.sink:  # polled only after the client closed stdin: the client is gone
                    self._close_pipe(pipe)
                    self._deadline = time.monotonic() + StopTimeouts().eof
        return bool(ready)

    def _read_pipe(self, pipe: _Pipe) -> None:
        try:
            data = os.read(pipe.source, READ_SIZE)
        except (BlockingIOError, InterruptedError):
            return
        except OSError:  # a terminal that hung up
            data = b""
        if not data:
            self._close_pipe(pipe)
            return
        try:
            sent = os.write(pipe.sink, data)
        except (BlockingIOError, InterruptedError):
            sent = 0
        except OSError:
            self._listener(pipe.direction, data)
            self._close_pipe(pipe)
            return
        self._listener(pipe.direction, data)
        if sent < len(data):
            pipe.pending = memoryview(data)[sent:]
            self._update_poll()

    def _flush_pipe(self, pipe: _Pipe) -> None:
        try:
            pipe.pending = pipe.pending[os.write(pipe.sink, pipe.pending) :]
        except (BlockingIOError, InterruptedError):
            return
        except OSError:
            self._close_pipe(pipe)
            return
        if not pipe.pending:
            self._update_poll()

    def _close_pipe(self, pipe: _Pipe) -> None:
        """Close both ends of a direction, so that the other side sees it."""
        for fd in (pipe.source, pipe.sink):
            if self._registered.pop(fd, None) is not None:
                self._poll.unregister(fd)
        pipe.close()
        self._update_poll()

    # --- polled descriptors ---------------------------------------------------------------------------------

    def _update_poll(self) -> None:
        """Poll the sink of a pipe with pending bytes, else its source."""
        wanted: dict[int, int] = {}
        for pipe in self._pipes:
            if pipe.sink >= 0 and pipe.pending:
                wanted[pipe.sink] = select.POLLOUT
            elif pipe.source >= 0:
                wanted[pipe.source] = select.POLLIN
        if self._to_agent.source < 0 and self._to_client.sink >= 0 and not self._to_client.pending:
            wanted[self._to_client.sink] = 0  # only to see whether the client is still there
        for fd in self._registered.keys() - wanted.keys():
            self._poll.unregister(fd)
        for fd, events in wanted.items():
            if self._registered.get(fd) != events:
                self._poll.register(fd, events)
        self._registered = wanted

    # --- start and end --------------------------------------------------------------------------------------

    def _drain(self) -> None:
        """Pass on what the exited agent left in its pipes, but do not wait for processes that inherited them."""
        deadline = time.monotonic() + HALF_CLOSED_GRACE
        while self._to_client.sink >= 0 or self._stderr.sink >= 0:
            left = deadline - time.monotonic()
            if left <= 0 or not self._poll_once(round(left * 1000)):
                break

    def _forward_signals(self) -> dict[int, signal._HANDLER]:
        def forward(number: int, _: FrameType | None) -> None:
            with suppress(ProcessLookupError):
                os.kill(self._pid, number)

        numbers = [getattr(signal, name) for name in FORWARDED_SIGNALS if hasattr(signal, name)]
        return {number: signal.signal(number, forward) for number in numbers}


def _end_tree(tree: ProcessTree, immediately: bool) -> bool:
    """Terminate the processes that the agent left; return whether none is left."""
    if immediately:
        return not tree.kill()
    if not tree.living_members():
        return True
    import asyncio

    return asyncio.run(tree.terminate(StopTimeouts()))
