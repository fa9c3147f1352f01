"""Stands between a client on our standard input and output and an agent that it starts, and changes nothing.

Bytes pass as they come, with ends of file, refusals (EPIPE), back-pressure, stderr, signals and the way the agent
ended; a tap is told what passed. One thread and `poll`: no message waits for another one's. Above is the command, below
are the launch and the process tree of transport/. Knows no frames.
"""

from __future__ import annotations

import os
import select
import signal
import time
from collections.abc import Callable, Sequence
from types import FrameType
from typing import NamedTuple

from dragoman.inspect.format import STDERR, TO_AGENT, TO_CLIENT
from dragoman.transport.base import LAST_WORDS, READ_SIZE
from dragoman.transport.process import pidfiles
from dragoman.transport.process.launch import Launched, launch
from dragoman.transport.process.process_tree import Patience, Tree
from dragoman.transport.process.watchdog import WARDEN
from dragoman.transport.stdio import private

Tap = Callable[[str, bytes], None]

# What a terminal or a client sends us is meant for the agent. TSTP and the like stop us as anybody.
FORWARDED = ("SIGHUP", "SIGINT", "SIGQUIT", "SIGTERM", "SIGUSR1", "SIGUSR2", "SIGWINCH")

# How often we look where nothing wakes us. Milliseconds.
LOOK = 50

_ENDED = getattr(os, "WEXITED", 0) | getattr(os, "WNOWAIT", 0) | getattr(os, "WNOHANG", 0)


class Ended(NamedTuple):
    """How the agent ended: its exit status, or minus the signal."""

    status: int

    @property
    def words(self) -> str:
        """The same, for people."""
        if self.status >= 0:
            return f"the agent exited with status {self.status}"
        try:
            return f"the agent was ended by {signal.Signals(-self.status).name}"
        except ValueError:
            return f"the agent was ended by signal {-self.status}"


def pump(command: Sequence[str], tap: Tap) -> Ended:
    """Run the agent between our standard streams until it ends; raises StartFailed."""
    pidfiles.reap()
    token = os.urandom(8).hex()
    WARDEN.guard(token, 0)
    try:
        launched = launch(command, token)
    except BaseException:
        WARDEN.forget(token)
        raise
    WARDEN.guard(token, launched.pid)
    pidfiles.write(token, launched.pid, launched.start, list(command))
    tree = Tree(launched.pid, launched.start, token)
    is_over = False
    try:
        _Pump(launched, tap).run()
        is_over = True
    finally:
        gone = _end(tree, at_once=not is_over)
        status = os.waitstatus_to_exitcode(os.waitpid(launched.pid, 0)[1])
        launched.reaped()
        WARDEN.forget(token)
        if gone:
            pidfiles.remove(token)
    return Ended(status)


def die_alike(ended: Ended) -> int:
    """The exit code that says the same; a signal that ended the agent ends us too, so that the client sees it."""
    if ended.status >= 0:
        return ended.status
    import resource

    number = -ended.status
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))  # the agent may have left a core; ours would say nothing
    try:
        signal.signal(number, signal.SIG_DFL)
    except (OSError, ValueError):  # KILL cannot be set, and need not
        pass
    os.kill(os.getpid(), number)
    return 128 + number


class _Pipe:
    """One direction: where bytes come from, where they go, and those on the way."""

    __slots__ = ("sink", "source", "waiting", "way")

    def __init__(self, way: str, source: int, sink: int) -> None:
        self.way = way
        self.source = source
        self.sink = sink
        self.waiting = memoryview(b"")

    def close(self) -> None:
        """No more bytes this way."""
        for fd in (self.source, self.sink):
            if fd >= 0:
                os.close(fd)
        self.source = self.sink = -1
        self.waiting = memoryview(b"")


class _Pump:
    def __init__(self, launched: Launched, tap: Tap) -> None:
        self._pid = launched.pid
        self._tap = tap
        own = [private(fd, flags) for fd, flags in ((0, os.O_RDONLY), (1, os.O_WRONLY), (2, os.O_WRONLY))]
        null = os.open(os.devnull, os.O_RDWR)
        for fd in (0, 1):  # an open copy of stdout would hide the end of the agent's output from the client
            os.dup2(null, fd)
        os.close(null)
        self._inward = _Pipe(TO_AGENT, own[0], launched.stdin)
        self._outward = _Pipe(TO_CLIENT, launched.stdout, own[1])
        self._errors = _Pipe(STDERR, launched.stderr, own[2])
        self._pipes = (self._inward, self._outward, self._errors)
        self._blocking = [(fd, os.get_blocking(fd)) for fd in own]
        for pipe in self._pipes:
            os.set_blocking(pipe.source, False)
            os.set_blocking(pipe.sink, False)
        self._poll = select.poll()
        self._asked: dict[int, int] = {}
        self._has_ended = False
        self._deadline: float | None = None
        self._pidfd = os.pidfd_open(launched.pid) if hasattr(os, "pidfd_open") else -1
        if self._pidfd >= 0:
            self._poll.register(self._pidfd, select.POLLIN)

    def run(self) -> None:
        """Until the agent ended and what it said has passed, or until it is alone with nobody to talk to."""
        before = self._forward_signals()
        try:
            self._watch()
            while not self._has_ended:
                if self._deadline is not None and time.monotonic() > self._deadline:
                    return
                self._step(None if self._pidfd >= 0 and self._deadline is None else LOOK)
                if self._pidfd < 0:
                    self._has_ended = os.waitid(os.P_PID, self._pid, _ENDED) is not None
            self._drain()
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)
            for fd, was in self._blocking:
                try:
                    os.set_blocking(fd, was)
                except OSError:
                    pass  # closed since
            for pipe in self._pipes:
                pipe.close()
            if self._pidfd >= 0:
                os.close(self._pidfd)

    # --- passing bytes --------------------------------------------------------------------------------------

    def _step(self, milliseconds: int | None) -> bool:
        ready = self._poll.poll(milliseconds)
        for fd, _ in ready:
            if fd == self._pidfd:
                self._has_ended = True
                self._poll.unregister(fd)
                continue
            for pipe in self._pipes:
                if fd == pipe.sink and pipe.waiting:
                    self._push(pipe)
                elif fd == pipe.source and not pipe.waiting:
                    self._pull(pipe)
                elif fd == pipe.sink:  # watched only when the client has closed its other end too: it is gone
                    self._hang_up(pipe)
                    self._deadline = time.monotonic() + Patience().eof
        return bool(ready)

    def _pull(self, pipe: _Pipe) -> None:
        try:
            data = os.read(pipe.source, READ_SIZE)
        except (BlockingIOError, InterruptedError):
            return
        except OSError:  # a terminal that hung up
            data = b""
        if not data:
            self._hang_up(pipe)
            return
        try:
            sent = os.write(pipe.sink, data)
        except (BlockingIOError, InterruptedError):
            sent = 0
        except OSError:
            self._tap(pipe.way, data)
            self._hang_up(pipe)
            return
        self._tap(pipe.way, data)
        if sent < len(data):
            pipe.waiting = memoryview(data)[sent:]
            self._watch()

    def _push(self, pipe: _Pipe) -> None:
        try:
            pipe.waiting = pipe.waiting[os.write(pipe.sink, pipe.waiting) :]
        except (BlockingIOError, InterruptedError):
            return
        except OSError:
            self._hang_up(pipe)
            return
        if not pipe.waiting:
            self._watch()

    def _hang_up(self, pipe: _Pipe) -> None:
        """The end of one direction, from either side, is passed on to the other side by closing both ends."""
        for fd in (pipe.source, pipe.sink):
            if self._asked.pop(fd, None) is not None:
                self._poll.unregister(fd)
        pipe.close()
        self._watch()

    # --- what poll looks at ---------------------------------------------------------------------------------

    def _watch(self) -> None:
        """A pipe with bytes on the way is watched where they go, an empty one where they come from."""
        wanted: dict[int, int] = {}
        for pipe in self._pipes:
            if pipe.sink >= 0 and pipe.waiting:
                wanted[pipe.sink] = select.POLLOUT
            elif pipe.source >= 0:
                wanted[pipe.source] = select.POLLIN
        if self._inward.source < 0 and self._outward.sink >= 0 and not self._outward.waiting:
            wanted[self._outward.sink] = 0  # only whether somebody is still there
        for fd in self._asked.keys() - wanted.keys():
            self._poll.unregister(fd)
        for fd, events in wanted.items():
            if self._asked.get(fd) != events:
                self._poll.register(fd, events)
        self._asked = wanted

    # --- beginning and end ----------------------------------------------------------------------------------

    def _drain(self) -> None:
        """The agent has ended; pass on what it left in its pipes, but do not wait for those who inherited them."""
        deadline = time.monotonic() + LAST_WORDS
        while self._outward.sink >= 0 or self._errors.sink >= 0:
            left = deadline - time.monotonic()
            if left <= 0 or not self._step(round(left * 1000)):
                break

    def _forward_signals(self) -> dict[int, signal._HANDLER]:
        def forward(number: int, _: FrameType | None) -> None:
            try:
                os.kill(self._pid, number)
            except ProcessLookupError:
                pass

        numbers = [getattr(signal, name) for name in FORWARDED if hasattr(signal, name)]
        return {number: signal.signal(number, forward) for number in numbers}


def _end(tree: Tree, at_once: bool) -> bool:
    """End what the agent left behind; True when nothing is left."""
    if at_once:
        return not tree.end_now()
    if not tree.survey():
        return True
    import asyncio

    return asyncio.run(tree.end(Patience()))
