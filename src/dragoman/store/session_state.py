"""The current state of a session, folded from its log, to answer load and resume without starting an agent. No I/O.

Takes undecoded entries in order and decodes only those that change the state. Messages are not kept.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple
from zlib import crc32

import msgspec
from msgspec import UNSET

from dragoman.errors import ProtocolError
from dragoman.schema.base import encode
from dragoman.schema.config import SessionConfigOption, SessionModeState
from dragoman.schema.lenient import read_leniently
from dragoman.schema.update import AvailableCommandsUpdate, ConfigOptionUpdate, CurrentModeUpdate, SessionInfoUpdate
from dragoman.store.contract import EntryKind, RawEntry
from dragoman.store.replay import decode_update

# How updates that change the state begin: a stream has few of them.
_STATE_KINDS = (b"current_mode_update", b"config_option_update", b"available_commands_update", b"session_info_update")
_STATE_UPDATES = tuple(b'{"sessionUpdate":"%b"' % kind for kind in _STATE_KINDS)

# How updates begin that only agents of wide dialects send. Each of these agents tells states.
_WIDE_KINDS = (
    b"state_update",
    b"user_message",
    b"agent_message",
    b"agent_thought",
    b"tool_call_content_chunk",
    b"terminal_update",
    b"terminal_output_chunk",
)
_WIDE_UPDATES = tuple(b'{"sessionUpdate":"%b"' % kind for kind in _WIDE_KINDS)


class Person(NamedTuple):
    """A person in a session; several clients of one kind count as one."""

    user: str
    role: str
    client: str


def parse_person(presence: Mapping[str, Any]) -> Person:
    """Parse a person."""
    return Person(str(presence["user"]), str(presence["role"]), str(presence["client"]))


class SessionState:
    """The current state of one session."""

    def __init__(self, imported: int = 0) -> None:
        """The first `imported` entries came from a file: they are shown, but decide nothing."""
        self.seq = 0
        self.imported = imported
        self.opened = 0  # the entry that last opened it
        self.cwd = ""
        self.directories: list[str] = []
        self.resolved: dict[str, str] = {}  # the resolved paths of its folders behind links, when it was opened
        self.agent = ""  # its name in the host's config; "" if another program opened the session
        self.agent_title = ""  # what the agent calls itself
        self.owner = ""  # who opened it
        self.place = ""  # where it can run, in a fleet: node, shared:NAME, git:URL#REF, remote
        self.node = ""  # the node that opened it, in a fleet
        self.left_out: list[str] = []  # what is not in the last checkpoint of its working tree, in a fleet
        self.modes: SessionModeState | None = None
        self.options: list[SessionConfigOption] = []
        self.commands: list[Any] = []
        self.title: str | None = None
        self.open_turn: str | None = None  # the turn that has started and not ended
        self.is_wide = False  # it has updates that clients of most dialects get in another form
        self.people: set[Person] = set()  # the members, according to the log

    @property
    def is_foreign(self) -> bool:
        """Whether it was imported, and not opened here since."""
        return 0 < self.imported >= self.opened

    def apply(self, entry: RawEntry) -> None:
        """Apply one entry."""
        self.seq = entry.seq
        fold = _FOLDS.get(entry.kind)
        if fold is not None:
            try:
                fold(self, entry)
            except (AttributeError, TypeError, ValueError, msgspec.MsgspecError):
                pass  # an imported log may hold anything

    def _apply_opened(self, entry: RawEntry) -> None:
        body = entry.value
        is_ours = entry.seq > self.imported
        self.opened = entry.seq
        self.cwd = _text(body.get("cwd")) or self.cwd
        self.directories = list(body.get("additionalDirectories") or ()) if is_ours else []
        self.resolved = dict(body.get("resolved") or {}) if is_ours else {}
        agent = body.get("agent")
        if isinstance(agent, dict):
            self.agent = _text(agent.get("configured")) or self.agent
            if is_ours:
                self.place = _text(agent.get("place")) or self.place
                self.node = _text(agent.get("node")) or self.node
            self.agent_title = _text(agent.get("title")) or _text(agent.get("name")) or self.agent_title
        if is_ours:
            self.owner = self.owner or entry.actor
        self.modes = _parse(SessionModeState, body.get("modes")) if is_ours else None
        options = body.get("configOptions") if is_ours else None
        found = [_parse(SessionConfigOption, each) for each in options or ()]
        self.options = [option for option in found if option is not None]

    def _apply_update(self, entry: RawEntry) -> None:
        body = bytes(entry.body)
        if not body.startswith(_STATE_UPDATES):
            self.is_wide = self.is_wide or body.startswith(_WIDE_UPDATES)
            return
        update = decode_update(entry.body)
        if entry.seq <= self.imported and not isinstance(update, SessionInfoUpdate):
            return
        if isinstance(update, CurrentModeUpdate) and self.modes is not None:
            self.modes.current_mode_id = update.current_mode_id
        elif isinstance(update, ConfigOptionUpdate):
            self.options = list(update.config_options)
        elif isinstance(update, AvailableCommandsUpdate):
            self.commands = list(update.available_commands)
        elif isinstance(update, SessionInfoUpdate) and update.title is not UNSET:
            self.title = update.title

    def _apply_member(self, entry: RawEntry) -> None:
        body = entry.value
        # In a fork, the log begins with other people's entries.
        if isinstance(body.get("owner"), str) and entry.seq > self.imported:
            self.owner = body["owner"]
        moved = body.get("moved")
        if isinstance(moved, dict) and entry.seq > self.imported:  # to another node or folder
            self.place, self.node = _text(moved.get("place")) or self.place, _text(moved.get("node")) or self.node
            if cwd := _text(moved.get("cwd")):
                self.cwd, self.directories, self.resolved = cwd, [], dict(moved.get("resolved") or {})
        checkpoint = body.get("checkpoint")
        if isinstance(checkpoint, dict) and "leftOut" in checkpoint and entry.seq > self.imported:
            self.left_out = [_text(name) for name in checkpoint["leftOut"]]
        self.people |= {parse_person(each) for each in body.get("came", ())}
        self.people -= {parse_person(each) for each in body.get("went", ())}


_FOLDS: dict[str, Callable[[SessionState, RawEntry], None]] = {
    EntryKind.OPENED: SessionState._apply_opened,
    EntryKind.UPDATE: SessionState._apply_update,
    EntryKind.MEMBER: SessionState._apply_member,
    EntryKind.TURN_STARTED: lambda state, entry: setattr(state, "open_turn", entry.turn or ""),
    EntryKind.TURN_ENDED: lambda state, _: setattr(state, "open_turn", None),
}


# --- as bytes, to keep with the session ---------------------------------------------------------------------------

# The version of the fold. A state of another version is not read: it is folded again from the log.
_STATE_VERSION = 3

_PLAIN_MEMBERS = (
    "seq", "opened", "cwd", "directories", "resolved", "agent", "agent_title", "owner", "title", "open_turn", "is_wide",
    "place", "node", "left_out",
)  # fmt: skip


def dump_state(state: SessionState) -> bytes:
    """Return a state as bytes, with a checksum."""
    values = {name: getattr(state, name) for name in _PLAIN_MEMBERS} | {
        "version": _STATE_VERSION,
        "imported": state.imported,
        "modes": state.modes,
        "options": state.options,
        "commands": state.commands,
        "people": sorted(state.people),
    }
    data = encode(values)
    return b"%08x%b" % (crc32(data), data)


def load_state(data: bytes, imported: int = 0) -> SessionState | None:
    """Return the state in bytes of `dump_state`; None if they are damaged or of another version."""
    try:
        if int(data[:8], 16) != crc32(data[8:]):
            return None
        values = msgspec.json.decode(data[8:])
        if (values["version"], values["imported"]) != (_STATE_VERSION, imported):
            return None
        state = SessionState(imported)
        for name in _PLAIN_MEMBERS:
            setattr(state, name, values[name])
        state.modes = _parse(SessionModeState, values["modes"])
        state.options = [option for each in values["options"] if (option := _parse(SessionConfigOption, each))]
        update = decode_update(encode({"sessionUpdate": _COMMANDS, "availableCommands": values["commands"]}))
        state.commands = list(update.available_commands) if isinstance(update, AvailableCommandsUpdate) else []
        state.people = {Person(*each) for each in values["people"]}
        return state
    except (ValueError, KeyError, TypeError, msgspec.MsgspecError):
        return None


_COMMANDS = "available_commands_update"


def _text(value: Any) -> str:
    return value if isinstance(value, str) else ""


def _parse(kind: Any, value: Any) -> Any:
    try:
        return None if value is None else read_leniently(kind, value)[0]
    except ProtocolError:
        return None
