"""What a store is: it keeps the logs of sessions, numbered, in order, append-only.

A log is the truth about a session; everything else is a read of it. Takes drafts, gives entries with their numbers;
an entry that `append` gave back is kept (as durably as that store promises) before anybody is told of it. A session
that is not there is session_not_found; a log that cannot be read is session_corrupted. Knows nothing of messages.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

import msgspec

# The version of the entries; a reader of a newer one must refuse, not guess.
FORMAT = 1


class EntryKind:
    """What an entry tells."""

    OPENED = "opened"
    PROMPT = "prompt"
    UPDATE = "update"
    ASKED = "asked"
    DECIDED = "decided"
    FILE = "file"
    TERMINAL = "terminal"
    TURN_STARTED = "turn_started"
    TURN_ENDED = "turn_ended"
    TRANSLATED = "translated"
    AGENT_EXITED = "agent_exited"
    MEMBER = "member"


class Draft(msgspec.Struct, frozen=True, kw_only=True):
    """Something that happened, before it has a number. `body` is vocabulary JSON in v1's spelling."""

    kind: str
    actor: str
    time: str
    body: Any
    turn: str | None = None


class Entry(msgspec.Struct, frozen=True, kw_only=True):
    """One numbered item of a log; numbers start at 1 and have no gaps."""

    seq: int
    kind: str
    actor: str
    time: str
    body: Any
    turn: str | None = None
    format: int = FORMAT


class Summary(msgspec.Struct, frozen=True, kw_only=True):
    """A session as the store lists it."""

    session_id: str
    entries: int
    updated_at: str


class Store(Protocol):
    """Keeps logs. All methods may be called from any task of one event loop."""

    async def append(self, session_id: str, drafts: Sequence[Draft]) -> list[Entry]:
        """Add drafts to a log, all or none, and give their entries once they are kept; makes the log if missing."""
        ...

    async def read(self, session_id: str, after: int = 0, limit: int | None = None) -> list[Entry]:
        """The entries with a number above `after`, in order; raises session_not_found."""
        ...

    async def sessions(self) -> list[Summary]:
        """All logs, the one that changed last first."""
        ...

    async def delete(self, session_id: str) -> bool:
        """Forget a log; whether there was one."""
        ...

    async def close(self) -> None:
        """Let go of everything. Idempotent; every later call raises invalid_state."""
        ...
