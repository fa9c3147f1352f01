"""An agent as a child process: started, spoken to, and ended with everything it started.

`spawn` takes a command and gives a transport. The child leads a session of its own; closing ends the whole
tree (end of input, TERM, KILL, each with a patience), our own death ends it too (warden), and what still
remained is ended at the next start (records). Above is the engine; noise on stdout is not this layer's
business.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING

from dragoman.errors import AgentExited, ConnectionFailed, TransportClosed
from dragoman.transport.base import LAST_WORDS, WRITE_STALL
from dragoman.transport.process import pidfiles
from dragoman.transport.process.exit_status import Exit
from dragoman.transport.process.launch import Launched, launch
from dragoman.transport.process.process_tree import Patience, Tree
from dragoman.transport.process.stderr_tail import LastWords
from dragoman.transport.process.watchdog import WARDEN
from dragoman.transport.stream import StreamTransport
from dragoman.wire.frames import MAX_FRAME, Frame

if TYPE_CHECKING:
    from os import PathLike

    from dragoman.transport.sandbox.plan import Box
    from dragoman.transport.sandbox.spec import Sandbox

_reaped = False


async def spawn(
    command: Sequence[str],
    *,
    cwd: str | PathLike[str] | None = None,
    env: Mapping[str, str] | None = None,
    inherit_env: bool | Sequence[str] = True,
    stderr: Callable[[bytes], None] | None = None,
    patience: Patience = Patience(),  # noqa: B008  (an immutable tuple)
    peer: str | None = None,
    stall: float = WRITE_STALL,
    max_frame: int = MAX_FRAME,
    sandbox: Sandbox | None = None,
) -> ProcessTransport:
    """Start an agent; raises StartFailed with what to try.

    The child gets our environment (or only the names listed in `inherit_env`, or nothing) and `env` on top.
    `stderr` is called with each piece the agent writes there; the end of it is kept in any case. In a `sandbox` it
    may write in `cwd` and sees less of our environment.
    """
    global _reaped
    if not _reaped:
        _reaped = True
        pidfiles.reap()
    box: Box | None = None
    if sandbox is not None:
        from dragoman.transport.sandbox.plan import Box

        box = await asyncio.to_thread(Box, sandbox, [os.fspath(cwd or os.getcwd())])
    token = os.urandom(8).hex()
    WARDEN.guard(token, 0)  # before the child exists, so that there is no moment in which we could die alone
    try:
        launched = launch(command, token, cwd=cwd, env=env, inherit_env=inherit_env, box=box)
    except BaseException:
        WARDEN.forget(token)
        if box is not None:
            box.close()
        raise
    WARDEN.guard(token, launched.pid)
    pidfiles.write(token, launched.pid, launched.start, list(command))
    name = peer or f"agent {os.path.basename(command[0])}"
    return ProcessTransport(
        launched, peer=name, patience=patience, listener=stderr, stall=stall, max_frame=max_frame, box=box
    )


class ProcessTransport(StreamTransport):
    """A spawned agent; `close` leaves nothing of it behind."""

    def __init__(
        self,
        launched: Launched,
        *,
        peer: str,
        patience: Patience,
        listener: Callable[[bytes], None] | None,
        stall: float,
        max_frame: int,
        box: Box | None = None,
    ) -> None:
        super().__init__(launched.stdout, launched.stdin, peer=peer, stall=stall, max_frame=max_frame)
        self.pid = launched.pid
        self._launched = launched
        self._patience = patience
        self._box = box
        self._tree = Tree(launched.pid, launched.start, launched.token)
        self._gone: asyncio.Future[AgentExited] = self._loop.create_future()
        self._exit = Exit(launched.pid, self._exited)
        self._words = LastWords(launched.stderr, listener, self._words_ended)

    @property
    def status(self) -> int | None:
        """How the process ended: its exit status, or minus the signal; None while it runs."""
        return self._exit.status

    def last_words(self) -> str:
        """The end of what the agent wrote to stderr, at most 64 KiB."""
        return self._words.text()

    async def receive(self) -> list[Frame]:
        """The next frames; raises AgentExited with exit reason and last words when the process ended."""
        try:
            return await super().receive()
        except TransportClosed:
            if self._closing is not None:
                raise
        await asyncio.wait([self._gone], timeout=LAST_WORDS)
        if self._gone.done():
            raise self._gone.result().with_traceback(None)
        raise TransportClosed(self._with_words(f"{self.peer} closed its output but is still running"))

    async def close(self, reason: str = "") -> None:
        """End the agent and all it started; bounded by the patience given at spawn."""
        if self._closing is not None:
            await asyncio.shield(self._closing)
            return
        self._closing = self._loop.create_future()
        because = f": {reason}" if reason else ""
        error = TransportClosed(f"the connection to {self.peer} was closed{because}")
        gone = False
        try:
            self._tree.survey()  # while all parents still live
            self._drain_output(error)
            await self._close_writing(error, self._patience.eof)
            await self._exit.wait(self._patience.eof)
            gone = await self._tree.end(self._patience)
            if self._box is not None:
                await asyncio.to_thread(self._box.close)
        finally:
            if not gone:
                self._tree.end_now()
            self._let_go(error, gone)
            self._closing.set_result(None)

    def _drain_output(self, error: ConnectionFailed) -> None:
        """Read on for nobody: an agent that blocks on a full output never sees the end of its input."""
        ended = self._ended is not None
        self._discarding = True
        self._ended = self._ended or error
        self._wake()
        if not ended and not self._reading:
            self._start_reading()

    def _let_go(self, error: ConnectionFailed, gone: bool) -> None:
        self._release(error)
        self._words.close()
        self._exit.close()
        self._launched.reaped()
        WARDEN.forget(self._launched.token)
        if self._box is not None:
            self._box.close()
        if gone:  # else the record stays, and the next start tries again
            pidfiles.remove(self._launched.token)

    def _exited(self) -> None:
        if self._words.ended:
            self._bury()
        else:  # a grandchild may hold the pipes open for ever
            self._loop.call_later(LAST_WORDS, self._bury)

    def _words_ended(self) -> None:
        if self._exit.known:
            self._bury()

    def _bury(self) -> None:
        """Exit reason and last words are known: tell everybody who waits."""
        if self._gone.done():
            return
        text = self._with_words(f"{self.peer} {self._exit.describe()}")
        error = AgentExited(text, status=self._exit.status, stderr=self._words.text())
        self._gone.set_result(error)
        if self._closing is None:
            self._broken = None
            self._stop_writing(error)
            self._loop.call_later(LAST_WORDS, self._end_reading, error)

    def _with_words(self, text: str) -> str:
        words = self._words.quote()
        return f"{text}; last words: {words}" if words else text
