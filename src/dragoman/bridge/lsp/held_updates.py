"""HeldUpdates: the updates of one session that wait for diagnostics, by tool call. All others go on."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

Deliver = Callable[[], Awaitable[None] | None]


class HeldUpdates:
    """Updates of tool calls, each in the order in which it arrived."""

    def __init__(self) -> None:
        self._waiting: dict[str, list[Deliver]] = {}
        self._released: asyncio.Future[None] | None = None

    def add(self, call_id: str, deliver: Deliver) -> None:
        """Hold an update of a tool call until it is released."""
        self._waiting.setdefault(call_id, []).append(deliver)
        if self._released is None:
            self._released = asyncio.get_running_loop().create_future()

    def holds(self, call_id: object) -> bool:
        """Return whether updates of a tool call wait, so that its next one has to wait too."""
        return call_id in self._waiting

    @property
    def released(self) -> asyncio.Future[None] | None:
        """Is done when nothing is held; None if nothing is. The end of a turn waits for it."""
        return self._released

    async def release(self, call_id: str) -> None:
        """Deliver the updates of a tool call, also those that arrive meanwhile."""
        waiting = self._waiting.get(call_id, [])
        try:
            while waiting:
                work = waiting.pop(0)()
                if work is not None:
                    await work
        finally:
            self._waiting.pop(call_id, None)
            if not self._waiting and self._released is not None:
                self._released.set_result(None)
                self._released = None

    async def release_all(self) -> None:
        """Deliver everything."""
        for call_id in list(self._waiting):
            await self.release(call_id)
