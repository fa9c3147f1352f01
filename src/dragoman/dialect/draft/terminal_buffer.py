"""Pushed output of a draft client's terminal, by stream, and its exit.

The client emulator answers an agent's polls from it, and fills tool calls that show the terminal.
"""

from __future__ import annotations

from typing import Any

import msgspec

from dragoman.schema.terminal import TerminalExitStatus

# The most output that is kept per terminal, as in the workspace; older output is dropped.
BUFFER_LIMIT = 1024 * 1024


class TerminalBuffer(msgspec.Struct, kw_only=True):
    """The pushed output of a client's terminal."""

    command: str
    limit: int
    text: str = ""
    streams: dict[str, str] = msgspec.field(default_factory=dict)
    truncated: bool = False
    exit_status: TerminalExitStatus | None = None
    is_released: bool = False

    def append(self, data: str, stream: str) -> None:
        """Append output."""
        self.text, cut = _last_bytes(self.text + data, self.limit)
        self.streams[stream], _ = _last_bytes(self.streams.get(stream, "") + data, self.limit)
        self.truncated = self.truncated or cut

    def tool_call_data(self) -> dict[str, Any]:
        """Return what a tool call shows of it."""
        code = self.exit_status.exit_code if self.exit_status is not None else None
        data: dict[str, Any] = {"command": self.command, "stdout": self.streams.get("stdout", "")}
        data["stderr"] = self.streams.get("stderr", "")
        return {**data, "exitCode": code} if isinstance(code, int) else data


def _last_bytes(text: str, limit: int) -> tuple[str, bool]:
    """Return the end of a text in at most so many bytes, and whether it was cut."""
    data = text.encode("utf-8", "replace")
    if len(data) <= limit:
        return text, False
    return data[len(data) - limit :].decode("utf-8", "ignore"), True
