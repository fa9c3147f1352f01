"""The host: agents by name, rooms by session, one store, and the connected clients. Knows no HTTP.

A room is read from the store when it is needed and dropped when it is idle.
"""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import Callable, Mapping, Sequence
from types import TracebackType
from typing import TYPE_CHECKING, Any

import msgspec

from dragoman.config.config_file import NamedAgent
from dragoman.errors import ConnectionFailed, Kind, ProtocolError
from dragoman.host import access, access_changes, session_names
from dragoman.host.access import default_roots, moved_error, session_not_found
from dragoman.host.account_calls import Accounts
from dragoman.host.activity import Activity
from dragoman.host.agents import AgentCatalog, FindTarget, agent_target
from dragoman.host.auth.roles import ADMIN, MemorySessionRoles, SessionRoles, lower_role
from dragoman.host.host_client import HostClient
from dragoman.host.limits import HostLimits
from dragoman.host.pool.pool import Pool
from dragoman.host.room.agent import delete_agent_session, fork_agent_session
from dragoman.host.room.member import PAGE_SIZE
from dragoman.host.room.notifications import Notification, closed_notification
from dragoman.host.room.room import Room
from dragoman.ids import new_id, now
from dragoman.policy.decide import Policy
from dragoman.roles.client.permission.guard import Guard
from dragoman.roles.client.permission.questions import AskUser
from dragoman.roles.client.workspace import WorkspaceObserver
from dragoman.schema.mcp import McpServer
from dragoman.store.contract import Draft, EntryKind, Store, Summary, decode_raw_entry
from dragoman.store.session_state import SessionState, load_state
from dragoman.store.wrappers import MonitoredStore
from dragoman.transport.base import Transport
from dragoman.transport.remote.server.auth import Principal

if TYPE_CHECKING:
    from dragoman.host.fleet.fleet import Fleet

logger = logging.getLogger("dragoman")

# How long a room read from the store waits for the client that asked for it. Seconds.
UNCLAIMED_TIMEOUT = 1.0


def default_guard(ask: AskUser | None) -> Guard:
    """Return a guard with the built-in policy only: no stored grants, no audit. The room keeps the timeout."""
    return Guard(Policy(), ask=ask, answer_timeout=HostLimits().unattended_timeout * 2)


class Counters(msgspec.Struct):
    """What a host has done since it started. The code that does the thing increments its counter."""

    sessions: int = 0  # opened, or read from the store
    prompts: int = 0
    delivered_entries: int = 0  # entries sent to members, counted once for each member
    agent_starts: int = 0
    agent_crashes: int = 0  # agents that exited by themselves or did not start


class Host:
    """A host without its HTTP endpoint: async with Host(agents, store=store) as host: await host.serve_client(...)."""

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
        target_of: FindTarget = agent_target,
        report: Callable[[str], None] | None = None,
        warn: Callable[[str], None] | None = None,
        share_processes: bool = False,
        observer: WorkspaceObserver | None = None,
        workspace_tools: bool = False,
        fleet: Fleet | None = None,
    ) -> None:
        """Create a host. The first agent is the default. The caller closes the store.

        `target_of` returns the command of an agent, or a transport to a running one. It is called once for each process
        that is needed: one per session, or with `share_processes` one for all sessions of a user. `report` gets what
        happens, `warn` what an operator must see; without it, `report` gets that too.
        """
        self.session_roles: SessionRoles = session_roles or MemorySessionRoles()
        self.make_guard = make_guard
        self.observer = observer  # of what the agents do in their workspaces
        self.workspace_tools = workspace_tools  # whether agents get their workspaces as MCP tools too
        self.roots_of = roots_of
        self.mcp_servers = dict(mcp_servers or {})
        self.limits = limits
        self.report = report or logger.info
        self.store = MonitoredStore(store, self._repair_sessions, warn or self.report)
        self.agent_catalog = AgentCatalog(agents, target_of, self.report, limits.open_timeout)
        self.pool = Pool() if share_processes else None
        self.counters = Counters()
        self.accounts = Accounts()
        self.activity = Activity(self)
        self.rooms: dict[str, Room] = {}
        self.clients: set[HostClient] = set()
        self._local: set[str] = set()  # users who connected as the owner of this process, on this machine
        self._reopening: dict[str, asyncio.Future[Room]] = {}
        self._is_closing = False
        self.fleet = fleet  # None: this host is the only one on its store
        if fleet is not None:
            fleet.bind(self)

    async def __aenter__(self) -> Host:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    # --- clients ------------------------------------------------------------------------------------------------

    async def serve_client(self, transport: Transport, principal: Principal) -> None:
        """Serve one client until it disconnects."""
        if self._is_closing:
            await transport.close("the host is stopping")
            return
        if principal.is_local:
            self._local.add(principal.user)
        client = HostClient(self, transport, principal)
        self.clients.add(client)
        label = principal.user + (f" at {principal.address}" if principal.address else "")
        self.report(f"{label} is connected")
        try:
            await client.serve()
        finally:
            self.clients.discard(client)
            self.report(f"{label} disconnected")

    def default_folder(self, principal: Principal) -> str:
        """Return the folder for sessions whose client names none."""
        roots = self.roots_of(principal)
        return roots[0] if roots else os.getcwd()

    def is_local(self, user: str) -> bool:
        """Tell whether a user is the owner of this process, also when they connect from elsewhere."""
        return user in self._local or (user != "" and user == self.session_roles.owner)

    def roots_of_user(self, user: str) -> Sequence[str] | None:
        """Return the folders where sessions of a user may work, whoever starts the agent. None: any folder."""
        return self.roots_of(Principal(user=user, is_local=self.is_local(user)))

    async def responsible_users(self, session: str, opener: str) -> list[str]:
        """Return the users whose rights a session has: its opener if a member, else its admins, else the owner."""
        members = await self.session_roles.members_of(session)
        if opener in members:
            return [opener]
        return [user for user, role in members.items() if role == ADMIN] or [self.session_roles.owner]

    async def apply_role_changes(self, session: str) -> None:
        """Apply changed roles to the members who are present, to clients that are joining, and to prompts."""
        await access_changes.apply_role_changes(self, session)

    # --- agents -------------------------------------------------------------------------------------------------

    async def request_agents(self, user: str, name: str, method: str, params: Any) -> None:
        """Send a request to all running agents of this name in sessions of this user. Report those that fail."""
        rooms = [room for room in self.rooms.values() if room.state.agent == name and room.agent.remote is not None]
        await asyncio.gather(*(self._request_agent(room, user, method, params) for room in rooms))

    async def _request_agent(self, room: Room, user: str, method: str, params: Any) -> None:
        if await room.agent.login_user() != user or (agent := room.agent.remote) is None:
            return
        try:
            await agent.request(method, params, timeout=self.limits.stop_timeout)
        except (ProtocolError, ConnectionFailed) as error:
            self.report(f"session {room.id}: its agent did not accept {method}: {error}")

    def notify_user(self, user: str, agent: str, notification: Notification) -> None:
        """Notify all clients of this user that are connected for this agent."""
        for client in self.clients:
            if client.principal.user == user and self.agent_catalog.find_agent(client.principal.agent).name == agent:
                client.notify(notification)

    async def startable_servers(self, servers: Sequence[McpServer], cwd: str) -> list[McpServer | None]:
        """Return the servers as they are started for remote users; None for an unknown one that policy refuses."""
        known = [access.configured_server(server, self.mcp_servers) for server in servers]
        unknown = [server for server, found in zip(servers, known, strict=True) if found is None]
        allowed = await self.allowed_servers(unknown, cwd) if unknown else []
        return [found or (server if server in allowed else None) for server, found in zip(servers, known, strict=True)]

    async def allowed_servers(self, servers: Sequence[McpServer], cwd: str) -> list[McpServer]:
        """Return the servers that policy allows without asking anybody."""
        guard = self.make_guard(None)
        try:
            return await guard.allowed_servers(servers, cwd)
        finally:
            await guard.close()

    # --- rooms --------------------------------------------------------------------------------------------------

    async def acquire_room(self, session: str) -> Room:
        """Return the room of a session that runs here, read from the store if needed; keep it until `release_room`.

        In a fleet, raise an error with `moved` if the session runs at another node.
        """
        room = await self.acquire_any_room(session)
        if not room.is_owner:
            self.release_room(room)
            raise moved_error(session)
        return room

    async def acquire_any_room(self, session: str) -> Room:
        """Return the room of a session, which may be one of another node, and keep it until `release_room`."""
        if self._is_closing:
            raise ProtocolError(Kind.INVALID_STATE, "the host is stopping; try again when it runs again")
        while (room := self.known_room(session)) is None:  # it may be dropped again before this task runs
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
            # If the client that asked is gone, nobody else would release the room.
            asyncio.get_running_loop().call_later(UNCLAIMED_TIMEOUT, done.result().start_idle_timer)

    def known_room(self, session: str) -> Room | None:
        """Return the room of a session if it is open here, also one of another node."""
        room = self.rooms.get(session)
        if room is None and self.fleet is not None:
            return self.fleet.ownership.distant_rooms.get(session)  # type: ignore[return-value]
        return room

    @property
    def open_rooms(self) -> list[Room]:
        """The rooms that are open here, also those of sessions of other nodes."""
        distant = self.fleet.ownership.distant_rooms.values() if self.fleet is not None else ()
        return [*self.rooms.values(), *distant]

    async def _reopen_room(self, session: str) -> Room:
        try:
            if self.fleet is not None:
                return await self.fleet.ownership.open_room(session)  # type: ignore[return-value]
            room = await Room.restore(self, session)
        except ProtocolError as error:
            raise (session_not_found(session) if error.kind == Kind.SESSION_NOT_FOUND else error) from None
        if not room.state.seq:
            raise session_not_found(session)
        self.counters.sessions += 1
        return self.rooms.setdefault(session, room)

    def add_room(self, room: Room) -> None:
        """Add a room that this node opened, or took over."""
        self.rooms[room.id] = room
        self.counters.sessions += 1

    async def session_state(self, session: str, upto: int | None = None) -> SessionState:
        """Return the state of a session from its log, up to an entry number."""
        summary = await self.store.find(session)
        state = await self._saved_state(summary, upto) or SessionState(summary.imported)
        while upto is None or state.seq < upto:
            limit = PAGE_SIZE if upto is None else min(PAGE_SIZE, upto - state.seq)
            lines = await self.store.lines(session, state.seq, limit, intact=True)
            if not lines:
                break
            for line in lines:
                state.apply(decode_raw_entry(line))
        return state

    async def _saved_state(self, summary: Summary, upto: int | None) -> SessionState | None:
        """Return the state that was kept with a session at the end of a turn, so that only what came later is read."""
        saved = await self.store.saved_state(summary.session_id)
        if saved is None or (upto is not None and saved.seq > upto):
            return None
        state = load_state(saved.state, summary.imported)
        return state if state is not None and state.seq == saved.seq else None

    async def create_room(self, principal: Principal) -> Room:
        """Create an empty room for a new session, and keep it until `release_room`."""
        if self._is_closing:
            raise ProtocolError(Kind.INVALID_STATE, "the host is stopping; try again when it runs again")
        await self.make_space(principal.user)
        room = Room(self, new_id(), SessionState())
        room.opener = principal.user
        room.state.agent = self.agent_catalog.find_agent(principal.agent).name
        if self.fleet is not None:
            await self.fleet.ownership.prepare_new_room(room)
        self.add_room(room)
        self.retain_room(room)
        return room

    async def make_space(self, user: str) -> None:
        """At the limit of awake sessions of a user, stop the agent that is idle for longest. Raise if none is idle."""
        while True:
            theirs = [room for room in self.rooms.values() if room.opener == user]
            awake = [room for room in theirs if room.agent.is_started or not room.state.seq]
            elsewhere = self.fleet.sessions_elsewhere(user) if self.fleet is not None else 0
            if len(awake) + elsewhere < self.limits.max_sessions:
                return
            idle = [room for room in awake if room.idle_deadline is not None and not room.agent.is_transitioning]
            if not idle:
                count = len(awake) + elsewhere
                message = f"{user} has {count} sessions awake, and somebody is in each; close some of them first"
                raise ProtocolError(Kind.RATE_LIMITED, message, {"limit": self.limits.max_sessions})
            await min(idle, key=lambda room: room.idle_deadline or 0.0).sleep()

    async def fork_room(self, origin: Room, principal: Principal) -> Room:
        """Create a room whose log starts as a copy of another's. The agent forks too, or is told the history."""
        await origin.log.wait_stored()
        copy = await self.copy_log(origin.id, principal, origin.state.seq)
        room = await self.acquire_room(copy.session_id)
        body = await fork_agent_session(origin) if origin.is_owner else None
        if body is not None:
            await room.log.append_and_wait(EntryKind.OPENED, body, actor=principal.user)
        return room

    async def copy_log(self, session: str, principal: Principal, upto: int | None) -> Summary:
        """Copy a log for a user. The folders of the session must be under the roots of that user."""
        user, state = principal.user, await self.session_state(session, upto)
        access.check_fork_folders(state, self.roots_of(principal) if principal.is_local else self.roots_of_user(user))
        is_theirs = user in await self.responsible_users(session, state.owner)
        copy = await self.store.fork(session, new_id(), upto)
        if not is_theirs:
            await self.store.keep_credentials(copy.session_id, {})
        draft = Draft(kind=EntryKind.MEMBER, actor=user, time=now(), body={"owner": user})
        await self.store.append(copy.session_id, [draft])
        await self.session_roles.set_creator(copy.session_id, user)
        return copy

    async def _repair_sessions(self, sessions: set[str]) -> None:
        """Log the end of turns that could not be stored while the store was failing."""
        for session in sessions:
            try:
                room = await self.acquire_room(session)
            except ProtocolError:
                continue  # nothing of it was stored
            try:
                if room.queue.running is None:
                    await room.repair()
            finally:
                self.release_room(room)

    async def discard_room(self, room: Room) -> None:
        """Remove a session that could not be opened."""
        await room.close("the session could not be opened")
        self.forget_room(room.id)
        if room.state.seq:
            await self.store.delete(room.id)

    def retain_room(self, room: Room) -> None:
        """Keep a room, because a call is about to use it."""
        room.use_count += 1
        room.stop_idle_timer()

    def release_room(self, room: Room) -> None:
        """Undo `retain_room`."""
        room.use_count -= 1
        room.start_idle_timer()

    def forget_room(self, session: str) -> None:
        """Drop a room that is idle."""
        room = self.rooms.pop(session, None)
        if room is not None and self.fleet is not None:
            self.fleet.spawn(self.fleet.ownership.release(room.log.claim))

    async def delete_session(self, room: Room, by: str) -> None:
        """Delete a session, whoever is in it."""
        reason = f"the session was deleted by {by}"
        room.close_reason, room.is_closed = reason, True  # nothing starts here from now on
        room.members.broadcast(closed_notification(room.id, reason))
        for waiting in room.queue.clear():
            waiting.done(None, session_not_found(room.id))
        room.agent.cancel_turn()
        await room.wait_turn_end()
        await delete_agent_session(room)
        await room.close(reason)
        if self.fleet is not None:
            await self.fleet.workspaces.remove(room)
        await self.store.delete(room.id)
        await self.session_roles.remove_session(room.id)
        self.forget_room(room.id)

    async def role_in(self, principal: Principal, session: str) -> str | None:
        """Return the role of a principal in a session; None if they may not see it."""
        if principal.session is not None:
            return principal.role if principal.session == session else None
        role = await self.session_roles.role_of(principal.user, session)
        return None if role is None else lower_role(role, principal.role)

    def naming_user(self, principal: Principal) -> str | None:
        """Return the user whose session names a principal uses; None for the owner of the host."""
        return None if principal.is_local or principal.user == self.session_roles.owner else principal.user

    async def rename_session(self, principal: Principal, session: str, name: str | None) -> None:
        """Give a session a name of this principal, or remove its name."""
        stored = None if name is None else session_names.stored_name(name, self.naming_user(principal))
        try:
            await self.store.rename(session, stored)
        except ProtocolError as error:
            by = error.data.get("sessionId") if isinstance(error.data, dict) else None
            is_visible = isinstance(by, str) and await self.role_in(principal, by) is not None
            raise session_names.rename_error(name or "", error, is_visible=is_visible) from None
        self.activity.note(session)

    # --- close --------------------------------------------------------------------------------------------------

    async def close(self) -> None:
        """Stop: interrupt and log turns, stop agents, disconnect clients."""
        self._is_closing = True
        await self.activity.close()
        await self.store.stop()
        if self._reopening:
            await asyncio.wait(set(self._reopening.values()))
        reason, rooms = "the host was stopped", list(self.rooms.values())
        for error in await asyncio.gather(*(room.close(reason) for room in rooms), return_exceptions=True):
            if error is not None:  # one failing room must not keep the others open
                self.report(f"a session could not be closed cleanly: {error!r}")
        if self.fleet is not None:
            await asyncio.gather(*(self.fleet.ownership.release(room.log.claim) for room in rooms))
        self.rooms.clear()
        if self.pool is not None:
            await self.pool.close()
        await asyncio.gather(
            *(client.connection.close(reason) for client in list(self.clients)), return_exceptions=True
        )
        if self.fleet is not None:
            await self.fleet.close()
