"""The parts of a room whose session runs at another node: what its members need, where the owner has the real ones."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec

from dragoman.host.room.shown_terminals import ShownTerminals

if TYPE_CHECKING:
    from dragoman.host.fleet.distant_room import DistantRoom


class NoQuestions:
    """The owner asks members. Their node only carries the question."""

    has_open = False

    def add_member(self, _: Any) -> None:
        """Do nothing."""

    remove_member = add_member

    def refresh(self) -> None:
        """Do nothing."""


class RunningPrompt(msgspec.Struct):
    """Whose prompt runs."""

    client_id: str
    user: str


class RunningQueue:
    """The prompt that runs, as far as the log says."""

    def __init__(self) -> None:
        self.running: RunningPrompt | None = None


class _Output:
    text = ""


class _OwnersTerminal:
    """A terminal at the owner. Its output comes with an update of its own."""

    def output(self) -> _Output:
        """Return nothing yet."""
        return _Output()


class OwnersWorkspace:
    """The workspace at the owner, as far as members are shown something of it."""

    def __init__(self, room: DistantRoom) -> None:
        self.terminals = ShownTerminals(room)  # type: ignore[arg-type]
        self.terminals.find_host_terminal = lambda _: _OwnersTerminal()  # type: ignore[assignment, return-value]
