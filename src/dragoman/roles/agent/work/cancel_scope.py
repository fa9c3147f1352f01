"""A block of the author's code that a client can cancel without cancelling its turn."""

from __future__ import annotations

import asyncio
from typing import Any


class CancelScope:
    """The block of one tool call or terminal."""

    def __init__(self) -> None:
        self.is_cancelled = False
        self._task: asyncio.Task[Any] | None = None
        self._cancelling_before = 0

    def enter(self) -> None:
        """Begin the block in the current task."""
        self._task = asyncio.current_task()
        assert self._task is not None
        self._cancelling_before = self._task.cancelling()

    def cancel(self) -> None:
        """Cancel the code of the block."""
        if self._task is not None and not self.is_cancelled:
            self.is_cancelled = True
            self._task.cancel()

    def absorb(self, error: BaseException | None) -> bool:
        """End the block; return whether `error` is only our own cancel, so that the code after the block runs on."""
        task, self._task = self._task, None
        if task is None or not self.is_cancelled:
            return False
        is_own = task.uncancel() <= self._cancelling_before  # otherwise the turn was cancelled too
        return is_own and isinstance(error, asyncio.CancelledError)
