"""One node of a fleet: its lease, the sessions it owns, and the rooms of sessions that other nodes own."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import msgspec

from dragoman import __version__
from dragoman.engine.incoming import DoneCallback, Incoming
from dragoman.errors import ConnectionFailed, Kind, ProtocolError, StoreFault
from dragoman.host.access import check_role, joined_room
from dragoman.host.access_changes import apply_roles
from dragoman.host.auth.roles import ADMIN, EDITOR, VIEWER
from dragoman.host.fleet.audit_anchors import AuditAnchors
from dragoman.host.fleet.distant_clients import DistantClients
from dragoman.host.fleet.distant_room import DistantRoom
from dragoman.host.fleet.drain import BalancerProbes, drain
from dragoman.host.fleet.fleet_format import use_fleet_format
from dragoman.host.fleet.heartbeat import HeartbeatWatchdog
from dragoman.host.fleet.lease import LeaseTimes, NodeLease
from dragoman.host.fleet.links import Links
from dragoman.host.fleet.node_tls import NodeTls
from dragoman.host.fleet.ownership import Ownership
from dragoman.host.fleet.workspaces import Workspaces
from dragoman.host.methods import SERVED_METHODS
from dragoman.store.fleet import Engine, NodeInfo, NodeStatus
from dragoman.store.formats import FORMATS

if TYPE_CHECKING:
    from dragoman.host.host import Host
    from dragoman.host.host_client import HostClient

# How often rooms without an owner look for one, because a signal was lost. Seconds.
LOOK_INTERVAL = 5.0

# How often the roles of everybody here are read again, because a signal was lost or the store did not answer. Seconds;
# one query for each member.
ROLES_INTERVAL = 30.0

# How often servers of the engine are compared. Seconds; each of them answers a page with all streams.
DAMAGE_INTERVAL = 30.0

# How often the end of the audit log is kept in the engine, if it changed. Seconds.
ANCHOR_INTERVAL = 60.0

# How long `dragoman fleet drain` lets turns end unless it says otherwise. Seconds.
DRAIN_GRACE = 600.0

# Calls of members that the owner of the session serves, and the role they need here.
_JOINED_CALLS = {
    "session/prompt": EDITOR,
    "tool_call/cancel": EDITOR,
    "terminal/cancel": EDITOR,
    "session/set_mode": EDITOR,
    "session/set_config_option": EDITOR,
    "fs/changed": EDITOR,
    "session/close": VIEWER,
}

# Calls about a session that a client need not be in, and the role they need.
_SESSION_CALLS = {
    "session/delete": ADMIN,
    "session/archive": ADMIN,
    "session/unarchive": ADMIN,
    "session/set_title": EDITOR,
    "_dragoman/set_role": ADMIN,
}


class FleetCounters(msgspec.Struct):
    """What a node has done since it started."""

    claims: dict[str, int] = {}  # by why: new, wake, takeover, move
    fenced: int = 0
    relayed: int = 0  # calls sent to other nodes
    takeovers: int = 0

    def add_claim(self, why: str) -> None:
        """Count a claim."""
        self.claims[why] = self.claims.get(why, 0) + 1


class Fleet:
    """This node. Give it to a host: `Host(..., fleet=fleet)`, then `await fleet.start()`."""

    def __init__(
        self,
        engine: Engine,
        node: str,
        url: str,
        *,
        labels: tuple[str, ...] = (),
        token: str = "",
        tls: NodeTls = NodeTls(),  # noqa: B008  (immutable)
        times: LeaseTimes = LeaseTimes(),  # noqa: B008  (immutable)
        config_digest: str = "",
        uses_watchdog: bool = True,
        workspaces: str = "",
        has_checkpoints: bool = True,
        audit: AuditAnchors | None = None,
    ) -> None:
        """`url` is where other nodes reach this one; `token` is the secret that all nodes share.

        `workspaces` is the folder for the working trees of sessions on repositories.
        """
        self.engine = engine
        self.node = node
        self.url = url
        self.labels = labels
        self.times = times
        self.config_digest = config_digest
        self.counters = FleetCounters()
        self.is_draining = False
        self.probes = BalancerProbes()
        self.drain_grace = DRAIN_GRACE
        self.on_revoked: Callable[[], None] = lambda: None  # called when a node revoked a token
        self.host: Host  # set by the host
        self.ownership: Ownership
        self.distant_clients: DistantClients
        self.links: Links
        self._token = token
        self._tls = tls
        self.workspaces = Workspaces(self, workspaces, has_checkpoints=has_checkpoints)
        self._audit = audit
        self._watchdog = HeartbeatWatchdog() if uses_watchdog else None
        self._tasks: set[asyncio.Task[Any]] = set()
        self._peers: list[NodeStatus] = []  # all nodes, as of the last look
        self.disagreements: list[str] = []  # which servers of the engine differ, as of the last look
        self._stop_listening: Callable[[], None] = lambda: None
        self.lease = NodeLease(
            engine.nodes,
            self.describe,
            times=times,
            on_renewed=self._on_renewed,
            on_lost=self._on_lease_lost,
            on_regained=lambda: self.host.report("this node holds its lease"),
        )

    def bind(self, host: Host) -> None:
        """Serve this host."""
        self.host = host
        self.ownership = Ownership(self)
        self.distant_clients = DistantClients(host, self.engine)
        self.links = Links(self, self._token, self._tls)

    def describe(self) -> NodeInfo:
        """Return what other nodes know of this one."""
        host = self.host
        users: dict[str, int] = {}
        for room in host.rooms.values():
            if room.agent.is_started or not room.state.seq:
                users[room.opener] = users.get(room.opener, 0) + 1
        state = {
            "draining": self.is_draining,
            "config": self.config_digest,
            "users": users,
            "connections": Counter(client.principal.user for client in host.clients),
            "sessions": len(host.rooms),
            "awake": sum(1 for room in host.rooms.values() if room.agent.is_running),
            "clients": len(host.clients),
            "formats": [each.number for each in FORMATS],
        }
        return NodeInfo(node=self.node, url=self.url, labels=self.labels, version=__version__, state=state)

    async def start(self, report: Callable[[str], None] | None = None) -> None:
        """Join the fleet. Raise StoreFault("taken") if a living node has this name."""
        if self._watchdog is not None:
            self._watchdog.start()
        await self.lease.join(report or self.host.report)
        try:
            await use_fleet_format(self.engine)  # after it joined: whoever finishes an update counts this node now
        except BaseException:
            await self.lease.leave()
            raise
        self._stop_listening = self.engine.signals.listen(self._on_signal)
        self.spawn(self._look_for_owners())
        self.spawn(self._look_for_roles())
        self.spawn(self._look_for_damage())
        if self._audit is not None:
            self.spawn(self._anchor_audit(self._audit))

    async def close(self) -> None:
        """Leave the fleet, after the host has closed its rooms."""
        self._stop_listening()
        for task in list(self._tasks):
            task.cancel()
        for room in list(self.ownership.distant_rooms.values()):
            room.close("the host was stopped")
        self.ownership.distant_rooms.clear()
        await self.links.close()
        if self._audit is not None:
            with suppress(ProtocolError, OSError):
                await self._audit.anchor()
        await self.lease.leave()
        if self._watchdog is not None:
            self._watchdog.close()

    def spawn(self, work: Any) -> asyncio.Task[Any]:
        """Start a task that ends with this node."""
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    def nodes_away(self) -> list[NodeStatus]:
        """Return the nodes that were here within a day and have no lease now, as of the last look."""
        return [status for status in self._peers if not status.is_alive]

    @property
    def has_successor(self) -> bool:
        """Whether another node takes clients, as of the last look."""
        return any(
            status.is_alive and status.info.node != self.node and not status.info.state.get("draining")
            for status in self._peers
        )

    def sessions_elsewhere(self, user: str) -> int:
        """Return how many sessions of a user are awake at other living nodes, exact to one renewal."""
        return self._count_elsewhere("users", user)

    def connections_elsewhere(self, user: str) -> int:
        """Return how many connections a user has to other living nodes, exact to one renewal."""
        return self._count_elsewhere("connections", user)

    def _count_elsewhere(self, what: str, user: str) -> int:
        others = [status.info for status in self._peers if status.is_alive and status.info.node != self.node]
        return sum(int(info.state.get(what, {}).get(user, 0)) for info in others)

    def unavailable_reason(self) -> str:
        """Return why this node takes no new sessions; "" if it does."""
        if self.is_draining:
            return "this node is draining"
        if self.lease.may_start_turns:
            return ""
        return f"this node has no lease: {self.lease.fault}" if self.lease.fault else "this node has no lease"

    async def signal(self, topic: str, **payload: Any) -> None:
        """Tell all nodes. It is a hint, and may be lost."""
        with suppress(ProtocolError, ValueError):
            await self.engine.signals.send(topic, {**payload, "node": self.node})

    # --- calls of clients ---------------------------------------------------------------------------------------------

    def relay(self, client: HostClient, incoming: Incoming, done: DoneCallback) -> tuple[bool, Awaitable[None] | None]:
        """Send a call to the owner of its session, if that is another node. Return whether it was sent."""
        method = incoming.method
        required = _JOINED_CALLS.get(method)
        if required is None and method not in _SESSION_CALLS and method in SERVED_METHODS:
            return False, None
        values = incoming.values
        session = values.get("sessionId") if isinstance(values, dict) else None
        if method in _SESSION_CALLS:
            return (True, self._relay_session_call(client, str(session), incoming, done)) if session else (False, None)
        if session is None and required is None and len(client.rooms) == 1:  # an extension
            session = next(iter(client.rooms))
        room = client.rooms.get(session) if isinstance(session, str) else None
        if not isinstance(room, DistantRoom):
            return False, None
        joined_room(client, room.id, required or EDITOR)
        self.counters.relayed += 1
        if method == "session/close":
            return True, self._close_distant(client, room, incoming, done)
        return True, room.relay(client, incoming, done)

    async def _close_distant(
        self, client: HostClient, room: DistantRoom, incoming: Incoming, done: DoneCallback
    ) -> None:
        room.cancel(client)
        work = room.relay(client, incoming, done)
        if work is not None:
            await work
        room.leave(client)

    async def _relay_session_call(
        self, client: HostClient, session: str, incoming: Incoming, done: DoneCallback
    ) -> None:
        if await self.host.role_in(client.principal, session) is not None:
            try:
                room = await self.host.acquire_any_room(session)
            except ProtocolError as error:
                if error.kind != Kind.SESSION_NOT_FOUND:
                    raise
            else:
                try:
                    if isinstance(room, DistantRoom):
                        self.counters.relayed += 1
                        await check_role(client, session, _SESSION_CALLS[incoming.method])
                        work = room.relay(client, incoming, done)
                        if work is not None:
                            await work
                        return
                finally:
                    self.host.release_room(room)
        served = SERVED_METHODS[incoming.method](client, incoming, done)
        if served is not None:
            await served

    async def drain(self, grace: float) -> None:
        """Start nothing more, and let sessions and clients go: those without a turn first, all when the grace ends."""
        self.is_draining = True
        self.lease.renew_soon()
        with suppress(ProtocolError):
            self._peers = await self.engine.nodes.list_nodes()
        await drain(self, grace)

    # --- events -------------------------------------------------------------------------------------------------------

    def _on_renewed(self, deadline: float) -> None:
        if self._watchdog is not None:
            self._watchdog.beat(deadline)

    def _on_lease_lost(self, reason: str) -> None:
        text = f"node {self.node} lost its lease: {reason}"
        self.host.report(text)
        for room in list(self.host.rooms.values()):
            self.spawn(self.ownership.let_go(room, text))

    def _on_signal(self, topic: str, payload: dict[str, Any]) -> None:
        if topic == "claimed" and payload.get("node") != self.node:
            room = self.ownership.distant_rooms.get(str(payload.get("session", "")))
            if room is not None:
                self.spawn(self.look_again(room))
        elif topic == "format":
            self.spawn(self._look_for_format())
        elif topic == "revoked":
            self.on_revoked()
        elif topic == "roles":
            self.apply_role_changes_soon(str(payload.get("session", "")))
        elif topic == "drain" and payload.get("target") == self.node and not self.is_draining:
            self.host.report("asked to drain")
            self.spawn(self.drain(float(payload.get("grace") or self.drain_grace)))

    def apply_role_changes_soon(self, session: str) -> None:
        """Apply changed roles of a session, in a task."""
        self.spawn(self._apply_role_changes(session))

    async def _apply_role_changes(self, session: str) -> None:
        try:
            await self.host.apply_role_changes(session)
        except ProtocolError as error:  # `_look_for_roles` tries again
            self.host.report(f"session {session}: changed roles were not read: {error.message}")

    async def _look_for_roles(self) -> None:
        while True:
            await asyncio.sleep(ROLES_INTERVAL)
            for room in self.host.open_rooms:
                with suppress(ProtocolError):
                    await apply_roles(self.host, room.id)

    async def look_again(self, room: DistantRoom) -> None:
        """Look for the owner of a session that has members here."""
        try:
            await self.ownership.attach(room, needs_owner=False)
        except (ProtocolError, ConnectionFailed) as error:
            room.report(f"its node was not reached: {error}")

    async def _anchor_audit(self, anchors: AuditAnchors) -> None:
        """Keep the end of the audit log of this node in the engine."""
        while True:
            await asyncio.sleep(ANCHOR_INTERVAL)
            try:
                await anchors.anchor()
            except (ProtocolError, OSError) as error:
                self.host.report(f"the audit log was not anchored: {error}")

    async def _look_for_damage(self) -> None:
        """Report what servers of the engine do not agree on, once, and keep it for the metrics."""
        while True:
            try:
                found = await self.engine.disagreements()
            except ProtocolError as error:
                found = [error.message]
            for problem in found:
                if problem not in self.disagreements:
                    self.host.report(f"the engine: {problem}")
            self.disagreements = found
            await asyncio.sleep(DAMAGE_INTERVAL)

    async def _look_for_format(self) -> None:
        """Write what the fleet writes. A node that was away while an update was finished may not read it: it drains."""
        try:
            await use_fleet_format(self.engine)
        except StoreFault as error:
            if error.why == "newer" and not self.is_draining:
                self.host.report(f"this node lets its sessions go: {error.message}")
                self.spawn(self.drain(0))
        except ProtocolError:
            pass  # the engine is away; this is looked at again

    async def _look_for_owners(self) -> None:
        while True:
            await asyncio.sleep(min(LOOK_INTERVAL, self.times.renew))
            with suppress(ProtocolError):
                self._peers = await self.engine.nodes.list_nodes()
            await self._look_for_format()
            self.on_revoked()  # a signal may be lost, and prompts of clients of other nodes may wait here
            for room in list(self.ownership.distant_rooms.values()):
                if room.link is None and room.members:
                    await self.look_again(room)
