"""What a client does with sessions from outside: list, close, delete, archive, ask how one stands, name it.

The sessions of a host are its own: all of this works whatever the agents can do. Above is the desk; below are the
house, its directory and its store.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from msgspec import UNSET

from dragoman.dialect.reshape import SIDE
from dragoman.errors import Kind, ProtocolError
from dragoman.host.access import check_role, entered, not_found
from dragoman.host.auth.roles import ADMIN, EDITOR, RANK, may
from dragoman.host.room.agent import retitled
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
    from dragoman.host.host_client import Desk
    from dragoman.host.room.room import Room

# Sessions in one answer to session/list.
PAGE = 100


async def list_sessions(desk: Desk, params: Any) -> ListSessionsResult:
    """session/list: those that this visitor may see; what was put away only where it is asked for."""
    try:
        start = int(params.cursor or 0)
    except ValueError:
        raise ProtocolError(Kind.INVALID_PARAMS, "cursor is what the page before gave as nextCursor") from None
    which = params.archived or ArchiveFilter.EXCLUDE
    seen = [
        one
        for one in await desk.house.visible(desk.visitor)
        if (not params.cwd or one.cwd == params.cwd) and _is_listed(one, which)
    ]
    more = start + PAGE < len(seen)
    return ListSessionsResult(
        sessions=[_info(one) for one in seen[start : start + PAGE]], next_cursor=str(start + PAGE) if more else UNSET
    )


def _is_listed(one: Summary, which: str) -> bool:
    return which == ArchiveFilter.INCLUDE or one.archived == (which == ArchiveFilter.ONLY)


def _info(one: Summary) -> SessionInfo:
    return SessionInfo(
        session_id=one.session_id,
        cwd=one.cwd or "/",
        title=one.name or one.title or UNSET,
        updated_at=one.updated_at,
        archived=True if one.archived else UNSET,
    )


async def close(desk: Desk, params: Any) -> CloseSessionResult:
    """session/close: leave; what one said oneself ends. It sleeps when all have left, or an admin closes it."""
    room, member = desk.joined(params.session_id)
    desk.house.use(room)
    try:
        if ours := room.queue.of_desk(desk.id):
            room.cancel(desk)
            if room.queue.running in ours:
                await room.settled()
        room.leave(desk)
        if room.queue.is_empty and (not room.members or may(member.role, ADMIN)):
            await room.sleep()
    finally:
        desk.house.done_with(room)
    return CloseSessionResult()


async def delete(desk: Desk, params: Any) -> DeleteSessionResult:
    """session/delete: for good, whoever is there. What is not there, or not theirs to know of, is gone already."""
    try:
        async with entered(desk, params.session_id, ADMIN) as (room, _):
            await desk.house.delete(room, desk.visitor.user)
    except ProtocolError as error:
        if error.kind != Kind.SESSION_NOT_FOUND:
            raise
    return DeleteSessionResult()


async def archive(desk: Desk, params: Any) -> ArchiveSessionResult:
    """session/archive: closed for all who are there, then out of the list; whoever loads it finds it as it was."""
    user = desk.visitor.user
    async with entered(desk, params.session_id, ADMIN) as (room, _):
        await room.adjourn(f"the session was archived by {user}")
        await _note(room, SessionInfoUpdate(meta={SIDE: {"archived": True}}), user)
    return ArchiveSessionResult()


async def unarchive(desk: Desk, params: Any) -> UnarchiveSessionResult:
    """session/unarchive."""
    async with entered(desk, params.session_id, ADMIN) as (room, _):
        await _note(room, SessionInfoUpdate(meta={SIDE: {"archived": False}}), desk.visitor.user)
    return UnarchiveSessionResult()


async def status(desk: Desk, params: Any) -> SessionStatusResult:
    """session/status: whether it is open on this connection. Nothing is woken or read for it."""
    session = params.session_id
    await check_role(desk, session)
    if session in desk.rooms:
        return SessionStatusResult(status=SessionStatus.OPEN)
    if session not in desk.house.rooms:
        try:
            known = (await desk.house.store.find(session)).session_id == session
        except ProtocolError as error:
            known = error.kind != Kind.SESSION_NOT_FOUND
        if not known:
            raise not_found(session)
    return SessionStatusResult(status=SessionStatus.SAVED)


async def set_title(desk: Desk, params: Any) -> SetTitleResult:
    """session/set_title: told to an agent that is awake and takes titles, which may store another one."""
    title = params.title.strip()
    if not title:
        errors = [{"path": "title", "message": "empty"}]
        raise ProtocolError(Kind.INVALID_PARAMS, "a title cannot be empty", {"errors": errors})
    async with entered(desk, params.session_id, EDITOR) as (room, _):
        title = await retitled(room, title)
        await room.chronicle.flush()
        if room.standing.title != title:  # the agent said so itself
            await _note(room, SessionInfoUpdate(title=title), desk.visitor.user)
    return SetTitleResult(title=title)


async def _note(room: Room, update: SessionInfoUpdate, by: str) -> None:
    room.chronicle.try_again()  # perhaps the store works now
    await room.chronicle.record(EntryKind.UPDATE, to_json(update), actor=by)


async def set_role(desk: Desk, said: Any) -> dict[str, Any]:
    """_dragoman/set_role {sessionId, user, role}: an admin makes somebody something, or (null) nothing."""
    session, user, role = (
        (said.get(name) for name in ("sessionId", "user", "role")) if isinstance(said, dict) else [None] * 3
    )
    if not isinstance(session, str) or not isinstance(user, str) or not (role is None or role in RANK):
        message = f"sessionId and user are texts, role is one of {', '.join(RANK)}, or null to take somebody out"
        raise ProtocolError(Kind.INVALID_PARAMS, message)
    async with entered(desk, session, ADMIN) as (room, _):
        await desk.house.directory.set_role(session, user, role)
        await desk.house.roles_changed(room.id)
    return {}
