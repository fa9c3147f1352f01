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
DETACH_TIMEOUT = 2.0


class Detach:
    """How one conversation is left."""

    def __init__(self, main_task: asyncio.Task[Any] | None) -> None:
        self.message = "you left; the session stays"
        self._main_task = main_task
        self._task: asyncio.Task[None] | None = None

    @property
    def has_started(self) -> bool:
        """Whether the person wants to leave, or has left."""
        return self._task is not None

    def start(self, detach: Callable[[], Awaitable[Any]], what_continues: str) -> None:
        """Leave, then end; `goes_on` says what stays behind, if anything does."""
        if self._task is None:
            if what_continues:
                self.message = f"you left; {what_continues}"
            self._task = asyncio.create_task(self._detach_and_cancel(detach))

    async def _detach_and_cancel(self, detach: Callable[[], Awaitable[Any]]) -> None:
        try:
            # From then on nothing that ends here is taken for an answer or a cancel there.
            with suppress(ProtocolError, ConnectionFailed, TimeoutError):
                async with asyncio.timeout(DETACH_TIMEOUT):
                    await detach()
        finally:
            if self._main_task is not None:
                self._main_task.cancel()
