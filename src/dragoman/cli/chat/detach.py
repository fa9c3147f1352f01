"""Leaving a session of a host in the middle of whatever it does: the turn goes on, and its question stays open.

Takes whoever has to end, and how the session is left there; gives the words about it and the way back. Above is chat;
knows nothing of the terminal.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Any

from dragoman import ConnectionFailed, ProtocolError

# A host has heard by then that somebody leaves; who closes the terminal is not kept any longer. Seconds.
DETACH = 2.0


class Parting:
    """How one conversation is left."""

    def __init__(self, main: asyncio.Task[Any] | None) -> None:
        self.words = "you left; the session stays"
        self._main = main
        self._task: asyncio.Task[None] | None = None

    @property
    def is_begun(self) -> bool:
        """Whether the person wants to leave, or has left."""
        return self._task is not None

    def begin(self, detach: Callable[[], Awaitable[Any]], goes_on: str) -> None:
        """Leave, then end; `goes_on` says what stays behind, if anything does."""
        if self._task is None:
            if goes_on:
                self.words = f"you left; {goes_on}"
            self._task = asyncio.create_task(self._leave(detach))

    async def _leave(self, detach: Callable[[], Awaitable[Any]]) -> None:
        try:
            # From then on nothing that ends here is taken for an answer or a cancel there.
            with suppress(ProtocolError, ConnectionFailed, TimeoutError):
                async with asyncio.timeout(DETACH):
                    await detach()
        finally:
            if self._main is not None:
                self._main.cancel()
