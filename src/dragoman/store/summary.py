"""Session summaries, folded from logs, and lookup of sessions by name or id. Pure; every store uses it, so all list the
same.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from typing import Any

import msgspec

from dragoman.errors import Kind, ProtocolError
from dragoman.store.contract import (
    Claim,
    EntryKind,
    Retention,
    Selection,
    Summary,
    decode_raw_entry,
    parse_session_cursor,
)

# How much of a prompt is used as title, in characters.
TITLE_LENGTH = 80

_INFO_UPDATE = b'"session_info_update"'


class LogSummary(msgspec.Struct, kw_only=True):
    """A summary that is updated with each entry."""

    session_id: str
    entries: int = 0
    size: int = 0  # in bytes
    turns: int = 0
    created_at: str = ""
    updated_at: str = ""
    name: str | None = None
    title: str | None = None
    prompted: str | None = None
    agent: str | None = None
    agent_session: str | None = None
    cwd: str | None = None
    forked_from: str | None = None
    archived: bool = False
    imported: int = 0
    epoch: int = 0  # how often it was claimed
    node: str = ""  # who has it; "" is nobody
    is_changed: bool = False  # more than the counts changed since it was saved

    def add_entry(self, kind: str, time: str, line: bytes) -> None:
        """Add an entry, as a JSON line. Runs for every entry, so it decodes only those that matter."""
        self.entries += 1
        self.size += len(line)
        self.updated_at = time
        if kind == EntryKind.UPDATE and _INFO_UPDATE not in line and self.created_at:
            return
        self.is_changed = True
        if not self.created_at:
            self.created_at = time
        if kind == EntryKind.UPDATE and _INFO_UPDATE in line:
            self._apply_info(_decode_body(line))
        elif kind == EntryKind.TURN_STARTED:
            self.turns += 1
        elif kind == EntryKind.OPENED:
            self._apply_opened(_decode_body(line))
        elif kind == EntryKind.PROMPT and not self.prompted:
            self.prompted = _prompt_preview(_decode_body(line))

    def _apply_info(self, body: Any) -> None:
        update = body.get("update", body)
        if not isinstance(update, dict) or update.get("sessionUpdate") != "session_info_update":
            return
        if "title" in update:
            self.title = _text_of(update["title"])
        beside = (update.get("_meta") or {}).get("dragoman")
        if isinstance(beside, dict) and isinstance(beside.get("archived"), bool):
            self.archived = beside["archived"]

    def _apply_opened(self, body: Any) -> None:
        self.agent = _text_of(body.get("agent")) or self.agent
        self.agent_session = _text_of(body.get("sessionId")) or self.agent_session
        self.cwd = _text_of(body.get("cwd")) or self.cwd
        self.title = _text_of(body.get("title")) or self.title

    @property
    def claim(self) -> Claim:
        """The last claim of the log."""
        return Claim(session_id=self.session_id, node=self.node, epoch=self.epoch, seq=self.entries)

    @property
    def is_blank(self) -> bool:
        """Whether it only has a claim: nothing was ever stored in it."""
        return self.epoch > 0 and not self.entries and not self.imported and self.forked_from is None

    @property
    def summary(self) -> Summary:
        """Return the current summary."""
        values = {name: getattr(self, name) for name in Summary.__struct_fields__ if name != "bytes"}
        return Summary(**values | {"title": self.title or self.prompted, "bytes": self.size})


def fold_summary(session_id: str, lines: Iterable[bytes]) -> LogSummary:
    """Return the summary of a log."""
    head = LogSummary(session_id=session_id)
    for line in lines:
        entry = decode_raw_entry(line)
        head.add_entry(entry.kind, entry.time, line)
    return head


def _decode_body(line: bytes) -> dict[str, Any]:
    body = decode_raw_entry(line).value
    return body if isinstance(body, dict) else {"prompt": body}


def _text_of(value: Any) -> str | None:
    if isinstance(value, dict):
        value = value.get("title") or value.get("name")
    return value if isinstance(value, str) and value else None


def _prompt_preview(body: dict[str, Any]) -> str | None:
    blocks = body.get("prompt")
    texts = [block.get("text") for block in blocks if isinstance(block, dict)] if isinstance(blocks, list) else []
    text = " ".join(" ".join(text for text in texts if isinstance(text, str))[: TITLE_LENGTH * 4].split())
    return (text if len(text) <= TITLE_LENGTH else text[: TITLE_LENGTH - 1] + "…") or None


# --- finding one ----------------------------------------------------------------------------------------------

# The longest name, in characters, so that it fits in a list.
MAX_NAME_LENGTH = 100

_NAME_PATTERN = re.compile(rf"[^\s/\x00-\x1f\x7f]([^\x00-\x1f\x7f]{{0,{MAX_NAME_LENGTH - 2}}}[^\s\x00-\x1f\x7f])?")

# A session id as we make them, or most of one.
_ID_PATTERN = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}(-[0-9a-f]{0,4}(-[0-9a-f]{0,12})?)?", re.IGNORECASE)

# Characters of names besides letters, digits and blanks; no shell treats them specially in a valid name.
_SIGNS = "._-+@:,/~"
_FIRST = "._@"
_ALLOWED = f"letters, digits, blanks and {' '.join(_SIGNS)}, starting with a letter, a digit or {' '.join(_FIRST)}"


def check_name(name: str) -> str:
    """Check an existing name, perhaps from an older version; raise invalid_params if it is invalid."""
    if not _NAME_PATTERN.fullmatch(name):
        raise ProtocolError(
            Kind.INVALID_PARAMS,
            f"{name!r} is not a valid session name; use up to {MAX_NAME_LENGTH} characters, no leading '/'",
        )
    return name


def disallowed_character(name: str) -> str:
    """Return the first character that is not allowed at its position; "" if the name is valid."""
    if name and not (name[0] in _FIRST or name[0].isalnum()):
        return name[0]
    return next((character for character in name if not _is_of_names(character)), "")


def _is_of_names(character: str) -> bool:
    if character.isascii():
        return character.isalnum() or character in _SIGNS or character == " "
    import unicodedata

    return unicodedata.category(character)[0] in "LMN"


def looks_like_id(name: str) -> bool:
    """Return whether a name looks like a session id, existing or not."""
    return _ID_PATTERN.fullmatch(name) is not None


def check_new_name(name: str) -> str:
    """Check a new name: safe in a shell, and not like an id."""
    if wrong := disallowed_character(check_name(name)):
        raise ProtocolError(
            Kind.INVALID_PARAMS, f"{name!r} is not a valid session name: {wrong!r} is not allowed there; use {_ALLOWED}"
        )
    if looks_like_id(name):
        raise ProtocolError(Kind.INVALID_PARAMS, f"{name!r} looks like a session id; choose another name")
    return name


def check_no_user(wanted: Selection) -> None:
    """Raise invalid_params if the sessions of a user are asked for, in a store that does not know who may see them."""
    if wanted.of is not None:
        raise ProtocolError(Kind.INVALID_PARAMS, "this store does not know users; ask for sessions by their ids")


def select_summaries(summaries: Iterable[Summary], wanted: Selection) -> list[Summary]:
    """Return the sessions that fit, the last changed first (contract: `Store.sessions`)."""
    check_no_user(wanted)
    below = None if wanted.after is None else parse_session_cursor(wanted.after)
    found = [
        summary
        for summary in summaries
        if (wanted.ids is None or summary.session_id in wanted.ids)
        and summary.session_id not in wanted.without
        and (wanted.archived is None or summary.archived == wanted.archived)
        and (wanted.cwd is None or summary.cwd == wanted.cwd)
        and (below is None or (summary.updated_at, summary.session_id) < below)
    ]
    found.sort(key=lambda summary: (summary.updated_at, summary.session_id), reverse=True)
    return found if wanted.limit is None else found[: max(wanted.limit, 0)]


def find_summary(name: str, summaries: Iterable[Summary]) -> Summary:
    """Find a session by id, name or id prefix."""
    listed = list(summaries)
    for summary in listed:
        if name == summary.session_id:
            return summary
    for summary in listed:
        if name == summary.name:
            return summary
    matching = [summary for summary in listed if name and summary.session_id.startswith(name)]
    if len(matching) == 1:
        return matching[0]
    if matching:
        raise ambiguous_error(name, [summary.session_id for summary in matching])
    raise missing_error(name)


# How many ids of a beginning that fits several sessions are shown. A store looks for one more.
SHOWN_IDS = 3


def ambiguous_error(name: str, ids: Sequence[str]) -> ProtocolError:
    """Return the error for the beginning of several ids."""
    count = str(len(ids)) if len(ids) <= SHOWN_IDS else f"more than {SHOWN_IDS}"
    shown = ", ".join(ids[:SHOWN_IDS])
    return ProtocolError(
        Kind.SESSION_NOT_FOUND, f"{count} sessions start with {name!r}: {shown}; type more of the id", {}
    )


def closed_error() -> ProtocolError:
    """Return the error for using a closed store."""
    return ProtocolError(Kind.INVALID_STATE, "the store is closed")


def missing_error(session_id: str) -> ProtocolError:
    """Return the error for a session that does not exist or was deleted."""
    return ProtocolError(
        Kind.SESSION_NOT_FOUND, f"there is no session {session_id!r} in this store", {"sessionId": session_id}
    )


def expired_error(session_id: str) -> ProtocolError:
    """Return the error for a session that retention deleted."""
    return ProtocolError(
        Kind.SESSION_EXPIRED,
        f"session {session_id!r} has expired and was deleted; open a new session",
        {"sessionId": session_id},
    )


def taken_error(what: str, by: str) -> ProtocolError:
    """Return the error for a name or id that another session has."""
    return ProtocolError(
        Kind.INVALID_PARAMS, f"{what!r} is already used by session {by!r}; choose another", {"sessionId": by}
    )


# --- how long it is kept --------------------------------------------------------------------------------------


def expired_ids(retention: Retention, newest_first: Sequence[Summary], now: str) -> list[str]:
    """Return the ids of the sessions that retention does not keep; the newest is never too large."""
    expired: list[str] = []
    present = _unix_time(now)
    size = 0
    for index, summary in enumerate(newest_first):
        size += summary.bytes
        is_old = retention.seconds is not None and present - _unix_time(summary.updated_at) > retention.seconds
        is_beyond = retention.count is not None and index >= retention.count
        is_large = retention.bytes is not None and size > retention.bytes and index > 0
        if (is_old or is_beyond or is_large) and not (summary.name and retention.spares_named):
            expired.append(summary.session_id)
            size -= summary.bytes
    return expired


def _unix_time(time: str) -> float:
    try:
        parsed = datetime.fromisoformat(time)
    except ValueError:
        return float("inf")  # unknown age: it counts as new
    return (parsed if parsed.tzinfo else parsed.replace(tzinfo=UTC)).timestamp()
