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
from dragoman.transport.remote.server.auth import Authenticate, AuthRequest, Principal, Refused, ServeConnection
from dragoman.transport.remote.server.http_transport import HttpServerTransport
from dragoman.transport.remote.server.limits import RateLimiter, ServerLimits
from dragoman.transport.remote.server.origin import authenticate_local, check_host, check_origin
from dragoman.transport.remote.server.ws_transport import EXPIRED, GOING_AWAY, WebSocketServerTransport

logger = logging.getLogger("dragoman")

# How often connections are looked at that may have to end. Seconds; every limit in time is far above.
SWEEP_INTERVAL = 1.0

# What a user is asked to wait who has too many connections: closing one takes about so long. Seconds.
CONNECTIONS_RETRY_AFTER = 5


class ServedConnection:
    """One connection: who it is with, and what serves it."""

    __slots__ = ("id", "principal", "task", "transport")

    def __init__(self, principal: Principal, transport: WebSocketServerTransport | HttpServerTransport) -> None:
        self.id = uuid.uuid4().hex
        self.principal = principal
        self.transport = transport
        self.task: asyncio.Task[None] | None = None


def is_default_agent(name: str) -> bool:
    """The agents of an endpoint that has one: it needs no name."""
    return name == ""


class Endpoint:
    """An ASGI app whose every connection is served by `accept`; close it when the server ends."""

    def __init__(
        self,
        serve_connection: ServeConnection,
        *,
        authenticate: Authenticate = authenticate_local,
        limits: ServerLimits | None = None,
        origins: Collection[str] = (),
        hosts: Collection[str] = (),
        has_agent: Callable[[str], bool] = is_default_agent,
    ) -> None:
        self.limits = limits or ServerLimits()
        self._serve_transport = serve_connection
        self._authenticate = authenticate
        self._origins = frozenset(origins)
        self._hosts = frozenset(host.lower() for host in hosts)
        self._has_agent = has_agent
        self._connections: dict[str, ServedConnection] = {}
        self._connections_by_user: Counter[str] = Counter()
        self._rate_limiter = RateLimiter(self.limits.rate, self.limits.burst)
        self._sweep_timer: asyncio.TimerHandle | None = None
        self._closing = False

    @property
    def principals(self) -> list[Principal]:
        """Who is connected now, once for each connection."""
        return [link.principal for link in self._connections.values()]

    @property
    def buffered_bytes(self) -> int:
        """Bytes that wait for clients, or are not acknowledged by them."""
        return sum(link.transport.buffered_bytes for link in self._connections.values())

    def disconnect(self, should_disconnect: Callable[[Principal], bool], reason: str) -> int:
        """End the connections of those who may not be here any more; how many."""
        found = [link for link in self._connections.values() if should_disconnect(link.principal)]
        for link in found:
            link.transport.fail(TransportClosed(reason), EXPIRED, reason)
        return len(found)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request, one WebSocket, or the lifespan of the server."""
        if scope["type"] == "lifespan":
            await self._serve_lifespan(receive, send)
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
            if not request.is_started:
                await request.refuse(Refused(500, "the server failed; its log says how"))

    async def _serve_lifespan(self, receive: Receive, send: Send) -> None:
        while True:
            kind = (await receive())["type"]
            if kind == "lifespan.shutdown":
                await self.close("the server ends")
            await send({"type": f"{kind}.complete"})
            if kind == "lifespan.shutdown":
                return

    # --- who comes in -----------------------------------------------------------------------------------------

    async def authenticate(self, request: Request) -> Principal:
        """Who asks; Refused when they may not."""
        if self._closing:
            raise Refused(503, "the server is ending; try again in a moment", {"retry-after": "1"})
        knock = request.auth_request()
        self.check_host_and_origin(knock)
        name = agent_name(knock.path)
        if name is None or not self._has_agent(name):
            raise Refused(404, f"there is nothing at {knock.path}; agents are at /acp and /acp/NAME")
        visitor = await self._authenticate(knock)
        wait = self._rate_limiter.take(visitor.user, time.monotonic())
        if wait:
            raise rate_limited_error(wait)
        return structs.replace(visitor, agent=name, address=visitor.address or knock.address)

    def check_host_and_origin(self, request: AuthRequest) -> None:
        """Refuse what a web page could do behind its reader's back."""
        check_host(request, self._hosts)
        check_origin(request, self._origins)

    def rate_limit_wait(self, user: str, count: int) -> float:
        """Count so many messages of a user; the seconds to wait when they are too many."""
        return self._rate_limiter.take(user, time.monotonic(), count)

    # --- connections ------------------------------------------------------------------------------------------

    def open_connection(
        self, principal: Principal, transport: WebSocketServerTransport | HttpServerTransport
    ) -> ServedConnection:
        """A new connection of this visitor; Refused when there are too many."""
        if self._connections_by_user[principal.user] >= self.limits.connections:
            raise Refused(
                429,
                f"{self.limits.connections} connections are the most for one user",
                {"retry-after": str(CONNECTIONS_RETRY_AFTER)},
            )
        link = ServedConnection(principal, transport)
        self._connections[link.id] = link
        self._connections_by_user[principal.user] += 1
        link.task = asyncio.get_running_loop().create_task(
            self._serve_connection(link), name=f"dragoman {transport.peer}"
        )
        if self._sweep_timer is None:
            self._sweep_timer = asyncio.get_running_loop().call_later(SWEEP_INTERVAL, self._end_overdue)
        return link

    def find_connection(self, id: str | None, principal: Principal) -> ServedConnection:
        """The visitor's own connection with this id; to others it is not there, for an id is no credential."""
        if not id:
            raise Refused(400, "the header Acp-Connection-Id is missing; initialize first, and send what it answers")
        link = self._connections.get(id)
        if (
            link is None
            or link.transport.closed.done()
            or link.principal.user != principal.user
            or link.principal.session != principal.session
        ):
            raise Refused(404, "there is no such connection any more; initialize a new one and load your sessions")
        return link

    async def _serve_connection(self, connection: ServedConnection) -> None:
        transport = connection.transport
        try:
            await self._serve_transport(transport, connection.principal)
        except ConnectionFailed:
            pass
        except Exception:
            logger.exception("serving %s failed", transport.peer)
        finally:
            if self._connections.pop(connection.id, None) is not None:
                self._connections_by_user[connection.principal.user] -= 1
                if not self._connections_by_user[connection.principal.user]:
                    del self._connections_by_user[connection.principal.user]
            await transport.close()

    def _end_overdue(self) -> None:
        """End what is overdue, and look again in a while."""
        self._sweep_timer = None
        loop, now = asyncio.get_running_loop(), time.time()
        for link in list(self._connections.values()):
            overdue = link.transport.overdue_error(loop.time())
            if link.principal.expires_at is not None and now > link.principal.expires_at:
                overdue = TransportClosed(f"the leave of {link.principal.user} has ended; get a new token"), EXPIRED
            if overdue is not None:
                error, code = overdue
                link.transport.fail(error, code, str(error))
        self._rate_limiter.drop_full_buckets(time.monotonic())
        if self._connections:
            self._sweep_timer = loop.call_later(SWEEP_INTERVAL, self._end_overdue)

    async def close(self, reason: str = "the server ends") -> None:
        """End every connection and let nobody in any more."""
        self._closing = True
        if self._sweep_timer is not None:
            self._sweep_timer.cancel()
            self._sweep_timer = None
        tasks = []
        for link in list(self._connections.values()):
            link.transport.fail(TransportClosed(f"{reason}"), GOING_AWAY, reason)
            if link.task is not None:
                tasks.append(link.task)
        if tasks:
            _, late = await asyncio.wait(tasks, timeout=SHUTDOWN_TIMEOUT)
            for task in late:
                task.cancel()
            with suppress(asyncio.CancelledError):
                await asyncio.gather(*late, return_exceptions=True)


# How long connections may take to end once the server does: the engine's own grace for its handlers. Seconds.
SHUTDOWN_TIMEOUT = 5.0


def rate_limited_error(wait: float) -> Refused:
    """The refusal of too many requests."""
    seconds = max(1, math.ceil(wait))
    return Refused(429, f"too many requests; wait {max(wait, 0.1):.1f} seconds", {"retry-after": str(seconds)})


def agent_name(path: str) -> str | None:
    """The name of an agent in /acp/NAME, "" for the first; None where the path is no agent's."""
    parts = [part for part in path.split("/") if part]
    if parts and parts[0] == "acp":
        del parts[0]
    return None if len(parts) > 1 else "".join(parts)
