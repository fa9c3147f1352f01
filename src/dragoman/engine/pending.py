"""Requests under way in either direction: who waits for which id. No I/O.

Ids are always our own for what we ask, and the peer's for what it asks; the two tables never meet, for both ends
count from zero (peers.md 2).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from dragoman.errors import ProtocolError
from dragoman.wire.envelope import Id

Done = Callable[[Any, ProtocolError | None], None]

# Late replies to requests that were given up are expected for a while; after so many the oldest are forgotten.
REMEMBERED = 1024

# Digits of the longest number we ever give out as an id.
LONGEST = 19


class Exchange:
    """One request of ours: its method, who waits, and whether a notification handler sent it."""

    __slots__ = ("done", "method", "nested", "raw", "verbatim")

    def __init__(
        self, method: str, done: Done, nested: bool = False, raw: bool = False, verbatim: bool = False
    ) -> None:
        self.method = method
        self.done = done
        self.nested = nested
        self.raw = raw  # whoever waits takes the result untyped
        self.verbatim = verbatim  # whoever waits takes the whole envelope, untranslated


class Exchanges:
    """The requests we have sent and not yet seen answered."""

    __slots__ = ("_given_up", "_last", "open")

    def __init__(self) -> None:
        self._last = -1
        self.open: dict[Id, Exchange] = {}
        self._given_up: dict[Id, None] = {}

    def begin(self, exchange: Exchange) -> int:
        """Take a fresh id for this request."""
        self._last += 1
        self.open[self._last] = exchange
        return self._last

    def find(self, id: Id) -> Exchange | None:
        """The request with that id, if it is open."""
        return self.open.get(self._ours(id))

    def end(self, id: Id) -> Exchange | None:
        """Take the request out of the table."""
        return self.open.pop(self._ours(id), None)

    def _ours(self, id: Id) -> Id:
        """The id as we said it: some peers make strings of numbers."""
        if isinstance(id, str) and len(id) <= LONGEST and id.isascii() and id.isdigit():
            return int(id)
        return id

    def give_up(self, id: Id) -> None:
        """Stop waiting; a reply that still comes is no surprise."""
        if self.open.pop(id, None) is not None:
            self._given_up[id] = None
            if len(self._given_up) > REMEMBERED:
                del self._given_up[next(iter(self._given_up))]

    def was_given_up(self, id: Id) -> bool:
        """Whether this id belonged to a request we stopped waiting for."""
        return self._ours(id) in self._given_up
