"""What a client does with sessions from outside: list, close, delete, archive, ask how one stands, name it.

The sessions of a host are its own: all of this works whatever the agents can do. Above is the desk; below are the
house, its directory and its store.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from msgspec import UNSET

from dragoman.dialect.reshape import SIDE_DATA_KEY
from dragoman.errors import Kind, ProtocolError
from dragoman.host.access import check_role, enter_room, session_not_found
from dragoman.host.auth.roles import ADMIN, EDITOR, RANK, is_at_least
from dragoman.host.room.agent import set_agent_title
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
from dragoman.store.contract import EntryKind, Summary

if TYPE_CHECKING:
    from dragoman.host.host_client import HostClient
    from dragoman.host.room.room import Room

# Sessions in one answer to session/list.
PAGE_SIZE = 100


async def list_sessions(client: HostClient, params: Any) -> ListSessionsResult:
    """session/list: those that this visitor may see; what was put away only where it is asked for."""
    try:
        start = int(params.cursor or 0)
    except ValueError:
        raise ProtocolError(Kind.INVALID_PARAMS, "cursor is what the page before gave as nextCursor") from None
    which = params.archived or ArchiveFilter.EXCLUDE
    seen = [
        one
        for one in await client.host.visible_sessions(client.principal)
        if (not params.cwd or one.cwd == params.cwd) and _is_listed(one, which)
    ]
    more = start + PAGE_SIZE < len(seen)
    return ListSessionsResult(
        sessions=[_session_info(one) for one in seen[start : start + PAGE_SIZE]],
        next_cursor=str(start + PAGE_SIZE) if more else UNSET,
    )


def _is_listed(one: Summary, which: str) -> bool:
    return which == ArchiveFilter.INCLUDE or one.archived == (which == ArchiveFilter.ONLY)


def _session_info(one: Summary) -> SessionInfo:
    return SessionInfo(
        session_id=one.session_id,
        cwd=one.cwd or "/",
        title=one.name or one.title or UNSET,
        updated_at=one.updated_at,
        archived=True if one.archived else UNSET,
    )


async def close_session(client: HostClient, params: Any) -> CloseSessionResult:
    """session/close: leave; what one said oneself ends. It sleeps when all have left, or an admin closes it."""
    room, member = client.joined_room(params.session_id)
    client.host.retain_room(room)
    try:
        if ours := room.queue.prompts_of(client.id):
            room.cancel(client)
            if room.queue.running in ours:
                await room.wait_turn_end()
        room.leave(client)
        if room.queue.is_empty and (not room.members or is_at_least(member.role, ADMIN)):
            await room.stop_agent()
    finally:
        client.host.release_room(room)
    return CloseSessionResult()


async def delete_session(client: HostClient, params: Any) -> DeleteSessionResult:
    """session/delete: for good, whoever is there. What is not there, or not theirs to know of, is gone already."""
    try:
        async with enter_room(client, params.session_id, ADMIN) as (room, _):
            await client.host.delete_session(room, client.principal.user)
    except ProtocolError as error:
        if error.kind != Kind.SESSION_NOT_FOUND:
            raise
    return DeleteSessionResult()


async def archive_session(client: HostClient, params: Any) -> ArchiveSessionResult:
    """session/archive: closed for all who are there, then out of the list; whoever loads it finds it as it was."""
    user = client.principal.user
    async with enter_room(client, params.session_id, ADMIN) as (room, _):
        await room.suspend(f"the session was archived by {user}")
        await _log_update(room, SessionInfoUpdate(meta={SIDE_DATA_KEY: {"archived": True}}), user)
    return ArchiveSessionResult()


async def unarchive_session(client: HostClient, params: Any) -> UnarchiveSessionResult:
    """session/unarchive."""
    async with enter_room(client, params.session_id, ADMIN) as (room, _):
        await _log_update(room, SessionInfoUpdate(meta={SIDE_DATA_KEY: {"archived": False}}), client.principal.user)
    return UnarchiveSessionResult()


async def session_status(client: HostClient, params: Any) -> SessionStatusResult:
    """session/status: whether it is open on this connection. Nothing is woken or read for it."""
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
    """session/set_title: told to an agent that is awake and takes titles, which may store another one."""
    title = params.title.strip()
    if not title:
        errors = [{"path": "title", "message": "empty"}]
        raise ProtocolError(Kind.INVALID_PARAMS, "a title cannot be empty", {"errors": errors})
    async with enter_room(client, params.session_id, EDITOR) as (room, _):
        title = await set_agent_title(room, title)
        await room.log.flush()
        if room.state.title != title:  # the agent said so itself
            await _log_update(room, SessionInfoUpdate(title=title), client.principal.user)
    return SetTitleResult(title=title)


async def _log_update(room: Room, update: SessionInfoUpdate, by: str) -> None:
    room.log.clear_fault()  # perhaps the store works now
    await room.log.append_and_wait(EntryKind.UPDATE, to_json(update), actor=by)


async def set_role(client: HostClient, values: Any) -> dict[str, Any]:
    """_dragoman/set_role {sessionId, user, role}: an admin makes somebody something, or (null) nothing."""
    session, user, role = (
        (values.get(name) for name in ("sessionId", "user", "role")) if isinstance(values, dict) else [None] * 3
    )
    if not isinstance(session, str) or not isinstance(user, str) or not (role is None or role in RANK):
        message = f"sessionId and user are texts, role is one of {', '.join(RANK)}, or null to take somebody out"
        raise ProtocolError(Kind.INVALID_PARAMS, message)
    async with enter_room(client, session, ADMIN) as (room, _):
        await client.host.session_roles.set_role(session, user, role)
        await client.host.apply_role_changes(room.id)
    return {}
