"""The session calls besides opening: list, close, delete, and the unstable archive, status and title
(docs/protocol/sessions.md#list).
"""

from __future__ import annotations

import math
from collections.abc import Coroutine
from typing import TYPE_CHECKING, Any, TypeVar

from msgspec import UNSET

from dragoman.dialect.reshape import SIDE_DATA_KEY
from dragoman.errors import Kind, ProtocolError
from dragoman.roles.agent.session import Session
from dragoman.schema.base import to_json
from dragoman.schema.session import (
    ArchiveFilter,
    ArchiveSessionResult,
    CloseSessionResult,
    DeleteSessionResult,
    ListSessionsResult,
    SessionInfo,
    SessionStatus,
    SessionStatusResult,
    SetTitleResult,
    UnarchiveSessionResult,
)
from dragoman.schema.update import SessionInfoUpdate
from dragoman.store.contract import EntryKind

if TYPE_CHECKING:
    from dragoman.roles.agent.served_client import ServedClient

# Sessions in one page of session/list: enough for a screen, small enough for one frame.
PAGE_SIZE = 50

T = TypeVar("T")


class SessionCalls:
    """The calls of one client about existing sessions."""

    def __init__(self, client: ServedClient) -> None:
        self._client = client
        self._agent = client.agent

    def list_sessions(self, params: Any) -> ListSessionsResult | Coroutine[Any, Any, ListSessionsResult]:
        """Handle session/list: one page, newest session first. Changes between requests do not shift later pages."""
        return self._page(params) if self._agent.store is None else self._stored_page(params)

    async def _stored_page(self, params: Any) -> ListSessionsResult:
        await self._restore()
        return self._page(params)

    async def _restore(self, session_id: str | None = None) -> None:
        """Load sessions that were stored before the agent was restarted."""
        if self._agent.store is not None:
            from dragoman.roles.agent.open_session import restore_sessions

            await restore_sessions(self._agent, session_id)

    def _page(self, params: Any) -> ListSessionsResult:
        before = parse_cursor(params.cursor, math.inf)
        found = [
            session
            for session in self._agent.sessions.values()
            if session.sequence_number < before and is_listed(params, session.cwd, session.archived)
        ]
        found.sort(key=lambda session: session.sequence_number, reverse=True)
        page = found[:PAGE_SIZE]
        more = len(found) > PAGE_SIZE
        return ListSessionsResult(
            sessions=[_session_info(session) for session in page],
            next_cursor=str(page[-1].sequence_number) if more else UNSET,
        )

    async def close(self, params: Any) -> CloseSessionResult:
        """Handle session/close: cancel the turn and release the session."""
        await self._close_session(self._client.find_session(params.session_id))
        return CloseSessionResult()

    async def delete(self, params: Any) -> DeleteSessionResult:
        """Handle session/delete. Deleting a session that does not exist is no error."""
        session = self._agent.sessions.pop(params.session_id, None)  # another delete may have been faster
        if session is not None:
            await self._close_session(session)
            await self._agent.call_hook("deleted", session)
        if self._agent.store is not None:
            await self._agent.store.delete(params.session_id)
        return DeleteSessionResult()

    async def _close_session(self, session: Session) -> None:
        await self._client.prompt_calls.cancel_and_wait(session)
        if session.is_bound:
            await session.terminals.close()
        self._client.lifecycle.close_session(session.id)
        await self._agent.call_hook("closed", session)

    async def archive(self, params: Any) -> ArchiveSessionResult:
        """Handle session/archive: close the session and hide it from the list."""
        await self._restore(params.session_id)
        session = self._client.find_session(params.session_id)
        await self._close_session(session)
        await _set_archived(session, True)
        return ArchiveSessionResult()

    async def unarchive(self, params: Any) -> UnarchiveSessionResult:
        """Handle session/unarchive."""
        await self._restore(params.session_id)
        session = self._client.find_session(params.session_id)
        await _set_archived(session, False)
        return UnarchiveSessionResult()

    async def status(self, params: Any) -> SessionStatusResult:
        """Handle session/status: whether the session is open on this connection."""
        await self._restore(params.session_id)
        session = self._client.find_session(params.session_id)
        is_open = session.id in self._client.lifecycle.sessions
        return SessionStatusResult(status=SessionStatus.OPEN if is_open else SessionStatus.SAVED)

    async def set_title(self, params: Any) -> SetTitleResult:
        """Handle session/set_title."""
        await self._restore(params.session_id)
        session = self._client.find_session(params.session_id)
        title = check_title(params.title)
        session.set_title(title)
        await session.log.wait_stored()
        return SetTitleResult(title=title)


async def _set_archived(session: Session, archived: bool) -> None:
    session.clear_log_fault()
    update = SessionInfoUpdate(meta={SIDE_DATA_KEY: {"archived": archived}})
    await session.log.append_and_wait(EntryKind.UPDATE, to_json(update), actor="user")
    session.archived = archived


def is_listed(params: Any, cwd: str | None, archived: bool) -> bool:
    """Tell whether session/list with these params lists a session in this folder."""
    which = params.archived or ArchiveFilter.EXCLUDE
    is_chosen = which == ArchiveFilter.INCLUDE or archived == (which == ArchiveFilter.ONLY)
    return is_chosen and (not params.cwd or cwd == params.cwd)


def _session_info(session: Session) -> SessionInfo:
    return SessionInfo(
        session_id=session.id,
        cwd=session.cwd,
        additional_directories=session.directories or UNSET,
        title=session.title or UNSET,
        updated_at=session.updated_at,
        archived=True if session.archived else UNSET,
    )


def check_title(text: str) -> str:
    """Return a title without blanks around it. Raise invalid_params if nothing is left."""
    if not (title := text.strip()):
        errors = [{"path": "title", "message": "empty"}]
        raise ProtocolError(Kind.INVALID_PARAMS, "a title cannot be empty", {"errors": errors})
    return title


def parse_cursor(cursor: Any, first: T) -> int | T:
    """Return the number in the cursor of session/list; `first` without a cursor."""
    if not cursor:
        return first
    if not (cursor.isascii() and cursor.isdigit() and len(cursor) < 20):
        raise ProtocolError(Kind.INVALID_PARAMS, f"unknown cursor {cursor!r}; start without a cursor")
    return int(cursor)
