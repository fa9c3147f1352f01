"""Bounds for documents of sessions: each takes seconds of a processor and may have hundreds of megabytes."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from dragoman.errors import Kind, ProtocolError
from dragoman.transport.remote.server.auth import Principal

# Documents of all users that are being made or sent. They are in memory.
MAX_DOCUMENTS = 4


class DocumentSlots:
    """Lets each user have one document at a time, from the request until it is sent, and makes one at a time."""

    def __init__(self) -> None:
        self._users: set[tuple[str, str]] = set()
        self._making = asyncio.Lock()

    def take(self, principal: Principal) -> tuple[str, str]:
        """Return the slot of a user, to give back when the document is sent. Raise rate_limited if there is none."""
        # Guests with links of one name are different people.
        slot = (principal.user, principal.token_id if principal.session is not None else "")
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
