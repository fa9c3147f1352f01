"""Notice the exit of a child process and keep its status.

The child stays a zombie until `close`, so that its pid and group cannot be reused while its tree is being ended.
"""

from __future__ import annotations

import asyncio
import os
import signal
import threading
from collections.abc import Callable

_WAIT_FLAGS = getattr(os, "WNOWAIT", 0) | getattr(os, "WEXITED", 0)


class ExitWatcher:
    """Watches one child process through a pidfd, or a thread where there is none."""

    def __init__(self, pid: int, on_exit: Callable[[], None]) -> None:
        self.status: int | None = None
        self.is_known = False
        self._pid = pid
        self._on_exit = on_exit
        self._loop = asyncio.get_running_loop()
        self._exited = asyncio.Event()
        self._reaped = False
        self._pidfd = -1
        try:
            self._pidfd = os.pidfd_open(pid)
        except (AttributeError, OSError):
            threading.Thread(target=self._wait_in_thread, name=f"exit of {pid}", daemon=True).start()
        else:
            self._loop.add_reader(self._pidfd, self._on_readable)

    async def wait(self, seconds: float) -> None:
        """Return when the child has exited, or after this many seconds."""
        try:
            async with asyncio.timeout(seconds):
                await self._exited.wait()
        except TimeoutError:
            pass

    def describe(self) -> str:
        """Describe the exit: a status or the name of a signal."""
        if self.status is None:
            return "exited"
        if self.status >= 0:
            return f"exited with status {self.status}"
        try:
            return f"was ended by {signal.Signals(-self.status).name}"
        except ValueError:
            return f"was ended by signal {-self.status}"

    def close(self) -> None:
        """Stop watching and reap the zombie."""
        self._stop_watching()
        if not self._reaped:
            try:
                self._reaped = os.waitpid(self._pid, os.WNOHANG)[0] != 0
            except ChildProcessError:
                self._reaped = True

    def _on_readable(self) -> None:
        self._stop_watching()
        self._set_status(self._read_status(os.WNOHANG))

    def _stop_watching(self) -> None:
        fd, self._pidfd = self._pidfd, -1
        if fd >= 0:
            self._loop.remove_reader(fd)
            os.close(fd)

    def _read_status(self, flags: int) -> int | None:
        """Return the status and leave the zombie; None when somebody else reaped it (SIGCHLD ignored)."""
        try:
            if not hasattr(os, "waitid"):
                self._reaped = True
                return os.waitstatus_to_exitcode(os.waitpid(self._pid, 0)[1])
            result = os.waitid(os.P_PID, self._pid, _WAIT_FLAGS | flags)
        except ChildProcessError:
            return None
        if result is None:
            return None
        return result.si_status if result.si_code == os.CLD_EXITED else -result.si_status

    def _wait_in_thread(self) -> None:
        status = self._read_status(0)
        try:
            self._loop.call_soon_threadsafe(self._set_status, status)
        except RuntimeError:
            pass  # the loop is closed, so nobody waits for the exit

    def _set_status(self, status: int | None) -> None:
        self.status = status
        self.is_known = True
        self._exited.set()
        self._on_exit()
