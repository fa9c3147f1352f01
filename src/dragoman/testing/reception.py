"""The stand-in at our door: the socket at which it reports, the pipes it hands over, the orders it takes.

A client under test starts `doorway` as its agent; `Reception` waits for it and gives a `Visitor`. Above are the stage
of scenarios and the checks of clients. Knows nothing of what is said on the pipes.
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
    """The command line of our stand-in, which reports at this socket."""
    line = [sys.executable, "-I", os.path.abspath(stub_agent.__file__), path]
    return ["/bin/sh", "-c", f"{shlex.join(line)}; :"] if wrapped else line


class Visitor:
    """The stand-in after it reported: its pipes, and the line on which it takes orders."""

    def __init__(self, link: socket.socket, about: dict[str, Any], pipes: Sequence[int]) -> None:
        self.link = link
        self.about = about
        self.stdin, self.stdout, self.stderr = pipes

    def order(self, line: str) -> None:
        """Tell it something; one that is gone does not hear it."""
        with suppress(OSError):
            self.link.send(line.encode() + b"\n")

    def let_go(self) -> None:
        """It goes when nobody holds its line."""
        self.link.close()
        with suppress(OSError):
            os.close(self.stderr)


class Reception:
    """The private socket at which a stand-in reports: at this path, where nothing is, or in a folder of its own."""

    def __init__(self, path: str = "") -> None:
        self._folder = "" if path else tempfile.mkdtemp(prefix="dragoman-")
        self.path = path or os.path.join(self._folder, "door")
        self._listener = socket.socket(socket.AF_UNIX)
        self._listener.bind(self.path)
        self._listener.listen(8)
        self._listener.setblocking(False)

    async def visitor(self) -> Visitor:
        """The next stand-in that reports."""
        loop = asyncio.get_running_loop()
        link, _ = await loop.sock_accept(self._listener)
        link.setblocking(False)
        told, pipes = await _first(link)
        while not told.endswith(b"\n"):
            more = await loop.sock_recv(link, 65536)
            if not more:
                raise ConnectionResetError("the stand-in went before it had reported")
            told += more
        return Visitor(link, json.loads(told), pipes)

    def close(self) -> None:
        """Nobody is received any more."""
        self._listener.close()
        for remove, path in ((os.unlink, self.path), (os.rmdir, self._folder)):
            with suppress(OSError):
                remove(path)


async def _first(link: socket.socket) -> tuple[bytes, list[int]]:
    """The first piece that comes, with the descriptors that travel beside it."""
    loop = asyncio.get_running_loop()
    ready = asyncio.Event()
    loop.add_reader(link, ready.set)
    try:
        await ready.wait()
    finally:
        loop.remove_reader(link)
    told, pipes, _, _ = socket.recv_fds(link, 65536, 3)
    return told, pipes
