"""What happened in a team: who asked whom, who wrote which file, and which writes were refused."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import suppress
from typing import TYPE_CHECKING

import msgspec

from dragoman.ids import now

if TYPE_CHECKING:
    from dragoman.workspace.coordination import FileCoordinator
    from dragoman.workspace.tree_member import TreeMember


class TeamEvent(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Something that happened in a team."""

    time: str
    kind: str  # opened | asked | answered | failed | told | handed_over | wrote | outside | refused | cancelled
    agent: str
    by: str = ""  # the agent that asked, told or is in the way
    text: str = ""
    path: str = ""


class EventLog:
    """The events of one team, in order."""

    def __init__(self, on_event: Callable[[TeamEvent], None] | None = None) -> None:
        self.events: list[TeamEvent] = []
        self._on_event = on_event
        self._last_change = self._last_refusal = 0
        self._listener: Callable[[], None] | None = None

    def add(self, kind: str, agent: str, *, by: str = "", text: str = "", path: str = "") -> None:
        """Add an event."""
        event = TeamEvent(time=now(), kind=kind, agent=agent, by=by, text=text, path=path)
        self.events.append(event)
        if self._on_event is not None:
            self._on_event(event)

    def follow(self, coordinator: FileCoordinator, note: Callable[[], None]) -> None:
        """Call `note` in this loop whenever something happens to files from now on."""
        loop = asyncio.get_running_loop()

        def listen() -> None:
            try:
                loop.call_soon_threadsafe(note)
            except RuntimeError:  # the loop ended before the team was closed; the writer must not fail for that
                with suppress(ValueError):
                    coordinator.listeners.remove(listen)

        self._last_change, self._last_refusal = coordinator.last_change, coordinator.last_refusal
        self._listener = listen
        coordinator.listeners.append(listen)

    def unfollow(self, coordinator: FileCoordinator) -> None:
        """Stop following; may be called again."""
        if self._listener is not None:
            with suppress(ValueError):
                coordinator.listeners.remove(self._listener)
            self._listener = None

    def note_files(self, coordinator: FileCoordinator, name_of: Callable[[TreeMember | None], str | None]) -> None:
        """Add what happened to files since the last call; `name_of` returns the agent of a member, if it is ours."""
        for change in coordinator.changes(after=self._last_change):
            self._last_change = change.seq
            if (name := name_of(change.writer)) is not None:
                kind, by = ("outside", change.by) if change.is_outside else ("wrote", "")
                self.add(kind, name, path=change.path, by=by)
        for refusal in coordinator.refusals(after=self._last_refusal):
            self._last_refusal = refusal.seq
            if (name := name_of(refusal.member)) is not None:
                self.add("refused", name, path=refusal.path, by=refusal.by, text=refusal.reason)

    def files(self) -> dict[str, list[str]]:
        """Return who changed which file, in order."""
        found: dict[str, list[str]] = {}
        for event in self.events:
            if event.kind in ("wrote", "outside") and event.agent not in found.setdefault(event.path, []):
                found[event.path].append(event.agent)
        return found
