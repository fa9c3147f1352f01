"""Follow an agent: the files and lines of its tool calls (docs/protocol/draft.md#location), as an async iterator.

Ranges exist only in the draft. A slow reader misses the oldest locations, because only the current one matters.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from typing import Any

import msgspec

from dragoman.dialect.side_data import side_data_of


class Location(msgspec.Struct, frozen=True, kw_only=True):
    """A file, and optionally a range in it, that a tool call refers to. Lines and columns start at 1."""

    path: str
    tool_call_id: str
    line: int | None = None
    column: int | None = None
    end_line: int | None = None
    end_column: int | None = None


def locations_of(tool_call_id: str, locations: Any) -> list[Location]:
    """Return the locations of a tool call."""
    return [_location(tool_call_id, location) for location in locations or ()]


def new_locations(tool_call_id: str, before: Any, after: Any) -> list[Location]:
    """Return the locations that were not in the list before. Agents resend the whole list with every change."""
    known = locations_of(tool_call_id, before)
    return [location for location in locations_of(tool_call_id, after) if location not in known]


def _location(tool_call_id: str, location: Any) -> Location:
    side = side_data_of(location)
    return Location(
        path=location.path,
        tool_call_id=tool_call_id,
        line=_number(location.line),
        column=_number(side.get("column")),
        end_line=_number(side.get("endLine")),
        end_column=_number(side.get("endColumn")),
    )


def _number(value: Any) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) else None


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
