"""How the processes of a kill run report to the recorder what they received: one line each, over a socket.

The system has the line when `say` returns, so it is read even if its sender is killed at once.
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
        """Report one line; no word contains a space."""
        self._socket.sendall((" ".join(map(str, words)) + "\n").encode())


def when_input_ends(then: Callable[[], None]) -> None:
    """Call a function when standard input is closed or has data."""
    loop = asyncio.get_running_loop()

    def over() -> None:
        loop.remove_reader(0)
        then()

    loop.add_reader(0, over)
