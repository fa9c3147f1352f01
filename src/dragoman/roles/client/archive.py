"""The sessions that an agent keeps, as its client finds them again: listed, loaded, resumed, forked, closed, deleted.

The RemoteAgent is one of these; it enters conversations and knows the connections they are on. Opening a new session is
its own business.
"""

from __future__ import annotations

import os
from abc import abstractmethod
from collections.abc import AsyncIterator, Callable, Sequence
from typing import Any

from msgspec import UNSET

from dragoman.dialect.side_data import mark_inferred
from dragoman.engine.connection import Connection
from dragoman.roles.client.account import AccountCalls
from dragoman.roles.client.dial import ConnectedAgent, Dialer
from dragoman.roles.client.session import ClientSession, SessionSettings
from dragoman.schema.mcp import McpServer
from dragoman.schema.session import (
    CloseSessionParams,
    DeleteSessionParams,
    ForkSessionParams,
    ListSessionsParams,
    ListSessionsResult,
    LoadSessionParams,
    ResumeSessionParams,
    SessionInfo,
)


class StoredSessionCalls(AccountCalls):
    """The calls about sessions that were opened before."""

    _dialer: Dialer
    _settings: SessionSettings
    _sessions: dict[str, ClientSession]

    @property
    @abstractmethod
    def connection(self) -> Connection:
        """The connection to the agent, for what has no call of its own."""

    @abstractmethod
    def _use_agent(self, connected: ConnectedAgent) -> None:
        """Talk over the connection that was dialled."""

    @abstractmethod
    def _create_session(
        self,
        session_id: str,
        cwd: str,
        directories: Sequence[str],
        result: Any,
        connection: Connection,
        mcp_servers: Sequence[McpServer] = (),
    ) -> ClientSession:
        """Make the conversation of a session, and hear what was said in it meanwhile."""

    @abstractmethod
    async def _release_session(self, session_id: str) -> None:
        """A session has ended: free what was lent to it."""

    async def load_session(
        self,
        session_id: str,
        cwd: str = ".",
        *,
        mcp_servers: Sequence[McpServer] = (),
        directories: Sequence[str] = (),
    ) -> ClientSession:
        """Open a stored session; its history is in `between` (and told to `on_update`) when this returns."""
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
        """Open a stored session without its history being sent again."""
        params = _build_params(ResumeSessionParams, session_id, cwd, mcp_servers, directories)
        return await self._reopen_session("session/resume", params, directories, mcp_servers)

    async def _reopen_session(
        self, method: str, params: Any, directories: Sequence[str], mcp_servers: Sequence[McpServer] = ()
    ) -> ClientSession:
        """Enter first, for history comes before the answer (peers.md 36); a refusal leaves what was there (22)."""
        self._use_agent(await self._dialer.agent_for_cwd(params.cwd))
        before = self._sessions.get(params.session_id)
        conversation = self._create_session(
            params.session_id, params.cwd, directories, None, self.connection, mcp_servers
        )
        try:
            conversation.apply_open_result(await self.request(method, params))
        except BaseException:
            if before is not None:
                self._sessions[params.session_id] = before
            else:
                del self._sessions[params.session_id]
            raise
        return conversation

    async def fork_session(
        self,
        session_id: str,
        cwd: str = ".",
        *,
        mcp_servers: Sequence[McpServer] = (),
        directories: Sequence[str] = (),
    ) -> ClientSession:
        """Open a new session that starts with the history of another."""
        params = _build_params(ForkSessionParams, session_id, cwd, mcp_servers, directories)
        entered: list[ClientSession] = []
        connection = self.connection

        def enter(result: Any) -> None:
            entered.append(
                self._create_session(result.session_id, params.cwd, directories, result, connection, mcp_servers)
            )

        await connection.request("session/fork", params, timeout=self._settings.timeout, on_result=enter)
        return entered[0]

    async def list_sessions(self, cwd: str | None = None, cursor: str | None = None) -> ListSessionsResult:
        """One page of the agent's sessions."""
        params = ListSessionsParams(cwd=cwd or UNSET, cursor=cursor or UNSET)
        return await self.request("session/list", params)  # type: ignore[no-any-return]

    async def iter_sessions(self, cwd: str | None = None) -> AsyncIterator[SessionInfo]:
        """All of the agent's sessions, page by page: `async for info in agent.each_session(): ...`."""
        cursor: str | None = None
        while True:
            page = await self.list_sessions(cwd, cursor)
            for info in page.sessions:
                yield info
            if not page.next_cursor or page.next_cursor == cursor:
                return
            cursor = page.next_cursor

    async def close_session(self, session_id: str) -> None:
        """End a session's work and free what it holds."""
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


def omit_empty_servers(params: Any) -> Any:
    """Official v1 wants an empty list of MCP servers said; dialects that can do without leave it out."""
    return params if params.mcp_servers else mark_inferred(params, "mcpServers")


def absolute_directories(directories: Sequence[str]) -> Any:
    """The folders as the protocol names them; left out where there are none."""
    return [os.path.abspath(path) for path in directories] or UNSET


def _build_params(
    kind: Callable[..., Any], session_id: str, cwd: str, mcp_servers: Sequence[McpServer], directories: Sequence[str]
) -> Any:
    """Params that name a session and where it shall go on, of this kind."""
    return kind(
        session_id=session_id,
        cwd=os.path.abspath(cwd),
        mcp_servers=list(mcp_servers),
        additional_directories=absolute_directories(directories),
    )
