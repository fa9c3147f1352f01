"""Plans: entries, and the three forms of an identified plan (docs/protocol/updates.md#identified-plans)."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

from dragoman.schema.base import Model, Unknown


class PlanEntryPriority:
    """How much an entry matters."""

    HIGH = "high"
    MEDIUM = "medium"
    LOW = "low"


class PlanEntryStatus:
    """Where an entry stands."""

    PENDING = "pending"
    IN_PROGRESS = "in_progress"
    COMPLETED = "completed"
    CANCELLED = "cancelled"  # only v2 says so


class PlanEntry(Model, kw_only=True):
    """One thing the agent means to do."""

    content: str
    priority: str
    status: str


class PlanItems(Model, kw_only=True, tag_field="type", tag="items"):
    """A plan as a list of entries."""

    plan_id: str
    entries: list[PlanEntry]


class PlanFile(Model, kw_only=True, tag_field="type", tag="file"):
    """A plan kept in a file."""

    plan_id: str
    uri: str


class PlanMarkdown(Model, kw_only=True, tag_field="type", tag="markdown"):
    """A plan written as Markdown."""

    plan_id: str
    content: str


if TYPE_CHECKING:
    PlanUpdateContent: TypeAlias = PlanItems | PlanFile | PlanMarkdown | Unknown
else:
    PlanUpdateContent = PlanItems | PlanFile | PlanMarkdown
