"""The store contract: numbered, append-only session logs, the only truth about a session. A store does not interpret
messages. Errors: session_not_found, session_expired (deleted by retention) and session_corrupted (a damaged log).
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any, NamedTuple, Protocol

import msgspec
from msgspec import Raw

from dragoman.store.formats import FIRST_FORMAT, lift_line, newest_format


class EntryKind:
    """The kinds of entries."""

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
    LOST = "lost"  # replaces an entry that could not be read, after a repair


class Draft(msgspec.Struct, frozen=True, kw_only=True):
    """An event before it has a number. `body` is vocabulary JSON in v1 form."""

    kind: str
    actor: str
    time: str
    body: Any
    turn: str | None = None


class Entry(msgspec.Struct, frozen=True, kw_only=True):
    """One numbered item of a log; numbers start at 1 without gaps."""

    seq: int
    kind: str
    actor: str
    time: str
    body: Any
    turn: str | None = None
    format: int = FIRST_FORMAT


class Summary(msgspec.Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    """A session as the store lists it: folded from its log, plus the user's name for it."""

    session_id: str
    entries: int
    updated_at: str
    created_at: str = ""
    name: str | None = None
    title: str | None = None  # the agent's title, or the start of the first prompt
    agent: str | None = None
    agent_session: str | None = None  # the agent's current id for it
    cwd: str | None = None
    turns: int = 0
    bytes: int = 0
    forked_from: str | None = None
    archived: bool = False  # hidden by its user: only listed on request
    imported: int = 0  # how many of its first entries came from a file: they must not decide what is started here


class Hit(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """A matching passage of a transcript: a snippet, and the positions of the matches in it."""

    session_id: str
    seq: int  # where the passage starts
    role: str  # user | agent | thought | tool | plan
    snippet: str
    marks: list[tuple[int, int]]


class LogReport(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """The intact and the lost parts of a log: ranges of numbers, first and last included."""

    session_id: str
    kept: list[tuple[int, int]]
    lost: list[tuple[int, int]]

    @property
    def is_intact(self) -> bool:
        """Whether nothing is lost."""
        return not self.lost


class Retention(msgspec.Struct, frozen=True, kw_only=True):
    """What is retained: sessions changed within `seconds`, the newest `count`, `bytes` in total; None: no limit."""

    seconds: float | None = None
    count: int | None = None
    bytes: int | None = None
    spares_named: bool = True  # a user who names a session wants to find it again


class Claim(msgspec.Struct, frozen=True, kw_only=True):
    """Which node may append to a log; "" is none. The epoch counts the claims of a log and never falls."""

    session_id: str
    node: str
    epoch: int
    seq: int  # the last number of the log when the claim was stored or read


class SavedState(msgspec.Struct, frozen=True):
    """The state of a session after one of its entries, as `session_state.dump_state` wrote it."""

    seq: int
    state: bytes


class Feature:
    """What some stores can do and others cannot."""

    SEARCH = "search"  # `search`
    MEMBERS = "members"  # `sessions(of=USER)`: the store knows who may see which session
    SHARED = "shared"  # several machines can use it


# What every store of one machine can do.
LOCAL_FEATURES = frozenset({Feature.SEARCH})


class Selection(NamedTuple):
    """Which sessions are wanted: all that fit every field that is set."""

    of: str | None = None  # a user; needs Feature.MEMBERS
    ids: Collection[str] | None = None  # only these
    without: Collection[str] = ()
    archived: bool | None = None
    cwd: str | None = None
    after: str | None = None  # the `session_cursor` of the last one seen
    limit: int | None = None


ALL_SESSIONS = Selection()


def session_cursor(summary: Summary) -> str:
    """Return the cursor for the sessions that `sessions` lists after this one."""
    return f"{summary.updated_at} {summary.session_id}"


def parse_session_cursor(cursor: str) -> tuple[str, str]:
    """Return the time and the id in a cursor."""
    updated_at, _, session_id = cursor.partition(" ")
    return updated_at, session_id


class Store(Protocol):
    """Stores logs. All methods may be called from any task of one event loop.

    Every method raises invalid_state after `close`, and StoreFault if the storage fails: then nothing of that call was
    stored (unless it says "unknown"), and everything stored before still is.
    """

    @property
    def features(self) -> frozenset[str]:
        """What this store can do besides what all can (`Feature`)."""
        ...

    async def append(self, session_id: str, drafts: Sequence[Draft], *, claim: Claim | None = None) -> list[Entry]:
        """Append drafts to a log, all or none, and return their entries once stored; create the log if missing.

        A body is anything the vocabulary can encode, and is returned unchanged. Raises session_expired; Fenced if the
        log has another claim than this one, or any claim if this is None; StoreFault("unknown") if the storage did not
        say whether it stored them: then `settle` tells.
        """
        ...

    async def owner(self, session_id: str) -> Claim:
        """Return the last claim of a log, never a stale one; node "" if it was released, and epoch 0 if there is none.

        Raises session_expired.
        """
        ...

    async def claim(self, session_id: str, node: str, *, epoch: int) -> Claim:
        """Claim a log for a node: from then on only appends with this claim are stored.

        `epoch` is that of the last claim the caller knows; raises Fenced, with the owner, if there is a later one. A
        log that does not exist is created; it is listed when it has an entry.
        """
        ...

    async def settle(self, claim: Claim) -> Claim:
        """Claim a log again for its owner, so that nothing sent before can still arrive; the result says its end."""
        ...

    async def release(self, claim: Claim) -> None:
        """Give a log up; one without entries is removed. Does nothing if the claim is not the last."""
        ...

    async def save_state(self, session_id: str, seq: int, state: bytes) -> None:
        """Keep the folded state of a session after an entry, in place of an earlier one. It follows from the log."""
        ...

    async def saved_state(self, session_id: str) -> SavedState | None:
        """Return the state that was kept last; None if there is none that fits the log."""
        ...

    async def read(
        self, session_id: str, after: int = 0, limit: int | None = None, *, intact: bool = False
    ) -> list[Entry]:
        """Return the entries above `after`, in order; raise session_not_found, _expired and _corrupted.

        With `intact`, unreadable entries are left out instead.
        """
        ...

    async def lines(
        self, session_id: str, after: int = 0, limit: int | None = None, *, intact: bool = False
    ) -> list[bytes]:
        """Return the same as `read`, each entry as one line of JSON."""
        ...

    async def sessions(self, wanted: Selection = ALL_SESSIONS) -> list[Summary]:
        """Return the logs that fit, the last changed first, then by id from the end."""
        ...

    async def find(self, name: str) -> Summary:
        """Find a session by name, id or unique id prefix; raise session_not_found."""
        ...

    async def rename(self, session_id: str, name: str | None) -> Summary:
        """Set or remove the name of a session; raise invalid_params if another session has it."""
        ...

    async def fork(self, session_id: str, new_id: str, upto: int | None = None) -> Summary:
        """Create a log that starts with the entries of another, up to a number; raise invalid_params if the id is in
        use.
        """
        ...

    async def begin_import(self, session_id: str, entries: int, *, forked_from: str | None = None) -> Summary:
        """Create an empty log whose first `entries` will be imported, and list it and its forks as imported.

        The entries are appended afterwards. Raises invalid_params if the id is in use, and session_expired.
        """
        ...

    async def search(self, query: str, *, limit: int = 20, session_id: str | None = None) -> list[Hit]:
        """Return the passages that contain all words of a query, the best first; supports "a phrase" and prefix*."""
        ...

    async def delete(self, session_id: str) -> bool:
        """Delete a log, its name and its credentials; return whether it existed."""
        ...

    async def expire(self, retention: Retention, now: str) -> list[str]:
        """Delete what retention does not keep; return the ids, which are session_expired from then on."""
        ...

    async def verify(self, session_id: str) -> LogReport:
        """Verify every entry of a log and report what is damaged."""
        ...

    async def repair(self, session_id: str) -> LogReport:
        """Make a log readable: replace unreadable entries with `lost` entries; numbers stay."""
        ...

    async def keep_credentials(self, session_id: str, credentials: Mapping[str, Any]) -> None:
        """Store credentials outside the log, replacing those of the session. Never exported or listed."""
        ...

    async def credentials(self, session_id: str) -> dict[str, Any]:
        """Return the stored credentials; empty if there are none."""
        ...

    async def probe(self) -> None:
        """Raise StoreFault if nothing can be stored now: try a write that changes nothing."""
        ...

    async def close(self) -> None:
        """Store everything submitted, then close. Idempotent; every later call raises invalid_state."""
        ...


def number_draft(draft: Draft, seq: int) -> Entry:
    """Return the entry of a draft that was stored under a number."""
    return Entry(
        seq=seq,
        kind=draft.kind,
        actor=draft.actor,
        time=draft.time,
        body=draft.body,
        turn=draft.turn,
        format=newest_format(),
    )


class RawEntry(msgspec.Struct, omit_defaults=True):
    """An entry as a store returns it, with its body not decoded."""

    seq: int
    kind: str
    body: Raw
    actor: str = ""
    turn: str | None = None
    time: str = ""
    format: int = FIRST_FORMAT

    @property
    def value(self) -> Any:
        """The decoded body."""
        return msgspec.json.decode(self.body)


_decode_entry = msgspec.json.Decoder(Entry).decode
_decode_raw_entry = msgspec.json.Decoder(RawEntry).decode


# These two are the readers for everything that is folded from a log.


def decode_entry(line: bytes | str) -> Entry:
    """Return a line of a log as an entry; raise StoreFault("newer") if its format is of a newer version."""
    entry = _decode_entry(line)
    return entry if entry.format == newest_format() else _decode_entry(lift_line(line))


def decode_raw_entry(line: bytes | str) -> RawEntry:
    """Return a line of a log as an entry whose body is not decoded; raise as `decode_entry` does."""
    entry = _decode_raw_entry(line)
    return entry if entry.format == newest_format() else _decode_raw_entry(lift_line(line))


def lift_entry(entry: RawEntry) -> RawEntry:
    """Return an entry that another node sent in the newest format."""
    if entry.format == newest_format():
        return entry
    return _decode_raw_entry(lift_line(msgspec.json.encode(entry)))
