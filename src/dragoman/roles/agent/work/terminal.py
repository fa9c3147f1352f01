"""A terminal that the agent runs itself: clients show its bytes. Clients without v2 get its output as text."""

from __future__ import annotations

import asyncio
import base64
import os
import shlex
import signal
from collections.abc import Mapping, Sequence
from types import TracebackType
from typing import TYPE_CHECKING

from msgspec import UNSET

from dragoman.errors import Kind, ProtocolError
from dragoman.roles.agent.author.arguments import check_size, check_text
from dragoman.roles.agent.work.cancel_scope import CancelScope
from dragoman.roles.async_with import needs_async_with
from dragoman.schema.base import Marker
from dragoman.schema.terminal import TerminalExitStatus
from dragoman.schema.toolcall import ControlCapabilities
from dragoman.schema.update import TerminalOutput, TerminalOutputChunk, TerminalSize, TerminalUpdate

if TYPE_CHECKING:
    from dragoman.roles.agent.session import Session

# Bytes of output in one update: small enough to show at once, large enough for a fast command.
READ_SIZE = 65_536

# How long a command may take to end after SIGTERM; then it is killed. Seconds.
KILL_GRACE = 3.0


@needs_async_with("turn.terminal(...) as terminal; for a terminal of the client: await turn.terminals.create(...)")
class TurnTerminal:
    """One terminal of the agent, as an async context manager: `await terminal.run("make", "test")` in the block.

    Leaving the block ends it. With `cancellable`, the client can cancel it alone: the code of the block is cancelled,
    and the code after the block runs on; `cancelled` is then true.
    """

    def __init__(
        self,
        session: Session,
        id: str,
        command: str,
        *,
        cwd: str | None = None,
        size: tuple[int, int] | None = None,
        cancellable: bool = True,
    ) -> None:
        check_text("the command of a terminal", command)
        check_size("(columns, rows)", size)
        self.session = session
        self.id = id
        self.command = command
        self.cwd = cwd or session.cwd
        self.exit_code: int | None = None
        self.has_exited = False
        self._size = size
        self._scope = CancelScope() if cancellable else None

    @property
    def cancelled(self) -> bool:
        """Whether the client cancelled this terminal."""
        return self._scope is not None and self._scope.is_cancelled

    async def __aenter__(self) -> TurnTerminal:
        if self._scope is not None:
            self._scope.enter()
            self.session._cancel_scopes["terminal", self.id] = self._scope
        await self._send(
            TerminalUpdate(
                terminal_id=self.id,
                command=self.command,
                cwd=self.cwd,
                size=UNSET if self._size is None else TerminalSize(cols=self._size[0], rows=self._size[1]),
                capabilities=UNSET if self._scope is None else ControlCapabilities(cancel=Marker()),
            )
        )
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> bool | None:
        is_own = self._scope is not None and self._scope.absorb(error)
        self.session._cancel_scopes.pop(("terminal", self.id), None)
        if not self.has_exited:
            self._send_exit(None, "SIGTERM" if isinstance(error, asyncio.CancelledError) else None)
        return is_own

    async def write(self, data: str | bytes) -> None:
        """Send more output: bytes, or text as UTF-8. Control sequences are kept."""
        await self._send(TerminalOutputChunk(terminal_id=self.id, data=_base64(data)))

    async def replace(self, data: str | bytes) -> None:
        """Replace everything that was written."""
        await self._send(TerminalUpdate(terminal_id=self.id, output=TerminalOutput(data=_base64(data))))

    async def resize(self, cols: int, rows: int) -> None:
        """Set the size of the terminal."""
        await self._send(TerminalUpdate(terminal_id=self.id, size=TerminalSize(cols=cols, rows=rows)))

    async def exit(self, code: int | None = None, signal: str | None = None) -> None:
        """Report the end of the command: its exit code, or the signal that ended it."""
        self._check_running()
        self._send_exit(code, signal)
        await self._wait_if_behind()

    async def run(
        self, program: str, *args: str, env: Mapping[str, str] | None = None, shell: bool = False
    ) -> int | None:
        """Run a command in `cwd`, show its output and return its exit code; None if a signal ended it.

        With `shell`, `program` is a command line. A cancel ends the command with everything that it started.
        """
        self._check_running()
        argv: Sequence[str] = ["/bin/sh", "-c", program] if shell else [program, *args]
        try:
            process = await asyncio.create_subprocess_exec(
                *argv,
                cwd=self.cwd,
                env=None if env is None else {**os.environ, **env},
                stdin=asyncio.subprocess.DEVNULL,
                stdout=asyncio.subprocess.PIPE,
                stderr=asyncio.subprocess.STDOUT,
                start_new_session=True,
            )
        except OSError as error:
            message = f"cannot run {shlex.join(argv)}: {error.strerror}; is it installed and on the PATH?"
            raise ProtocolError(Kind.RESOURCE_NOT_FOUND, message) from error
        assert process.stdout is not None
        try:
            while data := await process.stdout.read(READ_SIZE):
                await self.write(data)
            code = await process.wait()
        except BaseException:
            await _stop(process)
            raise
        self.exit_code = code if code >= 0 else None
        await self.exit(self.exit_code, None if code >= 0 else signal.Signals(-code).name)
        return self.exit_code

    def _send_exit(self, code: int | None, signal: str | None) -> None:
        self.has_exited = True
        status = TerminalExitStatus(exit_code=UNSET if code is None else code, signal=signal or UNSET)
        capabilities = UNSET if self._scope is None else None
        self.session.send_update(TerminalUpdate(terminal_id=self.id, exit_status=status, capabilities=capabilities))

    def _check_running(self) -> None:
        if self.has_exited:
            raise ProtocolError(Kind.INVALID_STATE, f"the terminal {self.id} has ended; create another one")

    async def _send(self, update: TerminalUpdate | TerminalOutputChunk) -> None:
        self._check_running()
        self.session.send_update(update)
        await self._wait_if_behind()

    async def _wait_if_behind(self) -> None:
        if self.session.should_wait:
            await self.session.drain()


async def _stop(process: asyncio.subprocess.Process) -> None:
    """End a command and what it started: first with SIGTERM, then with SIGKILL."""
    for strike in (signal.SIGTERM, signal.SIGKILL):
        if process.returncode is not None:
            return
        try:
            os.killpg(process.pid, strike)
        except ProcessLookupError:
            pass
        try:
            async with asyncio.timeout(KILL_GRACE):
                await process.wait()
        except TimeoutError:
            continue


def _base64(data: str | bytes) -> str:
    return base64.b64encode(data.encode() if isinstance(data, str) else data).decode()
