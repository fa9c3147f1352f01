"""An agent as its client sees it: sessions, authentication, and whatever else can be asked of it.

Made by `connect`. Updates go to the conversation they belong to; questions to whoever answers them, and uses of files
and terminals to what is lent. Below are the dial, which starts agents, and their connections.
"""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Awaitable, Callable, Mapping, Sequence
from functools import partial
from typing import Any

import msgspec
from msgspec import UNSET, UnsetType

from dragoman.dialect.side_data import with_side_data
from dragoman.engine.connection import Connection
from dragoman.engine.handler import Handler, make_handler
from dragoman.engine.incoming import Incoming
from dragoman.engine.pending import DoneCallback
from dragoman.engine.text_run import TextRun
from dragoman.errors import ConnectionFailed, Kind, ProtocolError
from dragoman.roles.agent.options import value_of
from dragoman.roles.client.archive import StoredSessionCalls, absolute_directories, omit_empty_servers
from dragoman.roles.client.callbacks import UserCallbacks
from dragoman.roles.client.callbacks import choose_option as choose_option
from dragoman.roles.client.dial import ConnectedAgent, Dialer
from dragoman.roles.client.quirks import missing_file_is_empty
from dragoman.roles.client.session import ClientSession, SessionSettings
from dragoman.roles.client.terminal_login import LoginRunner, run_login
from dragoman.roles.client.workspace import WorkspaceAccess
from dragoman.schema.auth import AuthenticateParams, AuthForm, AuthMethod
from dragoman.schema.content import TextContent
from dragoman.schema.initialize import AgentCapabilities, Implementation, InitializeParams, InitializeResult
from dragoman.schema.mcp import McpServer
from dragoman.schema.session import (
    NewSessionParams,
    SystemPrompt,
    SystemPromptMode,
)

# Dialects whose session/new names the mode; in the others it is set afterwards.
_OPENS_IN_MODE = frozenset({"2025.1", "draft"})

# Updates of sessions that nobody knows yet, kept until session/new is answered (peers.md 13).
MAX_EARLY_UPDATES = 1000


# By this a host tells which turn begins and ends, and which is one's own (docs/rooms.md).
HOST_TURN_METHOD = "_dragoman/turn"


class RemoteAgent(StoredSessionCalls):
    """An agent as its client sees it."""

    def __init__(
        self,
        dialer: Dialer,
        callbacks: UserCallbacks,
        *,
        workspace: WorkspaceAccess | None,
        on: Mapping[str, Callable[[Any], Any]],
        terminal_login: LoginRunner | None,
        settings: SessionSettings,
    ) -> None:
        self._dialer = dialer
        self._workspace = (
            None
            if workspace is None
            else workspace.for_agent(lambda: self.connection, self._session_roots, lambda: [*self._sessions])
        )
        if self._workspace is not None and self._workspace.sandbox is None:
            self._workspace.sandbox = (
                dialer.sandbox
            )  # what an agent may not do itself, it must not have done by a command
        self._login_runner = terminal_login
        self._settings = msgspec.structs.replace(settings, renew=self._renew_session, over=self._release_session)
        self._sessions: dict[str, ClientSession] = {}
        self._early_updates: dict[str, deque[Any]] = {}
        self._closing = False
        self.separates_host_turns = True  # whether what is said in others' turns in a host is kept out of our own
        self._connected: ConnectedAgent
        self._handlers: dict[str, Handler] = {
            "session/update": lambda incoming, _: self._on_update(incoming.params.session_id, incoming.params.update),
            **callbacks.handlers(self._sessions.get),
        }
        if self._workspace is not None:
            self._handlers.update(self._workspace.handlers())
        self._handlers.update({method: make_handler(function) for method, function in on.items()})

    def handle_host_turns(self) -> None:
        """Listen to a host that says whose turn runs; who listened to that before goes on hearing it."""
        heard = self._handlers.get(HOST_TURN_METHOD)

        def told(incoming: Incoming, done: DoneCallback) -> Awaitable[None] | None:
            said = incoming.params if isinstance(incoming.params, dict) else {}
            session = self._sessions.get(str(said.get("sessionId")))
            if session is not None and self.separates_host_turns:
                session.note_host_turn(str(said.get("state")), str(said.get("turn")))
            if heard is not None:
                return heard(incoming, done)
            if incoming.is_request:
                done({}, None)
            return None

        self._handlers[HOST_TURN_METHOD] = told

    async def start(self, params: InitializeParams) -> None:
        """Start it and introduce ourselves; `connect` does this."""
        self._use_agent(await self._dialer.start(params, self._handlers, self._reject_unknown))

    def _use_agent(self, connected: ConnectedAgent) -> None:
        self._connected = connected
        if self._workspace is not None:
            self._workspace.files.missing_file_is_empty = missing_file_is_empty(self.info)
        connection = connected.connection
        connection.on_close = lambda error: self._on_connection_lost(connection, error)
        connection.on_update = self._on_update
        connection.on_text_run = self._on_update_run
        if connection.failure is not None:
            self._on_connection_lost(connection, connection.failure)

    # --- what is known of it ----------------------------------------------------------------------------------

    @property
    def connection(self) -> Connection:
        """The connection to the agent, for what has no call of its own."""
        return self._connected.connection

    @property
    def dialect(self) -> str:
        """The name of the dialect it speaks."""
        speech = self.connection.codec
        return speech.dialect.name if speech else "v1"

    @property
    def initialize_result(self) -> InitializeResult:
        """What it answered to initialize."""
        return self._connected.initialize_result

    @property
    def info(self) -> Implementation | None:
        """Its name and version, if it told them."""
        return self.initialize_result.agent_info or None

    @property
    def capabilities(self) -> AgentCapabilities:
        """What it offers."""
        return self.initialize_result.agent_capabilities or AgentCapabilities()

    # --- sessions ---------------------------------------------------------------------------------------------

    def find_session(self, session_id: str) -> ClientSession | None:
        """An open session by its id."""
        return self._sessions.get(session_id)

    async def open_session(
        self,
        cwd: str = ".",
        *,
        mcp_servers: Sequence[McpServer] = (),
        directories: Sequence[str] = (),
        mode: str | None = None,
        system_prompt: str | SystemPrompt | None = None,
    ) -> ClientSession:
        """Open a new session in this folder; in a mode of the agent's, where it has such a mode.

        A text as `system_prompt` is added to the agent's own instructions; a SystemPrompt may take their place.
        """
        place = os.path.abspath(cwd)
        entered: list[ClientSession] = []

        def enter(connection: Connection, result: Any) -> None:
            entered.append(self._create_session(result.session_id, place, directories, result, connection, mcp_servers))

        instructions = _build_system_prompt(system_prompt)
        self._check_system_prompt(instructions)
        await self._request_new_session(place, mcp_servers, directories, mode, enter, instructions)
        session = entered[0]
        if mode is not None and session.offers_mode(mode) and session.mode != mode:
            await session.set_mode(mode)
        return session

    def _check_system_prompt(self, prompt: SystemPrompt | UnsetType) -> None:
        """A system prompt that would be lost on the way is refused here (reference 1.5); the draft can only append."""
        if isinstance(prompt, UnsetType) or (self.dialect == "draft" and prompt.mode == SystemPromptMode.APPEND):
            return
        gate = "agent.sessionCapabilities.systemPrompt"
        if prompt.mode != SystemPromptMode.APPEND:
            gate += f".mode.{prompt.mode}"
        if not self.connection.offers(gate):
            what = gate.partition(".")[2]
            message = f"this agent takes no system prompt that is to {prompt.mode}"
            raise ProtocolError(Kind.CAPABILITY_UNSUPPORTED, message, {"capability": what})

    async def _request_new_session(
        self,
        cwd: str,
        mcp_servers: Sequence[McpServer],
        directories: Sequence[str],
        mode: str | None,
        on_opened: Callable[[Connection, Any], None],
        system_prompt: Any = UNSET,
    ) -> None:
        """Ask for a session and enter it at once: the agent's next message may need it."""
        params = NewSessionParams(
            cwd=cwd,
            mcp_servers=list(mcp_servers),
            additional_directories=absolute_directories(directories),
            system_prompt=system_prompt,
        )
        if self.dialect != "v1":
            params = omit_empty_servers(params)
        if mode is not None and self.dialect in _OPENS_IN_MODE:
            params = with_side_data(params, initialMode=mode)
        dialled = await self._dialer.agent_for_cwd(cwd)
        self._use_agent(dialled)
        connection = dialled.connection
        first = partial(on_opened, connection)
        await connection.request("session/new", params, timeout=self._settings.timeout, on_result=first)

    async def _renew_session(self, session: ClientSession) -> None:
        """The agent forgot this session: it goes on under another id, in the same folder, mode and options."""
        before, mode = session.id, session.mode
        values = {option.id: value_of(option) for option in session.options}

        def enter(connection: Connection, result: Any) -> None:
            if self._sessions.get(session.id) is session:
                del self._sessions[session.id]
            session.connection, session.id = connection, result.session_id
            self._register_session(session, result)

        await self._request_new_session(session.cwd, session.mcp_servers, session.directories, mode, enter)
        await self._release_session(before)
        if mode is not None and session.offers_mode(mode) and session.mode != mode:
            await session.set_mode(mode)
        await self._restore_options(session, values)

    async def _restore_options(self, session: ClientSession, values: Mapping[str, Any]) -> None:
        """Set options to what they were; one that the agent does not take any more is no reason to give up."""
        for id, value in values.items():
            known = next((option for option in session.options if option.id == id), None)
            if known is None or value_of(known) == value:
                continue
            try:
                await session.set_option(id, value)
            except ProtocolError as error:
                self.connection.report(f"the new session did not take {id} = {value!r}: {error.message}")

    async def _release_session(self, session_id: str) -> None:
        if self._workspace is not None:
            await self._workspace.end_session(session_id)

    async def authenticate(self, method_id: str, credentials: Mapping[str, str] | None = None) -> None:
        """Authenticate by one of the methods the agent offers; some dialects take credentials along.

        A method of the terminal kind is run by `sign_in` (see connect); the agent is then started again, and sessions
        that were open are gone.
        """
        method = next((one for one in self.initialize_result.auth_methods or () if one.id == method_id), None)
        if method is not None and method.form == AuthForm.TERMINAL:
            await self._run_terminal_login(method)
            return
        self.on_secrets((credentials or {}).values())
        meta = {"dragoman": {"credentials": dict(credentials)}} if credentials else UNSET
        # People take their time, in a browser say: no limit here.
        await self.connection.request("authenticate", AuthenticateParams(method_id=method_id, meta=meta))

    async def _run_terminal_login(self, method: AuthMethod) -> None:
        if self._login_runner is None:
            raise ProtocolError(
                Kind.CAPABILITY_UNSUPPORTED,
                f"{method.name}: this agent lets one sign in in a terminal, and this client has none to show",
                {"methodId": method.id},
            )
        await run_login(self._dialer.terminal_login(method), self._login_runner)
        self._use_agent(await self._dialer.restart())
        self._sessions.clear()

    async def request(self, method: str, params: Any, *, timeout: float | None = None) -> Any:
        """Ask the agent anything; typed params and results for known methods, plain JSON for extensions."""
        limit = self._settings.timeout if timeout is None else timeout
        return await self.connection.request(method, params, timeout=limit)

    def notify(self, method: str, params: Any) -> None:
        """Tell the agent anything."""
        self.connection.notify(method, params)

    async def close(self) -> None:
        """End the agent and everything it started."""
        if not self._closing:
            self._closing = True
            if self._workspace is not None:
                await self._workspace.close()
            await self._dialer.close()

    # --- what it says -----------------------------------------------------------------------------------------

    def _create_session(
        self,
        session_id: str,
        cwd: str,
        directories: Sequence[str],
        result: Any,
        connection: Connection,
        mcp_servers: Sequence[McpServer] = (),
    ) -> ClientSession:
        session = ClientSession(connection, session_id, cwd, directories, mcp_servers, settings=self._settings)
        self._register_session(session, result)
        return session

    def _register_session(self, session: ClientSession, result: Any) -> None:
        self._sessions[session.id] = session
        if result is not None:
            session.apply_open_result(result)
        for update in self._early_updates.pop(session.id, ()):
            session.receive(update)

    def _on_update(self, session_id: str, update: Any) -> Awaitable[None] | None:
        conversation = self._sessions.get(session_id)
        if conversation is not None:
            return conversation.receive(update)
        if len(self._early_updates) < MAX_EARLY_UPDATES:
            self._early_updates.setdefault(session_id, deque(maxlen=MAX_EARLY_UPDATES)).append(update)
        return None

    def _on_update_run(self, run: TextRun) -> bool:
        conversation = self._sessions.get(run.session)
        return conversation is not None and conversation.receive_run(run.updates)

    def _session_roots(self, session_id: str) -> list[str]:
        conversation = self._sessions.get(session_id)
        if conversation is None:
            raise ProtocolError(
                Kind.SESSION_NOT_FOUND, f"there is no session {session_id!r}", {"sessionId": session_id}
            )
        return conversation.roots

    def _reject_unknown(self, incoming: Incoming, done: DoneCallback) -> Awaitable[None] | None:
        if incoming.is_request:
            kind = Kind.METHOD_NOT_FOUND if incoming.row is None else Kind.CAPABILITY_UNSUPPORTED
            what = f"this client does not serve {incoming.method}"
            done(None, ProtocolError(kind, what, {"method": incoming.method}))
        return None

    def _on_connection_lost(self, connection: Connection, error: BaseException) -> None:
        """A process is gone, and with it its sessions; those of others (2025.1 has one for each folder) live on."""
        reason = error if isinstance(error, ConnectionFailed) else ConnectionFailed(str(error))
        for session in self._sessions.values():
            if session.connection is connection:
                session.on_agent_lost(reason)
        if self._workspace is not None and connection is self.connection:
            self._workspace.on_agent_lost()


def _build_system_prompt(prompt: str | SystemPrompt | None) -> Any:
    if not isinstance(prompt, str):
        return UNSET if prompt is None else prompt
    return SystemPrompt(mode=SystemPromptMode.APPEND, content=[TextContent(text=prompt)])
