"""Follow an agent: an async iterator over the locations of its tool calls.

A slow reader misses the oldest locations, because only the current one matters.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable

from dragoman.session.location import Location

# Locations that a reader may leave unread; older ones are dropped.
MAX_UNREAD_LOCATIONS = 1000


class LocationStream:
    """The locations for one reader: `async for location in session.follow(): ...`."""

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
        """Add a location."""
        self._unread.append(location)
        self._changed.set()

    def end(self) -> None:
        """End the stream; unread locations can still be read."""
        self._ended = True
        self._changed.set()

    def close(self) -> None:
        """Stop following."""
        self._on_close(self)
        self.end()
