"""Who said a bare message, where no recorder noted it: found out from the method table and from who asked.

A call goes to the side that receives its method; an answer goes back to whoever asked under that id. Pure.
"""

from __future__ import annotations

from typing import Any

import msgspec

from dragoman.inspect.format import TO_AGENT, TO_CLIENT
from dragoman.schema.methods import METHODS
from dragoman.schema.side import Side

_DIRECTION = {Side.AGENT: TO_AGENT, Side.CLIENT: TO_CLIENT}
_OPPOSITE = {TO_AGENT: TO_CLIENT, TO_CLIENT: TO_AGENT}

# Names of other dialects for what the table has under another name.
_OTHER_AGENT_METHODS = frozenset({"cancel", "unstable_resumeSession", "session/set_model"})


class _BareMessage(msgspec.Struct):
    id: Any = msgspec.UNSET
    method: Any = msgspec.UNSET


_decode = msgspec.json.Decoder(_BareMessage).decode


class DirectionGuesser:
    """Remembers who asked what."""

    def __init__(self) -> None:
        self._pending: dict[str, list[str]] = {}

    def guess_direction(self, message: bytes) -> str:
        """The direction of one message, in the order they passed."""
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
    """Where calls of that name go; of unknown ones requests go to the agent and news to the client."""
    sides = [side for side in (Side.AGENT, Side.CLIENT) if (side, method) in METHODS]
    if len(sides) == 1:
        return _DIRECTION[sides[0]]
    if method in _OTHER_AGENT_METHODS:
        return TO_AGENT
    return TO_AGENT if is_request else TO_CLIENT
