"""TODO docstring."""

from __future__ import annotations

import asyncio
from types import TracebackType
from typing import TYPE_CHECKING, Any

from msgspec import UNSET

from dragoman.schema.content import TextContent
from dragoman.schema.update import CompactionStatus, CompactionSummaryChunk, CompactionUpdate

if TYPE_CHECKING:
    from dragoman.roles.agent.turn import Turn

from typing import TYPE_CHECKING

from dragoman.schema.content import ContentBlock
from dragoman.schema.update import AgentMessageChunk, AgentThoughtChunk

if TYPE_CHECKING:
    from dragoman.roles.agent.turn import Turn

from collections.abc import Iterable
from typing import TYPE_CHECKING

import msgspec

from dragoman.schema.plan import PlanEntry, PlanEntryPriority, PlanEntryStatus, PlanItems
from dragoman.schema.update import Plan, PlanRemoved, PlanUpdate

if TYPE_CHECKING:
    from dragoman.roles.agent.turn import Turn


class TurnPlan:
    """The plan of a turn: its entries as they stand now."""

    def __init__(self, turn: Turn, entries: Iterable[str | PlanEntry], name: str | None = None) -> None:
        self.turn = turn
        self.name = name
        self.entries = [_entry(entry) for entry in entries]

    async def start(self, step: int) -> None:
        """This step is being worked on."""
        await self.change(step, status=PlanEntryStatus.IN_PROGRESS)

    async def done(self, step: int) -> None:
        """This step is done."""
        await self.change(step, status=PlanEntryStatus.COMPLETED)

    async def change(
        self, step: int, *, content: str | None = None, status: str | None = None, priority: str | None = None
    ) -> None:
        """Change what is said of a step; what is not given stays."""
        given = {"content": content, "status": status, "priority": priority}
        members = {name: value for name, value in given.items() if value is not None}
        self.entries[step] = msgspec.structs.replace(self.entries[step], **members)
        await self.show()

    async def add(self, *entries: str | PlanEntry) -> None:
        """Add steps at the end."""
        self.entries += [_entry(entry) for entry in entries]
        await self.show()

    async def show(self) -> None:
        """Tell the whole plan as it stands now."""
        entries = list(self.entries)
        if self.name is None:
            await self.turn.update(Plan(entries=entries))
        else:
            await self.turn.update(PlanUpdate(plan=PlanItems(plan_id=self.name, entries=entries)))

    async def remove(self) -> None:
        """Take the plan away."""
        self.entries.clear()
        if self.name is None:
            await self.show()
        else:
            await self.turn.update(PlanRemoved(plan_id=self.name))


def _entry(entry: str | PlanEntry) -> PlanEntry:
    if isinstance(entry, PlanEntry):
        return entry
    if not isinstance(entry, str):
        raise TypeError(f"a step is a text or a PlanEntry, not {entry!r}; give the steps of a list as plan(*steps)")
    return PlanEntry(content=entry, priority=PlanEntryPriority.MEDIUM, status=PlanEntryStatus.PENDING)


class Saying:
    """One message of an agent: `async with turn.message() as message: await message.say("...")`."""

    def __init__(self, turn: Turn, id: str, kind: type[AgentMessageChunk] | type[AgentThoughtChunk]) -> None:
        self.turn = turn
        self.id = id
        self.kind = kind
        self._unsaid: list[str] = []

    async def say(self, text: str | ContentBlock) -> None:
        """Say a piece of the message: text (Markdown) or any content block."""
        if isinstance(text, str):
            if not self.turn.session.streams:
                self._unsaid.append(text)
                return
            text = TextContent(text=text)
        self.finish()
        await self.turn.update(self._chunk(text))

    def finish(self) -> None:
        """The message is whole: what was held back is told; nothing happens where messages are streamed."""
        if self._unsaid:
            text = "".join(self._unsaid)
            self._unsaid.clear()
            self.turn.session.push(self._chunk(TextContent(text=text)))

    def _chunk(self, block: Any) -> Any:
        return self.kind(content=block, message_id=self.id)

    async def __aenter__(self) -> Saying:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.finish()


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
