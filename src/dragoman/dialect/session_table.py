"""The sessions that emulators remember, and the session of a call that names none
(docs/protocol/dialect-matrix.md#calls-without-session).

File and terminal calls name no session in 2025.1 and the draft. It is the terminal's session, or the only running turn,
or the only session, or the one whose folder contains the path; an ambiguous call is denied. No I/O.
"""

from __future__ import annotations

import json
import posixpath
from collections.abc import Iterable
from typing import Any

import msgspec

from dragoman.dialect.side_data import side_data_of, with_side_data
from dragoman.errors import Kind, ProtocolError
from dragoman.schema.config import ConfigChoice, ConfigType, SessionConfigOption, SessionModeState


class SessionRow(msgspec.Struct, kw_only=True):
    """One session as an emulator knows it."""

    session_id: str
    cwd: str
    modes: SessionModeState | None = None
    options: list[SessionConfigOption] = msgspec.field(default_factory=list)
    message_count: int = 0
    last_speaker: str = ""  # the last speaker, to count messages by their first chunk
    is_opening: bool = False  # it exists, and its client does not know yet
    in_turn: bool = False
    is_cancelled: bool = False
    pending_system_prompt: str = ""  # a system prompt to put before the first prompt

    @property
    def mode(self) -> str:
        """Its current mode; `default` if it has none."""
        return self.modes.current_mode_id if self.modes else "default"

    def set_modes_and_options(self, modes: Any, options: Iterable[SessionConfigOption] | None) -> None:
        """Copy the current modes and options: an agent in our own process changes them in place."""
        self.modes = msgspec.structs.replace(modes) if modes else None
        self.set_options(options)

    def set_options(self, options: Iterable[SessionConfigOption] | None) -> None:
        """Copy all current options."""
        self.options = [msgspec.structs.replace(option) for option in options or ()]

    def option_values(self) -> dict[str, Any]:
        """Return the value of each option, by id."""
        return {option.id: side_data_of(option).get("value", option.current_value) for option in self.options}

    def count_chunk(self, speaker: str) -> None:
        """Count a chunk: the first one of a speaker is a message."""
        if speaker != self.last_speaker:
            self.last_speaker = speaker
            self.message_count += 1


class SessionTable:
    """The sessions of one connection, and the terminals created for them."""

    def __init__(self) -> None:
        self.rows: dict[str, SessionRow] = {}
        self.terminals: dict[str, str] = {}

    def get_or_add(self, session_id: str, cwd: str) -> SessionRow:
        """Add a row, or update the folder of an existing one."""
        row = self.rows.get(session_id)
        if row is None:
            row = self.rows[session_id] = SessionRow(session_id=session_id, cwd=cwd)
        row.cwd = cwd or row.cwd
        return row

    def find(self, session_id: str) -> SessionRow | None:
        """Return the row of a session."""
        return self.rows.get(session_id)

    def resolve_session(self, terminal_id: str | None, path: str | None) -> SessionRow:
        """Return the session of a call that names none; raise access_denied if it is ambiguous."""
        if terminal_id is not None and terminal_id in self.terminals:
            return self.rows[self.terminals[terminal_id]]
        running = [row for row in self.rows.values() if row.in_turn]
        for candidates in (running, list(self.rows.values())):
            if len(candidates) == 1:
                return candidates[0]
        if path is not None:
            inside = [row for row in running or self.rows.values() if is_inside(row.cwd, path)]
            if len(inside) == 1:
                return inside[0]
        raise ProtocolError(
            Kind.ACCESS_DENIED,
            f"{len(self.rows)} sessions are open and the call does not say which one it is for",
            {"sessions": len(self.rows)},
        )


def is_inside(folder: str, path: str) -> bool:
    """Return whether an absolute path is inside a folder, by its names."""
    clean = posixpath.normpath(path)
    return clean == folder or clean.startswith(folder.rstrip("/") + "/")


def option_from_value(name: str, value: Any) -> SessionConfigOption:
    """Return an option with any JSON value, which only the draft has, as a v1 select with that one value
    (docs/protocol/dialect-matrix.md#options-one-by-one).
    """
    if isinstance(value, bool):
        return SessionConfigOption(id=name, name=name, type="boolean", current_value=value)
    text = value if isinstance(value, str) else "" if value is None else compact_json(value)
    choice = ConfigChoice(value=text, name=text or "default")
    option = SessionConfigOption(id=name, name=name, type="select", current_value=text, options=[choice])
    return option if isinstance(value, str) or value is None else with_side_data(option, value=value)


def switch_as_select(option: SessionConfigOption) -> SessionConfigOption:
    """Return a boolean option as a choice of two, any other option unchanged."""
    if option.form != ConfigType.BOOLEAN:
        return option
    choices = [ConfigChoice(value="true", name="On"), ConfigChoice(value="false", name="Off")]
    value = "true" if option.current_value is True else "false"
    return msgspec.structs.replace(option, type=ConfigType.SELECT, current_value=value, options=choices)


def parse_json(text: str) -> Any:
    """Return the JSON value that a text says, or the text."""
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return text


def compact_json(value: Any) -> str:
    """Return a JSON value as text, for v1 members that are strings."""
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))
