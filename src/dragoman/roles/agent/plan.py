"""A plan as an agent's author works through it: start a step, finish it, add one; the client sees each change.

Made by `turn.plan`. The protocol tells a plan whole every time; here is the one place that remembers it. A plan with a
name can stand beside others, for clients that asked for such plans; others see it as the plan of the session.
"""

from __future__ import annotations

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
