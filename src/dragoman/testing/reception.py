"""The test's end of a stub agent: the socket it connects to, the pipes it passes, the commands it takes.

A client under test starts `stub_agent` as its agent; `Reception` waits for it and returns a `Visitor`.
"""

from __future__ import annotations

import asyncio
import json
import os
import shlex
import socket
import sys
import tempfile
from collections.abc import Sequence
from contextlib import suppress
from typing import Any

from dragoman.testing import stub_agent


def words(path: str, *, wrapped: bool = False) -> list[str]:
    """Return the command line of the stub agent that connects to this socket."""
    line = [sys.executable, "-I", os.path.abspath(stub_agent.__file__), path]
    return ["/bin/sh", "-c", f"{shlex.join(line)}; :"] if wrapped else line


class StubConnection:
    """A connected stub agent: its pipes, and the socket for commands."""

    def __init__(self, link: socket.socket, about: dict[str, Any], pipes: Sequence[int]) -> None:
        self.link = link
        self.about = about
        self.stdin, self.stdout, self.stderr = pipes

    def order(self, line: str) -> None:
        """Send it a command; ignored if it has exited."""
        with suppress(OSError):
            self.link.send(line.encode() + b"\n")

    def let_go(self) -> None:
        """Close the socket; the stub agent then exits."""
        self.link.close()
        with suppress(OSError):
            os.close(self.stderr)


class Reception:
    """The private socket that stub agents connect to: at this unused path, or in a new directory."""

    def __init__(self, path: str = "") -> None:
        self._folder = "" if path else tempfile.mkdtemp(prefix="dragoman-")
        self.path = path or os.path.join(self._folder, "door")
        self._listener = socket.socket(socket.AF_UNIX)
        self._listener.bind(self.path)
        self._listener.listen(8)
        self._listener.setblocking(False)

    async def accept(self) -> StubConnection:
        """Wait for the next stub agent."""
        loop = asyncio.get_running_loop()
        link, _ = await loop.sock_accept(self._listener)
        link.setblocking(False)
        report, pipes = await _first(link)
        while not report.endswith(b"\n"):
            more = await loop.sock_recv(link, 65536)
            if not more:
                raise ConnectionResetError("the stub agent exited before it sent its pipes")
            report += more
        return StubConnection(link, json.loads(report), pipes)

    def close(self) -> None:
        """Stop listening and remove the socket."""
        self._listener.close()
        for remove, path in ((os.unlink, self.path), (os.rmdir, self._folder)):
            with suppress(OSError):
                remove(path)


async def _first(link: socket.socket) -> tuple[bytes, list[int]]:
    """Read the first bytes, with the file descriptors sent along."""
    loop = asyncio.get_running_loop()
    ready = asyncio.Event()
    loop.add_reader(link, ready.set)
    try:
        await ready.wait()
    finally:
        loop.remove_reader(link)
    data, pipes, _, _ = socket.recv_fds(link, 65536, 3)
    return data, pipes
