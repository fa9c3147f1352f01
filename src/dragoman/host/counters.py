"""What a house has done since it was opened, as plain numbers: for the status page and the metrics."""

from __future__ import annotations


class Counters:
    """Counts; whoever does the thing adds to its number."""

    __slots__ = ("agent_crashes", "agent_starts", "delivered_entries", "prompts", "sessions")

    def __init__(self) -> None:
        self.sessions = 0  # opened, or come from the store
        self.prompts = 0
        self.delivered_entries = 0  # entries told to members, once for each of them
        self.agent_starts = 0  # agents started
        self.agent_crashes = 0  # agents that ended by themselves, or did not start
