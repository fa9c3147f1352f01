"""A terminal that the agent runs itself, built from its updates. Keeps the end of the output."""

from __future__ import annotations

import base64
import binascii

import msgspec
from msgspec import UNSET

from dragoman.schema.terminal import TerminalExitStatus
from dragoman.schema.update import TerminalOutputChunk, TerminalUpdate

# The most output that is kept per terminal, as in the workspace (bytes); older output is dropped.
OUTPUT_LIMIT = 1024 * 1024


class AgentTerminal(msgspec.Struct, kw_only=True, eq=False):
    """The current state of one terminal."""

    terminal_id: str
    command: str = ""
    cwd: str = ""
    exit_status: TerminalExitStatus | None = None
    data: bytearray = msgspec.field(default_factory=bytearray)

    @property
    def text(self) -> str:
        """The output as text; bytes that are not UTF-8 are replaced."""
        return self.data.decode("utf-8", "replace")

    def update(self, update: TerminalUpdate) -> None:
        """Apply a change: absent members stay, null removes."""
        for name in ("command", "cwd"):
            value = getattr(update, name)
            if value is not UNSET:
                setattr(self, name, value or "")
        if update.exit_status is not UNSET:
            self.exit_status = update.exit_status
        if update.output is not UNSET:
            self.data.clear()
            self._write(update.output.data if update.output is not None else "")

    def write(self, chunk: TerminalOutputChunk) -> None:
        """Add output."""
        self._write(chunk.data)

    def _write(self, encoded: str) -> None:
        try:
            self.data += base64.b64decode(encoded)
        except (binascii.Error, ValueError):  # not base64: the agent's mistake, and nothing to show
            return
        del self.data[: max(0, len(self.data) - OUTPUT_LIMIT)]
