"""Requests under way in either direction: who waits for which id. No I/O.

Ids are always our own for what we ask, and the peer's for what it asks; the two tables never meet, for both ends
count from zero (peers.md 2).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from dragoman.errors import ProtocolError
from dragoman.wire.envelope import Id

DoneCallback = Callable[[Any, ProtocolError | None], None]

# Late replies to requests that were given up are expected for a while; after so many the oldest are forgotten.
MAX_ABANDONED = 1024

# Digits of the longest number we ever give out as an id.
MAX_ID_DIGITS = 19


class PendingRequest:
    """One request of ours: its method, who waits, and whether a notification handler sent it."""

    __slots__ = ("done", "is_nested", "is_raw", "is_verbatim", "method")

    def __init__(
        self, method: str, done: DoneCallback, is_nested: bool = False, is_raw: bool = False, is_verbatim: bool = False
    ) -> None:
        self.method = method
        self.done = done
        self.is_nested = is_nested
        self.is_raw = is_raw  # whoever waits takes the result untyped
        self.is_verbatim = is_verbatim  # whoever waits takes the whole envelope, untranslated


class PendingRequests:
    """The requests we have sent and not yet seen answered."""

    __slots__ = ("_abandoned", "_last_id", "by_id")

    def __init__(self) -> None:
        self._last_id = -1
        self.by_id: dict[Id, PendingRequest] = {}
        self._abandoned: dict[Id, None] = {}

    def add(self, request: PendingRequest) -> int:
        """Take a fresh id for this request."""
        self._last_id += 1
        self.by_id[self._last_id] = request
        return self._last_id

    def find(self, id: Id) -> PendingRequest | None:
        """The request with that id, if it is open."""
        return self.by_id.get(self._own_id(id))

    def pop(self, id: Id) -> PendingRequest | None:
        """Take the request out of the table."""
        return self.by_id.pop(self._own_id(id), None)

    def _own_id(self, id: Id) -> Id:
        """The id as we said it: some peers make strings of numbers."""
        if isinstance(id, str) and len(id) <= MAX_ID_DIGITS and id.isascii() and id.isdigit():
            return int(id)
        return id

    def abandon(self, id: Id) -> None:
        """Stop waiting; a reply that still comes is no surprise."""
        if self.by_id.pop(id, None) is not None:
            self._abandoned[id] = None
            if len(self._abandoned) > MAX_ABANDONED:
                del self._abandoned[next(iter(self._abandoned))]

    def was_abandoned(self, id: Id) -> bool:
        """Whether this id belonged to a request we stopped waiting for."""
        return self._own_id(id) in self._abandoned
