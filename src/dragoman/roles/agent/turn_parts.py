"""Parts of a turn: plans, messages with an id, and compactions."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from types import TracebackType
from typing import TYPE_CHECKING, Any

import msgspec
from msgspec import UNSET

from dragoman.schema.content import ContentBlock, TextContent
from dragoman.schema.plan import PlanEntry, PlanEntryPriority, PlanEntryStatus, PlanItems
from dragoman.schema.update import (
    AgentMessageChunk,
    AgentThoughtChunk,
    CompactionStatus,
    CompactionSummaryChunk,
    CompactionUpdate,
    Plan,
    PlanRemoved,
    PlanUpdate,
)

if TYPE_CHECKING:
    from dragoman.roles.agent.turn import Turn


class TurnPlan:
    """The plan of a turn: change its entries and it is sent again."""

    def __init__(self, turn: Turn, entries: Iterable[str | PlanEntry], name: str | None = None) -> None:
        self.turn = turn
        self.name = name
        self.entries = [_plan_entry(entry) for entry in entries]

    async def start(self, step: int) -> None:
        """Mark a step as in progress."""
        await self.change(step, status=PlanEntryStatus.IN_PROGRESS)

    async def finish(self, step: int) -> None:
        """Mark a step as completed."""
        await self.change(step, status=PlanEntryStatus.COMPLETED)

    async def change(
        self, step: int, *, content: str | None = None, status: str | None = None, priority: str | None = None
    ) -> None:
        """Change a step; arguments that are None keep their value."""
        members = {"content": content, "status": status, "priority": priority}
        members = {name: value for name, value in members.items() if value is not None}
        self.entries[step] = msgspec.structs.replace(self.entries[step], **members)
        await self.send()

    async def add(self, *entries: str | PlanEntry) -> None:
        """Append steps."""
        self.entries += [_plan_entry(entry) for entry in entries]
        await self.send()

    async def send(self) -> None:
        """Send the whole plan."""
        entries = list(self.entries)
        if self.name is None:
            await self.turn.send_update(Plan(entries=entries))
        else:
            await self.turn.send_update(PlanUpdate(plan=PlanItems(plan_id=self.name, entries=entries)))

    async def remove(self) -> None:
        """Remove the plan."""
        self.entries.clear()
        if self.name is None:
            await self.send()
        else:
            await self.turn.send_update(PlanRemoved(plan_id=self.name))


def _plan_entry(entry: str | PlanEntry) -> PlanEntry:
    if isinstance(entry, PlanEntry):
        return entry
    if not isinstance(entry, str):
        raise TypeError(f"a step must be a str or a PlanEntry, not {entry!r}; pass a list as plan(*steps)")
    return PlanEntry(content=entry, priority=PlanEntryPriority.MEDIUM, status=PlanEntryStatus.PENDING)


class MessageStream:
    """A message with its own id: `async with turn.message() as message: await message.say("...")`."""

    def __init__(self, turn: Turn, id: str, kind: type[AgentMessageChunk] | type[AgentThoughtChunk]) -> None:
        self.turn = turn
        self.id = id
        self.kind = kind
        self._buffered: list[str] = []

    async def say(self, text: str | ContentBlock) -> None:
        """Send a chunk of the message: text (Markdown) or any content block."""
        if isinstance(text, str):
            if not self.turn.session.is_streaming:
                self._buffered.append(text)
                return
            text = TextContent(text=text)
        self.finish()
        await self.turn.send_update(self._chunk(text))

    def finish(self) -> None:
        """Send the buffered text, if messages are not streamed."""
        if self._buffered:
            text = "".join(self._buffered)
            self._buffered.clear()
            self.turn.session.send_update(self._chunk(TextContent(text=text)))

    def _chunk(self, block: Any) -> Any:
        return self.kind(content=block, message_id=self.id)

    async def __aenter__(self) -> MessageStream:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.finish()


class TurnCompaction:
    """A compaction of the agent's context, as an async context manager."""

    def __init__(self, turn: Turn, id: str) -> None:
        self.turn = turn
        self.id = id
        self._summary_parts: list[str] = []

    async def __aenter__(self) -> TurnCompaction:
        await self.turn.send_update(CompactionUpdate(compaction_id=self.id, status=CompactionStatus.IN_PROGRESS))
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if isinstance(error, asyncio.CancelledError):  # sent without waiting: this task is being cancelled
            self.turn.session.send_update(CompactionUpdate(compaction_id=self.id, status=CompactionStatus.CANCELLED))
        elif error is not None:
            why = str(error) or type(error).__name__
            failed = CompactionUpdate(compaction_id=self.id, status=CompactionStatus.FAILED, error=why)
            await self.turn.send_update(failed)
        else:
            summary: Any = [TextContent(text="".join(self._summary_parts))] if self._summary_parts else UNSET
            done = CompactionUpdate(compaction_id=self.id, status=CompactionStatus.COMPLETED, summary=summary)
            await self.turn.send_update(done)

    async def add_summary(self, text: str) -> None:
        """Send a part of the summary that replaces the compacted context."""
        self._summary_parts.append(text)
        chunk = CompactionSummaryChunk(compaction_id=self.id, content=TextContent(text=text))
        await self.turn.send_update(chunk)
