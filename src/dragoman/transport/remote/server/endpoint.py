"""One address for remote clients: an ASGI app that answers POST, GET, DELETE and WebSocket (reference 3.2 to 3.4).

Takes requests, checks who they are from, and gives each connection once to `accept`, as a transport. Above are an Agent
or the host, below any ASGI server; it may be mounted at any path. A request that cannot be served gets the status of
reference 3.2 and a JSON body that says why. How each kind of request is served is told in `posting` and `upgrading`.
"""

from __future__ import annotations

import asyncio
import logging
import math
import time
import uuid
from collections import Counter
from collections.abc import Callable, Collection
from contextlib import suppress

from msgspec import structs

from dragoman.errors import ConnectionFailed, TransportClosed
from dragoman.transport.remote.server import http_requests, ws_requests
from dragoman.transport.remote.server.asgi import Receive, Request, Scope, Send
from dragoman.transport.remote.server.auth import Accept, Admit, Knock, Refused, Visitor
from dragoman.transport.remote.server.http_transport import StreamsTransport
from dragoman.transport.remote.server.limits import Limits, Rate
from dragoman.transport.remote.server.origin import check_host, check_origin, local_only
from dragoman.transport.remote.server.ws_transport import EXPIRED, GOING_AWAY, SocketTransport

logger = logging.getLogger("dragoman")

# How often connections are looked at that may have to end. Seconds; every limit in time is far above.
SWEEP = 1.0

# What a user is asked to wait who has too many connections: closing one takes about so long. Seconds.
CROWDED = 5


class Link:
    """One connection: who it is with, and what serves it."""

    __slots__ = ("id", "task", "transport", "visitor")

    def __init__(self, visitor: Visitor, transport: SocketTransport | StreamsTransport) -> None:
        self.id = uuid.uuid4().hex
        self.visitor = visitor
        self.transport = transport
        self.task: asyncio.Task[None] | None = None


def only_one(name: str) -> bool:
    """The agents of an endpoint that has one: it needs no name."""
    return name == ""


class Endpoint:
    """An ASGI app whose every connection is served by `accept`; close it when the server ends."""

    def __init__(
        self,
        accept: Accept,
        *,
        admit: Admit = local_only,
        limits: Limits | None = None,
        origins: Collection[str] = (),
        hosts: Collection[str] = (),
        agents: Callable[[str], bool] = only_one,
    ) -> None:
        self.limits = limits or Limits()
        self._accept = accept
        self._admit = admit
        self._origins = frozenset(origins)
        self._hosts = frozenset(host.lower() for host in hosts)
        self._agents = agents
        self._links: dict[str, Link] = {}
        self._users: Counter[str] = Counter()
        self._rate = Rate(self.limits.rate, self.limits.burst)
        self._sweeper: asyncio.TimerHandle | None = None
        self._closing = False

    @property
    def visitors(self) -> list[Visitor]:
        """Who is connected now, once for each connection."""
        return [link.visitor for link in self._links.values()]

    @property
    def buffered(self) -> int:
        """Bytes that wait for clients, or are not acknowledged by them."""
        return sum(link.transport.buffered for link in self._links.values())

    def expel(self, is_out: Callable[[Visitor], bool], why: str) -> int:
        """End the connections of those who may not be here any more; how many."""
        found = [link for link in self._links.values() if is_out(link.visitor)]
        for link in found:
            link.transport.fail(TransportClosed(why), EXPIRED, why)
        return len(found)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request, one WebSocket, or the lifespan of the server."""
        if scope["type"] == "lifespan":
            await self._live(receive, send)
            return
        request = Request(scope, receive, send, self._origins)
        if scope["type"] == "websocket":
            await ws_requests.serve(self, request)
            return
        try:
            await http_requests.serve(self, request)
        except (ConnectionError, asyncio.CancelledError):
            raise
        except Exception:
            logger.exception("a request to %s failed", request.path)
            if not request.started:
                await request.refuse(Refused(500, "the server failed; its log says how"))

    async def _live(self, receive: Receive, send: Send) -> None:
        while True:
            kind = (await receive())["type"]
            if kind == "lifespan.shutdown":
                await self.close("the server ends")
            await send({"type": f"{kind}.complete"})
            if kind == "lifespan.shutdown":
                return

    # --- who comes in -----------------------------------------------------------------------------------------

    async def admitted(self, request: Request) -> Visitor:
        """Who asks; Refused when they may not."""
        if self._closing:
            raise Refused(503, "the server is ending; try again in a moment", {"retry-after": "1"})
        knock = request.knock()
        self.check(knock)
        name = agent_of(knock.path)
        if name is None or not self._agents(name):
            raise Refused(404, f"there is nothing at {knock.path}; agents are at /acp and /acp/NAME")
        visitor = await self._admit(knock)
        wait = self._rate.take(visitor.user, time.monotonic())
        if wait:
            raise slow_down(wait)
        return structs.replace(visitor, agent=name, address=visitor.address or knock.address)

    def check(self, knock: Knock) -> None:
        """Refuse what a web page could do behind its reader's back."""
        check_host(knock, self._hosts)
        check_origin(knock, self._origins)

    def allow(self, user: str, count: int) -> float:
        """Count so many messages of a user; the seconds to wait when they are too many."""
        return self._rate.take(user, time.monotonic(), count)

    # --- connections ------------------------------------------------------------------------------------------

    def begin(self, visitor: Visitor, transport: SocketTransport | StreamsTransport) -> Link:
        """A new connection of this visitor; Refused when there are too many."""
        if self._users[visitor.user] >= self.limits.connections:
            raise Refused(
                429, f"{self.limits.connections} connections are the most for one user", {"retry-after": str(CROWDED)}
            )
        link = Link(visitor, transport)
        self._links[link.id] = link
        self._users[visitor.user] += 1
        link.task = asyncio.get_running_loop().create_task(self._serve(link), name=f"dragoman {transport.peer}")
        if self._sweeper is None:
            self._sweeper = asyncio.get_running_loop().call_later(SWEEP, self._sweep)
        return link

    def find(self, id: str | None, visitor: Visitor) -> Link:
        """The visitor's own connection with this id; to others it is not there, for an id is no credential."""
        if not id:
            raise Refused(400, "the header Acp-Connection-Id is missing; initialize first, and send what it answers")
        link = self._links.get(id)
        if (
            link is None
            or link.transport.closed.done()
            or link.visitor.user != visitor.user
            or link.visitor.session != visitor.session
        ):
            raise Refused(404, "there is no such connection any more; initialize a new one and load your sessions")
        return link

    async def _serve(self, link: Link) -> None:
        transport = link.transport
        try:
            await self._accept(transport, link.visitor)
        except ConnectionFailed:
            pass
        except Exception:
            logger.exception("serving %s failed", transport.peer)
        finally:
            if self._links.pop(link.id, None) is not None:
                self._users[link.visitor.user] -= 1
                if not self._users[link.visitor.user]:
                    del self._users[link.visitor.user]
            await transport.close()

    def _sweep(self) -> None:
        """End what is overdue, and look again in a while."""
        self._sweeper = None
        loop, now = asyncio.get_running_loop(), time.time()
        for link in list(self._links.values()):
            overdue = link.transport.overdue(loop.time())
            if link.visitor.expires is not None and now > link.visitor.expires:
                overdue = TransportClosed(f"the leave of {link.visitor.user} has ended; get a new token"), EXPIRED
            if overdue is not None:
                error, code = overdue
                link.transport.fail(error, code, str(error))
        self._rate.forget(time.monotonic())
        if self._links:
            self._sweeper = loop.call_later(SWEEP, self._sweep)

    async def close(self, reason: str = "the server ends") -> None:
        """End every connection and let nobody in any more."""
        self._closing = True
        if self._sweeper is not None:
            self._sweeper.cancel()
            self._sweeper = None
        tasks = []
        for link in list(self._links.values()):
            link.transport.fail(TransportClosed(f"{reason}"), GOING_AWAY, reason)
            if link.task is not None:
                tasks.append(link.task)
        if tasks:
            _, late = await asyncio.wait(tasks, timeout=LEAVING)
            for task in late:
                task.cancel()
            with suppress(asyncio.CancelledError):
                await asyncio.gather(*late, return_exceptions=True)


# How long connections may take to end once the server does: the engine's own grace for its handlers. Seconds.
LEAVING = 5.0


def slow_down(wait: float) -> Refused:
    """The refusal of too many requests."""
    seconds = max(1, math.ceil(wait))
    return Refused(429, f"too many requests; wait {max(wait, 0.1):.1f} seconds", {"retry-after": str(seconds)})


def agent_of(path: str) -> str | None:
    """The name of an agent in /acp/NAME, "" for the first; None where the path is no agent's."""
    parts = [part for part in path.split("/") if part]
    if parts and parts[0] == "acp":
        del parts[0]
    return None if len(parts) > 1 else "".join(parts)
