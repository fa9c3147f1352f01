"""Drain a process's stderr, keep its end and quote it in errors.

A full stderr pipe would block the agent forever (docs/protocol/peers.md#sdk-stderr).
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable

# Enough for a long traceback; a host with a thousand agents needs only 64 MB.
TAIL_BYTES = 64 * 1024

# How many lines an error message quotes: a screen.
_EXCERPT_LINES = 12
_EXCERPT_CHARS = 2000


class StderrTail:
    """Drains one stderr pipe inside the running loop."""

    def __init__(self, fd: int, on_data: Callable[[bytes], None] | None, on_end: Callable[[], None]) -> None:
        self._fd = fd
        self._on_data = on_data
        self._on_end = on_end
        self._tail = bytearray()
        self._loop = asyncio.get_running_loop()
        os.set_blocking(fd, False)
        self._loop.add_reader(fd, self._on_readable)

    @property
    def is_ended(self) -> bool:
        """Whether every writer closed the pipe."""
        return self._fd < 0

    def text(self) -> str:
        """The kept end of stderr, as text."""
        return self._tail.decode("utf-8", "replace")

    def excerpt(self, redact: Callable[[str], str]) -> str:
        """Return the last lines, redacted, with control characters made visible: an agent must not style our messages.

        It is redacted before it is cut, because the beginning of a secret says that it is one.
        """
        lines = redact(self.text()).strip().splitlines()[-_EXCERPT_LINES:]
        return "\n".join(map(_escape_control, lines))[-_EXCERPT_CHARS:]

    def close(self) -> None:
        """Close the pipe."""
        fd, self._fd = self._fd, -1
        if fd >= 0:
            self._loop.remove_reader(fd)
            os.close(fd)

    def _on_readable(self) -> None:
        try:
            data = os.read(self._fd, TAIL_BYTES)
        except (BlockingIOError, InterruptedError):
            return
        except OSError:
            data = b""
        if not data:
            self.close()
            self._on_end()
            return
        self._tail += data
        del self._tail[:-TAIL_BYTES]
        if self._on_data is not None:
            self._on_data(data)


def _escape_control(line: str) -> str:
    return "".join(c if c.isprintable() or c == "\t" else c.encode("unicode_escape").decode() for c in line)
