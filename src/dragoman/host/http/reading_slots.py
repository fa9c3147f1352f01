"""Bounds for what a user reads at once.

Pages of logs and outputs are in memory until they are sent. A document of a session also takes seconds of a processor.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from dragoman.errors import Kind, ProtocolError
from dragoman.transport.remote.server.auth import Principal

# Documents of all users that are being made or sent. They are in memory.
MAX_DOCUMENTS = 4

# Requests of one user that are read and sent at once; the next ones wait. A browser sends six.
MAX_READING = 8


def _reader(principal: Principal) -> tuple[str, str]:
    """Return who reads. Guests with links of one name are different people."""
    return principal.user, principal.token_id if principal.session is not None else ""


class ReadingSlots:
    """Lets each user have a few answers at once, from the request until they are sent."""

    def __init__(self) -> None:
        self._slots: dict[tuple[str, str], asyncio.Semaphore] = {}
        self._holders: Counter[tuple[str, str]] = Counter()  # who has a slot or waits for one

    @asynccontextmanager
    async def reading(self, principal: Principal) -> AsyncIterator[None]:
        """Wait until the user may have one more answer."""
        reader = _reader(principal)
        self._holders[reader] += 1
        try:
            async with self._slots.setdefault(reader, asyncio.Semaphore(MAX_READING)):
                yield
        finally:
            self._holders[reader] -= 1
            if not self._holders[reader]:
                del self._holders[reader], self._slots[reader]


class DocumentSlots:
    """Lets each user have one document at a time, from the request until it is sent, and makes one at a time."""

    def __init__(self) -> None:
        self._users: set[tuple[str, str]] = set()
        self._making = asyncio.Lock()

    def take(self, principal: Principal) -> tuple[str, str]:
        """Return the slot of a user, to give back when the document is sent. Raise rate_limited if there is none."""
        slot = _reader(principal)
        if slot in self._users:
            message = "your last document is still being made or sent; ask again when you have it"
            raise ProtocolError(Kind.RATE_LIMITED, message)
        if len(self._users) >= MAX_DOCUMENTS:
            message = f"{MAX_DOCUMENTS} documents are being made or sent; ask again later"
            raise ProtocolError(Kind.RATE_LIMITED, message, {"limit": MAX_DOCUMENTS})
        self._users.add(slot)
        return slot

    def give_back(self, slot: tuple[str, str]) -> None:
        """Let the user have another document."""
        self._users.discard(slot)

    @asynccontextmanager
    async def making(self) -> AsyncIterator[None]:
        """Wait until no other document is made."""
        async with self._making:
            yield
