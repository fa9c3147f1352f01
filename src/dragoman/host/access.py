"""Who gets into which room: the one way from the id of a session to its room, for every call of a client.

A session that somebody may not see is answered like one that is not there, in the same words. Above are the calls of
clients; below are the house and its directory.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

from dragoman.errors import Kind, ProtocolError
from dragoman.host.auth.roles import EDITOR, VIEWER, may

if TYPE_CHECKING:
    from dragoman.host.host_client import Desk
    from dragoman.host.room.room import Room
    from dragoman.transport.remote.server.auth import Visitor


def not_found(session: str) -> ProtocolError:
    """The one answer for what is not there and for what nobody may know of."""
    return ProtocolError(
        Kind.SESSION_NOT_FOUND,
        f"there is no session {session!r}",
        {"sessionId": session, "suggestion": "open one with session/new"},
    )


def denied(session: str, role: str, least: str) -> ProtocolError:
    """What somebody is told who may see a session and not do this in it."""
    message = f"you are {role} in this session, and this needs {least}; ask an admin of it"
    return ProtocolError(Kind.PERMISSION_DENIED, message, {"sessionId": session, "role": role, "needs": least})


async def check_role(desk: Desk, session: str, least: str = VIEWER) -> str:
    """What this client is in a session, which must be enough."""
    role = await desk.role_in(session)
    if role is None:
        raise not_found(session)
    if not may(role, least):
        raise denied(session, role, least)
    return role


@asynccontextmanager
async def entered(desk: Desk, session: str, least: str = VIEWER) -> AsyncIterator[tuple[Room, str]]:
    """The room of a session that this client may see, and as what; it stays during the block."""
    role = await check_role(desk, session, least)
    room = await desk.house.room(session)
    try:
        yield room, role
    finally:
        desk.house.done_with(room)


def check_may_open(visitor: Visitor, what: str) -> None:
    """Who came by a share link, or may only look, has no agents of their own."""
    if visitor.session is not None or not may(visitor.role, EDITOR):
        raise ProtocolError(Kind.PERMISSION_DENIED, f"you were let in to look at sessions, not to {what}")
