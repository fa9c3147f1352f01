"""What a house has done since it was opened, as plain numbers: for the status page and the metrics."""

from __future__ import annotations


class Tally:
    """Counts; whoever does the thing adds to its number."""

    __slots__ = ("crashes", "delivered", "prompts", "sessions", "starts")

    def __init__(self) -> None:
        self.sessions = 0  # opened, or come from the store
        self.prompts = 0
        self.delivered = 0  # entries told to members, once for each of them
        self.starts = 0  # agents started
        self.crashes = 0  # agents that ended by themselves, or did not start
