"""Calls that open or leave a session: new, load, resume, attach, fork, detach.

Folders must be under the roots of the user. MCP servers must be configured here or allowed by policy.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any

from msgspec import UNSET

from dragoman.dialect.side_data import side_data_of
from dragoman.engine.codec import decode_as
from dragoman.engine.incoming import DoneCallback, Incoming
from dragoman.errors import Kind, ProtocolError
from dragoman.host import access
from dragoman.host.access import check_may_open, enter_room
from dragoman.host.account_calls import Caller
from dragoman.host.auth.roles import ADMIN, EDITOR, VIEWER, is_at_least, lower_role
from dragoman.roles.agent.options import options_for_client
from dragoman.roles.agent.session_calls import check_servers
from dragoman.schema.mcp import McpForm, McpServer
from dragoman.schema.providers import AttachParams, AttachResult, AttachRole, DetachParams, HistoryPolicy
from dragoman.schema.session import ForkSessionResult, LoadSessionResult, NewSessionResult, ResumeSessionResult

if TYPE_CHECKING:
    from dragoman.host.host_client import HostClient
    from dragoman.host.room.room import Room


async def new_session(client: HostClient, incoming: Incoming, done: DoneCallback) -> None:
    """session/new: start an agent. The caller becomes admin of the session."""
    params, host = incoming.params, client.host
    check_may_open(client.principal, "open new sessions")
    place = _wanted_place(client, incoming)
    folders = {} if place else _resolve_folders(client, params)
    servers = [] if place else await _resolve_servers(client, params.mcp_servers or (), next(iter(folders)))
    room = await host.create_room(client.principal)
    try:
        if place and host.fleet is not None:
            room.place = place
            folders = await host.fleet.workspaces.folders_of(room) or {}
            servers = await _resolve_servers(client, params.mcp_servers or (), next(iter(folders)))
        more: dict[str, Any] = {"mcp_servers": servers, "directories": list(folders)[1:]}
        mode = side_data_of(params).get("initialMode") or host.agent_catalog.find_agent(room.state.agent).mode
        if isinstance(mode, str) and mode:
            more["mode"] = mode
        if params.system_prompt:
            more["system_prompt"] = params.system_prompt
        # The session has no members yet who could be asked.
        room.agent_questions.opening_client = Caller(client, incoming.id)
        try:
            await room.agent.open_session(folders, **more)
            await host.session_roles.set_creator(room.id, client.principal.user)
        except BaseException:
            await host.discard_room(room)
            raise
        finally:
            room.agent_questions.opening_client = None
        result = NewSessionResult(session_id=room.id, **_settings(client, room))
        await room.members.join(
            client, client.principal.role, lambda _: done(result, None), after=0, replies_first=True
        )
    finally:
        host.release_room(room)


def _wanted_place(client: HostClient, incoming: Incoming) -> str:
    """Return where a client wants a new session to run in a fleet; "" in the folder that it names."""
    place, fleet = client.places.pop(incoming.id, ""), client.host.fleet
    if not place:
        return ""
    if fleet is None:
        raise ProtocolError(Kind.INVALID_PARAMS, f"{place}: this host is no node of a fleet; name a folder instead")
    if incoming.params.additional_directories:
        raise ProtocolError(Kind.INVALID_PARAMS, f"{place}: a repository is the only folder of its session")
    return fleet.workspaces.check_wanted(place)


def _resolve_folders(client: HostClient, params: Any) -> dict[str, str]:
    """Return the working folder and the additional ones: the path for the agent, and where it leads."""
    roots = client.host.roots_of(client.principal)
    members = {"cwd": params.cwd}
    members |= {f"additionalDirectories[{at}]": path for at, path in enumerate(params.additional_directories or ())}
    folders: dict[str, str] = {}
    for member, path in members.items():
        resolved = access.resolve_folder(path, roots, member)
        folders[resolved] = access.real_path(resolved, member) if roots is None else resolved
    if not client.host.agent_catalog.find_agent(client.principal.agent).is_remote:
        access.check_folder(next(iter(folders)), "cwd")
    return folders


async def _resolve_servers(client: HostClient, servers: Any, cwd: str) -> list[McpServer]:
    """Return the servers that may be started: any for the owner, configured or allowed ones for others."""
    requested, host = check_servers(servers), client.host
    if inside := [server.name for server in requested if server.form == McpForm.ACP]:
        message = (
            f"MCP servers inside a client ({', '.join(inside)}) end with the client, but sessions of a host do not"
        )
        raise ProtocolError(
            Kind.CAPABILITY_UNSUPPORTED, f"{message}; configure them with a command or a url", {"servers": inside}
        )
    if client.principal.is_local or not requested:
        return requested
    found = await host.startable_servers(requested, cwd)
    refused = [server.name for server, resolved in zip(requested, found, strict=True) if resolved is None]
    if refused:
        message = (
            f"the host does not start the MCP servers {', '.join(refused)}: it does not configure them under this name "
            "and command, and policy does not allow mcp_start"
        )
        raise ProtocolError(Kind.PERMISSION_DENIED, message, {"servers": refused})
    return [resolved for resolved in found if resolved is not None]


def _settings(client: HostClient, room: Room) -> dict[str, Any]:
    options = options_for_client(client.connection, room.state.options)
    return {"modes": room.state.modes or UNSET, "config_options": options or UNSET}


def load_session(client: HostClient, incoming: Incoming, done: DoneCallback) -> Awaitable[None]:
    """session/load: send the history, all of it or after a cursor, then the answer, then live updates."""
    return _open_session(client, incoming, done, LoadSessionResult, 0)


def resume_session(client: HostClient, incoming: Incoming, done: DoneCallback) -> Awaitable[None]:
    """session/resume: without the history, or with the part after a cursor."""
    return _open_session(client, incoming, done, ResumeSessionResult, None)


async def _open_session(
    client: HostClient, incoming: Incoming, done: DoneCallback, kind: Callable[..., Any], after: int | None
) -> None:
    after = client.cursors.pop(incoming.id, after)
    async with enter_room(client, incoming.params.session_id) as (room, role):
        await room.join(client, role, lambda _: done(kind(**_settings(client, room)), None), after=after)


def attach(client: HostClient, incoming: Incoming, done: DoneCallback) -> Awaitable[None]:
    """session/attach (docs/protocol/extensions.md#attach)."""
    return _attach(client, incoming.params, done)


def attach_extension(client: HostClient, incoming: Incoming, done: DoneCallback) -> Awaitable[None]:
    """_dragoman/attach, for peers that can only send extension methods."""
    return _attach(client, decode_as(AttachParams, incoming.values), done)


async def _attach(client: HostClient, params: AttachParams, done: DoneCallback) -> None:
    policy = params.history_policy or HistoryPolicy.FULL
    if policy not in (HistoryPolicy.FULL, HistoryPolicy.PENDING_ONLY, HistoryPolicy.NONE):
        raise ProtocolError(Kind.INVALID_PARAMS, f"historyPolicy must be full, pending_only or none, not {policy!r}")
    cursor = params.cursor if isinstance(params.cursor, int) and not isinstance(params.cursor, bool) else None
    if params.cursor is not UNSET and params.cursor is not None and (cursor is None or cursor < 0):
        raise ProtocolError(Kind.INVALID_PARAMS, "cursor must be the number of the last entry that you received")
    after = cursor if cursor is not None else 0 if policy == HistoryPolicy.FULL else None
    async with enter_room(client, params.session_id) as (room, role):
        if params.role == AttachRole.CONTROLLER and not is_at_least(role, EDITOR):
            message = f"you are {role} in this session: attach as an observer, or ask an admin of the session"
            raise ProtocolError(Kind.PERMISSION_DENIED, message, {"sessionId": room.id, "role": role})
        is_observer = params.role == AttachRole.OBSERVER
        if is_observer:
            role = lower_role(role, VIEWER)

        def reply(current_role: str) -> None:
            attach_role = AttachRole.CONTROLLER if is_at_least(current_role, EDITOR) else AttachRole.OBSERVER
            done(AttachResult(role=attach_role, cursor=room.state.seq), None)

        await room.join(client, role, reply, after=after, max_role=VIEWER if is_observer else ADMIN)


def detach(client: HostClient, params: DetachParams) -> None:
    """session/detach: leave the session. Prompts that were sent continue."""
    client.joined_room(params.session_id)[0].leave(client)


def detach_extension(client: HostClient, values: Any) -> None:
    """_dragoman/detach."""
    detach(client, decode_as(DetachParams, values))


async def fork_session(client: HostClient, incoming: Incoming, done: DoneCallback) -> None:
    """session/fork: open another session that starts with the history of this one."""
    params, host = incoming.params, client.host
    async with enter_room(client, params.session_id, EDITOR) as (origin, _):
        if client.principal.session is not None:
            raise ProtocolError(Kind.PERMISSION_DENIED, "this link gives access to one session only")
        room = await host.fork_room(origin, client.principal)
        try:
            result = ForkSessionResult(session_id=room.id, **_settings(client, room))
            await room.members.join(client, client.principal.role, lambda _: done(result, None))
        finally:
            host.release_room(room)
