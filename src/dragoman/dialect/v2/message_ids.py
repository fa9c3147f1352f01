"""Ids for messages of agents that give them none: one id for each run of chunks of one kind."""

from __future__ import annotations

import msgspec


class MessageIds(msgspec.Struct, eq=False):
    """The message that the last chunk of a session belongs to.

    Another kind, a tool call or the end of a turn ends a run. Ids count the messages of each kind, so a second replay
    names the same messages.
    """

    kind: str = ""
    id: str = ""
    is_given: bool = False  # by the agent
    counts: dict[str, int] = msgspec.field(default_factory=dict)

    def is_same_message(self, kind: str, given: str) -> bool:
        """Return whether a chunk continues the last message."""
        return self.kind == kind and (given == self.id if given else not self.is_given)

    def id_for(self, session_id: str, kind: str, given: str) -> str:
        """Return the id of a chunk's message: the given one, or that of the run."""
        if not self.is_same_message(kind, given):
            self.kind, self.is_given = kind, bool(given)
            if given:
                self.id = given
            else:
                number = self.counts[kind] = self.counts.get(kind, 0) + 1
                self.id = f"{session_id}/{kind.removesuffix('_chunk')}/{number}"
        return self.id

    def end_message(self) -> None:
        """End the run: the next chunk begins a new message."""
        self.kind = ""

    def restart(self) -> None:
        """Count from the start again, for a replay."""
        self.kind = ""
        self.counts.clear()
