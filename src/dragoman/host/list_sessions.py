"""Calls of a client about sessions: list, close, delete, archive, status, title, roles.

The host keeps the sessions, so all of these work whatever the agents support.
"""

from __future__ import annotations

from base64 import urlsafe_b64decode, urlsafe_b64encode
from typing import TYPE_CHECKING, Any

from msgspec import UNSET

from dragoman.dialect.reshape import SIDE_DATA_KEY
from dragoman.errors import Kind, ProtocolError
from dragoman.host.access import check_role, enter_room, session_not_found
from dragoman.host.auth.roles import ADMIN, EDITOR, RANK, is_at_least
from dragoman.host.room.agent import set_agent_title
from dragoman.host.visible_sessions import visible_sessions
from dragoman.roles.agent.session_calls import check_title
from dragoman.schema.base import to_json
from dragoman.schema.session import (
    ArchiveFilter,
    ListSessionsResult,
    SessionInfo,
    SessionStatus,
    SessionStatusResult,
    SetTitleResult,
)
from dragoman.schema.update import SessionInfoUpdate
from dragoman.store.contract import EntryKind, Selection, Summary, session_cursor

if TYPE_CHECKING:
    from dragoman.host.host_client import HostClient
    from dragoman.host.room.room import Room

# Sessions in one answer to session/list.
PAGE_SIZE = 100

# What each filter of session/list wants of `archived`.
_ARCHIVED = {ArchiveFilter.EXCLUDE: False, ArchiveFilter.ONLY: True, ArchiveFilter.INCLUDE: None}


async def list_sessions(client: HostClient, params: Any) -> ListSessionsResult:
    """session/list: the sessions this principal may see, archived ones only on request."""
    wanted = Selection(
        archived=_ARCHIVED[params.archived or ArchiveFilter.EXCLUDE],
        cwd=params.cwd or None,
        after=_parse_cursor(params.cursor),
        limit=PAGE_SIZE + 1,
    )
    found = await visible_sessions(client.host, client.principal, wanted)
    page = found[:PAGE_SIZE]
    return ListSessionsResult(
        sessions=[_session_info(summary) for summary in page],
        next_cursor=urlsafe_b64encode(session_cursor(page[-1]).encode()).decode() if len(found) > PAGE_SIZE else UNSET,
    )


def _parse_cursor(cursor: Any) -> str | None:
    if not cursor:
        return None
    try:
        text = urlsafe_b64decode(cursor.encode("ascii")).decode()
    except ValueError:
        text = ""
    if " " not in text:
        raise ProtocolError(Kind.INVALID_PARAMS, f"unknown cursor {cursor!r}; start without a cursor")
    return text


def _session_info(summary: Summary) -> SessionInfo:
    return SessionInfo(
        session_id=summary.session_id,
        cwd=summary.cwd or "/",
        title=summary.name or summary.title or UNSET,
        updated_at=summary.updated_at,
        archived=True if summary.archived else UNSET,
    )


async def close_session(client: HostClient, params: Any) -> None:
    """session/close: leave and end one's own prompts. The agent stops if all have left or an admin closes."""
    room, member = client.joined_room(params.session_id)
    client.host.retain_room(room)
    try:
        if own_prompts := room.queue.prompts_of(client.id):
            room.cancel(client)
            if room.queue.running in own_prompts:
                await room.wait_turn_end()
        room.leave(client)
        if room.queue.is_empty and (not room.members or is_at_least(member.role, ADMIN)):
            await room.agent.stop()
    finally:
        client.host.release_room(room)


async def delete_session(client: HostClient, params: Any) -> None:
    """session/delete: delete it, whoever is in it. Succeed if it does not exist or the caller may not see it."""
    try:
        async with enter_room(client, params.session_id, ADMIN) as (room, _):
            await client.host.delete_session(room, client.principal.user)
    except ProtocolError as error:
        if error.kind != Kind.SESSION_NOT_FOUND:
            raise


async def archive_session(client: HostClient, params: Any) -> None:
    """session/archive: close it for all members and hide it from the list. It can still be loaded."""
    async with enter_room(client, params.session_id, ADMIN) as (room, _):
        await room.suspend(f"the session was archived by {client.principal.user}")
        await _log_update(room, SessionInfoUpdate(meta={SIDE_DATA_KEY: {"archived": True}}), client.principal.user)


async def unarchive_session(client: HostClient, params: Any) -> None:
    """session/unarchive."""
    async with enter_room(client, params.session_id, ADMIN) as (room, _):
        await _log_update(room, SessionInfoUpdate(meta={SIDE_DATA_KEY: {"archived": False}}), client.principal.user)


async def session_status(client: HostClient, params: Any) -> SessionStatusResult:
    """session/status: whether it is open on this connection. Starts and reads nothing."""
    session = params.session_id
    await check_role(client, session)
    if session in client.rooms:
        return SessionStatusResult(status=SessionStatus.OPEN)
    if session not in client.host.rooms:
        try:
            known = (await client.host.store.find(session)).session_id == session
        except ProtocolError as error:
            known = error.kind != Kind.SESSION_NOT_FOUND
        if not known:
            raise session_not_found(session)
    return SessionStatusResult(status=SessionStatus.SAVED)


async def set_title(client: HostClient, params: Any) -> SetTitleResult:
    """session/set_title: passed to a running agent that supports titles, which may store another one."""
    title = check_title(params.title)
    async with enter_room(client, params.session_id, EDITOR) as (room, _):
        title = await set_agent_title(room, title)
        await room.log.flush()
        if room.state.title != title:  # the agent has logged it itself
            await _log_update(room, SessionInfoUpdate(title=title), client.principal.user)
    return SetTitleResult(title=title)


async def _log_update(room: Room, update: SessionInfoUpdate, by: str) -> None:
    room.log.clear_fault()  # the store may work again
    await room.log.append_and_wait(EntryKind.UPDATE, to_json(update), actor=by)


async def set_role(client: HostClient, values: Any) -> dict[str, Any]:
    """_dragoman/set_role {sessionId, user, role}: let an admin set somebody's role, or remove them with null."""
    session, user, role = (
        (values.get(name) for name in ("sessionId", "user", "role")) if isinstance(values, dict) else [None] * 3
    )
    if not isinstance(session, str) or not isinstance(user, str) or not (role is None or role in RANK):
        message = f"sessionId and user are strings, role is one of {', '.join(RANK)}, or null to remove the user"
        raise ProtocolError(Kind.INVALID_PARAMS, message)
    async with enter_room(client, session, ADMIN) as (room, _):
        await client.host.session_roles.set_role(session, user, role)
        await client.host.apply_role_changes(room.id)
    return {}


def list_agents(client: HostClient, _: Any) -> dict[str, Any]:
    """_dragoman/agents: the agents of this host with what they can do; nothing is started for it."""
    return {"agents": client.host.agent_catalog.describe()}
