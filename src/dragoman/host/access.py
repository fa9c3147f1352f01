"""Checks before a client gets a room, a folder or an MCP server, and the error for methods that the host refuses.

A session that a user may not see gets the same error as one that does not exist.
"""

from __future__ import annotations

import os
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

import msgspec

from dragoman.errors import Kind, ProtocolError
from dragoman.host.auth.roles import EDITOR, VIEWER, is_at_least
from dragoman.schema.mcp import McpServer
from dragoman.schema.methods import find_method
from dragoman.schema.side import Side
from dragoman.transport.sandbox.spec import contains_path

if TYPE_CHECKING:
    from dragoman.engine.incoming import Incoming
    from dragoman.host.host_client import HostClient
    from dragoman.host.room.member import Member
    from dragoman.host.room.room import Room
    from dragoman.store.session_state import SessionState
    from dragoman.transport.remote.server.auth import Principal

NO_ROOTS = "no folder is configured on this host for sessions; start the host with --root DIR, or ask its owner to"


def session_not_found(session: str) -> ProtocolError:
    """Return the one error for a session that does not exist and for one that the caller may not see."""
    return ProtocolError(
        Kind.SESSION_NOT_FOUND,
        f"there is no session {session!r}",
        {"sessionId": session, "suggestion": "open one with session/new"},
    )


def moved_error(session: str) -> ProtocolError:
    """Return the error that makes another node look for the owner of a session again."""
    message = "this node does not run the session any more; try again"
    return ProtocolError(Kind.INVALID_STATE, message, {"sessionId": session, "moved": True})


def interrupted_error(reason: str) -> ProtocolError:
    """Return the error of a prompt whose turn was cut off: nobody knows what it did, so it is not repeated."""
    message = (
        f"this turn was interrupted: {reason}; what it did until then is in the session, so look there before you send "
        "the prompt again"
    )
    return ProtocolError(Kind.INTERNAL_ERROR, message, {"interrupted": True})


def not_run_error(reason: str) -> ProtocolError:
    """Return the error of a prompt that waited and did not run."""
    return ProtocolError(
        Kind.INTERNAL_ERROR, f"this prompt did not run: {reason}; send it again", {"interrupted": True, "ran": False}
    )


def refused_prompt_error(session: str, reason: str) -> ProtocolError:
    """Return the error of a prompt that waited or ran when its user lost the right to prompt."""
    message = f"this prompt was withdrawn, or its turn cancelled: {reason}; ask an admin of the session"
    return ProtocolError(Kind.PERMISSION_DENIED, message, {"sessionId": session})


def is_moved(error: ProtocolError) -> bool:
    """Tell whether a node refused a call because it does not run the session any more."""
    return isinstance(error.data, dict) and bool(error.data.get("moved"))


def role_denied(session: str, role: str, required: str) -> ProtocolError:
    """Return the error for a member whose role is too low."""
    message = f"you are {role} in this session, and this needs {required}; ask an admin of the session"
    return ProtocolError(Kind.PERMISSION_DENIED, message, {"sessionId": session, "role": role, "needs": required})


async def check_role(client: HostClient, session: str, required: str = VIEWER) -> str:
    """Return the role of this client in a session. Raise if it is lower than `required`."""
    role = await client.host.role_in(client.principal, session)
    if role is None:
        raise session_not_found(session)
    if not is_at_least(role, required):
        raise role_denied(session, role, required)
    return role


@asynccontextmanager
async def enter_room(client: HostClient, session: str, required: str = VIEWER) -> AsyncIterator[tuple[Room, str]]:
    """Yield the room of a session and the client's role in it. The room is kept until the block ends."""
    role = await check_role(client, session, required)
    room = await client.host.acquire_any_room(session)
    try:
        yield room, role
    finally:
        client.host.release_room(room)


def joined_room(client: HostClient, session: str, required: str = VIEWER) -> tuple[Room, Member]:
    """Return the room that a client is in, and its member there. Raise if its role is too low."""
    room = client.rooms.get(session)
    member = room.members.get(client.id) if room is not None else None
    if room is None or member is None:
        raise ProtocolError(
            Kind.SESSION_NOT_FOUND,
            f"there is no session {session!r} open on this connection; load, resume or attach it first",
            {"sessionId": session},
        )
    if not is_at_least(member.role, required):
        raise role_denied(session, member.role, required)
    return room, member


def check_may_open(principal: Principal, what: str) -> None:
    """Raise for principals with a share link and for viewers: they may not start agents."""
    if principal.session is not None or not is_at_least(principal.role, EDITOR):
        raise ProtocolError(Kind.PERMISSION_DENIED, f"you may only view sessions here, not {what}")


def default_roots(principal: Principal) -> Sequence[str] | None:
    """Let the owner on this machine open sessions anywhere, and everybody else nowhere."""
    return None if principal.is_local else ()


def resolve_folder(path: str, roots: Sequence[str] | None, member: str) -> str:
    """Return the folder with links resolved. Raise if it is outside the roots. Roots None: any folder is allowed."""
    real = real_path(path, member)
    if roots is None:
        return os.path.abspath(path)
    if is_under(real, roots):
        return real
    message = f"{member} {path} is not under the folders you may use ({_root_list(roots)})" if roots else NO_ROOTS
    raise _error(Kind.PERMISSION_DENIED, message, member)


def real_path(path: str, member: str) -> str:
    """Return where an absolute path leads, with links resolved."""
    if not path.startswith("/") or "\0" in path:
        raise _error(Kind.INVALID_PARAMS, f"{member} must be an absolute path, not {path!r}", member)
    try:
        return os.path.realpath(path)
    except ValueError:
        raise _error(Kind.INVALID_PARAMS, f"{member} {path!r} is not a valid folder name", member) from None


def is_under(real: str, roots: Sequence[str] | None) -> bool:
    """Tell whether a resolved folder is under one of the roots. Roots None: any folder is."""
    return roots is None or any(contains_path(os.path.realpath(root), real) for root in roots)


def check_folder_unchanged(path: str, real: str) -> None:
    """Raise if a folder of a session no longer leads where it led when it was checked: it became a link."""
    if real_path(path, "the folder of the session") != real:
        message = (
            f"{path} leads to another folder than when the session was opened: it is a link now, or is behind one; "
            "restore the folder, or open a new session in the right folder"
        )
        raise ProtocolError(Kind.PERMISSION_DENIED, message, {"path": path})


def check_fork_folders(state: SessionState, roots: Sequence[str] | None) -> None:
    """Raise if the user could not open a session in the folders of the session that is copied."""
    for path in filter(None, (state.cwd, *state.directories)):
        if not is_under(state.resolved.get(path, path), roots):
            message = (
                f"a fork of this session would work in {path}, which is not under the folders you may use "
                f"({_root_list(roots or ())}); open a new session under one of them"
            )
            raise _error(Kind.PERMISSION_DENIED, message, "sessionId")


def check_folder(path: str, member: str) -> str:
    """Return the folder. Raise if it does not exist, because no agent can be started there."""
    if not os.path.isdir(path):
        raise _error(Kind.INVALID_PARAMS, f"{member} {path} is not a folder on the host", member)
    return path


def configured_server(server: McpServer, configured: Mapping[str, McpServer]) -> McpServer | None:
    """Return the server of that name as the host configures it; None if it has none, or starts it in another way."""
    known = configured.get(server.name)
    if known is None or _launch_key(known) != _launch_key(server):
        return None
    return msgspec.structs.replace(known)


def _root_list(roots: Sequence[str]) -> str:
    return ", ".join(roots) or NO_ROOTS


def _launch_key(server: McpServer) -> tuple[object, ...]:
    return (server.command or None, tuple(server.args or ()), server.url or None)


def _error(kind: str, message: str, member: str) -> ProtocolError:
    return ProtocolError(kind, message, {"errors": [{"path": member, "message": message}]})


def is_extension(method: str) -> bool:
    """Tell whether a method is an extension between the agent and its clients: neither ours nor refused."""
    return method.startswith("_") and not method.startswith("_dragoman/") and find_method(Side.AGENT, method) is None


def refusal(to: Side, incoming: Incoming, default_reason: str = "") -> ProtocolError:
    """Return the error for a request that the host does not serve, with the reason."""
    row = find_method(to, incoming.method)
    reason = (row.host_reason if row is not None else "") or default_reason
    kind = Kind.METHOD_NOT_FOUND if incoming.row is None else Kind.CAPABILITY_UNSUPPORTED
    what = f"the host does not serve {incoming.method}" + (f": {reason}" if reason else "")
    return ProtocolError(kind, what, {"method": incoming.method})
