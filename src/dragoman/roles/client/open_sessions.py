"""The open sessions of a RemoteAgent: open and find them, and pass the agent's messages on to them."""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

import msgspec
from msgspec import UNSET

from dragoman.dialect.side_data import mark_inferred, with_side_data
from dragoman.engine.connection import Connection
from dragoman.engine.text_run import TextRun
from dragoman.errors import ConnectionFailed, Kind, ProtocolError
from dragoman.roles.agent.options import value_of
from dragoman.roles.client.caller_errors import check_folder, check_loop, check_servers, check_session_id
from dragoman.roles.client.session import ClientSession
from dragoman.roles.client.session_settings import SessionSettings
from dragoman.schema.mcp import McpServer
from dragoman.schema.session import ForkSessionParams, LoadSessionParams, NewSessionParams, ResumeSessionParams

if TYPE_CHECKING:
    from dragoman.roles.client.logged_sessions import SessionLogs
    from dragoman.roles.client.remote_agent import RemoteAgent

# Updates of unknown sessions, kept until session/new is answered (docs/protocol/peers.md#early-updates).
MAX_EARLY_UPDATES = 1000

T = TypeVar("T")


def open_params(
    kind: Callable[..., T], cwd: str, mcp_servers: Sequence[McpServer], directories: Sequence[str], **more: Any
) -> T:
    """Return the params of a method that opens a session, with absolute paths and complete MCP servers.

    A list that the caller left out of a server is empty; a dialect that does not require it leaves it out too.
    """
    check_servers(mcp_servers)
    check_folder("cwd", cwd)
    params = kind(
        cwd=os.path.abspath(cwd),
        mcp_servers=[_complete_server(server) for server in mcp_servers],
        additional_directories=[os.path.abspath(path) for path in directories] or UNSET,
        **more,
    )
    check_session_id(getattr(params, "session_id", ""))
    return params


def _complete_server(server: McpServer) -> McpServer:
    absent = server.absent_lists
    if not absent:
        return server
    whole = msgspec.structs.replace(server, **{name: [] for name in absent})
    return mark_inferred(whole, *absent)  # type: ignore[no-any-return]


class OpenSessions:
    """The open sessions of one agent, by id."""

    logs: SessionLogs | None = None  # of an agent with a store

    def __init__(self, agent: RemoteAgent, settings: SessionSettings) -> None:
        self._agent = agent
        self._settings = msgspec.structs.replace(settings, renew=self.renew, release=agent._release_session)
        self.by_id: dict[str, ClientSession] = {}
        self._early_updates: dict[str, deque[Any]] = {}

    # --- opening ----------------------------------------------------------------------------------------------

    async def open(self, params: NewSessionParams, mode: str | None, log_id: str | None = None) -> ClientSession:
        """Open a new session, in this mode if the agent has it. `log_id` is the log to begin or continue."""
        sessions: list[ClientSession] = []

        def on_opened(connection: Connection, result: Any) -> None:
            sessions.append(self._create(result.session_id, "session/new", params, connection, log_id))
            self._add_opened(sessions[0], result)

        await self._request_new(params, mode, on_opened)
        await _switch_mode(sessions[0], mode)
        return sessions[0]

    async def _request_new(
        self, params: NewSessionParams, mode: str | None, on_opened: Callable[[Connection, Any], None]
    ) -> None:
        """Send session/new. `on_opened` adds the session at once, because the agent's next message may need it."""
        check_loop(self._agent.connection)
        dialect = self._agent.connection.dialect
        if not dialect.is_native:
            params = _omit_empty_servers(params)
        if mode is not None and dialect.opens_in_mode:
            params = with_side_data(params, initialMode=mode)
        connection = await self._agent._connection_for_cwd(params.cwd)
        await self._request_open("session/new", params, connection, lambda result: on_opened(connection, result))

    async def _request_open(
        self, method: str, params: Any, connection: Connection, on_opened: Callable[[Any], None]
    ) -> None:
        """Send a request that opens a session of a new id, with the tools that it gets."""
        tools = await self._agent._declare_tools(params, connection)

        def on_result(result: Any) -> None:
            tools.bind(result.session_id)
            on_opened(result)

        try:
            await connection.request(method, tools.params, timeout=self._settings.timeout, on_result=on_result)
        except BaseException:
            await tools.withdraw()
            raise

    async def renew(self, session: ClientSession) -> None:
        """Replace a session that the agent has lost by a new one with the same folder, mode and options."""
        before, mode = session.id, session.mode
        values = {option.id: value_of(option) for option in session.options}

        def on_opened(connection: Connection, result: Any) -> None:
            if self.by_id.get(session.id) is session:
                del self.by_id[session.id]
            session.connection, session.id = connection, result.session_id
            self._add_opened(session, result)

        params = open_params(NewSessionParams, session.cwd, session.mcp_servers, session.directories)
        await self._request_new(params, mode, on_opened)
        await self._agent._release_session(before)
        await _switch_mode(session, mode)
        for id, value in values.items():
            known = next((option for option in session.options if option.id == id), None)
            if known is None or value_of(known) == value:
                continue
            try:
                await session.set_option(id, value)
            except ProtocolError as error:
                session.connection.sender.report(f"the new session rejected {id} = {value!r}: {error.message}")

    async def fork(self, params: ForkSessionParams, origin: str | None) -> ClientSession:
        """Open a session with the history of another, whose log is `origin`."""
        sessions: list[ClientSession] = []
        connection = self._agent.connection
        check_loop(connection)

        def on_opened(result: Any) -> None:
            sessions.append(self._create(result.session_id, "session/fork", params, connection, origin=origin))
            self._add_opened(sessions[0], result)

        await self._request_open("session/fork", params, connection, on_opened)
        return sessions[0]

    async def reopen(
        self, method: str, params: LoadSessionParams | ResumeSessionParams, log_id: str | None
    ) -> ClientSession:
        """Open a stored session.

        Add it first, because the history precedes the answer (docs/protocol/peers.md#replay). If the agent refuses,
        restore the state before (docs/protocol/peers.md#offered-but-missing).
        """
        check_loop(self._agent.connection)
        if isinstance(params, LoadSessionParams):
            params = _omit_empty_servers(params)
        connection = await self._agent._connection_for_cwd(params.cwd)
        tools = await self._agent._declare_tools(params, self._agent.connection)
        before = self.by_id.get(params.session_id)
        session = self._create(params.session_id, method, params, connection, log_id)
        self.by_id[session.id] = session
        self._deliver_early_updates(session)
        try:
            self._apply_open_result(session, await self._agent.request(method, tools.params))
            tools.bind(session.id)
        except BaseException:
            await tools.withdraw()
            if before is not None:
                self.by_id[params.session_id] = before
            else:
                del self.by_id[params.session_id]
            raise
        return session

    def _create(
        self,
        session_id: str,
        method: str,
        params: Any,
        connection: Connection,
        log_id: str | None = None,
        origin: str | None = None,
    ) -> ClientSession:
        session = ClientSession(
            connection,
            session_id,
            params.cwd,
            params.additional_directories or (),
            params.mcp_servers,
            settings=self._settings,
        )
        if self.logs is not None:
            self.logs.add(session, method, log_id, origin)
        return session

    def _add_opened(self, session: ClientSession, result: Any) -> None:
        self.by_id[session.id] = session
        self._apply_open_result(session, result)
        self._deliver_early_updates(session)

    def _apply_open_result(self, session: ClientSession, result: Any) -> None:
        session._apply_open_result(result)
        if self.logs is not None:
            self.logs.log_opened(session, result)

    def _deliver_early_updates(self, session: ClientSession) -> None:
        for update in self._early_updates.pop(session.id, ()):
            session._receive(update)

    # --- messages of the agent --------------------------------------------------------------------------------

    def receive(self, session_id: str, update: Any) -> Awaitable[None] | None:
        """Receive one update, in order. Await the result before the next one."""
        session = self.by_id.get(session_id)
        if session is not None:
            return session._receive(update)
        if len(self._early_updates) < MAX_EARLY_UPDATES:
            self._early_updates.setdefault(session_id, deque(maxlen=MAX_EARLY_UPDATES)).append(update)
        return None

    def receive_run(self, run: TextRun) -> bool | Awaitable[None]:
        """Receive text chunks of one message at once. Return False, and do nothing, if each must be handled alone."""
        session = self.by_id.get(run.session)
        return session is not None and session._receive_run(run.updates)

    def roots(self, session_id: str) -> list[str]:
        """Return the folders of a session. Raise if it is not open."""
        session = self.by_id.get(session_id)
        if session is None:
            raise ProtocolError(
                Kind.SESSION_NOT_FOUND, f"there is no session {session_id!r}", {"sessionId": session_id}
            )
        return session.roots

    def on_connection_lost(self, connection: Connection, error: BaseException) -> None:
        """End the sessions of a lost connection. In 2025.1 each folder has its own process, so others go on."""
        reason = error if isinstance(error, ConnectionFailed) else ConnectionFailed(str(error))
        for session in self.by_id.values():
            if session.connection is connection:
                session._on_agent_lost(reason)


async def _switch_mode(session: ClientSession, mode: str | None) -> None:
    if mode is not None and session.offers_mode(mode) and session.mode != mode:
        await session.set_mode(mode)


def _omit_empty_servers(params: T) -> T:
    """Omit an empty list of MCP servers in dialects where it is optional; official v1 requires it."""
    return params if params.mcp_servers else mark_inferred(params, "mcpServers")  # type: ignore[attr-defined]
