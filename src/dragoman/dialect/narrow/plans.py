"""Plans with ids and in several forms, for clients that know one list of entries. Per session, pure."""

from __future__ import annotations

import re
from typing import Any, Final

from msgspec import UNSET

from dragoman.dialect.narrow.client_view import ClientView
from dragoman.dialect.narrow.loss import Loss, LossReports
from dragoman.dialect.side_data import with_members, with_side_data
from dragoman.schema.base import Unknown
from dragoman.schema.plan import (
    PlanEntry,
    PlanEntryPriority,
    PlanEntryStatus,
    PlanFile,
    PlanItems,
    PlanMarkdown,
    PlanUpdateContent,
)
from dragoman.schema.update import Plan, PlanRemoved, PlanUpdate

# An item of a Markdown list, perhaps with a check box.
_LIST_ITEM: Final = re.compile(r"^[ \t]*(?:[-*+]|\d+[.)])[ \t]+(?:\[([ xX])\][ \t]+)?(\S.*)$", re.MULTILINE)


class Plans:
    """The plans of one session."""

    def __init__(self, view: ClientView, losses: LossReports) -> None:
        self._view = view
        self._losses = losses
        self._shown: str | None = None  # the plan that changed last

    def update(self, update: PlanUpdate) -> list[Any]:
        """Return one plan as the client gets it."""
        plan = update.plan
        if isinstance(plan, Unknown):
            self._losses.add(Loss.UNKNOWN_UPDATE, f"plan_update {plan.tag}")
            return []
        if self._view.plans:
            return [update]
        plan_id = plan.plan_id
        if self._shown not in (None, plan_id):
            self._losses.add(Loss.PLANS)
        self._shown = plan_id
        return self.whole(Plan(entries=self._entries(plan), meta=update.meta))

    def removed(self, update: PlanRemoved) -> list[Any]:
        """Return that a plan is gone; another one that the client sees stays."""
        if self._view.plans:
            return [update]
        if self._shown != update.plan_id:
            return []
        self._shown = None
        return [Plan(entries=[])]

    def whole(self, update: Plan) -> list[Any]:
        """Return a list of entries without the cancelled ones, which are in its side data."""
        cancelled = [entry.content for entry in update.entries if entry.status == PlanEntryStatus.CANCELLED]
        if not cancelled:
            return [update]
        self._losses.add(Loss.CANCELLED_ENTRY)
        left = [entry for entry in update.entries if entry.status != PlanEntryStatus.CANCELLED]
        return [with_side_data(with_members(update, entries=left), cancelled=cancelled)]

    def _entries(self, plan: PlanUpdateContent) -> list[PlanEntry]:
        if isinstance(plan, PlanItems):
            return plan.entries
        self._losses.add(Loss.PLAN_FORM)
        if isinstance(plan, PlanFile):
            return [_entry(plan.uri)]
        assert isinstance(plan, PlanMarkdown)
        items = _LIST_ITEM.findall(plan.content)
        if items:
            return [_entry(text.rstrip(), is_done=mark in ("x", "X")) for mark, text in items]
        first = next((line.strip() for line in plan.content.splitlines() if line.strip()), "")
        return [_entry(first.lstrip("# "))] if first else []


def _entry(content: str, *, is_done: bool = False) -> PlanEntry:
    status = PlanEntryStatus.COMPLETED if is_done else PlanEntryStatus.PENDING
    return PlanEntry(content=content, priority=PlanEntryPriority.MEDIUM, status=status, meta=UNSET)
