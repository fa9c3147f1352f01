"""Sessions as an agent keeps them: what was opened, what was said, and the client they talk to now.

A Session outlives the connection it was made on: load and resume bind it to another client. It sends updates, keeps
the transcript that load replays, and lends its turns files and terminals. Memory only; a store comes with durability.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any
from uuid import uuid4

import msgspec

from dragoman.dialect.book import free_option, noted, side_data
from dragoman.engine.connection import Connection, Form
from dragoman.errors import Kind, ProtocolError
from dragoman.roles.lent import LentFiles, LentTerminals
from dragoman.schema.config import SessionConfigOption, SessionModeState
from dragoman.schema.content import TextContent
from dragoman.schema.mcp import McpServer
from dragoman.schema.methods import find
from dragoman.schema.side import Side
from dragoman.schema.update import (
    AgentMessageChunk,
    AgentThoughtChunk,
    ConfigOptionUpdate,
    CurrentModeUpdate,
    SessionInfoUpdate,
    UpdateParams,
)
from dragoman.session.transcript import Transcript

if TYPE_CHECKING:
    from dragoman.roles.turn import Turn


# Stands in a chunk's frame where its text will; nothing else in the frame can read like it.
_GAP = "\x00the text\x00"


# Some clients never answer a method they do not know (peers.md 7), and a turn must not wait for ever. Seconds.
EXTENSION_PATIENCE = 60.0


class Session:
    """One conversation of an agent."""

    def __init__(
        self,
        id: str,
        cwd: str,
        *,
        directories: Sequence[str] = (),
        mcp_servers: Sequence[McpServer] = (),
        system_prompt: str = "",
        modes: SessionModeState | None = None,
        options: Sequence[SessionConfigOption] = (),
    ) -> None:
        self.id = id
        self.cwd = cwd
        self.directories = list(directories)
        self.mcp_servers = list(mcp_servers)
        self.system_prompt = system_prompt
        self.modes = modes
        self.options = list(options)
        self.title: str | None = None
        self.updated_at = now()
        self.turns = 0
        self.turn: Turn | None = None
        self.transcript = Transcript()
        self.state: dict[str, Any] = {}  # the author's own
        self._connection: Connection | None = None
        self._forms: dict[Any, Form | None] = {}
        self._files: LentFiles | None = None
        self._terminals: LentTerminals | None = None

    # --- the client it talks to -------------------------------------------------------------------------------

    def bind(self, connection: Connection) -> None:
        """Talk to this client from now on."""
        self._connection = connection
        self._files = self._terminals = None
        self._forms.clear()

    @property
    def connection(self) -> Connection:
        """The connection of the client this session talks to now."""
        if self._connection is None:
            raise ProtocolError(Kind.INVALID_STATE, f"session {self.id} is not open; load or resume it first")
        return self._connection

    @property
    def roots(self) -> list[str]:
        """The folders of the session: cwd first."""
        return [self.cwd, *self.directories]

    @property
    def files(self) -> LentFiles:
        """The client's files, or the agent's own where the client lends none."""
        if self._files is None:
            self._files = LentFiles(self.connection, self.id, self.roots)
        return self._files

    @property
    def terminals(self) -> LentTerminals:
        """The client's terminals, or the agent's own where the client lends none."""
        if self._terminals is None:
            self._terminals = LentTerminals(self.connection, self.id, self.roots)
        return self._terminals

    async def request(self, method: str, params: Any, *, timeout: float | None = None) -> Any:
        """Ask the client something; an extension that it does not answer at all is a timeout after a while."""
        if timeout is None and find(Side.CLIENT, method) is None:
            timeout = EXTENSION_PATIENCE
        return await self.connection.request(method, params, timeout=timeout)

    # --- saying -----------------------------------------------------------------------------------------------

    def say(self, kind: type[AgentMessageChunk] | type[AgentThoughtChunk], text: str) -> bool:
        """Send a text chunk, the hot path of every stream; whether the sender should give way now."""
        connection = self.connection
        self.transcript.say(kind, text)
        if kind not in self._forms:
            self._forms[kind] = connection.form("session/update", self._chunk(kind, _GAP), _GAP)
        form = self._forms[kind]
        if form is not None:
            return connection.fill(form, text)
        connection.notify("session/update", self._chunk(kind, text))
        return connection.should_wait

    def _chunk(self, kind: Any, text: str) -> UpdateParams:
        return UpdateParams(session_id=self.id, update=kind(content=TextContent(text=text)))

    def push(self, update: Any) -> None:
        """Send an update and keep it in the history."""
        self.transcript.add(update)
        self.connection.notify("session/update", UpdateParams(session_id=self.id, update=update))

    @property
    def should_wait(self) -> bool:
        """Whether the sender should let the client or the reader catch up."""
        return self.connection.should_wait

    async def flow_control(self) -> None:
        """Let the client or the reader catch up."""
        await self.connection.flow_control()

    def replay(self) -> None:
        """Send the whole history again, in order."""
        for update in self.transcript:
            self.connection.notify("session/update", UpdateParams(session_id=self.id, update=update))

    # --- what it is set to ------------------------------------------------------------------------------------

    @property
    def mode(self) -> str | None:
        """The id of the mode it is in."""
        return self.modes.current_mode_id if self.modes else None

    def set_mode(self, mode_id: str, *, tell: bool = True) -> None:
        """Change the mode; a client that did not ask for it is told."""
        if self.modes is None or mode_id not in {mode.id for mode in self.modes.available_modes}:
            known = ", ".join(mode.id for mode in self.modes.available_modes) if self.modes else "none"
            raise ProtocolError(Kind.INVALID_PARAMS, f"unknown mode {mode_id!r}; there are: {known}")
        self.modes.current_mode_id = mode_id
        if tell:
            self.push(CurrentModeUpdate(current_mode_id=mode_id))

    def set_option(self, config_id: str, value: Any, *, tell: bool = True) -> None:
        """Change a config option; unknown ids and values are refused, a free option takes any JSON value."""
        for index, option in enumerate(self.options):
            if option.id == config_id:
                if "value" in side_data(option):
                    free = noted(free_option(config_id, value), value=value)
                    self.options[index] = msgspec.structs.replace(free, name=option.name, category=option.category)
                    break
                choices = [choice.value for choice in option.values]
                if option.form == "boolean" and not isinstance(value, bool):
                    raise ProtocolError(Kind.INVALID_PARAMS, f"option {config_id!r} takes true or false")
                if option.form != "boolean" and value not in choices:
                    raise ProtocolError(
                        Kind.INVALID_PARAMS,
                        f"option {config_id!r} has no value {value!r}; there are: {choices}",
                    )
                option.current_value = value
                break
        else:
            known = ", ".join(option.id for option in self.options) or "none"
            raise ProtocolError(Kind.INVALID_PARAMS, f"unknown option {config_id!r}; there are: {known}")
        if tell:
            self.push(ConfigOptionUpdate(config_options=list(self.options)))

    def set_title(self, title: str) -> None:
        """Name the session."""
        self.title = title
        self.push(SessionInfoUpdate(title=title, updated_at=self.updated_at))


def now() -> str:
    """The time as the protocol writes it."""
    return datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def new_id() -> str:
    """A random id, as sessions and terminals are called."""
    return str(uuid4())
