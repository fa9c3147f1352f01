"""The house: agents by name, rooms by session, one store, and the clients that come and go.

    async with House(agents, store=store, directory=directory) as house:
        await house.receive(transport, visitor)      # serves one client until it leaves

Rooms come from the store when somebody wants them, and go when nobody does. Above are doors and commands, which know
who comes; below are desks and rooms. Knows no HTTP.
"""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import Callable, Mapping, Sequence
from types import TracebackType
from typing import Any, cast

from dragoman.config.config_file import NamedAgent
from dragoman.errors import ConnectionFailed, Kind, ProtocolError
from dragoman.host import access, session_names
from dragoman.host.access import default_roots, session_not_found
from dragoman.host.account_calls import Accounts
from dragoman.host.agents import AgentCatalog, FindTarget
from dragoman.host.auth.roles import ADMIN, MemorySessionRoles, SessionRoles, lower_role
from dragoman.host.counters import Counters
from dragoman.host.host_client import HostClient
from dragoman.host.limits import HostLimits
from dragoman.host.pool.pool import Pool
from dragoman.host.room.agent import delete_agent_session, fork_agent_session
from dragoman.host.room.members import PAGE_SIZE
from dragoman.host.room.notifications import Notification, closed_notification
from dragoman.host.room.room import Room
from dragoman.policy.decide import Policy
from dragoman.roles.agent.session import new_id
from dragoman.roles.client.permission.guard import Guard
from dragoman.roles.client.permission.prompt import AskUser
from dragoman.schema.mcp import McpServer
from dragoman.store.contract import Draft, EntryKind, Store, Summary, decode_raw_entry
from dragoman.store.session_log import timestamp
from dragoman.store.session_state import SessionState
from dragoman.store.upkeep import MonitoredStore
from dragoman.transport.base import Transport
from dragoman.transport.remote.server.auth import Principal

logger = logging.getLogger("dragoman")


# How long a room that came from the store waits for whoever asked for it. Seconds; they are there already, or gone.
UNCLAIMED_TIMEOUT = 1.0


def default_guard(ask: AskUser | None) -> Guard:
    """A guard by the built-in policy alone: nothing remembered, nothing audited; the room keeps the time."""
    return Guard(Policy(), ask=ask, answer_timeout=HostLimits().unattended_timeout * 2)


class Host:
    """What a host is, but for its doors."""

    def __init__(
        self,
        agents: Sequence[NamedAgent],
        *,
        store: Store,
        session_roles: SessionRoles | None = None,
        make_guard: Callable[[AskUser | None], Guard] = default_guard,
        roots_of: Callable[[Principal], Sequence[str] | None] = default_roots,
        mcp_servers: Mapping[str, McpServer] | None = None,
        limits: HostLimits = HostLimits(),  # noqa: B008  (immutable)
        target_of: FindTarget = lambda named: named.argv,
        report: Callable[[str], None] | None = None,
        share_processes: bool = False,
    ) -> None:
        """The first of the agents is meant where none is named. The store stays the caller's to close.

        `reach` gives the command of an agent, or a transport to one that runs already, once for each that is needed:
        one a session, or with `shares` one for all sessions of a user.
        """
        self.session_roles: SessionRoles = session_roles or MemorySessionRoles()
        self.make_guard = make_guard
        self.roots_of = roots_of
        self.mcp_servers = dict(mcp_servers or {})
        self.limits = limits
        self.report = report or logger.info
        self.monitored_store = MonitoredStore(store, self._repair_sessions, self.report)
        self.store = cast(Store, self.monitored_store)
        self.agent_catalog = AgentCatalog(agents, target_of, self.report, limits.open_timeout)
        self.pool = Pool() if share_processes else None
        self.counters = Counters()
        self.accounts = Accounts()
        self.rooms: dict[str, Room] = {}
        self.clients: set[HostClient] = set()
        self._local: set[str] = set()  # users who came as the owner of this process, on this machine
        self._reopening: dict[str, asyncio.Future[Room]] = {}
        self._is_closing = False

    async def __aenter__(self) -> Host:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    # --- clients ------------------------------------------------------------------------------------------------

    async def serve_client(self, transport: Transport, principal: Principal) -> None:
        """Serve one client until it leaves."""
        if self._is_closing:
            await transport.close("the host is stopping")
            return
        if principal.is_local:
            self._local.add(principal.user)
        desk = HostClient(self, transport, principal)
        self.clients.add(desk)
        who = principal.user + (f" at {principal.address}" if principal.address else "")
        self.report(f"{who} is connected")
        try:
            await desk.serve()
        finally:
            self.clients.discard(desk)
            self.report(f"{who} is not connected any more")

    def default_folder(self, principal: Principal) -> str:
        """The folder of sessions whose client names none."""
        roots = self.roots_of(principal)
        return roots[0] if roots else os.getcwd()

    def is_local(self, user: str) -> bool:
        """Whether a user is the owner of this process, from wherever they come now."""
        return user in self._local or (user != "" and user == self.session_roles.owner)

    def roots_of_user(self, user: str) -> Sequence[str] | None:
        """Where sessions of a user may work, whoever wakes them. None: anywhere."""
        return self.roots_of(Principal(user=user, is_local=self.is_local(user)))

    async def responsible(self, session: str, opener: str) -> list[str]:
        """Whose rights a session has: of who opened it and is still in it, else of its admins, else of the owner."""
        members = await self.session_roles.members_of(session)
        if opener in members:
            return [opener]
        return [user for user, role in members.items() if role == ADMIN] or [self.session_roles.owner]

    async def apply_role_changes(self, session: str) -> None:
        """Somebody may do more, less or nothing in a session: those who are there notice at once."""
        room = self.rooms.get(session)
        for member in list(room.members.values()) if room is not None else ():
            role = await member.client.role_in(session)
            if room is None or member.client.id not in room.members:
                continue
            if role is None:
                member.notify(closed_notification(session, "you were taken out of this session"))
                room.leave(member.client)
            else:
                room.set_role(member.client, role)

    # --- agents -------------------------------------------------------------------------------------------------

    async def request_agents(self, user: str, name: str, method: str, params: Any) -> None:
        """Ask something of all agents of this name that are awake for sessions of this user; who cannot is reported."""
        rooms = [room for room in self.rooms.values() if room.state.agent == name and room.agent is not None]
        await asyncio.gather(*(self._request_agent(room, user, method, params) for room in rooms))

    async def _request_agent(self, room: Room, user: str, method: str, params: Any) -> None:
        if await room.login_user() != user or (agent := room.agent) is None:
            return
        try:
            await agent.request(method, params, timeout=self.limits.stop_timeout)
        except (ProtocolError, ConnectionFailed) as error:
            self.report(f"session {room.id}: its agent did not take {method}: {error}")

    def notify_user(self, user: str, agent: str, notification: Notification) -> None:
        """Tell the clients that this user has at the door of an agent something that is about no session."""
        for desk in self.clients:
            if desk.principal.user == user and self.agent_catalog.find_agent(desk.principal.agent).name == agent:
                desk.notify(notification)

    async def startable(self, servers: Sequence[McpServer], cwd: str) -> list[McpServer | None]:
        """The servers as they are started for remote users; None for one that we do not know and policy refuses."""
        known = [access.configured_server(server, self.mcp_servers) for server in servers]
        unknown = [server for server, ours in zip(servers, known, strict=True) if ours is None]
        allowed = await self.allowed_servers(unknown, cwd) if unknown else []
        return [ours or (server if server in allowed else None) for server, ours in zip(servers, known, strict=True)]

    async def allowed_servers(self, servers: Sequence[McpServer], cwd: str) -> list[McpServer]:
        """Those of the servers that policy lets anybody start; nobody is asked."""
        guard = self.make_guard(None)
        try:
            return await guard.allowed_servers(servers, cwd)
        finally:
            await guard.close()

    # --- rooms --------------------------------------------------------------------------------------------------

    async def acquire_room(self, session: str) -> Room:
        """The room of a session, from the store if need be; being used until `done_with`."""
        if self._is_closing:
            raise ProtocolError(Kind.INVALID_STATE, "the host is stopping; try again when it is back")
        while (room := self.rooms.get(session)) is None:  # it may be forgotten again before we are told
            opening = self._reopening.get(session)
            if opening is None:
                opening = self._reopening[session] = asyncio.ensure_future(self._reopen_room(session))
                opening.add_done_callback(lambda done: self._on_reopened(session, done))
            await asyncio.shield(opening)
        if room.is_closed:
            raise session_not_found(session)
        self.retain_room(room)
        return room

    def _on_reopened(self, session: str, done: asyncio.Future[Room]) -> None:
        self._reopening.pop(session, None)
        if not done.cancelled() and done.exception() is None:
            # Whoever asked for it may have left meanwhile; then nobody else would let it go.
            asyncio.get_running_loop().call_later(UNCLAIMED_TIMEOUT, done.result().start_idle_timer)

    async def _reopen_room(self, session: str) -> Room:
        try:
            room = await Room.restore(self, session)
        except ProtocolError as error:
            raise (session_not_found(session) if error.kind == Kind.SESSION_NOT_FOUND else error) from None
        if not room.seq:
            raise session_not_found(session)
        self.counters.sessions += 1
        return self.rooms.setdefault(session, room)

    async def standing(self, session: str, upto: int | None = None) -> SessionState:
        """A session as its log has it, up to a number."""
        standing = SessionState((await self.store.find(session)).imported)
        while upto is None or standing.seq < upto:
            limit = PAGE_SIZE if upto is None else min(PAGE_SIZE, upto - standing.seq)
            lines = await self.store.lines(session, standing.seq, limit, intact=True)
            if not lines:
                break
            for line in lines:
                standing.apply(decode_raw_entry(line))
        return standing

    async def create_room(self, principal: Principal) -> Room:
        """An empty room for a session that is about to be opened; being used until `done_with`."""
        if self._is_closing:
            raise ProtocolError(Kind.INVALID_STATE, "the host is stopping; try again when it is back")
        self.check_session_limit(principal.user)
        room = Room(self, new_id(), SessionState())
        room.opener = principal.user
        room.state.agent = self.agent_catalog.find_agent(principal.agent).name
        self.rooms[room.id] = room
        self.counters.sessions += 1
        self.retain_room(room)
        return room

    def check_session_limit(self, user: str) -> None:
        """Raise where a user has as many sessions awake as anybody may."""
        theirs = [room for room in self.rooms.values() if room.opener == user and (room.has_agent or not room.seq)]
        if len(theirs) >= self.limits.max_sessions:
            message = f"{len(theirs)} sessions of {user} are awake; close some of them first"
            raise ProtocolError(Kind.RATE_LIMITED, message, {"limit": self.limits.max_sessions})

    async def fork_room(self, origin: Room, principal: Principal) -> Room:
        """A room whose log begins with that of another; an agent that cannot fork is told what was said."""
        await origin.log.wait_stored()
        copy = await self.copy_log(origin.id, principal, origin.seq)
        room = await self.acquire_room(copy.session_id)
        body = await fork_agent_session(origin)
        if body is not None:
            await room.log.append_and_wait(EntryKind.OPENED, body, actor=principal.user)
        return room

    async def copy_log(self, session: str, visitor: Principal, upto: int | None) -> Summary:
        """Another log that begins as this one does, of this visitor, under whose roots its folders must be."""
        user, standing = visitor.user, await self.standing(session, upto)
        access.check_copy(standing, self.roots_of(visitor) if visitor.is_local else self.roots_of_user(user))
        is_theirs = user in await self.responsible(session, standing.owner)
        copy = await self.store.fork(session, new_id(), upto)
        if not is_theirs:
            await self.store.keep_credentials(copy.session_id, {})
        note = Draft(kind=EntryKind.MEMBER, actor=user, time=timestamp(), body={"owner": user})
        await self.store.append(copy.session_id, [note])
        await self.session_roles.set_creator(copy.session_id, user)
        return copy

    async def _repair_sessions(self, sessions: set[str]) -> None:
        """There is room again: turns whose end could not be kept are over in their logs too."""
        for session in sessions:
            try:
                room = await self.acquire_room(session)
            except ProtocolError:
                continue  # nothing of it was ever kept
            try:
                if room.queue.running is None:
                    await room.repair()
            finally:
                self.release_room(room)

    async def discard_room(self, room: Room) -> None:
        """A session that could not be opened: nothing of it stays."""
        await room.close("the session could not be opened")
        self.forget_room(room.id)
        if room.seq:
            await self.store.delete(room.id)

    def retain_room(self, room: Room) -> None:
        """Somebody is about to do something in this room: it stays."""
        room.use_count += 1
        room.stop_idle_timer()

    def release_room(self, room: Room) -> None:
        """The opposite of `use`."""
        room.use_count -= 1
        room.start_idle_timer()

    def forget_room(self, session: str) -> None:
        """A room in which nobody is, and nothing happens."""
        self.rooms.pop(session, None)

    async def delete_session(self, room: Room, by: str) -> None:
        """End a session for good, whoever is in it."""
        why = f"the session was deleted by {by}"
        room.close_reason, room.is_closed = why, True  # nothing begins here any more
        room.broadcast(closed_notification(room.id, why))
        for waiting in room.queue.clear():
            waiting.done(None, session_not_found(room.id))
        room.cancel_turn()
        await room.wait_turn_end()
        await delete_agent_session(room)
        await room.close(why)
        await self.store.delete(room.id)
        await self.session_roles.remove_session(room.id)
        self.forget_room(room.id)

    async def role_in(self, principal: Principal, session: str) -> str | None:
        """What a visitor is in a session; None: they may not know that it is there."""
        if principal.session is not None:
            return principal.role if principal.session == session else None
        role = await self.session_roles.role_of(principal.user, session)
        return None if role is None else lower_role(role, principal.role)

    async def visible_sessions(self, principal: Principal) -> list[Summary]:
        """The sessions that a visitor may see, by the names that they have for them; what changed last comes first."""
        kept = await self.store.sessions()
        if principal.session is not None:
            return [one for one in kept if one.session_id == principal.session]
        roles = await self.session_roles.sessions_of(principal.user)
        # What nobody opened here is its owner's, also when they come from elsewhere.
        namer = self.naming_user(principal)
        theirs = [
            one
            for one in kept
            if one.session_id in roles or (namer is None and await self.role_in(principal, one.session_id) is not None)
        ]
        return session_names.with_display_names(theirs, namer, self.session_roles.owner)

    def naming_user(self, principal: Principal) -> str | None:
        """Whose names a visitor gives to sessions: their own; None for the owner of the host, from wherever."""
        return None if principal.is_local or principal.user == self.session_roles.owner else principal.user

    async def rename_session(self, principal: Principal, session: str, name: str | None) -> None:
        """Give a session a name of this visitor's, or take the one away that it has."""
        wanted = None if name is None else session_names.stored_name(name, self.naming_user(principal))
        try:
            await self.store.rename(session, wanted)
        except ProtocolError as error:
            raise session_names.rename_error(name or "", error, await self.visible_sessions(principal)) from None

    # --- the end ------------------------------------------------------------------------------------------------

    async def close(self) -> None:
        """Stop: turns are interrupted and logged so, agents end, clients are let go. Nothing is left running."""
        self._is_closing = True
        await self.monitored_store.close()
        if self._reopening:
            await asyncio.wait(set(self._reopening.values()))
        why, rooms = "the host was stopped", list(self.rooms.values())
        for error in await asyncio.gather(*(room.close(why) for room in rooms), return_exceptions=True):
            if error is not None:  # what goes wrong in one room must not keep the others open
                self.report(f"a session could not be closed in order: {error!r}")
        self.rooms.clear()
        if self.pool is not None:
            await self.pool.close()
        await asyncio.gather(*(desk.connection.close(why) for desk in list(self.clients)), return_exceptions=True)
