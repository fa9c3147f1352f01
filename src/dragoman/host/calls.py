"""The calls of one client about sessions: new, load, resume, attach, fork, list, close, delete; and who may what there.

A session that somebody may not see is answered like one that is not there, in the same words. Above is the desk;
below are the house and its rooms.
"""

from __future__ import annotations

from collections.abc import Awaitable
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

from msgspec import UNSET

from dragoman.dialect.beside import side
from dragoman.engine.exchange import Done
from dragoman.engine.message import Incoming
from dragoman.engine.reading import read
from dragoman.errors import Kind, ProtocolError
from dragoman.host import premises
from dragoman.host.directory import ADMIN, EDITOR, RANK, VIEWER, lesser, may
from dragoman.host.logins import Login
from dragoman.host.room import Room
from dragoman.schema.auth import AuthenticateResult, LogoutResult
from dragoman.schema.host import AttachParams, AttachResult, AttachRole, DetachParams, DetachResult, HistoryPolicy
from dragoman.schema.mcp import McpServer
from dragoman.schema.session import (
    CloseSessionResult,
    DeleteSessionResult,
    ForkSessionResult,
    ListSessionsResult,
    LoadSessionResult,
    NewSessionResult,
    ResumeSessionResult,
    SessionInfo,
)

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from dragoman.host.desk import Desk

# Sessions in one answer to session/list.
PAGE = 100


def not_found(session: str) -> ProtocolError:
    """The one answer for what is not there and for what nobody may know of."""
    return ProtocolError(
        Kind.SESSION_NOT_FOUND,
        f"there is no session {session!r}",
        {"sessionId": session, "suggestion": "open one with session/new"},
    )


class Calls:
    """What one client asks about sessions."""

    def __init__(self, desk: Desk) -> None:
        self._desk = desk
        self._house = desk.house

    # --- opening ------------------------------------------------------------------------------------------------

    async def new(self, incoming: Incoming, done: Done) -> None:
        """session/new: an agent is started for it; who opened it is its admin."""
        params, desk, house = incoming.params, self._desk, self._house
        self._check_may_open("open new ones")
        cwd, directories = self._folders(params)
        servers = await self._servers(params.mcp_servers or (), cwd)
        room = await house.new_room(desk.visitor)
        try:
            more: dict[str, Any] = {"mcp_servers": servers, "directories": directories}
            mode = side(params).get("initialMode") or house.named(room.standing.agent).mode
            if isinstance(mode, str) and mode:
                more["mode"] = mode
            if params.system_prompt:
                more["system_prompt"] = params.system_prompt
            try:
                await room.begin(cwd, **more)
                await house.directory.created(room.id, desk.visitor.user)
            except BaseException:
                await house.abandon(room)
                raise
            result = NewSessionResult(session_id=room.id, **self._settings(room))
            await room.join(desk, desk.visitor.role, lambda: done(result, None), after=0, answers_first=True)
        finally:
            house.done_with(room)

    def _check_may_open(self, what: str) -> None:
        """Who came by a share link, or may only look, has no agents of their own."""
        visitor = self._desk.visitor
        if visitor.session is not None or not may(visitor.role, EDITOR):
            raise ProtocolError(Kind.PERMISSION_DENIED, f"you were let in to look at sessions, not to {what}")

    def _folders(self, params: Any) -> tuple[str, list[str]]:
        roots = self._house.roots(self._desk.visitor)
        cwd = premises.found(premises.admitted(params.cwd, roots, "cwd"), "cwd")
        more = params.additional_directories or ()
        return cwd, [premises.admitted(path, roots, f"additionalDirectories[{at}]") for at, path in enumerate(more)]

    async def _servers(self, servers: Any, cwd: str) -> list[McpServer]:
        """The owner brings what they like; others what the house knows or policy allows."""
        given = list(servers)
        if self._desk.visitor.local or not given:
            return given
        known = [premises.known(server, self._house.servers) for server in given]
        unknown = [server for server, ours in zip(given, known, strict=True) if ours is None]
        allowed = await self._house.allowed(unknown, cwd) if unknown else []
        refused = [server.name for server in unknown if server not in allowed]
        if refused:
            message = (
                f"the host does not start the MCP servers {', '.join(refused)}: it does not know them by this name "
                "and command, and policy does not allow mcp_start"
            )
            raise ProtocolError(Kind.PERMISSION_DENIED, message, {"servers": refused})
        return [ours or server for server, ours in zip(given, known, strict=True)]

    def _settings(self, room: Room) -> dict[str, Any]:
        standing = room.standing
        return {"modes": standing.modes or UNSET, "config_options": self._desk.shown(standing.options)}

    @asynccontextmanager
    async def _room(self, session: str, least: str = VIEWER) -> AsyncIterator[tuple[Room, str]]:
        """The room of a session that this visitor may see, and as what."""
        role = await self._desk.role_in(session)
        if role is None:
            raise not_found(session)
        if not may(role, least):
            message = f"you are {role} in this session, and this needs {least}; ask an admin of it"
            raise ProtocolError(Kind.PERMISSION_DENIED, message, {"sessionId": session, "needs": least})
        room = await self._house.room(session)
        try:
            yield room, role
        finally:
            self._house.done_with(room)

    def load(self, incoming: Incoming, done: Done) -> Awaitable[None]:
        """session/load: the whole history, or that after a cursor, then the answer; then everything live."""
        return self._open(incoming, done, LoadSessionResult, 0)

    def resume(self, incoming: Incoming, done: Done) -> Awaitable[None]:
        """session/resume: without the history, or with that after a cursor."""
        return self._open(incoming, done, ResumeSessionResult, None)

    async def _open(self, incoming: Incoming, done: Done, kind: Any, after: int | None) -> None:
        after = self._desk.cursors.pop(incoming.id, after)
        async with self._room(incoming.params.session_id) as (room, role):

            def answer() -> None:
                done(kind(**self._settings(room)), None)

            await room.join(self._desk, role, answer, after=after)

    def attach(self, incoming: Incoming, done: Done) -> Awaitable[None]:
        """session/attach (reference 5.17)."""
        return self._attach(incoming.params, done)

    def attach_values(self, incoming: Incoming, done: Done) -> Awaitable[None]:
        """_dragoman/attach, for peers that say only extensions."""
        return self._attach(read(AttachParams, incoming.values), done)

    async def _attach(self, params: AttachParams, done: Done) -> None:
        policy = params.history_policy or HistoryPolicy.FULL
        if policy not in (HistoryPolicy.FULL, HistoryPolicy.PENDING_ONLY, HistoryPolicy.NONE):
            raise ProtocolError(Kind.INVALID_PARAMS, f"historyPolicy is full, pending_only or none, not {policy!r}")
        cursor = params.cursor if isinstance(params.cursor, int) and not isinstance(params.cursor, bool) else None
        if params.cursor is not UNSET and params.cursor is not None and (cursor is None or cursor < 0):
            raise ProtocolError(Kind.INVALID_PARAMS, "cursor is the number of the last entry you heard of")
        after = cursor if cursor is not None else 0 if policy == HistoryPolicy.FULL else None
        async with self._room(params.session_id) as (room, role):
            if params.role == AttachRole.CONTROLLER and not may(role, EDITOR):
                message = f"you are {role} in this session: attach as an observer, or ask an admin of it"
                raise ProtocolError(Kind.PERMISSION_DENIED, message, {"sessionId": room.id, "role": role})
            is_observer = params.role == AttachRole.OBSERVER
            if is_observer:
                role = lesser(role, VIEWER)

            def answer() -> None:
                told = AttachRole.CONTROLLER if may(role, EDITOR) else AttachRole.OBSERVER
                done(AttachResult(role=told, cursor=room.seq), None)

            member = await room.join(self._desk, role, answer, after=after)
            if is_observer:
                member.most = VIEWER

    def detach(self, params: DetachParams) -> DetachResult:
        """session/detach: hear no more of it; what one said goes on."""
        self._desk.joined(params.session_id)[0].leave(self._desk)
        return DetachResult()

    def detach_values(self, said: Any) -> DetachResult:
        """_dragoman/detach."""
        return self.detach(read(DetachParams, said))

    async def fork(self, incoming: Incoming, done: Done) -> None:
        """session/fork: another session that begins with the history of this one."""
        params, desk, house = incoming.params, self._desk, self._house
        async with self._room(params.session_id, EDITOR) as (origin, _):
            if desk.visitor.session is not None:
                raise ProtocolError(Kind.PERMISSION_DENIED, "this link opens one session and no other")
            room = await house.fork(origin, desk.visitor)
            try:
                await house.directory.created(room.id, desk.visitor.user)
                result = ForkSessionResult(session_id=room.id, **self._settings(room))
                await room.join(desk, desk.visitor.role, lambda: done(result, None))
            finally:
                house.done_with(room)

    # --- finding, leaving, deleting -----------------------------------------------------------------------------

    async def list(self, params: Any) -> ListSessionsResult:
        """session/list: those that this visitor may see."""
        try:
            start = int(params.cursor or 0)
        except ValueError:
            raise ProtocolError(Kind.INVALID_PARAMS, "cursor is what the page before gave as nextCursor") from None
        seen = [one for one in await self._house.visible(self._desk.visitor) if not params.cwd or one.cwd == params.cwd]
        page = [
            SessionInfo(
                session_id=one.session_id,
                cwd=one.cwd or "/",
                title=one.name or one.title or UNSET,
                updated_at=one.updated_at,
            )
            for one in seen[start : start + PAGE]
        ]
        more = start + PAGE < len(seen)
        return ListSessionsResult(sessions=page, next_cursor=str(start + PAGE) if more else UNSET)

    async def close(self, params: Any) -> CloseSessionResult:
        """session/close: leave; what one said oneself ends. It sleeps when all have left, or an admin closes it."""
        room, member = self._desk.joined(params.session_id)
        self._house.use(room)
        try:
            if ours := room.queue.of_desk(self._desk.id):
                room.cancel(self._desk)
                if room.queue.running in ours:
                    await room.settled()
            room.leave(self._desk)
            if room.queue.is_empty and (not room.members or may(member.role, ADMIN)):
                await room.sleep()
        finally:
            self._house.done_with(room)
        return CloseSessionResult()

    async def delete(self, params: Any) -> DeleteSessionResult:
        """session/delete: for good, whoever is there. What is not there, or not theirs to know of, is gone already."""
        try:
            async with self._room(params.session_id, ADMIN) as (room, _):
                await self._house.delete(room, self._desk.visitor.user)
        except ProtocolError as error:
            if error.kind != Kind.SESSION_NOT_FOUND:
                raise
        return DeleteSessionResult()

    async def set_role(self, said: Any) -> dict[str, Any]:
        """_dragoman/set_role {sessionId, user, role}: an admin makes somebody something, or (null) nothing."""
        session, user, role = (
            (said.get(name) for name in ("sessionId", "user", "role")) if _is_object(said) else [None] * 3
        )
        if not isinstance(session, str) or not isinstance(user, str) or not (role is None or role in RANK):
            message = f"sessionId and user are texts, role is one of {', '.join(RANK)}, or null to take somebody out"
            raise ProtocolError(Kind.INVALID_PARAMS, message)
        async with self._room(session, ADMIN) as (room, _):
            await self._house.directory.set_role(session, user, role)
            await self._house.roles_changed(room.id)
        return {}

    # --- logging in ---------------------------------------------------------------------------------------------

    async def authenticate(self, params: Any) -> AuthenticateResult:
        """authenticate: with an agent of the kind behind this door; those that are started later are told as well."""
        self._check_may_open("log in")
        credentials = side(params).get("credentials")
        login = Login(params.method_id, credentials if isinstance(credentials, dict) else {})
        await self._house.log_in(self._desk.visitor, login)
        return AuthenticateResult()

    async def logout(self, _: Any) -> LogoutResult:
        """logout."""
        self._check_may_open("log out")
        self._house.logins.forget(self._desk.visitor.user, self._house.named(self._desk.visitor.agent).name)
        return LogoutResult()


def _is_object(said: Any) -> bool:
    return isinstance(said, dict)
