"""RemoteAgent: an agent as its client sees it. Made by `connect`."""

from __future__ import annotations

import os
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import Any

import msgspec
from msgspec import UNSET, UnsetType

from dragoman.dialect.side_data import mark_inferred, with_side_data
from dragoman.engine.connection import Connection
from dragoman.engine.incoming import DoneCallback, Handler, Incoming, make_handler
from dragoman.engine.text_run import TextRun
from dragoman.errors import ConnectionFailed, Kind, ProtocolError
from dragoman.roles.agent.options import value_of
from dragoman.roles.client.callbacks import UserCallbacks
from dragoman.roles.client.callbacks import choose_option as choose_option
from dragoman.roles.client.dial import ConnectedAgent, Dialer
from dragoman.roles.client.quirks import missing_file_is_empty
from dragoman.roles.client.session import ClientSession, SessionSettings
from dragoman.roles.client.terminal_login import LoginRunner, run_login
from dragoman.roles.client.workspace import WorkspaceAccess
from dragoman.schema.auth import (
    AuthenticateParams,
    AuthForm,
    AuthMethod,
    AuthStatusParams,
    AuthStatusResult,
    LogoutParams,
)
from dragoman.schema.content import TextContent
from dragoman.schema.initialize import AgentCapabilities, Implementation, InitializeParams, InitializeResult
from dragoman.schema.mcp import McpServer
from dragoman.schema.providers import DisableProviderParams, ListProvidersParams, ProviderInfo, SetProviderParams
from dragoman.schema.session import (
    CloseSessionParams,
    DeleteSessionParams,
    ForkSessionParams,
    ListSessionsParams,
    ListSessionsResult,
    LoadSessionParams,
    NewSessionParams,
    ResumeSessionParams,
    SessionInfo,
    SystemPrompt,
    SystemPromptMode,
)

# Updates of unknown sessions, kept until session/new is answered (docs/protocol/peers.md#early-updates).
MAX_EARLY_UPDATES = 1000


# The notification by which a host says which turn runs, and which one is ours (docs/rooms.md).
HOST_TURN_METHOD = "_dragoman/turn"


def _ignore_secrets(secrets: Iterable[str]) -> None:
    """Do nothing."""


class RemoteAgent:
    """An agent as its client sees it: its sessions, its login and its model providers.

    The calls about login status and providers are unstable in the official protocol. If the agent does not offer one,
    it raises capability_unsupported and sends nothing.
    """

    on_secrets: Callable[[Iterable[str]], None] = staticmethod(_ignore_secrets)  # gets credentials, to redact them

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
            # The agent must not do through a command what it may not do itself.
            self._workspace.sandbox = dialer.sandbox
        self._login_runner = terminal_login
        self._settings = msgspec.structs.replace(settings, renew=self._renew_session, release=self._release_session)
        self._sessions: dict[str, ClientSession] = {}
        self._early_updates: dict[str, deque[Any]] = {}
        self._closing = False
        self.separates_host_turns = True  # whether updates of other clients' turns in a host stay out of our turns
        self._connected: ConnectedAgent
        self._handlers: dict[str, Handler] = {
            "session/update": lambda incoming, _: self._on_update(incoming.params.session_id, incoming.params.update),
            **callbacks.handlers(self._sessions.get),
        }
        if self._workspace is not None:
            self._handlers.update(self._workspace.handlers())
        self._handlers.update({method: make_handler(function) for method, function in on.items()})

    def handle_host_turns(self) -> None:
        """Handle the host's turn notifications, and pass them on to a handler registered before."""
        previous = self._handlers.get(HOST_TURN_METHOD)

        def on_turn(incoming: Incoming, done: DoneCallback) -> Awaitable[None] | None:
            params = incoming.params if isinstance(incoming.params, dict) else {}
            session = self._sessions.get(str(params.get("sessionId")))
            if session is not None and self.separates_host_turns:
                session.note_host_turn(str(params.get("state")), str(params.get("turn")))
            if previous is not None:
                return previous(incoming, done)
            if incoming.is_request:
                done({}, None)
            return None

        self._handlers[HOST_TURN_METHOD] = on_turn

    async def start(self, params: InitializeParams) -> None:
        """Start the agent and send initialize. `connect` does this."""
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

    # --- the agent --------------------------------------------------------------------------------------------

    @property
    def connection(self) -> Connection:
        """The connection to the agent, for messages without a method here."""
        return self._connected.connection

    @property
    def dialect(self) -> str:
        """The name of the agent's dialect."""
        return self.connection.dialect.name

    @property
    def initialize_result(self) -> InitializeResult:
        """The agent's answer to initialize."""
        return self._connected.initialize_result

    @property
    def info(self) -> Implementation | None:
        """The agent's name and version, or None if it did not send them."""
        return self.initialize_result.agent_info or None

    @property
    def capabilities(self) -> AgentCapabilities:
        """The agent's capabilities."""
        return self.initialize_result.agent_capabilities or AgentCapabilities()

    # --- sessions ---------------------------------------------------------------------------------------------

    def find_session(self, session_id: str) -> ClientSession | None:
        """Return an open session by its id, or None."""
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
        """Open a new session in this folder, in this mode if the agent has it.

        A str as `system_prompt` is appended to the agent's own instructions; a SystemPrompt can replace them.
        """
        folder = os.path.abspath(cwd)
        sessions: list[ClientSession] = []

        def on_opened(connection: Connection, result: Any) -> None:
            sessions.append(
                self._create_session(result.session_id, folder, directories, result, connection, mcp_servers)
            )

        instructions = _build_system_prompt(system_prompt)
        self._check_system_prompt(instructions)
        await self._request_new_session(folder, mcp_servers, directories, mode, on_opened, instructions)
        session = sessions[0]
        if mode is not None and session.offers_mode(mode) and session.mode != mode:
            await session.set_mode(mode)
        return session

    def _check_system_prompt(self, prompt: SystemPrompt | UnsetType) -> None:
        """Raise if the agent would ignore the system prompt (docs/protocol/sessions.md#system-prompt).

        Some dialects can append without announcing it.
        """
        appends = self.connection.dialect.appends_system_prompt
        if isinstance(prompt, UnsetType) or (appends and prompt.mode == SystemPromptMode.APPEND):
            return
        gate = "agent.sessionCapabilities.systemPrompt"
        if prompt.mode != SystemPromptMode.APPEND:
            gate += f".mode.{prompt.mode}"
        if not self.connection.offers(gate):
            capability = gate.partition(".")[2]
            message = f"this agent does not support the system prompt mode {prompt.mode}"
            raise ProtocolError(Kind.CAPABILITY_UNSUPPORTED, message, {"capability": capability})

    async def _request_new_session(
        self,
        cwd: str,
        mcp_servers: Sequence[McpServer],
        directories: Sequence[str],
        mode: str | None,
        on_opened: Callable[[Connection, Any], None],
        system_prompt: Any = UNSET,
    ) -> None:
        """Open a session and register it at once, because the agent's next message may need it."""
        params = NewSessionParams(
            cwd=cwd,
            mcp_servers=list(mcp_servers),
            additional_directories=absolute_directories(directories),
            system_prompt=system_prompt,
        )
        dialect = self.connection.dialect
        if not dialect.is_native:
            params = omit_empty_servers(params)
        if mode is not None and dialect.opens_in_mode:
            params = with_side_data(params, initialMode=mode)
        connected = await self._dialer.agent_for_cwd(cwd)
        self._use_agent(connected)
        connection = connected.connection
        on_result = partial(on_opened, connection)
        await connection.request("session/new", params, timeout=self._settings.timeout, on_result=on_result)

    async def _renew_session(self, session: ClientSession) -> None:
        """Replace a session that the agent has lost by a new one with the same folder, mode and options."""
        before, mode = session.id, session.mode
        values = {option.id: value_of(option) for option in session.options}

        def on_opened(connection: Connection, result: Any) -> None:
            if self._sessions.get(session.id) is session:
                del self._sessions[session.id]
            session.connection, session.id = connection, result.session_id
            self._register_session(session, result)

        await self._request_new_session(session.cwd, session.mcp_servers, session.directories, mode, on_opened)
        await self._release_session(before)
        if mode is not None and session.offers_mode(mode) and session.mode != mode:
            await session.set_mode(mode)
        await self._restore_options(session, values)

    async def _restore_options(self, session: ClientSession, values: Mapping[str, Any]) -> None:
        """Set options to their former values; report those that the agent rejects."""
        for id, value in values.items():
            known = next((option for option in session.options if option.id == id), None)
            if known is None or value_of(known) == value:
                continue
            try:
                await session.set_option(id, value)
            except ProtocolError as error:
                self.connection.sender.report(f"the new session rejected {id} = {value!r}: {error.message}")

    async def _release_session(self, session_id: str) -> None:
        if self._workspace is not None:
            await self._workspace.end_session(session_id)

    async def load_session(
        self,
        session_id: str,
        cwd: str = ".",
        *,
        mcp_servers: Sequence[McpServer] = (),
        directories: Sequence[str] = (),
    ) -> ClientSession:
        """Open a stored session. Its history is in `transcript` (and went to `on_update`) when this returns."""
        params = omit_empty_servers(_build_params(LoadSessionParams, session_id, cwd, mcp_servers, directories))
        return await self._reopen_session("session/load", params, directories, mcp_servers)

    async def resume_session(
        self,
        session_id: str,
        cwd: str = ".",
        *,
        mcp_servers: Sequence[McpServer] = (),
        directories: Sequence[str] = (),
    ) -> ClientSession:
        """Open a stored session without replaying its history."""
        params = _build_params(ResumeSessionParams, session_id, cwd, mcp_servers, directories)
        return await self._reopen_session("session/resume", params, directories, mcp_servers)

    async def _reopen_session(
        self, method: str, params: Any, directories: Sequence[str], mcp_servers: Sequence[McpServer] = ()
    ) -> ClientSession:
        """Register the session first, because the history precedes the answer (docs/protocol/peers.md#replay). If the
        agent refuses, restore the state before (docs/protocol/peers.md#offered-but-missing).
        """
        self._use_agent(await self._dialer.agent_for_cwd(params.cwd))
        before = self._sessions.get(params.session_id)
        session = self._create_session(params.session_id, params.cwd, directories, None, self.connection, mcp_servers)
        try:
            session.apply_open_result(await self.request(method, params))
        except BaseException:
            if before is not None:
                self._sessions[params.session_id] = before
            else:
                del self._sessions[params.session_id]
            raise
        return session

    async def fork_session(
        self,
        session_id: str,
        cwd: str = ".",
        *,
        mcp_servers: Sequence[McpServer] = (),
        directories: Sequence[str] = (),
    ) -> ClientSession:
        """Open a new session with the history of another."""
        params = _build_params(ForkSessionParams, session_id, cwd, mcp_servers, directories)
        sessions: list[ClientSession] = []
        connection = self.connection

        def on_opened(result: Any) -> None:
            sessions.append(
                self._create_session(result.session_id, params.cwd, directories, result, connection, mcp_servers)
            )

        await connection.request("session/fork", params, timeout=self._settings.timeout, on_result=on_opened)
        return sessions[0]

    async def list_sessions(self, cwd: str | None = None, cursor: str | None = None) -> ListSessionsResult:
        """Return one page of the agent's sessions."""
        params = ListSessionsParams(cwd=cwd or UNSET, cursor=cursor or UNSET)
        return await self.request("session/list", params)  # type: ignore[no-any-return]

    async def iter_sessions(self, cwd: str | None = None) -> AsyncIterator[SessionInfo]:
        """Iterate over all of the agent's sessions: `async for info in agent.iter_sessions(): ...`."""
        cursor: str | None = None
        while True:
            page = await self.list_sessions(cwd, cursor)
            for info in page.sessions:
                yield info
            if not page.next_cursor or page.next_cursor == cursor:
                return
            cursor = page.next_cursor

    async def close_session(self, session_id: str) -> None:
        """Close a session: stop its work and release its resources."""
        await self._end_session("session/close", CloseSessionParams(session_id=session_id))

    async def delete_session(self, session_id: str) -> None:
        """Delete a stored session."""
        await self._end_session("session/delete", DeleteSessionParams(session_id=session_id))

    async def _end_session(self, method: str, params: Any) -> None:
        session = self._sessions.get(params.session_id)
        connection = self.connection if session is None else session.connection
        await connection.request(method, params, timeout=self._settings.timeout)
        if session is not None:
            self._sessions.pop(session.id, None)
            session.end()
        await self._release_session(params.session_id)

    # --- login and providers ----------------------------------------------------------------------------------

    async def authenticate(self, method_id: str, credentials: Mapping[str, str] | None = None) -> None:
        """Authenticate with one of the agent's methods. Some dialects carry credentials.

        A terminal method runs the `terminal_login` of `connect`. The agent is then restarted, and its open sessions are
        lost.
        """
        method = next((each for each in self.initialize_result.auth_methods or () if each.id == method_id), None)
        if method is not None and method.form == AuthForm.TERMINAL:
            await self._run_terminal_login(method)
            return
        self.on_secrets((credentials or {}).values())
        meta = {"dragoman": {"credentials": dict(credentials)}} if credentials else UNSET
        # No timeout: the user may be logging in with a browser.
        await self.connection.request("authenticate", AuthenticateParams(method_id=method_id, meta=meta))

    async def _run_terminal_login(self, method: AuthMethod) -> None:
        if self._login_runner is None:
            raise ProtocolError(
                Kind.CAPABILITY_UNSUPPORTED,
                f"{method.name} needs a terminal; pass terminal_login to connect, or log in with its own command",
                {"methodId": method.id},
            )
        await run_login(self._dialer.terminal_login(method), self._login_runner)
        self._use_agent(await self._dialer.restart())
        self._sessions.clear()

    async def logout(self) -> None:
        """Log out."""
        await self.request("logout", LogoutParams())

    async def auth_status(self) -> AuthStatusResult:
        """Return who is logged in. Changes arrive at `connect(on={"auth/status_update": ...})`."""
        return await self.request("auth/status", AuthStatusParams())  # type: ignore[no-any-return]

    async def list_providers(self) -> list[ProviderInfo]:
        """Return the agent's model providers with their current configuration."""
        return list((await self.request("providers/list", ListProvidersParams())).providers)

    async def set_provider(
        self, provider_id: str, *, api_type: str, base_url: str, headers: Mapping[str, str] | None = None
    ) -> None:
        """Replace the configuration of a model provider."""
        self.on_secrets((headers or {}).values())
        params = SetProviderParams(
            provider_id=provider_id, api_type=api_type, base_url=base_url, headers=dict(headers) if headers else UNSET
        )
        await self.request("providers/set", params)

    async def disable_provider(self, provider_id: str) -> None:
        """Disable a model provider."""
        await self.request("providers/disable", DisableProviderParams(provider_id=provider_id))

    # --- any message ------------------------------------------------------------------------------------------

    async def request(self, method: str, params: Any, *, timeout: float | None = None) -> Any:
        """Send a request: typed params and result for known methods, plain JSON for extensions."""
        limit = self._settings.timeout if timeout is None else timeout
        return await self.connection.request(method, params, timeout=limit)

    def notify(self, method: str, params: Any) -> None:
        """Send a notification to the agent."""
        self.connection.notify(method, params)

    async def close(self) -> None:
        """End the agent and everything it started."""
        if not self._closing:
            self._closing = True
            if self._workspace is not None:
                await self._workspace.close()
            await self._dialer.close()

    # --- messages of the agent --------------------------------------------------------------------------------

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
        session = self._sessions.get(session_id)
        if session is not None:
            return session.receive(update)
        if len(self._early_updates) < MAX_EARLY_UPDATES:
            self._early_updates.setdefault(session_id, deque(maxlen=MAX_EARLY_UPDATES)).append(update)
        return None

    def _on_update_run(self, run: TextRun) -> bool:
        session = self._sessions.get(run.session)
        return session is not None and session.receive_run(run.updates)

    def _session_roots(self, session_id: str) -> list[str]:
        session = self._sessions.get(session_id)
        if session is None:
            raise ProtocolError(
                Kind.SESSION_NOT_FOUND, f"there is no session {session_id!r}", {"sessionId": session_id}
            )
        return session.roots

    def _reject_unknown(self, incoming: Incoming, done: DoneCallback) -> Awaitable[None] | None:
        if incoming.is_request:
            kind = Kind.METHOD_NOT_FOUND if incoming.row is None else Kind.CAPABILITY_UNSUPPORTED
            message = f"this client does not support {incoming.method}"
            done(None, ProtocolError(kind, message, {"method": incoming.method}))
        return None

    def _on_connection_lost(self, connection: Connection, error: BaseException) -> None:
        """End the sessions of a lost connection. In 2025.1 each folder has its own process, so others go on."""
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


def omit_empty_servers(params: Any) -> Any:
    """Omit an empty list of MCP servers in dialects where it is optional; official v1 requires it."""
    return params if params.mcp_servers else mark_inferred(params, "mcpServers")


def absolute_directories(directories: Sequence[str]) -> Any:
    """Return absolute paths, or UNSET without directories."""
    return [os.path.abspath(path) for path in directories] or UNSET


def _build_params(
    kind: Callable[..., Any], session_id: str, cwd: str, mcp_servers: Sequence[McpServer], directories: Sequence[str]
) -> Any:
    return kind(
        session_id=session_id,
        cwd=os.path.abspath(cwd),
        mcp_servers=list(mcp_servers),
        additional_directories=absolute_directories(directories),
    )
