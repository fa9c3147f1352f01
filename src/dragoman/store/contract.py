"""What a store is: it keeps the logs of sessions, numbered, in order, append-only.

A log is the truth about a session; everything else is a read of it. Takes drafts, gives entries with their numbers;
an entry that `append` gave back is kept (as durably as that store promises) before anybody is told of it. A session
that is not there is session_not_found, one that retention took away session_expired, and a log that is not as it was
written session_corrupted. Knows nothing of messages.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

import msgspec
from msgspec import Raw

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
    LOST = "lost"  # stands where an entry was that could not be read any more, after a repair


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


class Summary(msgspec.Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    """A session as the store lists it: folded from its log, and the name its user gave it."""

    session_id: str
    entries: int
    updated_at: str
    created_at: str = ""
    name: str | None = None
    title: str | None = None  # the agent's, else the beginning of the first prompt
    agent: str | None = None
    agent_session: str | None = None  # the id that the agent knows it by now
    cwd: str | None = None
    turns: int = 0
    bytes: int = 0
    forked_from: str | None = None
    archived: bool = False  # put away by its user: not listed unless asked for
    imported: int = 0  # how many of its first entries came from a file: they must not decide what is started here


class Hit(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """A passage of a transcript that matches: a snippet, and which parts of it are the words that were looked for."""

    session_id: str
    seq: int  # where the passage begins
    role: str  # user | agent | thought | tool | plan
    snippet: str
    marks: list[tuple[int, int]]


class LogReport(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """What is intact of a log and what is not: ranges of numbers, first and last included."""

    session_id: str
    kept: list[tuple[int, int]]
    lost: list[tuple[int, int]]

    @property
    def is_intact(self) -> bool:
        """Whether nothing is lost."""
        return not self.lost


class Retention(msgspec.Struct, frozen=True, kw_only=True):
    """What is kept: sessions that changed within `seconds`, the newest `count`, `bytes` in all; None is no limit."""

    seconds: float | None = None
    count: int | None = None
    bytes: int | None = None
    spares_named: bool = True  # who gave a session a name wants to find it


class Store(Protocol):
    """Keeps logs. All methods may be called from any task of one event loop.

    Every method raises invalid_state after `close`, and StoreFault when the place where logs are kept fails: nothing
    of that call was kept then, and everything that was kept before still is.
    """

    async def append(self, session_id: str, drafts: Sequence[Draft]) -> list[Entry]:
        """Add drafts to a log, all or none, and give their entries once they are kept; makes the log if missing.

        A body is anything the vocabulary can encode; it comes back as it was given. Raises session_expired.
        """
        ...

    async def read(
        self, session_id: str, after: int = 0, limit: int | None = None, *, intact: bool = False
    ) -> list[Entry]:
        """The entries with a number above `after`, in order; raises session_not_found, _expired and _corrupted.

        With `intact`, what cannot be read any more is left out instead.
        """
        ...

    async def lines(
        self, session_id: str, after: int = 0, limit: int | None = None, *, intact: bool = False
    ) -> list[bytes]:
        """The same as `read`, each entry as one line of JSON."""
        ...

    async def sessions(self) -> list[Summary]:
        """All logs, the one that changed last first."""
        ...

    async def find(self, name: str) -> Summary:
        """The session with this name, this id, or the only one whose id begins so; raises session_not_found."""
        ...

    async def rename(self, session_id: str, name: str | None) -> Summary:
        """Give a session a name of its own, or take it away; a name that another one has is invalid_params."""
        ...

    async def fork(self, session_id: str, new_id: str, upto: int | None = None) -> Summary:
        """Make a log that begins with the entries of another, up to a number; an id that is taken: invalid_params."""
        ...

    async def begin_import(self, session_id: str, entries: int) -> Summary:
        """Make an empty log whose first `entries` will come from a file, and list it as such, also its forks.

        They are appended afterwards. Raises invalid_params for an id that is taken, and session_expired.
        """
        ...

    async def search(self, query: str, *, limit: int = 20, session_id: str | None = None) -> list[Hit]:
        """The passages that hold all words of a query, the best first; "a phrase" and begin* are understood."""
        ...

    async def delete(self, session_id: str) -> bool:
        """Forget a log, its name and its credentials; whether there was one."""
        ...

    async def expire(self, retention: Retention, now: str) -> list[str]:
        """Take away what need not be kept; gives the ids, which are session_expired from then on."""
        ...

    async def verify(self, session_id: str) -> LogReport:
        """Look at every entry of a log: what is as it was written, and what is not."""
        ...

    async def repair(self, session_id: str) -> LogReport:
        """Make a log readable again: what was lost is replaced by entries of the kind `lost`, numbers stay."""
        ...

    async def keep_credentials(self, session_id: str, credentials: Mapping[str, Any]) -> None:
        """Keep what must not stand in the log; replaces what was kept for the session. Never exported or listed."""
        ...

    async def credentials(self, session_id: str) -> dict[str, Any]:
        """What was kept so; empty if nothing was."""
        ...

    async def close(self) -> None:
        """Keep all that was given, then let go of everything. Idempotent; every later call raises invalid_state."""
        ...


class RawEntry(msgspec.Struct):
    """An entry as a store gives it, with its body unread."""

    seq: int
    kind: str
    body: Raw
    actor: str = ""
    turn: str | None = None


decode_raw_entry = msgspec.json.Decoder(RawEntry).decode
