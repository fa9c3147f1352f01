"""What one client saw of one session: each update with the number of its entry, in the order it came. Pure."""

from __future__ import annotations

from typing import Any, NamedTuple

import msgspec

# Where the host says which entry an update is.
STAMP = b'"dragoman":{"seq":'

AGENT, USER = "agent_message_chunk", "user_message_chunk"


class Seen(NamedTuple):
    """One update as it came."""

    seq: int
    kind: str
    text: str


class View:
    """One life of one client: from when it came into a session until it left, however often its line was cut."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.session = ""
        self.seen: list[Seen] = []
        self.begun: list[str] = []  # prompts it sent
        self.answered: dict[str, list[str]] = {}  # prompts that were answered: what it had been given by then
        self.refused: dict[str, int] = {}  # prompts that were not, by kind of error
        self.is_whole = False  # whether it stayed to the end, and so must have seen everything
        self.reports: list[str] = []

    def take(self, frame: bytes) -> None:
        """A frame came to the client."""
        if STAMP not in frame:
            return
        params = msgspec.json.decode(frame).get("params", {})
        stamp = params.get("_meta", {}).get("dragoman", {}) if isinstance(params, dict) else {}
        if "update" in params and "seq" in stamp:
            self.session = self.session or params["sessionId"]
            self.seen.append(Seen(stamp["seq"], *read(params["update"])))

    @property
    def last(self) -> int:
        """The number of the last entry it saw."""
        return self.seen[-1].seq if self.seen else 0


def read(update: dict[str, Any]) -> tuple[str, str]:
    """The kind of an update and what can be compared of it: its text, or the id of its tool call."""
    content = update.get("content")
    if isinstance(content, dict) and "text" in content:
        word, _, tail = content["text"].strip().partition(" ")
        return update["sessionUpdate"], f"{word}+{len(tail)}" if tail else word
    return update["sessionUpdate"], str(update.get("toolCallId", ""))
