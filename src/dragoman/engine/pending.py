"""Our requests that wait for an answer, by id. No I/O.

Our ids and the peer's are in separate tables, since both ends count from zero (docs/protocol/peers.md#id-shapes).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from dragoman.errors import ProtocolError
from dragoman.wire.envelope import Id

DoneCallback = Callable[[Any, ProtocolError | None], None]

# Late answers to abandoned requests are expected; above this many the oldest ids are forgotten.
MAX_ABANDONED = 1024

# Digits of the longest number we use as an id.
MAX_ID_DIGITS = 19


class PendingRequest:
    """One request of ours: its method, its callback, and whether a notification handler sent it."""

    __slots__ = ("done", "is_nested", "is_raw", "is_verbatim", "method")

    def __init__(
        self, method: str, done: DoneCallback, is_nested: bool = False, is_raw: bool = False, is_verbatim: bool = False
    ) -> None:
        self.method = method
        self.done = done
        self.is_nested = is_nested
        self.is_raw = is_raw  # the callback takes the result untyped
        self.is_verbatim = is_verbatim  # the callback takes the whole envelope, untranslated


class PendingRequests:
    """Our requests without an answer yet."""

    __slots__ = ("_abandoned", "_last_id", "by_id")

    def __init__(self) -> None:
        self._last_id = -1
        self.by_id: dict[Id, PendingRequest] = {}
        self._abandoned: dict[Id, None] = {}

    def add(self, request: PendingRequest) -> int:
        """Add a request and return its new id."""
        self._last_id += 1
        self.by_id[self._last_id] = request
        return self._last_id

    def find(self, id: Id) -> PendingRequest | None:
        """Return the open request with that id."""
        return self.by_id.get(self._own_id(id))

    def pop(self, id: Id) -> PendingRequest | None:
        """Remove and return the request with that id."""
        return self.by_id.pop(self._own_id(id), None)

    def _own_id(self, id: Id) -> Id:
        """Return the id as we sent it: some peers turn numbers into strings."""
        if isinstance(id, str) and len(id) <= MAX_ID_DIGITS and id.isascii() and id.isdigit():
            return int(id)
        return id

    def abandon(self, id: Id) -> None:
        """Stop waiting; a late answer is then expected."""
        if self.by_id.pop(id, None) is not None:
            self._abandoned[id] = None
            if len(self._abandoned) > MAX_ABANDONED:
                del self._abandoned[next(iter(self._abandoned))]

    def was_abandoned(self, id: Id) -> bool:
        """Whether this id belongs to an abandoned request."""
        return self._own_id(id) in self._abandoned
