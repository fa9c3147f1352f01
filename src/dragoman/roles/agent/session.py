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

from dragoman.dialect.reshape import SIDE
from dragoman.engine.connection import Connection
from dragoman.errors import Kind, ProtocolError
from dragoman.roles.agent.audience import told
from dragoman.roles.agent.client_terminals import LentFiles, LentTerminals
from dragoman.roles.agent.options import as_choice, changed, value_of
from dragoman.schema.config import SessionConfigOption, SessionModeState
from dragoman.schema.content import TextContent
from dragoman.schema.mcp import McpServer
from dragoman.schema.methods import find
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
from dragoman.session.history import Transcript

if TYPE_CHECKING:
    from dragoman.roles.agent.turn import Turn


_numbers = count(1)

# Stands in a chunk's frame where its text will; nothing else in the frame can read like it.
_GAP = "\x00the text\x00"


# The dialects in which a client must ask for options that are switches, and how it does (reference 1.3, seed 003).
OFFICIAL = ("v1", "banjo")
SWITCHES = "client.session.configOptions.boolean"

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
        modes: SessionModeState | None = None,
        options: Sequence[SessionConfigOption] = (),
        commands: Sequence[AvailableCommand] = (),
        streaming: bool = True,
        tools: Sequence[str] | None = None,
    ) -> None:
        self.id = id
        self.number = next(_numbers)  # later sessions have higher ones: lists go by it
        self.cwd = cwd
        self.directories = list(directories)
        self.mcp_servers = list(mcp_servers)
        self.system_prompt = ""  # what the client instructs the agent with
        self.overrides_prompt = False  # whether that takes the place of the agent's own instructions
        self.modes = modes
        self.options = list(options)
        self.commands = list(commands)
        self.tools = None if tools is None else frozenset(tools)
        self.title: str | None = None
        self.archived = False
        self.updated_at = now()
        self.turns = 0
        self.turn: Turn | None = None
        self.transcript = Transcript()
        self.state: dict[str, Any] = {}  # the author's own
        self._connection: Connection | None = None
        self._ways: dict[Any, Callable[[str], bool]] = {}  # how each kind of text is told
        self._streaming = streaming
        self._unsaid: list[str] = []  # pieces of a message that is told whole
        self._unsaid_kind: Any = None
        self._shows_switches = True
        self._files: LentFiles | None = None
        self._terminals: LentTerminals | None = None

    # --- the client it talks to -------------------------------------------------------------------------------

    def bind(self, connection: Connection) -> None:
        """Talk to this client from now on."""
        self._connection = connection
        spoken = connection.speech.dialect.name if connection.speech else "v1"
        self._shows_switches = spoken not in OFFICIAL or connection.offers(SWITCHES)
        self._files = self._terminals = None
        self._ways.clear()

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
        self.finish_message()
        return await self.connection.request(method, params, timeout=timeout)

    def notify(self, method: str, params: Any) -> None:
        """Tell the client anything, an extension's news for instance."""
        self.finish_message()
        self.connection.notify(method, params)

    # --- its log, where it has one (LoggedSession) --------------------------------------------------------------

    def began(self, prompt: list[Any]) -> Awaitable[None] | None:
        """A turn begins; the author hears of it after what this returns."""
        return None

    def ended(self, result: Any, error: BaseException | None = None) -> Awaitable[None] | None:
        """A turn ends; the client is answered after what this returns."""
        return None

    def set_to(self) -> None:
        """The client set an option."""

    def put_away(self, archived: bool) -> Awaitable[None] | None:
        """It is archived, or taken back; the client is answered after what this returns."""
        return None

    def kept(self) -> Awaitable[None] | None:
        """Whoever changed something is answered after what this returns."""
        return None

    # --- saying -----------------------------------------------------------------------------------------------

    @property
    def streams(self) -> bool:
        """Whether messages are told piece by piece; else whole, when they are finished."""
        return self._streaming

    def say(self, kind: type[AgentMessageChunk] | type[AgentThoughtChunk], text: str) -> bool:
        """Send a text chunk, the hot path of every stream; whether the sender should give way now."""
        way = self._ways.get(kind)
        if way is None:
            way = self._ways[kind] = self._way(kind)
        self.transcript.say(kind, text)
        return way(text)

    def _way(self, kind: Any) -> Callable[[str], bool]:
        """How pieces of this kind are told to the client there is now."""
        connection = self.connection
        if not self._streaming:
            return partial(self._hold, kind)
        form = connection.form("session/update", self._chunk(kind, _GAP), _GAP)
        return partial(self._notify, kind) if form is None else partial(connection.outbox.fill, form)

    def _notify(self, kind: Any, text: str) -> bool:
        self.connection.notify("session/update", self._chunk(kind, text))
        return self.connection.outbox.should_wait

    def _hold(self, kind: Any, text: str) -> bool:
        if kind is not self._unsaid_kind:
            self.finish_message()
        self._unsaid_kind = kind
        self._unsaid.append(text)
        return False

    def finish_message(self) -> None:
        """Tell a message that was held back until it is whole; nothing happens where messages are streamed."""
        if self._unsaid:
            text = "".join(self._unsaid)
            self._unsaid.clear()
            self.connection.notify("session/update", self._chunk(self._unsaid_kind, text))

    def _chunk(self, kind: Any, text: str) -> UpdateParams:
        return UpdateParams(session_id=self.id, update=kind(content=TextContent(text=text)))

    def push(self, update: Any) -> None:
        """Send an update and keep it in the history; a kind that a client must ask for is sent to those who did."""
        self.finish_message()
        self.transcript.add(update)
        self._tell(update)

    def _tell(self, update: Any) -> None:
        heard = told(self.connection, update)
        if heard is not None:
            self.connection.notify("session/update", UpdateParams(session_id=self.id, update=heard))

    @property
    def should_wait(self) -> bool:
        """Whether the sender should let the client or the reader catch up."""
        return self.connection.outbox.should_wait

    async def flow_control(self) -> None:
        """Let the client or the reader catch up."""
        await self.connection.outbox.give_way()

    def replay(self) -> None:
        """Send the whole history again, in order."""
        for update in self.transcript:
            self._tell(update)

    # --- what it is set to ------------------------------------------------------------------------------------

    @property
    def mode(self) -> str | None:
        """The id of the mode it is in."""
        return self.modes.current_mode_id if self.modes else None

    def set_mode(self, mode_id: str, *, tell: bool = True) -> None:
        """Change the mode; a client that did not ask for it is told."""
        if self.modes is None:
            raise ProtocolError(Kind.CAPABILITY_UNSUPPORTED, "this agent has no modes", {"method": "session/set_mode"})
        if mode_id not in {mode.id for mode in self.modes.available_modes}:
            known = ", ".join(mode.id for mode in self.modes.available_modes)
            raise ProtocolError(Kind.INVALID_PARAMS, f"unknown mode {mode_id!r}; there are: {known}")
        self.modes.current_mode_id = mode_id
        if tell:
            self.tell_mode()

    def tell_mode(self, reason: str = "") -> None:
        """Tell the client which mode it is in; only some dialects have a word for the reason."""
        if self.modes is not None:
            meta: Any = {SIDE: {"reason": reason}} if reason else UNSET
            self.push(CurrentModeUpdate(current_mode_id=self.modes.current_mode_id, meta=meta))

    def option(self, config_id: str) -> Any:
        """The value of a config option; None when there is no such option."""
        for option in self.options:
            if option.id == config_id:
                return value_of(option)
        return None

    def set_option(self, config_id: str, value: Any, *, tell: bool = True) -> None:
        """Change a config option; unknown ids and values are refused, a free option takes any JSON value."""
        for index, option in enumerate(self.options):
            if option.id == config_id:
                self.options[index] = changed(option, value, in_words=not self._shows_switches)
                break
        else:
            known = ", ".join(option.id for option in self.options) or "none"
            raise ProtocolError(Kind.INVALID_PARAMS, f"unknown option {config_id!r}; there are: {known}")
        if tell:
            self.push(ConfigOptionUpdate(config_options=self.shown_options))

    @property
    def shown_options(self) -> list[SessionConfigOption]:
        """The options as the client can show them: switches are a choice of two where it knows no switches."""
        return list(self.options) if self._shows_switches else [as_choice(option) for option in self.options]

    def tell_commands(self) -> None:
        """Tell the client which commands there are; not a part of the history."""
        update = AvailableCommandsUpdate(available_commands=self.commands)
        self.connection.notify("session/update", UpdateParams(session_id=self.id, update=update))

    def set_title(self, title: str) -> None:
        """Name the session; a client that talks in it is told."""
        self.title = title
        update = SessionInfoUpdate(title=title, updated_at=self.updated_at)
        if self.is_bound:
            self.push(update)
        else:
            self.transcript.add(update)


def now() -> str:
    """The time as the protocol writes it."""
    return datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def new_id() -> str:
    """A random id, as sessions and terminals are called."""
    return str(uuid4())
