"""Detach from a session on a host at any time: the turn continues, and the question stays open."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Any

from dragoman import ConnectionFailed, ProtocolError

# The host knows by then that the client leaves; the user does not wait longer. Seconds.
DETACH_TIMEOUT = 2.0


class Detach:
    """How one chat is left."""

    def __init__(self, main_task: asyncio.Task[Any] | None) -> None:
        self.message = "you left; the session stays on the host"
        self._main_task = main_task
        self._task: asyncio.Task[None] | None = None

    @property
    def has_started(self) -> bool:
        """Whether the user quits or has quit."""
        return self._task is not None

    def start(self, detach: Callable[[], Awaitable[Any]], what_continues: str) -> None:
        """Detach, then cancel the main task; `what_continues` names what stays behind."""
        if self._task is None:
            if what_continues:
                self.message = f"you left; {what_continues}"
            self._task = asyncio.create_task(self._detach_and_cancel(detach))

    async def _detach_and_cancel(self, detach: Callable[[], Awaitable[Any]]) -> None:
        try:
            # After this, the end of this client is no answer and no cancel on the host.
            with suppress(ProtocolError, ConnectionFailed, TimeoutError):
                async with asyncio.timeout(DETACH_TIMEOUT):
                    await detach()
        finally:
            if self._main_task is not None:
                self._main_task.cancel()
