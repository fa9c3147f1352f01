"""Count the file syncs of a server, and hold them: the kernel asks the test before each fsync and fdatasync.

    python -m tests.store.sync_gate SOCKET PROGRAM ARGUMENT...     run a program whose syncs are asked for

A filter of system calls (seccomp) with a listener does it, which needs no root and works for programs in any language.
"""

from __future__ import annotations

import array
import asyncio
import ctypes
import fcntl
import os
import platform
import select
import socket
import struct
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable
from contextlib import suppress
from functools import cache
from pathlib import Path

# fsync, fdatasync; then seccomp.
_CALLS = {"x86_64": ((74, 75), 317), "aarch64": ((82, 83), 277)}

_NO_NEW_PRIVILEGES = 38
_SET_FILTER, _NEW_LISTENER, _WAIT_KILLABLE = 1, 1 << 3, 1 << 5
_ASK, _ALLOW = 0x7FC00000, 0x7FFF0000
_RECEIVE, _SEND, _CONTINUE = 0xC0502100, 0xC0182101, 1

# How long to wait for a sync that must come, on a loaded machine. Seconds.
TIMEOUT = 60.0


class SyncGate:
    """The syncs of one program: how many there were, and those that are held."""

    def __init__(self) -> None:
        self.count = 0  # syncs that were let through
        self._folder = tempfile.TemporaryDirectory(prefix="dragoman-sync-")
        self._address = os.path.join(self._folder.name, "s")
        self._server = socket.socket(socket.AF_UNIX)
        self._server.bind(self._address)
        self._server.listen()
        self._lock = threading.Lock()
        self._is_held: Callable[[str], bool] | None = None
        self._held: list[int] = []
        threading.Thread(target=self._serve, daemon=True).start()

    @property
    def prefix(self) -> list[str]:
        """The beginning of the command of the program."""
        return [sys.executable, str(Path(__file__)), self._address]

    @property
    def held(self) -> int:
        """How many syncs wait for the test."""
        return len(self._held)

    def hold(self, is_held: Callable[[str], bool] = lambda _: True) -> None:
        """From now on, let nobody sync a file whose path is one of these."""
        with self._lock:
            self._is_held = is_held

    def release(self) -> None:
        """Let through what is held, and everything after it."""
        with self._lock:
            self._is_held = None
            held, self._held = self._held, []
            for id in held:
                self._let(id)

    async def wait_held(self) -> None:
        """Wait until a sync is held."""
        async with asyncio.timeout(TIMEOUT):
            while not self._held:  # noqa: ASYNC110
                await asyncio.sleep(0.01)

    def close(self) -> None:
        """Let everything through; the program may go on."""
        self.release()
        self._server.close()
        self._folder.cleanup()

    def _serve(self) -> None:
        with suppress(OSError):
            while True:
                connection, _ = self._server.accept()  # again when the program is started again
                with connection:
                    fds = array.array("i")
                    _, control, _, _ = connection.recvmsg(1, socket.CMSG_SPACE(fds.itemsize))
                fds.frombytes(control[0][2][: fds.itemsize])
                threading.Thread(target=self._listen, args=(fds[0],), daemon=True).start()

    def _listen(self, listener: int) -> None:
        self._listener = listener
        poll = select.poll()
        poll.register(listener, select.POLLIN)
        while True:
            _, event = poll.poll()[0]
            if not event & select.POLLIN:  # the program has ended
                return
            question = bytearray(80)
            with suppress(OSError):  # its thread was killed meanwhile
                fcntl.ioctl(listener, _RECEIVE, question)
                id, pid, _, _, _, _, fd = struct.unpack_from("=QIIiIQQ", question)
                self._answer(id, _path(pid, fd))

    def _answer(self, id: int, path: str) -> None:
        with self._lock:
            if self._is_held is not None and self._is_held(path):
                self._held.append(id)
            else:
                self._let(id)

    def _let(self, id: int) -> None:
        with suppress(OSError):
            fcntl.ioctl(self._listener, _SEND, struct.pack("=QqiI", id, 0, 0, _CONTINUE))
            self.count += 1


def _path(pid: int, fd: int) -> str:
    try:
        return os.readlink(f"/proc/{pid}/fd/{fd}")
    except OSError:
        return ""


@cache
def reason_to_skip() -> str | None:
    """Return why syncs cannot be asked for on this machine."""
    if sys.platform != "linux" or platform.machine() not in _CALLS:
        return "syncs are counted on Linux only, on x86-64 and ARM"
    gate = SyncGate()
    try:
        tried = subprocess.run([*gate.prefix, "true"], capture_output=True, text=True, check=False, timeout=TIMEOUT)
        return (tried.stderr.strip().splitlines() or ["?"])[-1] if tried.returncode else None
    finally:
        gate.close()


def main(address: str, command: list[str]) -> None:
    """Install the filter, hand its listener to the test, and become the program."""
    (fsync, fdatasync), seccomp = _CALLS[platform.machine()]
    instructions = [(0x20, 0, 0, 0), (0x15, 1, 0, fsync), (0x15, 0, 1, fdatasync), (0x06, 0, 0, _ASK)]
    instructions.append((0x06, 0, 0, _ALLOW))
    code = ctypes.create_string_buffer(b"".join(struct.pack("=HBBI", *each) for each in instructions))
    program = ctypes.create_string_buffer(struct.pack("@HP", len(instructions), ctypes.addressof(code)))
    libc = ctypes.CDLL(None, use_errno=True)
    libc.prctl(_NO_NEW_PRIVILEGES, 1, 0, 0, 0)
    with socket.socket(socket.AF_UNIX) as connection:
        connection.connect(address)
        for flags in (_NEW_LISTENER | _WAIT_KILLABLE, _NEW_LISTENER):  # older kernels know only the second
            listener = libc.syscall(seccomp, _SET_FILTER, flags, program)
            if listener >= 0:
                break
        else:
            raise OSError(ctypes.get_errno(), "the kernel gives no listener for system calls")
        fds = array.array("i", [listener])
        connection.sendmsg([b"x"], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, fds)])
    os.close(listener)
    os.execvp(command[0], command)


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2:])
