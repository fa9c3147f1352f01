"""Who gets into which room: the one way from the id of a session to its room, for every call of a client.

A session that somebody may not see is answered like one that is not there, in the same words. Above are the calls of
clients; below are the house and its directory.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import msgspec

from dragoman.errors import Kind, ProtocolError
from dragoman.schema.mcp import McpServer
from dragoman.transport.sandbox.spec import contains_path

if TYPE_CHECKING:
    from dragoman.store.session_state import SessionState
    from dragoman.transport.remote.server.auth import Principal

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

from dragoman.host.auth.roles import EDITOR, VIEWER, is_at_least

if TYPE_CHECKING:
    from dragoman.host.host_client import HostClient
    from dragoman.host.room.room import Room
    from dragoman.transport.remote.server.auth import Principal


def session_not_found(session: str) -> ProtocolError:
    """The one answer for what is not there and for what nobody may know of."""
    return ProtocolError(
        Kind.SESSION_NOT_FOUND,
        f"there is no session {session!r}",
        {"sessionId": session, "suggestion": "open one with session/new"},
    )


def role_denied(session: str, role: str, required: str) -> ProtocolError:
    """What somebody is told who may see a session and not do this in it."""
    message = f"you are {role} in this session, and this needs {required}; ask an admin of it"
    return ProtocolError(Kind.PERMISSION_DENIED, message, {"sessionId": session, "role": role, "needs": required})


async def check_role(client: HostClient, session: str, required: str = VIEWER) -> str:
    """What this client is in a session, which must be enough."""
    role = await client.role_in(session)
    if role is None:
        raise session_not_found(session)
    if not is_at_least(role, required):
        raise role_denied(session, role, required)
    return role


@asynccontextmanager
async def enter_room(client: HostClient, session: str, required: str = VIEWER) -> AsyncIterator[tuple[Room, str]]:
    """The room of a session that this client may see, and as what; it stays during the block."""
    role = await check_role(client, session, required)
    room = await client.host.acquire_room(session)
    try:
        yield room, role
    finally:
        client.host.release_room(room)


def check_may_open(principal: Principal, what: str) -> None:
    """Who came by a share link, or may only look, has no agents of their own."""
    if principal.session is not None or not is_at_least(principal.role, EDITOR):
        raise ProtocolError(Kind.PERMISSION_DENIED, f"you were let in to look at sessions, not to {what}")


def default_roots(principal: Principal) -> Sequence[str] | None:
    """The owner on this machine may open sessions anywhere; everybody else nowhere, until somebody says where."""
    return None if principal.is_local else ()


def resolve_folder(path: str, roots: Sequence[str] | None, member: str) -> str:
    """The folder as it really is; refused where it is outside the roots. None for roots: any folder is good."""
    real = real_path(path, member)
    if roots is None:
        return os.path.abspath(path)
    if is_under(real, roots):
        return real
    known = ", ".join(roots) or "none were given; the host is started with --root DIR"
    raise _error(Kind.PERMISSION_DENIED, f"{member} {path} is not under the folders you may use ({known})", member)


def real_path(path: str, member: str) -> str:
    """Where an absolute path leads, links followed."""
    if not path.startswith("/") or "\0" in path:
        raise _error(Kind.INVALID_PARAMS, f"{member} must be an absolute path, not {path!r}", member)
    try:
        return os.path.realpath(path)
    except ValueError:
        raise _error(Kind.INVALID_PARAMS, f"{member} {path!r} cannot be the name of a folder", member) from None


def is_under(real: str, roots: Sequence[str] | None) -> bool:
    """Whether a resolved folder lies under one of the roots. None for roots: any folder does."""
    return roots is None or any(contains_path(os.path.realpath(root), real) for root in roots)


def check_same(path: str, real: str) -> None:
    """Refuse a folder of a session that is not the one that was admitted: somebody put a link in its way since."""
    if real_path(path, "the folder of the session") != real:
        message = (
            f"{path} leads to another folder than when the session was opened: it is a link now, or lies behind one; "
            "put the folder back, or open a new session in the folder that you mean"
        )
        raise ProtocolError(Kind.PERMISSION_DENIED, message, {"path": path})


def check_copy(standing: SessionState, roots: Sequence[str] | None) -> None:
    """Refuse a copy of a session for somebody who could not open a session in its folders."""
    for path in filter(None, (standing.cwd, *standing.directories)):
        if not is_under(standing.resolved.get(path, path), roots):
            known = ", ".join(roots or ()) or "none were given; the host is started with --root DIR"
            message = (
                f"a fork of this session would work in {path}, which is not under the folders you may use ({known}); "
                "open a new session under one of them"
            )
            raise _error(Kind.PERMISSION_DENIED, message, "sessionId")


def check_folder(path: str, member: str) -> str:
    """The folder, which must be there: an agent cannot be started in one that is not."""
    if not os.path.isdir(path):
        raise _error(Kind.INVALID_PARAMS, f"{member} {path} is not a folder on the host", member)
    return path


def configured_server(server: McpServer, configured: Mapping[str, McpServer]) -> McpServer | None:
    """The server of that name as the house has it; None where the house has none, or another command for it."""
    ours = configured.get(server.name)
    if ours is None or _launch_key(ours) != _launch_key(server):
        return None
    return msgspec.structs.replace(ours)


def _launch_key(server: McpServer) -> tuple[object, ...]:
    return (server.command or None, tuple(server.args or ()), server.url or None)


def _error(kind: str, message: str, member: str) -> ProtocolError:
    return ProtocolError(kind, message, {"errors": [{"path": member, "message": message}]})
