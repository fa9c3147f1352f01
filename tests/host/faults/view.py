"""What one client saw of one session: each update with its entry number, in order. Pure."""

from __future__ import annotations

from typing import Any, NamedTuple

import msgspec

# The member with the entry number of an update.
STAMP = b'"dragoman":{"seq":'

AGENT, USER = "agent_message_chunk", "user_message_chunk"


class Seen(NamedTuple):
    """One update as it came."""

    seq: int
    kind: str
    text: str


class View:
    """One stay of a client in a session, including reconnects."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.session = ""
        self.seen: list[Seen] = []
        self.begun: list[str] = []  # prompts it sent
        self.answered: dict[str, list[str]] = {}  # answered prompts: the last entry it had by then
        self.refused: dict[str, int] = {}  # failed prompts, by kind of error
        self.is_whole = False  # whether it stayed to the end, and so must have seen everything
        self.reports: list[str] = []

    def take(self, frame: bytes) -> None:
        """Record a frame."""
        if STAMP not in frame:
            return
        params = msgspec.json.decode(frame).get("params", {})
        stamp = params.get("_meta", {}).get("dragoman", {}) if isinstance(params, dict) else {}
        if "update" in params and "seq" in stamp:
            self.session = self.session or params["sessionId"]
            self.seen.append(Seen(stamp["seq"], *read(params["update"])))

    @property
    def last(self) -> int:
        """Return the number of the last entry it saw."""
        return self.seen[-1].seq if self.seen else 0


def read(update: dict[str, Any]) -> tuple[str, str]:
    """Return the kind of an update and what can be compared of it: its text, or the id of its tool call."""
    content = update.get("content")
    if isinstance(content, dict) and "text" in content:
        word, _, tail = content["text"].strip().partition(" ")
        return update["sessionUpdate"], f"{word}+{len(tail)}" if tail else word
    return update["sessionUpdate"], str(update.get("toolCallId", ""))
