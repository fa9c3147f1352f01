"""A client of an official SDK in its own process, controlled step by step by a test."""

from __future__ import annotations

import json
import os
import select
import subprocess
import time
from typing import IO, Any, NamedTuple

from tests.interop.commands import peer

TIMEOUT = 90.0


class StepResult(NamedTuple):
    """The outcome of a step: its result or error, and the updates, questions and calls that came meanwhile."""

    result: Any
    error: Any
    updates: list[dict[str, Any]]
    asked: list[dict[str, Any]]
    calls: list[str]

    def kinds(self) -> list[str]:
        """The kinds of the updates, without those that an agent may send at any time."""
        return [update["sessionUpdate"] for update in self.updates if update["sessionUpdate"] not in _ANY_TIME]

    def of(self, kind: str) -> list[dict[str, Any]]:
        """The updates of a kind."""
        return [update for update in self.updates if update["sessionUpdate"] == kind]

    @property
    def text(self) -> str:
        """What the agent said."""
        return "".join(update["content"]["text"] for update in self.of("agent_message_chunk"))


_ANY_TIME = frozenset({"available_commands_update", "usage_update", "session_info_update"})


class RemoteClient:
    """The client's process. Every step ends with an answer, or fails after the timeout."""

    def __init__(self, name: str, timeout: float = TIMEOUT, stderr: IO[bytes] | None = None) -> None:
        self.name = name
        self._timeout = timeout
        self._process = subprocess.Popen(peer(name), stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=stderr)
        self._unread = b""
        self("stop")  # it is there now, and has its whole environment

    def __call__(self, do: str, **step: Any) -> StepResult:
        """Run a step; an error answer fails the test."""
        result = self.tried(do, **step)
        assert result.error is None, result.error
        return result

    def tried(self, do: str, **step: Any) -> StepResult:
        """Run a step that may be answered with an error."""
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps({"do": do, **step}).encode() + b"\n")
        self._process.stdin.flush()
        result = json.loads(self._line(f"{do} {step}"[:200]))
        return StepResult(
            result.get("result"), result.get("error"), result["updates"], result["asked"], result["calls"]
        )

    def _line(self, step: str) -> bytes:
        assert self._process.stdout is not None
        pieces, deadline = [self._unread], time.monotonic() + self._timeout
        while b"\n" not in pieces[-1]:
            ready, _, _ = select.select([self._process.stdout], [], [], max(0.0, deadline - time.monotonic()))
            assert ready, f"{self.name} did not finish in time: {step}"
            pieces.append(os.read(self._process.stdout.fileno(), 1 << 20))
            assert pieces[-1], f"{self.name} ended in the middle of: {step}"
        line, _, self._unread = b"".join(pieces).partition(b"\n")
        return line

    def close(self) -> None:
        """End the client."""
        assert self._process.stdin is not None
        self._process.stdin.close()
        try:
            self._process.wait(TIMEOUT)
        finally:
            self._process.kill()
            if self._process.stdout is not None:
                self._process.stdout.close()
