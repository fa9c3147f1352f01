"""Which end of a connection receives a message."""

from __future__ import annotations

from enum import StrEnum


class Side(StrEnum):
    """Who receives a method: the agent or the client."""

    AGENT = "agent"
    CLIENT = "client"

    # An enum's own hash is a Python function, and every message looks up its row by its side.
    __hash__ = str.__hash__

    @property
    def other(self) -> Side:
        """The end across the connection."""
        return Side.CLIENT if self is Side.AGENT else Side.AGENT
