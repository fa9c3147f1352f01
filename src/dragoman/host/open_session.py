"""How a client gets into sessions: new, load, resume, attach, fork; and out again by detach.

What is opened for somebody must lie under their roots and start only what the house knows or policy allows. Above is
the desk; below are the house and its rooms.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any

from msgspec import UNSET

from dragoman.dialect.side_data import side
from dragoman.engine.decode import read
from dragoman.engine.incoming import Incoming
from dragoman.engine.pending import Done
from dragoman.errors import Kind, ProtocolError
from dragoman.host import access
from dragoman.host.access import check_may_open, entered
from dragoman.host.account_calls import Caller
from dragoman.host.auth.roles import EDITOR, VIEWER, lesser, may
from dragoman.schema.mcp import McpForm, McpServer
from dragoman.schema.providers import AttachParams, AttachResult, AttachRole, DetachParams, DetachResult, HistoryPolicy
from dragoman.schema.session import ForkSessionResult, LoadSessionResult, NewSessionResult, ResumeSessionResult

if TYPE_CHECKING:
    from dragoman.host.host_client import Desk
    from dragoman.host.room.room import Room


async def new(desk: Desk, incoming: Incoming, done: Done) -> None:
    """session/new: an agent is started for it; who opened it is its admin."""
    params, house = incoming.params, desk.house
    check_may_open(desk.visitor, "open new ones")
    folders = _folders(desk, params)
    cwd, *directories = folders
    servers = await _servers(desk, params.mcp_servers or (), cwd)
    room = await house.new_room(desk.visitor)
    try:
        more: dict[str, Any] = {"mcp_servers": servers, "directories": directories}
        mode = side(params).get("initialMode") or house.roster.named(room.standing.agent).mode
        if isinstance(mode, str) and mode:
            more["mode"] = mode
        if params.system_prompt:
            more["system_prompt"] = params.system_prompt
        room.consent.opener = Caller(desk, incoming.id)  # nobody else is there who could be asked
        try:
            await room.begin(folders, **more)
            await house.directory.created(room.id, desk.visitor.user)
        except BaseException:
            await house.abandon(room)
            raise
        finally:
            room.consent.opener = None
        result = NewSessionResult(session_id=room.id, **_settings(desk, room))
        await room.join(desk, desk.visitor.role, lambda: done(result, None), after=0, answers_first=True)
    finally:
        house.done_with(room)


def _folders(desk: Desk, params: Any) -> dict[str, str]:
    """The working folder, then the additional ones: each as the agent is told it, and where it really is."""
    roots = desk.house.roots(desk.visitor)
    members = {"cwd": params.cwd}
    members |= {f"additionalDirectories[{at}]": path for at, path in enumerate(params.additional_directories or ())}
    folders: dict[str, str] = {}
    for member, path in members.items():
        told = access.admitted(path, roots, member)
        folders[told] = access.real_path(told, member) if roots is None else told
    access.found(next(iter(folders)), "cwd")
    return folders


async def _servers(desk: Desk, servers: Any, cwd: str) -> list[McpServer]:
    """The owner brings what they like; others what the house knows or policy allows."""
    given, house = list(servers), desk.house
    if inside := [server.name for server in given if server.form == McpForm.ACP]:
        message = f"MCP servers inside a client ({', '.join(inside)}) end with it, and sessions here do not"
        raise ProtocolError(Kind.CAPABILITY_UNSUPPORTED, f"{message}; give a command or a url", {"servers": inside})
    if desk.visitor.local or not given:
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


def _settings(desk: Desk, room: Room) -> dict[str, Any]:
    standing = room.standing
    return {"modes": standing.modes or UNSET, "config_options": desk.shown(standing.options)}


def load(desk: Desk, incoming: Incoming, done: Done) -> Awaitable[None]:
    """session/load: the whole history, or that after a cursor, then the answer; then everything live."""
    return _open(desk, incoming, done, LoadSessionResult, 0)


def resume(desk: Desk, incoming: Incoming, done: Done) -> Awaitable[None]:
    """session/resume: without the history, or with that after a cursor."""
    return _open(desk, incoming, done, ResumeSessionResult, None)


async def _open(desk: Desk, incoming: Incoming, done: Done, kind: Callable[..., Any], after: int | None) -> None:
    after = desk.cursors.pop(incoming.id, after)
    async with entered(desk, incoming.params.session_id) as (room, role):
        await room.join(desk, role, lambda: done(kind(**_settings(desk, room)), None), after=after)


def attach(desk: Desk, incoming: Incoming, done: Done) -> Awaitable[None]:
    """session/attach (reference 5.17)."""
    return _attach(desk, incoming.params, done)


def attach_values(desk: Desk, incoming: Incoming, done: Done) -> Awaitable[None]:
    """_dragoman/attach, for peers that say only extensions."""
    return _attach(desk, read(AttachParams, incoming.values), done)


async def _attach(desk: Desk, params: AttachParams, done: Done) -> None:
    policy = params.history_policy or HistoryPolicy.FULL
    if policy not in (HistoryPolicy.FULL, HistoryPolicy.PENDING_ONLY, HistoryPolicy.NONE):
        raise ProtocolError(Kind.INVALID_PARAMS, f"historyPolicy is full, pending_only or none, not {policy!r}")
    cursor = params.cursor if isinstance(params.cursor, int) and not isinstance(params.cursor, bool) else None
    if params.cursor is not UNSET and params.cursor is not None and (cursor is None or cursor < 0):
        raise ProtocolError(Kind.INVALID_PARAMS, "cursor is the number of the last entry you heard of")
    after = cursor if cursor is not None else 0 if policy == HistoryPolicy.FULL else None
    async with entered(desk, params.session_id) as (room, role):
        if params.role == AttachRole.CONTROLLER and not may(role, EDITOR):
            message = f"you are {role} in this session: attach as an observer, or ask an admin of it"
            raise ProtocolError(Kind.PERMISSION_DENIED, message, {"sessionId": room.id, "role": role})
        is_observer = params.role == AttachRole.OBSERVER
        if is_observer:
            role = lesser(role, VIEWER)

        def answer() -> None:
            told = AttachRole.CONTROLLER if may(role, EDITOR) else AttachRole.OBSERVER
            done(AttachResult(role=told, cursor=room.seq), None)

        member = await room.join(desk, role, answer, after=after)
        if is_observer:
            member.most = VIEWER


def detach(desk: Desk, params: DetachParams) -> DetachResult:
    """session/detach: hear no more of it; what one said goes on."""
    desk.joined(params.session_id)[0].leave(desk)
    return DetachResult()


def detach_values(desk: Desk, said: Any) -> DetachResult:
    """_dragoman/detach."""
    return detach(desk, read(DetachParams, said))


async def fork(desk: Desk, incoming: Incoming, done: Done) -> None:
    """session/fork: another session that begins with the history of this one."""
    params, house = incoming.params, desk.house
    async with entered(desk, params.session_id, EDITOR) as (origin, _):
        if desk.visitor.session is not None:
            raise ProtocolError(Kind.PERMISSION_DENIED, "this link opens one session and no other")
        room = await house.fork(origin, desk.visitor)
        try:
            result = ForkSessionResult(session_id=room.id, **_settings(desk, room))
            await room.join(desk, desk.visitor.role, lambda: done(result, None))
        finally:
            house.done_with(room)
