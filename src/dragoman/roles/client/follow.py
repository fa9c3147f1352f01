"""Following an agent: the places it goes to, one after the other, as they are told.

Made by a Conversation, which tells it each new place; read with `async for`. A reader who stays far behind misses the
oldest places, for only where the agent is now matters. Ends with the session.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable

from dragoman.session.location import Location

# Places that a reader may leave unread; the oldest fall away.
MAX_UNREAD_LOCATIONS = 1000


class LocationStream:
    """One reader's places: `async for place in session.follow(): ...`."""

    def __init__(self, on_close: Callable[[LocationStream], None]) -> None:
        self._on_close = on_close
        self._unread: deque[Location] = deque(maxlen=MAX_UNREAD_LOCATIONS)
        self._changed: asyncio.Event = asyncio.Event()
        self._ended = False

    def __aiter__(self) -> LocationStream:
        return self

    async def __anext__(self) -> Location:
        while not self._unread:
            if self._ended:
                raise StopAsyncIteration
            self._changed.clear()
            await self._changed.wait()
        return self._unread.popleft()

    def add(self, location: Location) -> None:
        """The agent is here now."""
        self._unread.append(location)
        self._changed.set()

    def end(self) -> None:
        """No more places come; those that were told can still be read."""
        self._ended = True
        self._changed.set()

    def close(self) -> None:
        """Follow no longer."""
        self._on_close(self)
        self.end()
