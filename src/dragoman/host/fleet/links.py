"""The links of a node: dialed when a session of another node is needed, accepted at /fleet, and their messages."""

from __future__ import annotations

import asyncio
import hmac
import re
from collections.abc import Callable
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import msgspec
from msgspec import Raw

from dragoman.errors import ConnectionFailed, Kind, ProtocolError
from dragoman.host.fleet.distant_client import notification_from_json
from dragoman.host.fleet.distant_room import DistantRoom
from dragoman.host.fleet.link import Link
from dragoman.host.fleet.node_tls import NodeTls
from dragoman.store.contract import RawEntry, lift_entry
from dragoman.store.fleet import NodeInfo
from dragoman.transport.base import Transport
from dragoman.transport.remote.address import RemoteOptions
from dragoman.transport.remote.client.dial import dial_remote
from dragoman.transport.remote.retry import NO_RETRY
from dragoman.transport.remote.server.auth import AuthRequest, Principal, Refused, bearer_token, unauthorized_error
from dragoman.transport.remote.server.limits import ServerLimits

if TYPE_CHECKING:
    from dragoman.host.fleet.fleet import Fleet

PATH = "/fleet"
NODE_HEADER = "dragoman-node"

# How long a node may take to accept a link. Seconds.
DIAL_TIMEOUT = 5.0

# A node name is shown, logged and part of keys in the engine.
NODE_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,62}")

_MIB = 1024 * 1024

# A link carries the messages of many clients, each of at most 32 MiB; nodes trust each other.
LINK_LIMITS = ServerLimits(
    frame=64 * _MIB, buffered=256 * _MIB, unfinished=256 * _MIB, rate=1e9, burst=10**9, linger=0.0, keepalive=5.0
)


class EntryParams(msgspec.Struct):
    """An entry on a link."""

    session: str
    line: RawEntry


_decode_entry = msgspec.json.Decoder(EntryParams).decode


class Links:
    """The links of one node, and the handler of what they bring."""

    def __init__(self, fleet: Fleet, token: str, tls: NodeTls) -> None:
        self._fleet = fleet
        self._token = token
        self._tls = tls
        self.links: dict[str, Link] = {}  # by node
        self.watching: dict[Link, dict[str, DistantRoom]] = {}  # rooms here whose owner is at the other end
        self._dialing: dict[str, asyncio.Lock] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        clients = fleet.distant_clients
        self._requests = {
            "watch": clients.watch,
            "join": clients.join,
            "prompt": clients.prompt,
        }
        self._notifications: dict[str, Callable[[Link, Any], None]] = {
            "leave": clients.leave,
            "state": clients.set_state,
            "cancel_prompt": clients.cancel_prompt,
            "call": clients.notify,
            "unwatch": clients.unwatch,
            "join": self._join_later,
            "broadcast": self._on_broadcast,
            "terminal": self._on_terminal,
            "head": self._on_head,
            "tell": self._on_tell,
            "gone": self._on_gone,
        }

    # --- dialing and accepting ----------------------------------------------------------------------------------------

    async def link_to(self, info: NodeInfo) -> Link:
        """Return the link to a node, dialed if there is none. Raise ConnectionFailed."""
        async with self._dialing.setdefault(info.node, asyncio.Lock()):
            link = self.links.get(info.node)
            if link is not None and not link.is_closed:
                return link
            url = re.sub(r"^http", "ws", info.url).rstrip("/") + PATH
            try:
                options = RemoteOptions(
                    token=self._token,
                    headers={NODE_HEADER: self._fleet.node},
                    tls=self._tls.dial_context(),
                    backoff=NO_RETRY,
                )
                async with asyncio.timeout(DIAL_TIMEOUT):
                    transport = await dial_remote(url, options)
            except TimeoutError:
                raise ConnectionFailed(f"node {info.node} at {info.url} did not answer in {DIAL_TIMEOUT:g} s") from None
            return self._add(info.node, transport)

    async def authenticate(self, request: AuthRequest) -> Principal:
        """Admit a node: it has the secret of this fleet and says its name."""
        name = request.headers.get(NODE_HEADER, "")
        if not self._token or not hmac.compare_digest(bearer_token(request).encode(), self._token.encode()):
            self._fleet.host.report(f"a link from {request.address} was refused: its node token is wrong")
            raise unauthorized_error("this is not a node of this fleet: its --secrets-key differs")
        if fault := self._tls.fault(request):
            self._fleet.host.report(f"a link from node {name} at {request.address} was refused: {fault}")
            raise Refused(403, f"node {self._fleet.node} refuses this link: {fault}")
        if NODE_NAME.fullmatch(name) is None or name == self._fleet.node:
            raise Refused(400, f"the header {NODE_HEADER} must name another node")
        return Principal(user=f"node {name}", address=request.address)

    async def accept(self, transport: Transport, principal: Principal) -> None:
        """Serve a link that another node dialed, until it ends."""
        link = self._add(principal.user.removeprefix("node "), transport, is_run=False)
        await link.run()

    def _add(self, node: str, transport: Transport, *, is_run: bool = True) -> Link:
        link = Link(node, transport, self, self._fleet.host.report)
        known = self.links.get(node)
        if known is None or known.is_closed or is_run:
            self.links[node] = link
        link.on_away.append(lambda is_away: self._fleet.distant_clients.on_link_away(link, is_away))
        self._fleet.host.report(f"linked with node {node}")
        if is_run:
            task = asyncio.get_running_loop().create_task(link.run())
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)
        return link

    async def close(self) -> None:
        """End all links."""
        links = {*self.links.values(), *self.watching}
        await asyncio.gather(*(link.close("the node was stopped") for link in links), return_exceptions=True)
        for task in list(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    # --- what comes over a link ---------------------------------------------------------------------------------------

    def on_notification(self, link: Link, method: str, params: Any) -> None:
        """Process a notification."""
        handle = self._notifications.get(method)
        if handle is not None:
            handle(link, params)

    def on_entry(self, link: Link, params: Raw) -> None:
        """Deliver an entry to the members of this node."""
        entry = _decode_entry(params)
        room = self.watching.get(link, {}).get(entry.session)
        if room is not None:
            room.on_entry(lift_entry(entry.line))

    async def on_request(self, link: Link, id: int, method: str, params: Any) -> Any:
        """Return the answer to a request."""
        if method == "call":
            return await self._fleet.distant_clients.call(link, id, params)
        if method == "ask":
            return await self._room(link, params).on_ask(params)
        handle = self._requests.get(method)
        if handle is None:
            raise ProtocolError(Kind.METHOD_NOT_FOUND, f"nodes have no call {method!r}: update the older one")
        return await handle(link, params)

    def on_link_closed(self, link: Link, reason: str) -> None:
        """Let the rooms at this end look for their owner again."""
        if self.links.get(link.node) is link:
            del self.links[link.node]
        self._fleet.host.report(f"the link with node {link.node} ended: {reason}")
        self._fleet.distant_clients.on_link_closed(link, reason)
        for room in self.watching.pop(link, {}).values():
            self._unlink(room, link)

    def _unlink(self, room: DistantRoom, link: Link) -> None:
        for prompt in room.pending.values():
            prompt.is_offered = False
        if room.link is link:
            room.link = None
            if room.members and not room.pending:
                self._fleet.spawn(self._fleet.look_again(room))

    def _room(self, link: Link, params: Any) -> DistantRoom:
        room = self.watching.get(link, {}).get(params["session"])
        if room is None:
            raise ProtocolError(Kind.CONNECTION_LOST, "nobody at this node is in the session")
        return room

    def _join_later(self, link: Link, params: Any) -> None:
        task = asyncio.get_running_loop().create_task(self._join(link, params))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _join(self, link: Link, params: Any) -> None:
        with suppress(ProtocolError):
            await self._fleet.distant_clients.join(link, params)

    def _on_broadcast(self, link: Link, params: Any) -> None:
        room = self._room(link, params)
        room.on_broadcast(params["notifications"])
        if any(each["method"] == "_dragoman/closed" for each in params["notifications"]):
            room.members.remove_all()
            room.start_idle_timer()

    def _on_terminal(self, link: Link, params: Any) -> None:
        self._room(link, params).on_terminal(params)

    def _on_head(self, link: Link, params: Any) -> None:
        self._room(link, params).on_head(params["seq"])

    def _on_tell(self, link: Link, params: Any) -> None:
        notification = notification_from_json(params["notification"])
        session = (notification.params or {}).get("sessionId") if isinstance(notification.params, dict) else None
        room = self.watching.get(link, {}).get(str(session))
        member = room.members.get(params["client"]) if room is not None else None
        if room is None or member is None:
            return
        if notification.method == "session/update":
            member.client.connection.notify(notification.method, notification.params)
        else:
            member.client.notify(notification)
        if notification.method == "_dragoman/closed":
            room.leave(member.client)

    def _on_gone(self, link: Link, params: Any) -> None:
        room = self.watching.get(link, {}).pop(params["session"], None)
        if room is not None:
            room.report(f"its node let it go: {params['reason']}")
            self._unlink(room, link)
