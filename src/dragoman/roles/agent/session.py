"""Session: one session of an agent, its settings, its history and the client it is bound to."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import partial
from itertools import count
from typing import TYPE_CHECKING, Any

import msgspec
from msgspec import UNSET

from dragoman.dialect.reshape import SIDE_DATA_KEY
from dragoman.dialect.session_table import switch_as_select
from dragoman.engine.connection import Connection
from dragoman.errors import Kind, ProtocolError
from dragoman.ids import now
from dragoman.roles.agent.author.arguments import check_text
from dragoman.roles.agent.client_files import ClientFiles
from dragoman.roles.agent.client_terminals import ClientTerminals
from dragoman.roles.agent.options import supports_switches, value_of, with_value
from dragoman.roles.agent.tools import SessionTools
from dragoman.schema import update as updates
from dragoman.schema.base import encode, to_json
from dragoman.schema.config import SessionConfigOption, SessionModeState
from dragoman.schema.content import TextContent
from dragoman.schema.mcp import McpServer
from dragoman.schema.methods import find_method
from dragoman.schema.plan import PlanItems
from dragoman.schema.side import Side
from dragoman.session.history import History
from dragoman.store.contract import EntryKind, Store
from dragoman.store.replay import decode_update
from dragoman.store.session_log import NO_LOG, QUESTION_BODIES, NoLog, SessionLog

if TYPE_CHECKING:
    from contextlib import AbstractAsyncContextManager

    from dragoman.roles.agent.turn import Turn
    from dragoman.roles.agent.work.background import Background
    from dragoman.roles.agent.work.cancel_scope import CancelScope


_session_numbers = count(1)

# Stands for the text in the template of a chunk's frame; it cannot occur elsewhere in the frame.
_TEXT_PLACEHOLDER = "\x00the text\x00"

# Some clients never answer unknown methods (docs/protocol/peers.md#vendor-methods), so requests to them time out.
# Seconds.
EXTENSION_TIMEOUT = 60.0

# Kinds of updates that need a client capability (docs/protocol/updates.md#gates).
GATES: dict[type, str] = {
    updates.Notice: "client.session.notices",
    updates.CompactionUpdate: "client.session.compaction",
    updates.CompactionSummaryChunk: "client.session.compaction",
    updates.PlanUpdate: "client.plan",
    updates.PlanRemoved: "client.plan",
    updates.SubagentUpdate: "client.subagents",
    updates.SessionMessage: "client.subagents",
    updates.SessionMessageChunk: "client.subagents",
}


# Kinds of updates that only v2 has; clients of other dialects get them in another form.
WIDE_UPDATES = frozenset(
    {
        updates.AgentMessage,
        updates.AgentThought,
        updates.UserMessage,
        updates.ToolCallContentChunk,
        updates.TerminalUpdate,
        updates.TerminalOutputChunk,
    }
)


def _unnamed_plan(update: updates.PlanUpdate) -> updates.Plan | None:
    return updates.Plan(entries=update.plan.entries) if isinstance(update.plan, PlanItems) else None


# Older forms for clients without the capability. Kinds that are not listed are not sent.
FALLBACKS: dict[type, Callable[[Any], Any]] = {
    updates.PlanUpdate: _unnamed_plan,
    updates.PlanRemoved: lambda _: updates.Plan(entries=[]),
}


def update_for_client(connection: Connection, update: Any) -> Any:
    """Return the update in the form that this client supports, or None."""
    kind = type(update)
    gate = GATES.get(kind)
    if gate is None or connection.offers(gate):
        return update
    fallback = FALLBACKS.get(kind)
    return fallback(update) if fallback is not None else None


class OrderedConnection:
    """A connection whose requests wait until earlier updates are stored and sent."""

    def __init__(self, connection: Connection, log: SessionLog) -> None:
        self._connection = connection
        self._log = log

    def __getattr__(self, name: str) -> Any:
        return getattr(self._connection, name)

    async def request(self, method: str, params: Any, **more: Any) -> Any:
        """Send a request after everything before it is stored."""
        await self._log.wait_stored()
        return await self._connection.request(method, params, **more)


class Session:
    """One session of an agent.

    It outlives the connection it was opened on: `session/load` and `session/resume` bind it to another client. `data`
    is free for the author's own data.
    """

    def __init__(
        self,
        id: str,
        cwd: str,
        *,
        directories: Sequence[str] = (),
        mcp_servers: Sequence[McpServer] = (),
        modes: SessionModeState | None = None,
        options: Sequence[SessionConfigOption] = (),
        commands: Sequence[updates.AvailableCommand] = (),
        streaming: bool = True,
        tools: Sequence[str] | None = None,
        store: Store | None = None,
    ) -> None:
        """With a `store`, every update and request is sent only after it is stored, in order."""
        self.id = id
        self._sequence_number = next(_session_numbers)  # increases with every session; session/list sorts by it
        self.cwd = cwd
        self.directories = list(directories)
        self.mcp_servers = list(mcp_servers)
        self.system_prompt = ""  # the client's system prompt
        self.overrides_system_prompt = False  # whether it replaces the agent's own instructions
        self.modes = modes
        self.options = list(options)
        self.commands = list(commands)
        self.announced_tools = None if tools is None else frozenset(tools)
        self.tools = SessionTools(self)  # of its MCP servers
        self.title: str | None = None
        self.archived = False
        self.updated_at = now()
        self.turn_count = 0
        self.turn: Turn | None = None
        self.history = History()
        self.data: dict[str, Any] = {}  # for the author
        self._open_questions = 0  # to the user, in the running turn
        self._cancel_scopes: dict[tuple[str, str], CancelScope] = {}  # what the client can cancel, by kind and id
        self._background: Background | None = None
        self.log: SessionLog | NoLog = NO_LOG if store is None else SessionLog(store, id)
        self._is_restored = True  # whether settings and history are loaded from the log
        self._logs_text = store is not None and streaming
        self._connection: Connection | None = None
        self._text_senders: dict[Any, Callable[[str], bool]] = {}  # a send function for each kind of chunk
        self._streaming = streaming
        self._buffered: list[str] = []  # the text of a message that is sent whole
        self._buffered_kind: Any = None
        self._supports_switches = True
        self._files: ClientFiles | None = None
        self._terminals: ClientTerminals | None = None

    # --- the client -------------------------------------------------------------------------------------------

    def _bind(self, connection: Connection) -> None:
        """Send to this client from now on."""
        self._connection = connection
        self._supports_switches = supports_switches(connection)
        self._files = self._terminals = None
        self._text_senders.clear()

    @property
    def is_bound(self) -> bool:
        """Whether the session has a client."""
        return self._connection is not None

    @property
    def connection(self) -> Connection:
        """The connection to the current client. Raises invalid_state if there is none."""
        if self._connection is None:
            raise ProtocolError(Kind.INVALID_STATE, f"session {self.id} is not open; load or resume it first")
        return self._connection

    @property
    def roots(self) -> list[str]:
        """The folders of the session, cwd first."""
        return [self.cwd, *self.directories]

    @property
    def files(self) -> ClientFiles:
        """The client's files, or local files if the client does not offer file access."""
        if self._files is None:
            self._files = ClientFiles(self._ordered_connection(), self.id, self.roots)
        return self._files

    @property
    def terminals(self) -> ClientTerminals:
        """The client's terminals, or local ones if the client does not offer terminals."""
        if self._terminals is None:
            self._terminals = ClientTerminals(self._ordered_connection(), self.id, self.roots)
        return self._terminals

    def _ordered_connection(self) -> Any:
        return self.connection if isinstance(self.log, NoLog) else OrderedConnection(self.connection, self.log)

    async def request(self, method: str, params: Any, *, timeout: float | None = None) -> Any:
        """Send a request to the client, after everything before. An extension method times out after
        EXTENSION_TIMEOUT by default.
        """
        if timeout is None and find_method(Side.CLIENT, method) is None:
            timeout = EXTENSION_TIMEOUT
        self._finish_message()
        log = self.log
        if method not in QUESTION_BODIES:
            await log.wait_stored()
            return await self.connection.request(method, params, timeout=timeout)
        await log.append_question(method, params)
        self._open_questions += 1
        try:
            result = await self.connection.request(method, params, timeout=timeout)
        finally:
            self._open_questions -= 1
        await log.append_decision(method, params, result)
        return result

    def notify(self, method: str, params: Any) -> None:
        """Send a notification to the client, after everything before."""
        self._finish_message()
        connection = self.connection
        self.log.call_after(lambda: connection.notify(method, params))

    # --- sending ----------------------------------------------------------------------------------------------

    @property
    def is_streaming(self) -> bool:
        """Whether messages are sent in chunks, or whole when they are finished."""
        return self._streaming

    def send_text(
        self,
        kind: type[updates.AgentMessageChunk] | type[updates.AgentThoughtChunk],
        text: str,
        is_stored: bool = False,
    ) -> bool:
        """Send a text chunk; return whether the caller should `drain`. This is the hot path of every stream."""
        if self._logs_text and not is_stored:
            update = kind(content=TextContent(text=text))
            self.log.append(EntryKind.UPDATE, update, then=lambda: self.send_text(kind, text, True))
            return self.should_wait
        send = self._text_senders.get(kind)
        if send is None:
            send = self._text_senders[kind] = self._text_sender(kind)
        self.history.add_text(kind, text)
        return send(text)

    def _text_sender(self, kind: Any) -> Callable[[str], bool]:
        """Return the function that sends chunks of this kind to the current client."""
        connection = self.connection
        if not self._streaming:
            return partial(self._buffer_text, kind)
        template = connection.sender.notification_template(
            "session/update", self._chunk_params(kind, _TEXT_PLACEHOLDER), _TEXT_PLACEHOLDER
        )
        if template is None:
            return partial(self._notify_text, kind)
        return partial(connection.sender.outbox.send_template, template)

    def _notify_text(self, kind: Any, text: str) -> bool:
        self.connection.notify("session/update", self._chunk_params(kind, text))
        return self.connection.sender.outbox.should_throttle

    def _buffer_text(self, kind: Any, text: str) -> bool:
        if kind is not self._buffered_kind:
            self._finish_message()
        self._buffered_kind = kind
        self._buffered.append(text)
        return False

    def _finish_message(self) -> None:
        """Send the buffered message, if messages are not streamed."""
        if self._buffered:
            update = self._buffered_kind(content=TextContent(text="".join(self._buffered)))
            self._buffered.clear()
            self.log.append(EntryKind.UPDATE, update, then=lambda: self._notify_update(update))

    def _chunk_params(self, kind: Any, text: str) -> updates.UpdateParams:
        return updates.UpdateParams(session_id=self.id, update=kind(content=TextContent(text=text)))

    def send_update(self, update: Any) -> None:
        """Send an update and add it to the history. A client without support gets the fallback or nothing."""
        if self._buffered:
            self._finish_message()
        if type(update) in WIDE_UPDATES:
            self._narrow_for_client(self.history)
        if self.log.store is None:
            self.history.add(update)
            self._notify_update(update)
            return
        raw = msgspec.Raw(encode(update))  # as it is now, even if the author changes the object later

        def deliver() -> None:
            stored = decode_update(raw) or update
            self.history.add(stored)
            self._notify_update(stored)

        self.log.append(EntryKind.UPDATE, raw, then=deliver)

    def _notify_update(self, update: Any) -> None:
        supported = update_for_client(self.connection, update)
        if supported is not None:
            self.connection.notify("session/update", updates.UpdateParams(session_id=self.id, update=supported))

    def _narrow_for_client(self, sent: Iterable[Any]) -> None:
        """Give a client that does not know v2 the updates that only v2 has in another form, from now on."""
        connection = self._connection
        if connection is not None and not connection.dialect.is_wide:
            connection.narrow_updates(sent=(self.id, sent))

    @property
    def should_wait(self) -> bool:
        """Whether the sender should `drain` now."""
        log = self.log
        return log.is_full or log.fault is not None or self.connection.sender.outbox.should_throttle

    async def drain(self) -> None:
        """Wait until the client and the store have caught up. Raises if the store failed."""
        if self.log.fault is not None:
            raise self.log.fault
        await self.log.wait_for_space()
        await self.connection.sender.outbox.throttle()

    def _replay(self) -> None:
        """Send the whole history, in order."""
        if any(type(update) in WIDE_UPDATES for update in self.history):
            self._narrow_for_client(())
        for update in self.history:
            self._notify_update(update)

    # --- work -------------------------------------------------------------------------------------------------

    @property
    def state(self) -> str:
        """What the session is doing: `running`, `requires_action` (it waits for the user) or `idle`."""
        from dragoman.roles.agent.work.background import state_of

        return state_of(self)

    def work(self) -> AbstractAsyncContextManager[Turn]:
        """Begin work without a prompt: `async with session.work() as turn: await turn.say("The build is green.")`."""
        from dragoman.roles.agent.work.background import own_work

        return own_work(self)

    @property
    def background(self) -> Background:
        """The work that goes on without a turn; `turn.run_in_background` adds to it."""
        if self._background is None:
            from dragoman.roles.agent.work.background import Background

            self._background = Background(self)
        return self._background

    # --- settings ---------------------------------------------------------------------------------------------

    @property
    def mode(self) -> str | None:
        """The id of the current mode, or None without modes."""
        return self.modes.current_mode_id if self.modes else None

    def set_mode(self, mode_id: str, *, notify: bool = True) -> None:
        """Change the mode and, with `notify`, tell the client."""
        if self.modes is None:
            raise ProtocolError(Kind.CAPABILITY_UNSUPPORTED, "this agent has no modes", {"method": "session/set_mode"})
        if mode_id not in {mode.id for mode in self.modes.available_modes}:
            known = ", ".join(mode.id for mode in self.modes.available_modes)
            raise ProtocolError(Kind.INVALID_PARAMS, f"unknown mode {mode_id!r}; available: {known}")
        self.modes.current_mode_id = mode_id
        if notify:
            self._send_mode()

    def _send_mode(self, reason: str = "") -> None:
        """Send the current mode to the client. Only some dialects can carry the reason."""
        self._clear_log_fault()
        if self.modes is not None:
            meta: Any = {SIDE_DATA_KEY: {"reason": reason}} if reason else UNSET
            self.send_update(updates.CurrentModeUpdate(current_mode_id=self.modes.current_mode_id, meta=meta))

    def get_option(self, config_id: str) -> Any:
        """Return the value of a config option, or None if there is no such option."""
        for option in self.options:
            if option.id == config_id:
                return value_of(option)
        return None

    def set_option(self, config_id: str, value: Any, *, notify: bool = True) -> None:
        """Change a config option. Unknown ids and values are rejected; a JSON option takes any JSON value."""
        for index, option in enumerate(self.options):
            if option.id == config_id:
                self.options[index] = with_value(option, value, accepts_boolean_text=not self._supports_switches)
                break
        else:
            known = ", ".join(option.id for option in self.options) or "none"
            raise ProtocolError(Kind.INVALID_PARAMS, f"unknown option {config_id!r}; available: {known}")
        if notify:
            self.send_update(updates.ConfigOptionUpdate(config_options=self._options_for_client))

    @property
    def _options_for_client(self) -> list[SessionConfigOption]:
        """The options for this client: a boolean becomes a choice of two if the client does not support booleans."""
        return list(self.options) if self._supports_switches else [switch_as_select(option) for option in self.options]

    @property
    def all_commands(self) -> list[updates.AvailableCommand]:
        """The slash commands of the agent, and the prompts of the session's MCP servers."""
        return [*self.commands, *self.tools.commands]

    def send_commands(self) -> None:
        """Send the available commands to the client. They are not part of the history."""
        update = updates.AvailableCommandsUpdate(available_commands=self.all_commands)
        self.connection.notify("session/update", updates.UpdateParams(session_id=self.id, update=update))

    def set_title(self, title: str) -> None:
        """Set the title and tell the client, if there is one."""
        check_text("the title of a session", title)
        self._clear_log_fault()
        self.title = title
        update = updates.SessionInfoUpdate(title=title, updated_at=self.updated_at)
        if self.is_bound:
            self.send_update(update)
        else:
            self.history.add(update)
            self.log.append(EntryKind.UPDATE, to_json(update), actor="user")

    # --- the log ----------------------------------------------------------------------------------------------

    def _clear_log_fault(self) -> None:
        """Try the store again between turns: a fault of an earlier turn must not fail a later change."""
        if self.turn is None:
            self.log.clear_fault()
