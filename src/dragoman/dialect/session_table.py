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

from dragoman.dialect.side_data import noted, side
from dragoman.errors import Kind, ProtocolError
from dragoman.schema.config import ConfigChoice, SessionConfigOption, SessionModeState


class Page(msgspec.Struct, kw_only=True):
    """One session as a ledger knows it."""

    session_id: str
    cwd: str
    modes: SessionModeState | None = None
    options: list[SessionConfigOption] = msgspec.field(default_factory=list)
    messages: int = 0
    speaker: str = ""  # who spoke last, to count messages by their first chunk
    opening: bool = False  # it exists, and its client has not been told yet
    running: bool = False
    cancelled: bool = False
    preamble: str = ""  # a system prompt that goes before the first prompt

    @property
    def mode(self) -> str:
        """The mode it is in; `default` when it has none."""
        return self.modes.current_mode_id if self.modes else "default"

    def fill(self, modes: Any, options: Iterable[SessionConfigOption] | None) -> None:
        """Take modes and options as they are now: copies, for an agent in our own process changes them in place."""
        self.modes = msgspec.structs.replace(modes) if modes else None
        self.set_options(options)

    def set_options(self, options: Iterable[SessionConfigOption] | None) -> None:
        """Take all options as they are now."""
        self.options = [msgspec.structs.replace(option) for option in options or ()]

    def values(self) -> dict[str, Any]:
        """The value of each option, by id."""
        return {option.id: side(option).get("value", option.current_value) for option in self.options}

    def count(self, speaker: str) -> None:
        """A chunk was said: the first one of a speaker is a message."""
        if speaker != self.speaker:
            self.speaker = speaker
            self.messages += 1


class Book:
    """The sessions of one connection, and the terminals that were opened for them."""

    def __init__(self) -> None:
        self.pages: dict[str, Page] = {}
        self.terminals: dict[str, str] = {}

    def open(self, session_id: str, cwd: str) -> Page:
        """Start a page, or turn back to it with another folder."""
        page = self.pages.get(session_id)
        if page is None:
            page = self.pages[session_id] = Page(session_id=session_id, cwd=cwd)
        page.cwd = cwd or page.cwd
        return page

    def find(self, session_id: str) -> Page | None:
        """The page of a session."""
        return self.pages.get(session_id)

    def whose(self, terminal_id: str | None, path: str | None) -> Page:
        """The session that a call without one belongs to; access_denied when that cannot be told."""
        if terminal_id is not None and terminal_id in self.terminals:
            return self.pages[self.terminals[terminal_id]]
        running = [page for page in self.pages.values() if page.running]
        for candidates in (running, list(self.pages.values())):
            if len(candidates) == 1:
                return candidates[0]
        if path is not None:
            inside = [page for page in running or self.pages.values() if is_inside(page.cwd, path)]
            if len(inside) == 1:
                return inside[0]
        raise ProtocolError(
            Kind.ACCESS_DENIED,
            f"{len(self.pages)} sessions are open and the call does not say which one it is for",
            {"sessions": len(self.pages)},
        )


def is_inside(folder: str, path: str) -> bool:
    """Whether an absolute path lies in a folder, by its words."""
    clean = posixpath.normpath(path)
    return clean == folder or clean.startswith(folder.rstrip("/") + "/")


def free_option(name: str, value: Any) -> SessionConfigOption:
    """An option with any JSON value, which only the draft has: in v1 a select with that one value (5.14-17)."""
    if isinstance(value, bool):
        return SessionConfigOption(id=name, name=name, type="boolean", current_value=value)
    text = value if isinstance(value, str) else "" if value is None else compact(value)
    choice = ConfigChoice(value=text, name=text or "default")
    option = SessionConfigOption(id=name, name=name, type="select", current_value=text, options=[choice])
    return option if isinstance(value, str) or value is None else noted(option, value=value)


def compact(value: Any) -> str:
    """A JSON value as v1 says it where it has only text."""
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))
