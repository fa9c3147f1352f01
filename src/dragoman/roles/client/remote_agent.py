"""RemoteAgent: an agent as its client sees it. Made by `connect`."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from functools import partial
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, TypeVar

from msgspec import UNSET, structs

from dragoman.dialect.side_data import with_side_data
from dragoman.engine.codec import decode_as
from dragoman.engine.connection import Connection
from dragoman.engine.incoming import DoneCallback, Handler, Incoming, make_handler
from dragoman.errors import Kind, ProtocolError
from dragoman.roles.client.callbacks import LoginRunner, UserCallbacks, run_login
from dragoman.roles.client.caller_errors import check_loop
from dragoman.roles.client.dial import ConnectedAgent, Dialer
from dragoman.roles.client.offers import Declaration, Functions, ToolOffers
from dragoman.roles.client.open_sessions import OpenSessions, open_params
from dragoman.roles.client.session import ClientSession
from dragoman.roles.client.session_settings import SessionSettings
from dragoman.roles.client.workspace import AgentWorkspace, WorkspaceAccess
from dragoman.roles.client.workspace_calls import missing_file_is_empty
from dragoman.schema import auth
from dragoman.schema import session as types
from dragoman.schema.content import TextContent
from dragoman.schema.initialize import AgentCapabilities, Implementation, InitializeParams, InitializeResult
from dragoman.schema.mcp import McpServer
from dragoman.schema.providers import DisableProviderParams, ListProvidersParams, ProviderInfo, SetProviderParams
from dragoman.schema.update import UpdateParams

if TYPE_CHECKING:
    from dragoman.mcp.connection import ServerConnection
    from dragoman.mcp.over_acp import AcpChannel
    from dragoman.roles.client.logged_sessions import ContinuedSession, LogSettings

P = TypeVar("P")

# The notification by which a host says which turn runs, and which one is ours (docs/rooms.md).
HOST_TURN_METHOD = "_dragoman/turn"


class RemoteAgent:
    """An agent as its client sees it: its sessions, its login and its model providers.

    The calls about login status and providers are unstable in the official protocol. If the agent does not offer one,
    it raises capability_unsupported and sends nothing.
    """

    def __init__(
        self,
        dialer: Dialer,
        callbacks: UserCallbacks,
        workspace: WorkspaceAccess | None = None,
        on: Mapping[str, Callable[[Any], Any]] = MappingProxyType({}),
        terminal_login: LoginRunner | None = None,
        settings: SessionSettings = SessionSettings(),  # noqa: B008  (immutable)
        log: LogSettings | None = None,
        fallback: Handler | None = None,
        tools: Functions = (),
    ) -> None:
        """`log` says how sessions are logged, `fallback` handles methods that nothing else handles."""
        self.on_secrets: Callable[[Iterable[str]], None] = lambda secrets: None  # gets credentials, to redact them
        self._dialer = dialer
        self._login_runner = terminal_login
        self._connected: ConnectedAgent
        self._closing = False
        self.separates_host_turns = True  # whether updates of other clients' turns in a host stay out of our turns
        if workspace is not None and workspace.observer is not None:
            settings = structs.replace(settings, held_updates=self._held_updates)
        self._settings = settings
        self._sessions = sessions = OpenSessions(self, settings)
        self._handlers: dict[str, Handler] = {
            "session/update": lambda incoming, _: sessions.receive(incoming.params.session_id, incoming.params.update),
            **callbacks.handlers(self.find_session),
        }
        self._fallback = fallback or self._reject_unknown
        self._workspace: AgentWorkspace | None = None
        if workspace is not None:
            self._workspace = workspace.for_agent(
                lambda: self.connection, sessions.roots, lambda: [*sessions.by_id], self.find_session, self._own_name
            )
            # The agent must not do through a command what it may not do itself.
            self._workspace.sandbox = self._workspace.sandbox or dialer.sandbox
            self._handlers.update(self._workspace.handlers())
        self._offers = ToolOffers(tools, lambda: self.connection)
        self._offers.on_secrets = lambda values: self.on_secrets(values)
        if fallback is None:  # a host refuses MCP over ACP for its rooms, with a reason
            self._handlers.update(self._offers.handlers())
        self._handlers.update({method: make_handler(function) for method, function in on.items()})
        if log is not None:
            from dragoman.roles.client.logged_sessions import SessionLogs, with_use_logging

            sessions.logs = SessionLogs(self, log)
            self._handlers.update(with_use_logging(self._handlers, self.find_session))
        if self._workspace is not None:
            self._handlers = dict(self._workspace.observe(self._handlers, self._deliver_update))
            self._offers.tables = self._workspace.tool_tables(self._handlers)
            self._offers.over_acp = fallback is None

    def _held_updates(self, session_id: str) -> asyncio.Future[None] | None:
        return None if self._workspace is None else self._workspace.held_updates(session_id)

    def __repr__(self) -> str:
        return f"<RemoteAgent {self._own_name() if hasattr(self, '_connected') else 'not connected'}>"

    def _own_name(self) -> str:
        return self.info.name if self.info is not None else ""

    def _deliver_update(self, session_id: str, update: dict[str, Any]) -> Awaitable[None] | None:
        """Deliver an update, as JSON, as if the agent had sent it."""
        params = decode_as(UpdateParams, {"sessionId": session_id, "update": update})
        return self._sessions.receive(session_id, params.update)

    def _handle_host_turns(self) -> None:
        """Handle the host's turn notifications, and pass them on to a handler registered before."""
        previous = self._handlers.get(HOST_TURN_METHOD)

        def on_turn(incoming: Incoming, done: DoneCallback) -> Awaitable[None] | None:
            params = incoming.params if isinstance(incoming.params, dict) else {}
            session = self.find_session(str(params.get("sessionId")))
            if session is not None and self.separates_host_turns:
                session._note_host_turn(str(params.get("state")), str(params.get("turn")))
            if previous is not None:
                return previous(incoming, done)
            if incoming.is_request:
                done({}, None)
            return None

        self._handlers[HOST_TURN_METHOD] = on_turn

    async def start(self, params: InitializeParams) -> None:
        """Start the agent and send initialize. `connect` does this."""
        await self._offers.start()
        self._use_agent(await self._dialer.start(params, self._handlers, self._fallback))

    def _use_agent(self, connected: ConnectedAgent) -> None:
        self._connected = connected
        if self._workspace is not None:
            self._workspace.files.missing_file_is_empty = missing_file_is_empty(self.info)
        connection = connected.connection
        connection.on_close = lambda error: self._on_connection_lost(connection, error)
        connection.on_update = self._sessions.receive
        connection.on_text_run = self._sessions.receive_run
        if (logs := self._sessions.logs) is not None:
            connection.sender.on_translation_note = partial(logs.note_translation_loss, connection)
        if connection.failure is not None:
            self._on_connection_lost(connection, connection.failure)

    async def _declare_tools(self, params: P, connection: Connection) -> Declaration[P]:
        """Return the params that open a session, with `tools` and the tools of the workspace as MCP servers."""
        return await self._offers.declare(params, connection)

    def mcp_server(self, name: str) -> AbstractAsyncContextManager[ServerConnection]:
        """Connect to an MCP server that the agent hosts: `async with agent.mcp_server("notes") as server:`."""
        return self._offers.open_hosted(name)

    def hosted_channel(self, name: str) -> AcpChannel:
        """Return the channel to an MCP server that the agent hosts, for an MCP client of your own."""
        return self._offers.hosted_channel(name)

    async def _connection_for_cwd(self, cwd: str) -> Connection:
        """Return the connection for sessions in this folder: in 2025.1 each folder has its own process."""
        self._use_agent(await self._dialer.agent_for_cwd(cwd))
        return self.connection

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
        return self._sessions.by_id.get(session_id)

    async def open_session(
        self,
        cwd: str = ".",
        *,
        mcp_servers: Sequence[McpServer] = (),
        directories: Sequence[str] = (),
        mode: str | None = None,
        system_prompt: str | types.SystemPrompt | None = None,
        log_id: str | None = None,
        place: str = "",
    ) -> ClientSession:
        """Open a new session in this folder, in this mode if the agent has it.

        `place` is for a host that is a node of a fleet: `git:URL#BRANCH` instead of the folder.

        A str as `system_prompt` is appended to the agent's own instructions; a SystemPrompt can replace them. With a
        store, the log has begun when this returns; `log_id` names it.
        """
        params = open_params(types.NewSessionParams, cwd, mcp_servers, directories)
        if system_prompt is not None:
            params.system_prompt = self._checked_system_prompt(system_prompt)
        if place:
            params = with_side_data(params, place=place)
        return await self._finish_opening(self._sessions.open(params, mode, log_id))

    def _checked_system_prompt(self, prompt: str | types.SystemPrompt) -> types.SystemPrompt:
        """Return the system prompt. Raise if the agent would ignore it (docs/protocol/sessions.md#system-prompt).

        Some dialects can append without announcing it.
        """
        if isinstance(prompt, str):
            prompt = types.SystemPrompt(mode=types.SystemPromptMode.APPEND, content=[TextContent(text=prompt)])
        if self.connection.dialect.appends_system_prompt and prompt.mode == types.SystemPromptMode.APPEND:
            return prompt
        gate = "agent.sessionCapabilities.systemPrompt"
        if prompt.mode != types.SystemPromptMode.APPEND:
            gate += f".mode.{prompt.mode}"
        if not self.connection.offers(gate):
            capability = gate.partition(".")[2]
            message = f"this agent does not support the system prompt mode {prompt.mode}"
            raise ProtocolError(Kind.CAPABILITY_UNSUPPORTED, message, {"capability": capability})
        return prompt

    async def _release_session(self, session_id: str) -> None:
        """End the watches, terminals and tools of a session."""
        if self._workspace is not None:
            await self._workspace.end_session(session_id)
        await self._offers.end_session(session_id)

    async def load_session(
        self, session_id: str, cwd: str = ".", *, mcp_servers: Sequence[McpServer] = (), directories: Sequence[str] = ()
    ) -> ClientSession:
        """Open a stored session. Its history is in `transcript` (and went to `on_update`) when this returns."""
        params = open_params(types.LoadSessionParams, cwd, mcp_servers, directories, session_id=session_id)
        return await self._reopen_session("session/load", params)

    async def resume_session(
        self,
        session_id: str,
        cwd: str = ".",
        *,
        mcp_servers: Sequence[McpServer] = (),
        directories: Sequence[str] = (),
        cursor: int | None = None,
    ) -> ClientSession:
        """Open a stored session without replaying its history; on a host, with what came after the entry `cursor`."""
        params = open_params(types.ResumeSessionParams, cwd, mcp_servers, directories, session_id=session_id)
        if cursor is not None:
            params = with_side_data(params, cursor=cursor)
        return await self._reopen_session("session/resume", params)

    async def _reopen_session(
        self, method: str, params: types.LoadSessionParams | types.ResumeSessionParams, log_id: str | None = None
    ) -> ClientSession:
        """Open a stored session with these params. `log_id` is its log, if that is known."""
        if log_id is None:
            log_id = await self._find_log_id(params.session_id)
        return await self._finish_opening(self._sessions.reopen(method, params, log_id))

    async def _finish_opening(self, opening: Awaitable[ClientSession]) -> ClientSession:
        logs = self._sessions.logs
        return await (opening if logs is None else logs.finish_opening(opening))

    async def _find_log_id(self, session_id: str) -> str | None:
        logs = self._sessions.logs
        return None if logs is None else await logs.find_log_id(session_id)

    async def fork_session(
        self,
        session_id: str,
        cwd: str = ".",
        *,
        mcp_servers: Sequence[McpServer] = (),
        directories: Sequence[str] = (),
    ) -> ClientSession:
        """Open a new session with the history of another; its log starts with the other log."""
        params = open_params(types.ForkSessionParams, cwd, mcp_servers, directories, session_id=session_id)
        origin = await self._find_log_id(session_id)
        return await self._finish_opening(self._sessions.fork(params, origin))

    async def continue_session(
        self,
        log_id: str,
        cwd: str | None = None,
        *,
        mcp_servers: Sequence[McpServer] = (),
        directories: Sequence[str] = (),
        restore_setup: bool = True,
    ) -> ContinuedSession:
        """Continue a logged session, by its name or id: resume or load it, or else open a new one with the transcript.

        It gets the MCP servers and folders it had, unless others are given or `restore_setup` is False. Imported
        entries do not count for this: a file must not decide what is started and read here.
        """
        logs = self._sessions.logs
        if logs is None:
            message = "only an agent with a store has logged sessions; pass store to connect"
            raise ProtocolError(Kind.INVALID_STATE, message)
        return await logs.continue_session(log_id, cwd, mcp_servers, directories, restore_setup)

    async def list_sessions(self, cwd: str | None = None, cursor: str | None = None) -> types.ListSessionsResult:
        """Return one page of the agent's sessions."""
        params = types.ListSessionsParams(cwd=cwd or UNSET, cursor=cursor or UNSET)
        return await self.request("session/list", params)  # type: ignore[no-any-return]

    async def iter_sessions(self, cwd: str | None = None) -> AsyncIterator[types.SessionInfo]:
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
        await self._end_session("session/close", types.CloseSessionParams(session_id=session_id))

    async def delete_session(self, session_id: str) -> None:
        """Delete a stored session."""
        await self._end_session("session/delete", types.DeleteSessionParams(session_id=session_id))

    async def _end_session(self, method: str, params: Any) -> None:
        session = self.find_session(params.session_id)
        connection = self.connection if session is None else session.connection
        check_loop(connection)
        await connection.request(method, params, timeout=self._settings.timeout)
        if session is not None:
            self._sessions.by_id.pop(session.id, None)
            session._end()
        await self._release_session(params.session_id)

    # --- login and providers ----------------------------------------------------------------------------------

    async def authenticate(self, method_id: str, credentials: Mapping[str, str] | None = None) -> None:
        """Authenticate with one of the agent's methods. Some dialects carry credentials.

        A terminal method runs the `terminal_login` of `connect`. The agent is then restarted, and its open sessions are
        lost.
        """
        method = next((each for each in self.initialize_result.auth_methods or () if each.id == method_id), None)
        if method is not None and method.form == auth.AuthForm.TERMINAL:
            await self._run_terminal_login(method)
            return
        self.on_secrets((credentials or {}).values())
        meta = {"dragoman": {"credentials": dict(credentials)}} if credentials else UNSET
        # No timeout: the user may be logging in with a browser.
        await self.connection.request("authenticate", auth.AuthenticateParams(method_id=method_id, meta=meta))

    async def _run_terminal_login(self, method: auth.AuthMethod) -> None:
        if self._login_runner is None:
            raise ProtocolError(
                Kind.CAPABILITY_UNSUPPORTED,
                f"{method.name} needs a terminal; pass terminal_login to connect, or log in with its own command",
                {"methodId": method.id},
            )
        await run_login(self._dialer.terminal_login(method), self._login_runner)
        self._use_agent(await self._dialer.restart())
        self._sessions.by_id.clear()

    async def logout(self) -> None:
        """Log out."""
        await self.request("logout", auth.LogoutParams())

    async def auth_status(self) -> auth.AuthStatusResult:
        """Return who is logged in. Changes arrive at `connect(on={"auth/status_update": ...})`."""
        return await self.request("auth/status", auth.AuthStatusParams())  # type: ignore[no-any-return]

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
        check_loop(self.connection)
        limit = self._settings.timeout if timeout is None else timeout
        return await self.connection.request(method, params, timeout=limit)

    def notify(self, method: str, params: Any) -> None:
        """Send a notification to the agent."""
        self.connection.notify(method, params)

    async def close(self) -> None:
        """End the agent and everything it started, after everything is logged."""
        if not self._closing:
            self._closing = True
            if self._sessions.logs is not None:
                await self._sessions.logs.close()
            await self._offers.close()
            if self._workspace is not None:
                await self._workspace.close()
            await self._dialer.close()

    # --- messages of the agent --------------------------------------------------------------------------------

    def _reject_unknown(self, incoming: Incoming, done: DoneCallback) -> Awaitable[None] | None:
        if incoming.is_request:
            kind = Kind.METHOD_NOT_FOUND if incoming.row is None else Kind.CAPABILITY_UNSUPPORTED
            message = f"this client does not support {incoming.method}"
            done(None, ProtocolError(kind, message, {"method": incoming.method}))
        return None

    def _on_connection_lost(self, connection: Connection, error: BaseException) -> None:
        self._sessions.on_connection_lost(connection, error)
        if self._workspace is not None and connection is self.connection:
            self._workspace.on_agent_lost()
