"""How a client gets into sessions: new, load, resume, attach, fork; and out again by detach.

What is opened for somebody must lie under their roots and start only what the house knows or policy allows. Above is
the desk; below are the house and its rooms.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any

from msgspec import UNSET

from dragoman.dialect.side_data import side_data_of
from dragoman.engine.decode import decode_as
from dragoman.engine.incoming import Incoming
from dragoman.engine.pending import DoneCallback
from dragoman.errors import Kind, ProtocolError
from dragoman.host import access
from dragoman.host.access import check_may_open, enter_room
from dragoman.host.account_calls import Caller
from dragoman.host.auth.roles import EDITOR, VIEWER, is_at_least, lower_role
from dragoman.schema.mcp import McpForm, McpServer
from dragoman.schema.providers import AttachParams, AttachResult, AttachRole, DetachParams, DetachResult, HistoryPolicy
from dragoman.schema.session import ForkSessionResult, LoadSessionResult, NewSessionResult, ResumeSessionResult

if TYPE_CHECKING:
    from dragoman.host.host_client import HostClient
    from dragoman.host.room.room import Room


async def new_session(client: HostClient, incoming: Incoming, done: DoneCallback) -> None:
    """session/new: an agent is started for it; who opened it is its admin."""
    params, house = incoming.params, client.host
    check_may_open(client.principal, "open new ones")
    folders = _resolve_folders(client, params)
    cwd, *directories = folders
    servers = await _resolve_servers(client, params.mcp_servers or (), cwd)
    room = await house.create_room(client.principal)
    try:
        more: dict[str, Any] = {"mcp_servers": servers, "directories": directories}
        mode = side_data_of(params).get("initialMode") or house.agent_catalog.find_agent(room.state.agent).mode
        if isinstance(mode, str) and mode:
            more["mode"] = mode
        if params.system_prompt:
            more["system_prompt"] = params.system_prompt
        room.agent_questions.opening_client = Caller(client, incoming.id)  # nobody else is there who could be asked
        try:
            await room.open_session(folders, **more)
            await house.session_roles.set_creator(room.id, client.principal.user)
        except BaseException:
            await house.discard_room(room)
            raise
        finally:
            room.agent_questions.opening_client = None
        result = NewSessionResult(session_id=room.id, **_settings(client, room))
        await room.join(client, client.principal.role, lambda: done(result, None), after=0, replies_first=True)
    finally:
        house.release_room(room)


def _resolve_folders(client: HostClient, params: Any) -> dict[str, str]:
    """The working folder, then the additional ones: each as the agent is told it, and where it really is."""
    roots = client.host.roots_of(client.principal)
    members = {"cwd": params.cwd}
    members |= {f"additionalDirectories[{at}]": path for at, path in enumerate(params.additional_directories or ())}
    folders: dict[str, str] = {}
    for member, path in members.items():
        told = access.resolve_folder(path, roots, member)
        folders[told] = access.real_path(told, member) if roots is None else told
    access.check_folder(next(iter(folders)), "cwd")
    return folders


async def _resolve_servers(client: HostClient, servers: Any, cwd: str) -> list[McpServer]:
    """The owner brings what they like; others what the house knows or policy allows."""
    given, house = list(servers), client.host
    if inside := [server.name for server in given if server.form == McpForm.ACP]:
        message = f"MCP servers inside a client ({', '.join(inside)}) end with it, and sessions here do not"
        raise ProtocolError(Kind.CAPABILITY_UNSUPPORTED, f"{message}; give a command or a url", {"servers": inside})
    if client.principal.is_local or not given:
        return given
    found = await house.startable(given, cwd)
    refused = [server.name for server, ours in zip(given, found, strict=True) if ours is None]
    if refused:
        message = (
            f"the host does not start the MCP servers {', '.join(refused)}: it does not know them by this name "
            "and command, and policy does not allow mcp_start"
        )
        raise ProtocolError(Kind.PERMISSION_DENIED, message, {"servers": refused})
    return [ours for ours in found if ours is not None]


def _settings(client: HostClient, room: Room) -> dict[str, Any]:
    standing = room.state
    return {"modes": standing.modes or UNSET, "config_options": client.supported_options(standing.options)}


def load_session(client: HostClient, incoming: Incoming, done: DoneCallback) -> Awaitable[None]:
    """session/load: the whole history, or that after a cursor, then the answer; then everything live."""
    return _open_session(client, incoming, done, LoadSessionResult, 0)


def resume_session(client: HostClient, incoming: Incoming, done: DoneCallback) -> Awaitable[None]:
    """session/resume: without the history, or with that after a cursor."""
    return _open_session(client, incoming, done, ResumeSessionResult, None)


async def _open_session(
    client: HostClient, incoming: Incoming, done: DoneCallback, kind: Callable[..., Any], after: int | None
) -> None:
    after = client.cursors.pop(incoming.id, after)
    async with enter_room(client, incoming.params.session_id) as (room, role):
        await room.join(client, role, lambda: done(kind(**_settings(client, room)), None), after=after)


def attach(client: HostClient, incoming: Incoming, done: DoneCallback) -> Awaitable[None]:
    """session/attach (reference 5.17)."""
    return _attach(client, incoming.params, done)


def attach_extension(client: HostClient, incoming: Incoming, done: DoneCallback) -> Awaitable[None]:
    """_dragoman/attach, for peers that say only extensions."""
    return _attach(client, decode_as(AttachParams, incoming.values), done)


async def _attach(client: HostClient, params: AttachParams, done: DoneCallback) -> None:
    policy = params.history_policy or HistoryPolicy.FULL
    if policy not in (HistoryPolicy.FULL, HistoryPolicy.PENDING_ONLY, HistoryPolicy.NONE):
        raise ProtocolError(Kind.INVALID_PARAMS, f"historyPolicy is full, pending_only or none, not {policy!r}")
    cursor = params.cursor if isinstance(params.cursor, int) and not isinstance(params.cursor, bool) else None
    if params.cursor is not UNSET and params.cursor is not None and (cursor is None or cursor < 0):
        raise ProtocolError(Kind.INVALID_PARAMS, "cursor is the number of the last entry you heard of")
    after = cursor if cursor is not None else 0 if policy == HistoryPolicy.FULL else None
    async with enter_room(client, params.session_id) as (room, role):
        if params.role == AttachRole.CONTROLLER and not is_at_least(role, EDITOR):
            message = f"you are {role} in this session: attach as an observer, or ask an admin of it"
            raise ProtocolError(Kind.PERMISSION_DENIED, message, {"sessionId": room.id, "role": role})
        is_observer = params.role == AttachRole.OBSERVER
        if is_observer:
            role = lower_role(role, VIEWER)

        def answer() -> None:
            told = AttachRole.CONTROLLER if is_at_least(role, EDITOR) else AttachRole.OBSERVER
            done(AttachResult(role=told, cursor=room.seq), None)

        member = await room.join(client, role, answer, after=after)
        if is_observer:
            member.max_role = VIEWER


def detach(client: HostClient, params: DetachParams) -> DetachResult:
    """session/detach: hear no more of it; what one said goes on."""
    client.joined_room(params.session_id)[0].leave(client)
    return DetachResult()


def detach_extension(client: HostClient, values: Any) -> DetachResult:
    """_dragoman/detach."""
    return detach(client, decode_as(DetachParams, values))


async def fork_session(client: HostClient, incoming: Incoming, done: DoneCallback) -> None:
    """session/fork: another session that begins with the history of this one."""
    params, house = incoming.params, client.host
    async with enter_room(client, params.session_id, EDITOR) as (origin, _):
        if client.principal.session is not None:
            raise ProtocolError(Kind.PERMISSION_DENIED, "this link opens one session and no other")
        room = await house.fork_room(origin, client.principal)
        try:
            result = ForkSessionResult(session_id=room.id, **_settings(client, room))
            await room.join(client, client.principal.role, lambda: done(result, None))
        finally:
            house.release_room(room)
