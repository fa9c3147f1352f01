"""Shortening the history as an author writes it: an async context manager that tells where the work stands.

Entering tells that it began, leaving that it is done; an exception makes it failed, a cancelled turn cancelled. Only
clients that asked for it hear of this (reference 1.8). Made by `turn.compaction`.
"""

from __future__ import annotations

import asyncio
from types import TracebackType
from typing import TYPE_CHECKING, Any

from msgspec import UNSET

from dragoman.schema.content import TextContent
from dragoman.schema.update import CompactionStatus, CompactionSummaryChunk, CompactionUpdate

if TYPE_CHECKING:
    from dragoman.roles.agent.turn import Turn


class Compaction:
    """One compaction of a session's history."""

    def __init__(self, turn: Turn, id: str) -> None:
        self.turn = turn
        self.id = id
        self._summary: list[str] = []

    async def __aenter__(self) -> Compaction:
        await self.turn.update(CompactionUpdate(compaction_id=self.id, status=CompactionStatus.IN_PROGRESS))
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if isinstance(error, asyncio.CancelledError):  # told at once: whoever is cancelled waits for nobody
            self.turn.session.push(CompactionUpdate(compaction_id=self.id, status=CompactionStatus.CANCELLED))
        elif error is not None:
            why = str(error) or type(error).__name__
            failed = CompactionUpdate(compaction_id=self.id, status=CompactionStatus.FAILED, error=why)
            await self.turn.update(failed)
        else:
            whole: Any = [TextContent(text="".join(self._summary))] if self._summary else UNSET
            done = CompactionUpdate(compaction_id=self.id, status=CompactionStatus.COMPLETED, summary=whole)
            await self.turn.update(done)

    async def summary(self, text: str) -> None:
        """Tell a piece of the summary that takes the place of the history."""
        self._summary.append(text)
        chunk = CompactionSummaryChunk(compaction_id=self.id, content=TextContent(text=text))
        await self.turn.update(chunk)
