"""Guess the direction of messages recorded without one.

A call goes to the side that receives its method; an answer goes to the side that sent the request with its id.
"""

from __future__ import annotations

from typing import Any

import msgspec

from dragoman.inspect.format import TO_AGENT, TO_CLIENT
from dragoman.schema.methods import METHODS
from dragoman.schema.side import Side

_DIRECTION = {Side.AGENT: TO_AGENT, Side.CLIENT: TO_CLIENT}
_OPPOSITE = {TO_AGENT: TO_CLIENT, TO_CLIENT: TO_AGENT}

# Methods that other dialects name differently from the table.
_OTHER_AGENT_METHODS = frozenset({"cancel", "unstable_resumeSession", "session/set_model"})


class _BareMessage(msgspec.Struct):
    id: Any = msgspec.UNSET
    method: Any = msgspec.UNSET


_decode = msgspec.json.Decoder(_BareMessage).decode


class DirectionGuesser:
    """Guesses directions; remembers which side sent which request."""

    def __init__(self) -> None:
        self._pending: dict[str, list[str]] = {}

    def guess_direction(self, message: bytes) -> str:
        """Return the direction of the next message."""
        bare = _decode(message)
        key = repr(bare.id)
        if isinstance(bare.method, str):
            way = method_direction(bare.method, is_request=bare.id is not msgspec.UNSET)
            if bare.id is not msgspec.UNSET:
                self._pending.setdefault(key, []).append(way)
            return way
        asked = self._pending.get(key)
        return _OPPOSITE[asked.pop(0)] if asked else TO_CLIENT


def method_direction(method: str, is_request: bool) -> str:
    """Return the direction of a method; unknown requests go to the agent, notifications to the client."""
    sides = [side for side in (Side.AGENT, Side.CLIENT) if (side, method) in METHODS]
    if len(sides) == 1:
        return _DIRECTION[sides[0]]
    if method in _OTHER_AGENT_METHODS:
        return TO_AGENT
    return TO_AGENT if is_request else TO_CLIENT
