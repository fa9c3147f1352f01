"""An agent as a child process: start it, exchange frames, and end it with everything it started.

`close` ends the whole tree. If we die, the watchdog ends it, or the next start does (pidfiles).
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING

from dragoman.errors import AgentExited, ConnectionFailed, TransportClosed
from dragoman.transport.base import HALF_CLOSED_GRACE, Framing
from dragoman.transport.process import pidfiles
from dragoman.transport.process.exit_status import ExitWatcher
from dragoman.transport.process.launch import LaunchedProcess, launch
from dragoman.transport.process.process_tree import ProcessTree, StopTimeouts
from dragoman.transport.process.stderr_tail import StderrTail
from dragoman.transport.process.watchdog import WATCHDOG
from dragoman.transport.stream import StreamTransport
from dragoman.wire.frames import MAX_FRAME, Frame

if TYPE_CHECKING:
    from os import PathLike

    from dragoman.transport.sandbox.plan import ActiveSandbox
    from dragoman.transport.sandbox.spec import Sandbox

_orphans_reaped = False


async def spawn(
    command: Sequence[str],
    *,
    cwd: str | PathLike[str] | None = None,
    env: Mapping[str, str] | None = None,
    inherit_env: bool | Sequence[str] = True,
    stderr: Callable[[bytes], None] | None = None,
    redact: Callable[[str], str] = str,
    stop_timeouts: StopTimeouts = StopTimeouts(),  # noqa: B008  (an immutable tuple)
    peer: str | None = None,
    sandbox: Sandbox | None = None,
    roots: Sequence[str] = (),
    framing: Framing | None = None,
    max_frame: int = MAX_FRAME,
) -> ProcessTransport:
    """Start an agent; raise StartFailed with what to try.

    The child gets our environment (or only the names in `inherit_env`, or nothing) and `env` on top. `stderr` is called
    with each piece the agent writes there; the end of it is always kept, and errors quote what `redact` makes of it. In
    a `sandbox` it may write in `roots`, or else in `cwd`, and sees less of our environment. `framing` is for peers that
    do not use lines.
    """
    global _orphans_reaped
    if not _orphans_reaped:
        _orphans_reaped = True
        pidfiles.reap_orphans()
    active_sandbox: ActiveSandbox | None = None
    if sandbox is not None:
        from dragoman.transport.sandbox.plan import ActiveSandbox

        folders = list(roots) or [os.fspath(cwd or os.getcwd())]
        active_sandbox = await asyncio.to_thread(ActiveSandbox, sandbox, folders)
    token = os.urandom(8).hex()
    WATCHDOG.guard(token, 0)  # before the child exists, so that it is guarded from its first moment
    try:
        launched = launch(command, token, cwd=cwd, env=env, inherit_env=inherit_env, sandbox=active_sandbox)
    except BaseException:
        WATCHDOG.unguard(token)
        if active_sandbox is not None:
            active_sandbox.close()
        raise
    WATCHDOG.guard(token, launched.pid)
    pidfiles.write(token, launched.pid, launched.start_time, list(command))
    name = peer or f"agent {os.path.basename(command[0])}"
    return ProcessTransport(
        launched,
        peer=name,
        stop_timeouts=stop_timeouts,
        on_stderr=stderr,
        redact=redact,
        sandbox=active_sandbox,
        framing=framing,
        max_frame=max_frame,
    )


class ProcessTransport(StreamTransport):
    """A spawned agent; `close` leaves no process behind."""

    def __init__(
        self,
        launched: LaunchedProcess,
        *,
        peer: str,
        stop_timeouts: StopTimeouts,
        on_stderr: Callable[[bytes], None] | None,
        redact: Callable[[str], str] = str,
        sandbox: ActiveSandbox | None = None,
        framing: Framing | None = None,
        max_frame: int = MAX_FRAME,
    ) -> None:
        super().__init__(launched.stdout, launched.stdin, peer=peer, framing=framing, max_frame=max_frame)
        self.pid = launched.pid
        self._process = launched
        self._stop_timeouts = stop_timeouts
        self._redact = redact
        self._sandbox = sandbox
        self._tree = ProcessTree(launched.pid, launched.start_time, launched.token)
        self._exit_error: asyncio.Future[AgentExited] = self._loop.create_future()
        self._exit_watcher = ExitWatcher(launched.pid, self._on_exit)
        self._stderr_tail = StderrTail(launched.stderr, on_stderr, self._on_stderr_end)

    @property
    def exit_status(self) -> int | None:
        """The exit status, or minus the signal; None while the process runs."""
        return self._exit_watcher.status

    def stderr_tail(self) -> str:
        """The end of the agent's stderr, at most 64 KiB."""
        return self._stderr_tail.text()

    async def receive(self) -> list[Frame]:
        """Return the next frames; raise AgentExited with exit reason and end of stderr when the process ended."""
        try:
            return await super().receive()
        except TransportClosed:
            if self._closing is not None:
                raise
        await asyncio.wait([self._exit_error], timeout=HALF_CLOSED_GRACE)
        if self._exit_error.done():
            raise self._exit_error.result().with_traceback(None)
        raise TransportClosed(self._with_stderr(f"{self.peer} closed its output but is still running"))

    async def _release(self, error: ConnectionFailed, reason: str) -> None:
        """End the agent and everything it started, within the timeouts given at spawn."""
        is_gone = False
        try:
            self._tree.living_members()  # note them while all parents still live
            self._discard_output(error)
            await self._close_writing(error, self._stop_timeouts.eof)
            await self._exit_watcher.wait(self._stop_timeouts.eof)
            is_gone = await self._tree.terminate(self._stop_timeouts)
            if self._sandbox is not None:
                await asyncio.to_thread(self._sandbox.close)
        finally:
            if not is_gone:
                self._tree.kill()
            self._release_process(error, is_gone)

    def _discard_output(self, error: ConnectionFailed) -> None:
        """Read and drop the output: an agent that blocks on full output never sees the end of its input."""
        if not self._incoming.is_ended:
            self._discarding = True
            self._start_reading()
            self._incoming.end(error)

    def _release_process(self, error: ConnectionFailed, is_gone: bool) -> None:
        self._close_reading(error)
        self._stderr_tail.close()
        self._exit_watcher.close()
        self._process.mark_reaped()
        WATCHDOG.unguard(self._process.token)
        if self._sandbox is not None:
            self._sandbox.close()
        if is_gone:  # otherwise the record stays, and the next start tries again
            pidfiles.remove(self._process.token)

    def _on_exit(self) -> None:
        if self._stderr_tail.is_ended:
            self._report_exit()
        else:  # a grandchild may hold the pipes open forever
            self._loop.call_later(HALF_CLOSED_GRACE, self._report_exit)

    def _on_stderr_end(self) -> None:
        if self._exit_watcher.is_known:
            self._report_exit()

    def _report_exit(self) -> None:
        """Fail everybody who waits, with exit reason and end of stderr."""
        if self._exit_error.done():
            return
        text = self._with_stderr(f"{self.peer} {self._exit_watcher.describe()}")
        error = AgentExited(text, status=self._exit_watcher.status, stderr=self._redact(self._stderr_tail.text()))
        self._exit_error.set_result(error)
        if self._closing is None:
            self._writer.error = None
            self._stop_writing(error)
            self._loop.call_later(HALF_CLOSED_GRACE, self._end_reading, error)

    def _with_stderr(self, text: str) -> str:
        excerpt = self._stderr_tail.excerpt(self._redact)
        return f"{text}; stderr: {excerpt}" if excerpt else text
