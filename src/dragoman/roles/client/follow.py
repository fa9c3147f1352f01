"""Following an agent: the places it goes to, one after the other, as they are told.

Made by a Conversation, which tells it each new place; read with `async for`. A reader who stays far behind misses the
oldest places, for only where the agent is now matters. Ends with the session.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable

from dragoman.session.location import Place

# Places that a reader may leave unread; the oldest fall away.
UNREAD = 1000


class Follow:
    """One reader's places: `async for place in session.follow(): ...`."""

    def __init__(self, leave: Callable[[Follow], None]) -> None:
        self._leave = leave
        self._unread: deque[Place] = deque(maxlen=UNREAD)
        self._wake: asyncio.Event = asyncio.Event()
        self._ended = False

    def __aiter__(self) -> Follow:
        return self

    async def __anext__(self) -> Place:
        while not self._unread:
            if self._ended:
                raise StopAsyncIteration
            self._wake.clear()
            await self._wake.wait()
        return self._unread.popleft()

    def tell(self, place: Place) -> None:
        """The agent is here now."""
        self._unread.append(place)
        self._wake.set()

    def end(self) -> None:
        """No more places come; those that were told can still be read."""
        self._ended = True
        self._wake.set()

    def close(self) -> None:
        """Follow no longer."""
        self._leave(self)
        self.end()
