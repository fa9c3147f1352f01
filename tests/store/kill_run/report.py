"""How the processes of a kill run tell the recorder what they were given: a line each, over a socket.

A line is in the hands of the system when `say` returns, so it is read even when its sender is killed right after.
"""

from __future__ import annotations

import asyncio
import os
import socket
from collections.abc import Callable


class RecordWriter:
    """One process's line to the recorder."""

    def __init__(self, address: str, role: str, name: str) -> None:
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self._socket.connect(address)
        self.say("here", role, name, os.getpid())

    def say(self, *words: object) -> None:
        """Tell one thing; no word has a space in it."""
        self._socket.sendall((" ".join(map(str, words)) + "\n").encode())


def when_input_ends(then: Callable[[], None]) -> None:
    """Do something when whoever started this process closes its standard input, or says anything there."""
    loop = asyncio.get_running_loop()

    def over() -> None:
        loop.remove_reader(0)
        then()

    loop.add_reader(0, over)
