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
from dragoman.host.access import not_found, own_roots
from dragoman.host.account_calls import Accounts
from dragoman.host.agents import Reach, Roster
from dragoman.host.auth.roles import ADMIN, Directory, MemoryDirectory, lesser
from dragoman.host.counters import Tally
from dragoman.host.host_client import Desk
from dragoman.host.limits import Bounds
from dragoman.host.pool.pool import Pool
from dragoman.host.room.agent import forked, renounced
from dragoman.host.room.members import PAGE
from dragoman.host.room.notifications import News, closed
from dragoman.host.room.room import Room
from dragoman.policy.decide import Policy
from dragoman.roles.agent.session import new_id
from dragoman.roles.client.permission.guard import Guard
from dragoman.roles.client.permission.prompt import AskUser
from dragoman.schema.mcp import McpServer
from dragoman.store.contract import Draft, EntryKind, Store, Summary, read_line
from dragoman.store.session_log import now
from dragoman.store.session_state import Standing
from dragoman.store.upkeep import Upkeep
from dragoman.transport.base import Transport
from dragoman.transport.remote.server.auth import Visitor

logger = logging.getLogger("dragoman")


# How long a room that came from the store waits for whoever asked for it. Seconds; they are there already, or gone.
UNCLAIMED = 1.0


def plain_guard(ask: AskUser | None) -> Guard:
    """A guard by the built-in policy alone: nothing remembered, nothing audited; the room keeps the time."""
    return Guard(Policy(), ask=ask, patience=Bounds().unattended * 2)


class House:
    """What a host is, but for its doors."""

    def __init__(
        self,
        agents: Sequence[NamedAgent],
        *,
        store: Store,
        directory: Directory | None = None,
        guard: Callable[[AskUser | None], Guard] = plain_guard,
        roots: Callable[[Visitor], Sequence[str] | None] = own_roots,
        servers: Mapping[str, McpServer] | None = None,
        bounds: Bounds = Bounds(),  # noqa: B008  (immutable)
        reach: Reach = lambda named: named.words,
        report: Callable[[str], None] | None = None,
        shares: bool = False,
    ) -> None:
        """The first of the agents is meant where none is named. The store stays the caller's to close.

        `reach` gives the command of an agent, or a transport to one that runs already, once for each that is needed:
        one a session, or with `shares` one for all sessions of a user.
        """
        self.directory: Directory = directory or MemoryDirectory()
        self.guard = guard
        self.roots = roots
        self.servers = dict(servers or {})
        self.bounds = bounds
        self.report = report or logger.info
        self.upkeep = Upkeep(store, self._mend, self.report)
        self.store = cast(Store, self.upkeep)
        self.roster = Roster(agents, reach, self.report, bounds.opening)
        self.pool = Pool() if shares else None
        self.tally = Tally()
        self.accounts = Accounts()
        self.rooms: dict[str, Room] = {}
        self.desks: set[Desk] = set()
        self._local: set[str] = set()  # users who came as the owner of this process, on this machine
        self._opening: dict[str, asyncio.Future[Room]] = {}
        self._is_closing = False

    async def __aenter__(self) -> House:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    # --- clients ------------------------------------------------------------------------------------------------

    async def receive(self, transport: Transport, visitor: Visitor) -> None:
        """Serve one client until it leaves."""
        if self._is_closing:
            await transport.close("the host is stopping")
            return
        if visitor.local:
            self._local.add(visitor.user)
        desk = Desk(self, transport, visitor)
        self.desks.add(desk)
        who = visitor.user + (f" at {visitor.address}" if visitor.address else "")
        self.report(f"{who} is connected")
        try:
            await desk.serve()
        finally:
            self.desks.discard(desk)
            self.report(f"{who} is not connected any more")

    def place_of(self, visitor: Visitor) -> str:
        """The folder of sessions whose client names none."""
        roots = self.roots(visitor)
        return roots[0] if roots else os.getcwd()

    def is_local(self, user: str) -> bool:
        """Whether a user is the owner of this process, from wherever they come now."""
        return user in self._local or (user != "" and user == self.directory.owner)

    def roots_of(self, user: str) -> Sequence[str] | None:
        """Where sessions of a user may work, whoever wakes them. None: anywhere."""
        return self.roots(Visitor(user=user, local=self.is_local(user)))

    async def responsible(self, session: str, opener: str) -> list[str]:
        """Whose rights a session has: of who opened it and is still in it, else of its admins, else of the owner."""
        members = await self.directory.members_of(session)
        if opener in members:
            return [opener]
        return [user for user, role in members.items() if role == ADMIN] or [self.directory.owner]

    async def roles_changed(self, session: str) -> None:
        """Somebody may do more, less or nothing in a session: those who are there notice at once."""
        room = self.rooms.get(session)
        for member in list(room.members.values()) if room is not None else ():
            role = await member.desk.role_in(session)
            if room is None or member.desk.id not in room.members:
                continue
            if role is None:
                member.hear(closed(session, "you were taken out of this session"))
                room.leave(member.desk)
            else:
                room.set_role(member.desk, role)

    # --- agents -------------------------------------------------------------------------------------------------

    async def tell_agents(self, user: str, name: str, method: str, params: Any) -> None:
        """Ask something of all agents of this name that are awake for sessions of this user; who cannot is reported."""
        rooms = [room for room in self.rooms.values() if room.standing.agent == name and room.agent is not None]
        await asyncio.gather(*(self._tell_agent(room, user, method, params) for room in rooms))

    async def _tell_agent(self, room: Room, user: str, method: str, params: Any) -> None:
        if await room.whose() != user or (agent := room.agent) is None:
            return
        try:
            await agent.request(method, params, timeout=self.bounds.stopping)
        except (ProtocolError, ConnectionFailed) as error:
            self.report(f"session {room.id}: its agent did not take {method}: {error}")

    def tell_user(self, user: str, agent: str, news: News) -> None:
        """Tell the clients that this user has at the door of an agent something that is about no session."""
        for desk in self.desks:
            if desk.visitor.user == user and self.roster.named(desk.visitor.agent).name == agent:
                desk.hear(news)

    async def startable(self, servers: Sequence[McpServer], cwd: str) -> list[McpServer | None]:
        """The servers as they are started for remote users; None for one that we do not know and policy refuses."""
        known = [access.known(server, self.servers) for server in servers]
        unknown = [server for server, ours in zip(servers, known, strict=True) if ours is None]
        allowed = await self.allowed(unknown, cwd) if unknown else []
        return [ours or (server if server in allowed else None) for server, ours in zip(servers, known, strict=True)]

    async def allowed(self, servers: Sequence[McpServer], cwd: str) -> list[McpServer]:
        """Those of the servers that policy lets anybody start; nobody is asked."""
        guard = self.guard(None)
        try:
            return await guard.servers(servers, cwd)
        finally:
            await guard.close()

    # --- rooms --------------------------------------------------------------------------------------------------

    async def room(self, session: str) -> Room:
        """The room of a session, from the store if need be; being used until `done_with`."""
        if self._is_closing:
            raise ProtocolError(Kind.INVALID_STATE, "the host is stopping; try again when it is back")
        while (room := self.rooms.get(session)) is None:  # it may be forgotten again before we are told
            opening = self._opening.get(session)
            if opening is None:
                opening = self._opening[session] = asyncio.ensure_future(self._reopen(session))
                opening.add_done_callback(lambda done: self._reopened(session, done))
            await asyncio.shield(opening)
        if room.is_over:
            raise not_found(session)
        self.use(room)
        return room

    def _reopened(self, session: str, done: asyncio.Future[Room]) -> None:
        self._opening.pop(session, None)
        if not done.cancelled() and done.exception() is None:
            # Whoever asked for it may have left meanwhile; then nobody else would let it go.
            asyncio.get_running_loop().call_later(UNCLAIMED, done.result().rest)

    async def _reopen(self, session: str) -> Room:
        try:
            room = await Room.reopened(self, session)
        except ProtocolError as error:
            raise (not_found(session) if error.kind == Kind.SESSION_NOT_FOUND else error) from None
        if not room.seq:
            raise not_found(session)
        self.tally.sessions += 1
        return self.rooms.setdefault(session, room)

    async def standing(self, session: str, upto: int | None = None) -> Standing:
        """A session as its log has it, up to a number."""
        standing = Standing((await self.store.find(session)).imported)
        while upto is None or standing.seq < upto:
            limit = PAGE if upto is None else min(PAGE, upto - standing.seq)
            lines = await self.store.lines(session, standing.seq, limit, intact=True)
            if not lines:
                break
            for line in lines:
                standing.note(read_line(line))
        return standing

    async def new_room(self, visitor: Visitor) -> Room:
        """An empty room for a session that is about to be opened; being used until `done_with`."""
        if self._is_closing:
            raise ProtocolError(Kind.INVALID_STATE, "the host is stopping; try again when it is back")
        self.check_awake(visitor.user)
        room = Room(self, new_id(), Standing())
        room.opener = visitor.user
        room.standing.agent = self.roster.named(visitor.agent).name
        self.rooms[room.id] = room
        self.tally.sessions += 1
        self.use(room)
        return room

    def check_awake(self, user: str) -> None:
        """Raise where a user has as many sessions awake as anybody may."""
        theirs = [room for room in self.rooms.values() if room.opener == user and (room.is_held or not room.seq)]
        if len(theirs) >= self.bounds.sessions:
            message = f"{len(theirs)} sessions of {user} are awake; close some of them first"
            raise ProtocolError(Kind.RATE_LIMITED, message, {"limit": self.bounds.sessions})

    async def fork(self, origin: Room, visitor: Visitor) -> Room:
        """A room whose log begins with that of another; an agent that cannot fork is told what was said."""
        await origin.chronicle.kept()
        copy = await self.copy(origin.id, visitor, origin.seq)
        room = await self.room(copy.session_id)
        body = await forked(origin)
        if body is not None:
            await room.chronicle.record(EntryKind.OPENED, body, actor=visitor.user)
        return room

    async def copy(self, session: str, visitor: Visitor, upto: int | None) -> Summary:
        """Another log that begins as this one does, of this visitor, under whose roots its folders must be."""
        user, standing = visitor.user, await self.standing(session, upto)
        access.check_copy(standing, self.roots(visitor) if visitor.local else self.roots_of(user))
        is_theirs = user in await self.responsible(session, standing.owner)
        copy = await self.store.fork(session, new_id(), upto)
        if not is_theirs:
            await self.store.keep_credentials(copy.session_id, {})
        note = Draft(kind=EntryKind.MEMBER, actor=user, time=now(), body={"owner": user})
        await self.store.append(copy.session_id, [note])
        await self.directory.created(copy.session_id, user)
        return copy

    async def _mend(self, sessions: set[str]) -> None:
        """There is room again: turns whose end could not be kept are over in their logs too."""
        for session in sessions:
            try:
                room = await self.room(session)
            except ProtocolError:
                continue  # nothing of it was ever kept
            try:
                if room.queue.running is None:
                    await room.mend()
            finally:
                self.done_with(room)

    async def abandon(self, room: Room) -> None:
        """A session that could not be opened: nothing of it stays."""
        await room.close("the session could not be opened")
        self.forget(room.id)
        if room.seq:
            await self.store.delete(room.id)

    def use(self, room: Room) -> None:
        """Somebody is about to do something in this room: it stays."""
        room.uses += 1
        room.rouse()

    def done_with(self, room: Room) -> None:
        """The opposite of `use`."""
        room.uses -= 1
        room.rest()

    def forget(self, session: str) -> None:
        """A room in which nobody is, and nothing happens."""
        self.rooms.pop(session, None)

    async def delete(self, room: Room, by: str) -> None:
        """End a session for good, whoever is in it."""
        why = f"the session was deleted by {by}"
        room.why_closing, room.is_over = why, True  # nothing begins here any more
        room.broadcast(closed(room.id, why))
        for waiting in room.queue.clear():
            waiting.done(None, not_found(room.id))
        room.cancel_turn()
        await room.settled()
        await renounced(room)
        await room.close(why)
        await self.store.delete(room.id)
        await self.directory.remove(room.id)
        self.forget(room.id)

    async def role_in(self, visitor: Visitor, session: str) -> str | None:
        """What a visitor is in a session; None: they may not know that it is there."""
        if visitor.session is not None:
            return visitor.role if visitor.session == session else None
        role = await self.directory.role_of(visitor.user, session)
        return None if role is None else lesser(role, visitor.role)

    async def visible(self, visitor: Visitor) -> list[Summary]:
        """The sessions that a visitor may see, by the names that they have for them; what changed last comes first."""
        kept = await self.store.sessions()
        if visitor.session is not None:
            return [one for one in kept if one.session_id == visitor.session]
        roles = await self.directory.sessions_of(visitor.user)
        # What nobody opened here is its owner's, also when they come from elsewhere.
        namer = self.namer(visitor)
        theirs = [
            one
            for one in kept
            if one.session_id in roles or (namer is None and await self.role_in(visitor, one.session_id) is not None)
        ]
        return session_names.shown(theirs, namer, self.directory.owner)

    def namer(self, visitor: Visitor) -> str | None:
        """Whose names a visitor gives to sessions: their own; None for the owner of the host, from wherever."""
        return None if visitor.local or visitor.user == self.directory.owner else visitor.user

    async def rename(self, visitor: Visitor, session: str, name: str | None) -> None:
        """Give a session a name of this visitor's, or take the one away that it has."""
        wanted = None if name is None else session_names.kept(name, self.namer(visitor))
        try:
            await self.store.rename(session, wanted)
        except ProtocolError as error:
            raise session_names.refused(name or "", error, await self.visible(visitor)) from None

    # --- the end ------------------------------------------------------------------------------------------------

    async def close(self) -> None:
        """Stop: turns are interrupted and logged so, agents end, clients are let go. Nothing is left running."""
        self._is_closing = True
        await self.upkeep.close()
        if self._opening:
            await asyncio.wait(set(self._opening.values()))
        why, rooms = "the host was stopped", list(self.rooms.values())
        for error in await asyncio.gather(*(room.close(why) for room in rooms), return_exceptions=True):
            if error is not None:  # what goes wrong in one room must not keep the others open
                self.report(f"a session could not be closed in order: {error!r}")
        self.rooms.clear()
        if self.pool is not None:
            await self.pool.close()
        await asyncio.gather(*(desk.connection.close(why) for desk in list(self.desks)), return_exceptions=True)
