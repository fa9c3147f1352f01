"""What a list of sessions shows, folded from their logs; and how a session is found by what people type.

Takes entries as they are appended, gives summaries. Pure; every store uses it, so that all list the same. The bodies
it looks into: `opened` (agent, its id for the session, cwd, title), `prompt` (the first one names a session that
nobody named) and the update that tells a title, or that it was put away.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from typing import Any

import msgspec

from dragoman.errors import Kind, ProtocolError
from dragoman.store.contract import EntryKind, Retention, Summary

# As much of a prompt as a list has room for, in characters.
TITLE_LENGTH = 80

_INFO_UPDATE = b'"session_info_update"'


class LogSummary(msgspec.Struct, kw_only=True):
    """A summary that grows with its log."""

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
    is_changed: bool = False  # more than the counts has changed since somebody wrote it down

    def add_entry(self, kind: str, time: str, line: bytes) -> None:
        """One more entry: its line of JSON. Called for each, so it looks into those that can tell something."""
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
    def summary(self) -> Summary:
        """As it is now."""
        return Summary(
            session_id=self.session_id,
            entries=self.entries,
            updated_at=self.updated_at,
            created_at=self.created_at,
            name=self.name,
            title=self.title or self.prompted,
            agent=self.agent,
            agent_session=self.agent_session,
            cwd=self.cwd,
            turns=self.turns,
            bytes=self.size,
            forked_from=self.forked_from,
            archived=self.archived,
            imported=self.imported,
        )


class _EntryBody(msgspec.Struct):
    body: Any = None


_body_decoder = msgspec.json.Decoder(_EntryBody)


def _decode_body(line: bytes) -> dict[str, Any]:
    body = _body_decoder.decode(line).body
    return body if isinstance(body, dict) else {"prompt": body}


def _text_of(value: Any) -> str | None:
    if isinstance(value, dict):
        value = value.get("title") or value.get("name")
    return value if isinstance(value, str) and value else None


def _prompt_preview(body: dict[str, Any]) -> str | None:
    blocks = body.get("prompt")
    texts = [block.get("text") for block in blocks if isinstance(block, dict)] if isinstance(blocks, list) else []
    words = " ".join(" ".join(text for text in texts if isinstance(text, str))[: TITLE_LENGTH * 4].split())
    return (words if len(words) <= TITLE_LENGTH else words[: TITLE_LENGTH - 1] + "…") or None


# --- finding one ----------------------------------------------------------------------------------------------

# The longest name, in characters: a list has room for it.
MAX_NAME_LENGTH = 100

_NAME_PATTERN = re.compile(rf"[^\s/\x00-\x1f\x7f]([^\x00-\x1f\x7f]{{0,{MAX_NAME_LENGTH - 2}}}[^\s\x00-\x1f\x7f])?")

# An id as we make them, or most of one: nothing else looks so.
_ID_PATTERN = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}(-[0-9a-f]{0,4}(-[0-9a-f]{0,12})?)?", re.IGNORECASE)


# What a name has besides letters, digits and blanks; no shell takes one of these for more than itself where a name
# begins as it must.
_SIGNS = "._-+@:,/~"
_FIRST = "._@"
_ALLOWED = f"letters, digits, blanks and {' '.join(_SIGNS)}, beginning with a letter, a digit or {' '.join(_FIRST)}"


def check_name(name: str) -> str:
    """What may be the name of a session that is there, as older versions gave them; invalid_params if it is none."""
    if not _NAME_PATTERN.fullmatch(name):
        raise ProtocolError(
            Kind.INVALID_PARAMS,
            f"{name!r} is no name for a session: up to {MAX_NAME_LENGTH} characters on one line, no '/' first",
        )
    return name


def foreign_sign(name: str) -> str:
    """The first character that cannot stand where it does in a name; none in one that can be given."""
    if name and not (name[0] in _FIRST or name[0].isalnum()):
        return name[0]
    return next((character for character in name if not _is_of_names(character)), "")


def _is_of_names(character: str) -> bool:
    if character.isascii():
        return character.isalnum() or character in _SIGNS or character == " "
    import unicodedata

    return unicodedata.category(character)[0] in "LMN"


def looks_like_id(name: str) -> bool:
    """Whether this means a session by its id, whether it is there or not."""
    return _ID_PATTERN.fullmatch(name) is not None


def check_new_name(name: str) -> str:
    """A name that a session can be given: one that means nothing else to a shell, and that nobody takes for an id."""
    if wrong := foreign_sign(check_name(name)):
        raise ProtocolError(
            Kind.INVALID_PARAMS, f"{name!r} is no name for a session: {wrong!r} cannot stand there; it has {_ALLOWED}"
        )
    if looks_like_id(name):
        raise ProtocolError(Kind.INVALID_PARAMS, f"{name!r} looks like the id of a session; choose another name")
    return name


def find_summary(name: str, summaries: Iterable[Summary]) -> Summary:
    """The session somebody means."""
    known = list(summaries)
    for summary in known:
        if name == summary.session_id:
            return summary
    for summary in known:
        if name == summary.name:
            return summary
    begun = [summary for summary in known if name and summary.session_id.startswith(name)]
    if len(begun) == 1:
        return begun[0]
    if begun:
        ids = ", ".join(summary.session_id for summary in begun[:3])
        raise ProtocolError(
            Kind.SESSION_NOT_FOUND, f"{len(begun)} sessions begin with {name!r}: {ids}; type more of one", {}
        )
    raise missing_error(name)


def missing_error(session_id: str) -> ProtocolError:
    """The error for a session that was never there, or was deleted."""
    return ProtocolError(
        Kind.SESSION_NOT_FOUND, f"there is no session {session_id!r} in this store", {"sessionId": session_id}
    )


def expired_error(session_id: str) -> ProtocolError:
    """The error for a session that retention took away."""
    return ProtocolError(
        Kind.SESSION_EXPIRED,
        f"session {session_id!r} was kept for as long as retention says and is gone; open a new one",
        {"sessionId": session_id},
    )


def taken_error(what: str, by: str) -> ProtocolError:
    """The error for a name or an id that another session has."""
    return ProtocolError(Kind.INVALID_PARAMS, f"{what!r} is taken by session {by!r}; choose another", {"sessionId": by})


# --- how long it is kept --------------------------------------------------------------------------------------


def expired_ids(retention: Retention, newest_first: Sequence[Summary], now: str) -> list[str]:
    """The ids of the sessions that need not be kept; the newest is never too large."""
    gone: list[str] = []
    present = _unix_time(now)
    size = 0
    for place, summary in enumerate(newest_first):
        size += summary.bytes
        is_old = retention.seconds is not None and present - _unix_time(summary.updated_at) > retention.seconds
        is_beyond = retention.count is not None and place >= retention.count
        is_large = retention.bytes is not None and size > retention.bytes and place > 0
        if (is_old or is_beyond or is_large) and not (summary.name and retention.spares_named):
            gone.append(summary.session_id)
            size -= summary.bytes
    return gone


def _unix_time(time: str) -> float:
    try:
        parsed = datetime.fromisoformat(time)
    except ValueError:
        return float("inf")  # nobody knows how old it is: it counts as new
    return (parsed if parsed.tzinfo else parsed.replace(tzinfo=UTC)).timestamp()
