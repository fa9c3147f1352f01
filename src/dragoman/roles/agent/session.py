"""Sessions as an agent keeps them: what was opened, what was said, and the client they talk to now.

A Session outlives the connection it was made on: load and resume bind it to another client. It sends updates, keeps
the transcript that load replays, and lends its turns files and terminals. Memory only; a store comes with durability.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from datetime import UTC, datetime
from functools import partial
from itertools import count
from typing import TYPE_CHECKING, Any
from uuid import uuid4

from msgspec import UNSET

from dragoman.dialect.reshape import SIDE_DATA_KEY
from dragoman.engine.connection import Connection
from dragoman.errors import Kind, ProtocolError
from dragoman.roles.agent.audience import update_for_client
from dragoman.roles.agent.client_terminals import ClientFiles, ClientTerminals
from dragoman.roles.agent.options import switch_as_select, value_of, with_value
from dragoman.schema.config import SessionConfigOption, SessionModeState
from dragoman.schema.content import TextContent
from dragoman.schema.mcp import McpServer
from dragoman.schema.methods import find_method
from dragoman.schema.side import Side
from dragoman.schema.update import (
    AgentMessageChunk,
    AgentThoughtChunk,
    AvailableCommand,
    AvailableCommandsUpdate,
    ConfigOptionUpdate,
    CurrentModeUpdate,
    SessionInfoUpdate,
    UpdateParams,
)
from dragoman.session.history import History

if TYPE_CHECKING:
    from dragoman.roles.agent.turn import Turn


_session_numbers = count(1)

# Stands in a chunk's frame where its text will; nothing else in the frame can read like it.
_TEXT_PLACEHOLDER = "\x00the text\x00"


# The dialects in which a client must ask for options that are switches, and how it does (reference 1.3, seed 003).
OFFICIAL_DIALECTS = ("v1", "banjo")
SWITCH_CAPABILITY = "client.session.configOptions.boolean"

# Some clients never answer a method they do not know (peers.md 7), and a turn must not wait for ever. Seconds.
EXTENSION_TIMEOUT = 60.0


class Session:
    """One conversation of an agent."""

    def __init__(
        self,
        id: str,
        cwd: str,
        *,
        directories: Sequence[str] = (),
        mcp_servers: Sequence[McpServer] = (),
        modes: SessionModeState | None = None,
        options: Sequence[SessionConfigOption] = (),
        commands: Sequence[AvailableCommand] = (),
        streaming: bool = True,
        tools: Sequence[str] | None = None,
    ) -> None:
        self.id = id
        self.sequence_number = next(_session_numbers)  # later sessions have higher ones: lists go by it
        self.cwd = cwd
        self.directories = list(directories)
        self.mcp_servers = list(mcp_servers)
        self.system_prompt = ""  # what the client instructs the agent with
        self.overrides_system_prompt = False  # whether that takes the place of the agent's own instructions
        self.modes = modes
        self.options = list(options)
        self.commands = list(commands)
        self.tools = None if tools is None else frozenset(tools)
        self.title: str | None = None
        self.archived = False
        self.updated_at = now()
        self.turn_count = 0
        self.turn: Turn | None = None
        self.history = History()
        self.state: dict[str, Any] = {}  # the author's own
        self._connection: Connection | None = None
        self._text_senders: dict[Any, Callable[[str], bool]] = {}  # how each kind of text is told
        self._streaming = streaming
        self._buffered: list[str] = []  # pieces of a message that is told whole
        self._buffered_kind: Any = None
        self._supports_switches = True
        self._files: ClientFiles | None = None
        self._terminals: ClientTerminals | None = None

    # --- the client it talks to -------------------------------------------------------------------------------

    def bind(self, connection: Connection) -> None:
        """Talk to this client from now on."""
        self._connection = connection
        spoken = connection.codec.dialect.name if connection.codec else "v1"
        self._supports_switches = spoken not in OFFICIAL_DIALECTS or connection.offers(SWITCH_CAPABILITY)
        self._files = self._terminals = None
        self._text_senders.clear()

    @property
    def is_bound(self) -> bool:
        """Whether it has a client to talk to."""
        return self._connection is not None

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
    def files(self) -> ClientFiles:
        """The client's files, or the agent's own where the client lends none."""
        if self._files is None:
            self._files = ClientFiles(self.connection, self.id, self.roots)
        return self._files

    @property
    def terminals(self) -> ClientTerminals:
        """The client's terminals, or the agent's own where the client lends none."""
        if self._terminals is None:
            self._terminals = ClientTerminals(self.connection, self.id, self.roots)
        return self._terminals

    async def request(self, method: str, params: Any, *, timeout: float | None = None) -> Any:
        """Ask the client something; an extension that it does not answer at all is a timeout after a while."""
        if timeout is None and find_method(Side.CLIENT, method) is None:
            timeout = EXTENSION_TIMEOUT
        self.finish_message()
        return await self.connection.request(method, params, timeout=timeout)

    def notify(self, method: str, params: Any) -> None:
        """Tell the client anything, an extension's news for instance."""
        self.finish_message()
        self.connection.notify(method, params)

    # --- its log, where it has one (LoggedSession) --------------------------------------------------------------

    def log_turn_started(self, prompt: list[Any]) -> Awaitable[None] | None:
        """A turn begins; the author hears of it after what this returns."""
        return None

    def log_turn_ended(self, result: Any, error: BaseException | None = None) -> Awaitable[None] | None:
        """A turn ends; the client is answered after what this returns."""
        return None

    def log_options(self) -> None:
        """The client set an option."""

    def log_archived(self, archived: bool) -> Awaitable[None] | None:
        """It is archived, or taken back; the client is answered after what this returns."""
        return None

    def wait_stored(self) -> Awaitable[None] | None:
        """Whoever changed something is answered after what this returns."""
        return None

    # --- saying -----------------------------------------------------------------------------------------------

    @property
    def is_streaming(self) -> bool:
        """Whether messages are told piece by piece; else whole, when they are finished."""
        return self._streaming

    def send_text(self, kind: type[AgentMessageChunk] | type[AgentThoughtChunk], text: str) -> bool:
        """Send a text chunk, the hot path of every stream; whether the sender should give way now."""
        way = self._text_senders.get(kind)
        if way is None:
            way = self._text_senders[kind] = self._text_sender(kind)
        self.history.add_text(kind, text)
        return way(text)

    def _text_sender(self, kind: Any) -> Callable[[str], bool]:
        """How pieces of this kind are told to the client there is now."""
        connection = self.connection
        if not self._streaming:
            return partial(self._buffer_text, kind)
        form = connection.notification_template(
            "session/update", self._chunk_params(kind, _TEXT_PLACEHOLDER), _TEXT_PLACEHOLDER
        )
        return partial(self._notify_text, kind) if form is None else partial(connection.outbox.send_template, form)

    def _notify_text(self, kind: Any, text: str) -> bool:
        self.connection.notify("session/update", self._chunk_params(kind, text))
        return self.connection.outbox.should_throttle

    def _buffer_text(self, kind: Any, text: str) -> bool:
        if kind is not self._buffered_kind:
            self.finish_message()
        self._buffered_kind = kind
        self._buffered.append(text)
        return False

    def finish_message(self) -> None:
        """Tell a message that was held back until it is whole; nothing happens where messages are streamed."""
        if self._buffered:
            text = "".join(self._buffered)
            self._buffered.clear()
            self.connection.notify("session/update", self._chunk_params(self._buffered_kind, text))

    def _chunk_params(self, kind: Any, text: str) -> UpdateParams:
        return UpdateParams(session_id=self.id, update=kind(content=TextContent(text=text)))

    def send_update(self, update: Any) -> None:
        """Send an update and keep it in the history; a kind that a client must ask for is sent to those who did."""
        self.finish_message()
        self.history.add(update)
        self._notify_update(update)

    def _notify_update(self, update: Any) -> None:
        heard = update_for_client(self.connection, update)
        if heard is not None:
            self.connection.notify("session/update", UpdateParams(session_id=self.id, update=heard))

    @property
    def should_wait(self) -> bool:
        """Whether the sender should let the client or the reader catch up."""
        return self.connection.outbox.should_throttle

    async def drain(self) -> None:
        """Let the client or the reader catch up."""
        await self.connection.outbox.throttle()

    def replay(self) -> None:
        """Send the whole history again, in order."""
        for update in self.history:
            self._notify_update(update)

    # --- what it is set to ------------------------------------------------------------------------------------

    @property
    def mode(self) -> str | None:
        """The id of the mode it is in."""
        return self.modes.current_mode_id if self.modes else None

    def set_mode(self, mode_id: str, *, notify: bool = True) -> None:
        """Change the mode; a client that did not ask for it is told."""
        if self.modes is None:
            raise ProtocolError(Kind.CAPABILITY_UNSUPPORTED, "this agent has no modes", {"method": "session/set_mode"})
        if mode_id not in {mode.id for mode in self.modes.available_modes}:
            known = ", ".join(mode.id for mode in self.modes.available_modes)
            raise ProtocolError(Kind.INVALID_PARAMS, f"unknown mode {mode_id!r}; there are: {known}")
        self.modes.current_mode_id = mode_id
        if notify:
            self.send_mode()

    def send_mode(self, reason: str = "") -> None:
        """Tell the client which mode it is in; only some dialects have a word for the reason."""
        if self.modes is not None:
            meta: Any = {SIDE_DATA_KEY: {"reason": reason}} if reason else UNSET
            self.send_update(CurrentModeUpdate(current_mode_id=self.modes.current_mode_id, meta=meta))

    def get_option(self, config_id: str) -> Any:
        """The value of a config option; None when there is no such option."""
        for option in self.options:
            if option.id == config_id:
                return value_of(option)
        return None

    def set_option(self, config_id: str, value: Any, *, notify: bool = True) -> None:
        """Change a config option; unknown ids and values are refused, a free option takes any JSON value."""
        for index, option in enumerate(self.options):
            if option.id == config_id:
                self.options[index] = with_value(option, value, accepts_boolean_text=not self._supports_switches)
                break
        else:
            known = ", ".join(option.id for option in self.options) or "none"
            raise ProtocolError(Kind.INVALID_PARAMS, f"unknown option {config_id!r}; there are: {known}")
        if notify:
            self.send_update(ConfigOptionUpdate(config_options=self.options_for_client))

    @property
    def options_for_client(self) -> list[SessionConfigOption]:
        """The options as the client can show them: switches are a choice of two where it knows no switches."""
        return list(self.options) if self._supports_switches else [switch_as_select(option) for option in self.options]

    def send_commands(self) -> None:
        """Tell the client which commands there are; not a part of the history."""
        update = AvailableCommandsUpdate(available_commands=self.commands)
        self.connection.notify("session/update", UpdateParams(session_id=self.id, update=update))

    def set_title(self, title: str) -> None:
        """Name the session; a client that talks in it is told."""
        self.title = title
        update = SessionInfoUpdate(title=title, updated_at=self.updated_at)
        if self.is_bound:
            self.send_update(update)
        else:
            self.history.add(update)


def now() -> str:
    """The time as the protocol writes it."""
    return datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def new_id() -> str:
    """A random id, as sessions and terminals are called."""
    return str(uuid4())
