"""What ledgers remember of sessions, and whose a call is that names no session (reference 5.14-4).

A Book has a page for each session of a connection. Calls about files and terminals carry no session in 2025.1 and in
the draft: the terminal tells it, else the only running turn, else the only session, else the one whose folder holds the
path; what stays ambiguous is refused. Values only, no I/O.
"""

from __future__ import annotations

import json
import posixpath
from collections.abc import Iterable
from typing import Any

import msgspec

from dragoman.dialect.side_data import side_data_of, with_side_data
from dragoman.errors import Kind, ProtocolError
from dragoman.schema.config import ConfigChoice, SessionConfigOption, SessionModeState


class SessionRow(msgspec.Struct, kw_only=True):
    """One session as a ledger knows it."""

    session_id: str
    cwd: str
    modes: SessionModeState | None = None
    options: list[SessionConfigOption] = msgspec.field(default_factory=list)
    message_count: int = 0
    last_speaker: str = ""  # who spoke last, to count messages by their first chunk
    is_opening: bool = False  # it exists, and its client has not been told yet
    in_turn: bool = False
    is_cancelled: bool = False
    pending_system_prompt: str = ""  # a system prompt that goes before the first prompt

    @property
    def mode(self) -> str:
        """The mode it is in; `default` when it has none."""
        return self.modes.current_mode_id if self.modes else "default"

    def set_modes_and_options(self, modes: Any, options: Iterable[SessionConfigOption] | None) -> None:
        """Take modes and options as they are now: copies, for an agent in our own process changes them in place."""
        self.modes = msgspec.structs.replace(modes) if modes else None
        self.set_options(options)

    def set_options(self, options: Iterable[SessionConfigOption] | None) -> None:
        """Take all options as they are now."""
        self.options = [msgspec.structs.replace(option) for option in options or ()]

    def option_values(self) -> dict[str, Any]:
        """The value of each option, by id."""
        return {option.id: side_data_of(option).get("value", option.current_value) for option in self.options}

    def count_chunk(self, speaker: str) -> None:
        """A chunk was said: the first one of a speaker is a message."""
        if speaker != self.last_speaker:
            self.last_speaker = speaker
            self.message_count += 1


class SessionTable:
    """The sessions of one connection, and the terminals that were opened for them."""

    def __init__(self) -> None:
        self.rows: dict[str, SessionRow] = {}
        self.terminals: dict[str, str] = {}

    def get_or_add(self, session_id: str, cwd: str) -> SessionRow:
        """Start a page, or turn back to it with another folder."""
        page = self.rows.get(session_id)
        if page is None:
            page = self.rows[session_id] = SessionRow(session_id=session_id, cwd=cwd)
        page.cwd = cwd or page.cwd
        return page

    def find(self, session_id: str) -> SessionRow | None:
        """The page of a session."""
        return self.rows.get(session_id)

    def resolve_session(self, terminal_id: str | None, path: str | None) -> SessionRow:
        """The session that a call without one belongs to; access_denied when that cannot be told."""
        if terminal_id is not None and terminal_id in self.terminals:
            return self.rows[self.terminals[terminal_id]]
        running = [page for page in self.rows.values() if page.in_turn]
        for candidates in (running, list(self.rows.values())):
            if len(candidates) == 1:
                return candidates[0]
        if path is not None:
            inside = [page for page in running or self.rows.values() if is_inside(page.cwd, path)]
            if len(inside) == 1:
                return inside[0]
        raise ProtocolError(
            Kind.ACCESS_DENIED,
            f"{len(self.rows)} sessions are open and the call does not say which one it is for",
            {"sessions": len(self.rows)},
        )


def is_inside(folder: str, path: str) -> bool:
    """Whether an absolute path lies in a folder, by its words."""
    clean = posixpath.normpath(path)
    return clean == folder or clean.startswith(folder.rstrip("/") + "/")


def option_from_value(name: str, value: Any) -> SessionConfigOption:
    """An option with any JSON value, which only the draft has: in v1 a select with that one value (5.14-17)."""
    if isinstance(value, bool):
        return SessionConfigOption(id=name, name=name, type="boolean", current_value=value)
    text = value if isinstance(value, str) else "" if value is None else compact_json(value)
    choice = ConfigChoice(value=text, name=text or "default")
    option = SessionConfigOption(id=name, name=name, type="select", current_value=text, options=[choice])
    return option if isinstance(value, str) or value is None else with_side_data(option, value=value)


def compact_json(value: Any) -> str:
    """A JSON value as v1 says it where it has only text."""
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))
