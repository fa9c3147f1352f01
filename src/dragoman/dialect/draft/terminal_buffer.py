"""A draft client's terminal as far as it was pushed to us: what it printed by stream, and how it ended.

Values only. Above is the ledger towards the client, which answers an agent's polls from it and lets tool calls tell of
it.
"""

from __future__ import annotations

from typing import Any

import msgspec

from dragoman.schema.terminal import TerminalExitStatus

# Pushed output is kept up to this much a terminal, as the workspace would; older output falls away.
BUFFER_LIMIT = 1024 * 1024


class TerminalBuffer(msgspec.Struct, kw_only=True):
    """A client's terminal as far as it was pushed to us."""

    command: str
    limit: int
    text: str = ""
    streams: dict[str, str] = msgspec.field(default_factory=dict)
    truncated: bool = False
    exit_status: TerminalExitStatus | None = None
    is_released: bool = False

    def append(self, data: str, stream: str) -> None:
        """Take a piece of output."""
        self.text, cut = _last_bytes(self.text + data, self.limit)
        self.streams[stream], _ = _last_bytes(self.streams.get(stream, "") + data, self.limit)
        self.truncated = self.truncated or cut

    def tool_call_data(self) -> dict[str, Any]:
        """What a tool call tells of it."""
        code = self.exit_status.exit_code if self.exit_status is not None else None
        told: dict[str, Any] = {"command": self.command, "stdout": self.streams.get("stdout", "")}
        told["stderr"] = self.streams.get("stderr", "")
        return {**told, "exitCode": code} if isinstance(code, int) else told


def _last_bytes(text: str, limit: int) -> tuple[str, bool]:
    """The end of a text that has at most so many bytes, and whether anything was cut off."""
    data = text.encode("utf-8", "replace")
    if len(data) <= limit:
        return text, False
    return data[len(data) - limit :].decode("utf-8", "ignore"), True
