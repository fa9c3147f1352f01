"""What a process writes to stderr: drained always, kept at the end, quoted in errors.

Takes the descriptor of a pipe; a full stderr pipe would block the agent for good (peers.md P1). Keeps a
bounded ring and hands each piece to a listener, if there is one.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable

# Enough for a long traceback; a host with a thousand agents still pays only 64 MB.
RING = 64 * 1024

# What an error message quotes of it: what fits a screen.
_QUOTED_LINES = 12
_QUOTED_CHARS = 2000


class LastWords:
    """Drains one stderr pipe inside the running loop."""

    def __init__(self, fd: int, listener: Callable[[bytes], None] | None, ended: Callable[[], None]) -> None:
        self._fd = fd
        self._listener = listener
        self._on_end = ended
        self._ring = bytearray()
        self._loop = asyncio.get_running_loop()
        os.set_blocking(fd, False)
        self._loop.add_reader(fd, self._readable)

    @property
    def ended(self) -> bool:
        """Whether everybody closed the pipe."""
        return self._fd < 0

    def text(self) -> str:
        """What is kept, as text."""
        return self._ring.decode("utf-8", "replace")

    def quote(self) -> str:
        """The last lines, with control characters made visible: an agent must not style our messages."""
        lines = self.text().strip().splitlines()[-_QUOTED_LINES:]
        return "\n".join(map(_visible, lines))[-_QUOTED_CHARS:]

    def close(self) -> None:
        """Let go of the pipe."""
        fd, self._fd = self._fd, -1
        if fd >= 0:
            self._loop.remove_reader(fd)
            os.close(fd)

    def _readable(self) -> None:
        try:
            data = os.read(self._fd, RING)
        except (BlockingIOError, InterruptedError):
            return
        except OSError:
            data = b""
        if not data:
            self.close()
            self._on_end()
            return
        self._ring += data
        del self._ring[:-RING]
        if self._listener is not None:
            self._listener(data)


def _visible(line: str) -> str:
    return "".join(c if c.isprintable() or c == "\t" else c.encode("unicode_escape").decode() for c in line)
