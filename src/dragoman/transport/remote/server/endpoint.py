"""An ASGI app for remote clients that answers POST, GET, DELETE and WebSocket (docs/protocol/http.md).

A request that cannot be served gets a status (docs/protocol/http.md#status-codes) and a JSON body that says why.
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
from dragoman.transport.remote.server.auth import (
    Authenticate,
    AuthRequest,
    Principal,
    Refused,
    ServeConnection,
    may_use_connection,
)
from dragoman.transport.remote.server.http_transport import HttpServerTransport
from dragoman.transport.remote.server.limits import ADMITTED, SWEEP_INTERVAL, ByteBudget, RateLimiter, ServerLimits
from dragoman.transport.remote.server.origin import authenticate_local, check_host, check_origin
from dragoman.transport.remote.server.transport import EXPIRED, GOING_AWAY
from dragoman.transport.remote.server.ws_transport import WebSocketServerTransport

logger = logging.getLogger("dragoman")

# How long connections may take to end when the server stops: the engine's own grace for its handlers. Seconds.
SHUTDOWN_TIMEOUT = 5.0

# Retry-After for a user with too many connections: closing one takes about this long. Seconds.
CONNECTIONS_RETRY_AFTER = 5


class ServedConnection:
    """One connection: its principal, its transport and the task that serves it."""

    __slots__ = ("id", "principal", "task", "transport")

    def __init__(self, principal: Principal, transport: WebSocketServerTransport | HttpServerTransport) -> None:
        self.id = uuid.uuid4().hex
        self.principal = principal
        self.transport = transport
        self.task: asyncio.Task[None] | None = None


def is_default_agent(name: str) -> bool:
    """Whether this names the only agent of an endpoint, which needs no name."""
    return name == ""


class Endpoint:
    """An ASGI app that serves every connection with `accept`; close it when the server ends."""

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
        self.replace_settings(limits or ServerLimits(), origins, hosts)
        self._serve_transport = serve_connection
        self._authenticate = authenticate
        self._has_agent = has_agent
        self._connections: dict[str, ServedConnection] = {}
        self._connections_by_user: Counter[str] = Counter()
        self.connections_elsewhere: Callable[[str], int] = lambda _: 0  # of a user, at other nodes of a fleet
        self._sweep_timer: asyncio.TimerHandle | None = None
        self._closing = False

    def replace_settings(self, limits: ServerLimits, origins: Collection[str], hosts: Collection[str]) -> None:
        """Use these limits, origins and host names from now on. Open connections keep their limits."""
        self.limits = limits
        self._origins = frozenset(origins)
        self._hosts = frozenset(host.lower() for host in hosts)
        self.byte_budget = ByteBudget(limits)
        self._rate_limiter = RateLimiter(limits.rate, limits.burst)

    @property
    def principals(self) -> list[Principal]:
        """The principal of each open connection."""
        return [connection.principal for connection in self._connections.values()]

    @property
    def buffered_bytes(self) -> int:
        """Bytes that wait for clients, or are not acknowledged by them."""
        return sum(connection.transport.buffered_bytes for connection in self._connections.values())

    def disconnect(self, should_disconnect: Callable[[Principal], bool], reason: str) -> int:
        """Close the connections of principals that may no longer be here; return how many."""
        connections = [
            connection for connection in self._connections.values() if should_disconnect(connection.principal)
        ]
        for connection in connections:
            connection.transport.fail(TransportClosed(reason), EXPIRED, reason)
        return len(connections)

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
            logger.exception("a request to %r failed", request.path)
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

    async def authenticate(self, request: Request) -> Principal:
        """Return who makes the request; raise Refused when they may not."""
        if self._closing:
            raise Refused(503, "the server is stopping; try again in a moment", {"retry-after": "1"})
        auth_request = request.auth_request()
        principal = await self.authenticate_page(auth_request)
        name = agent_name(auth_request.path)
        if name is None or not self._has_agent(name):
            raise Refused(404, f"there is nothing at {auth_request.path}; agents are at /acp and /acp/NAME")
        return structs.replace(principal, agent=name, address=principal.address or auth_request.address)

    async def authenticate_page(self, request: AuthRequest) -> Principal:
        """Return who makes a request to any path; raise Refused when they may not."""
        self.check_host_and_origin(request)
        request.socket_cache[ADMITTED] = False
        principal = await self._authenticate(request)
        request.socket_cache[ADMITTED] = True
        if wait := self.rate_limit_wait(principal.user, 1):
            raise rate_limited_error(wait)
        return principal

    def check_host_and_origin(self, request: AuthRequest) -> None:
        """Refuse requests that a web page could make without its user's knowledge."""
        check_host(request, self._hosts)
        check_origin(request, self._origins)

    def rate_limit_wait(self, user: str, count: int) -> float:
        """Count messages of a user; return the seconds to wait when there are too many."""
        return self._rate_limiter.take(user, time.monotonic(), count)

    def open_connection(
        self, principal: Principal, transport: WebSocketServerTransport | HttpServerTransport
    ) -> ServedConnection:
        """Open a connection for this principal; raise Refused when there are too many."""
        count = self._connections_by_user[principal.user] + self.connections_elsewhere(principal.user)
        if count >= self.limits.connections:
            raise Refused(
                429,
                f"{self.limits.connections} connections are the most for one user",
                {"retry-after": str(CONNECTIONS_RETRY_AFTER)},
            )
        connection = ServedConnection(principal, transport)
        self._connections[connection.id] = connection
        self._connections_by_user[principal.user] += 1
        connection.task = asyncio.get_running_loop().create_task(
            self._serve_connection(connection), name=f"dragoman {transport.peer}"
        )
        if self._sweep_timer is None:
            self._sweep_timer = asyncio.get_running_loop().call_later(SWEEP_INTERVAL, self._end_overdue)
        return connection

    def find_connection(self, id: str | None, principal: Principal) -> ServedConnection:
        """Return the principal's own connection with this id; others cannot use it, since an id is no credential."""
        if not id:
            raise Refused(400, "the header Acp-Connection-Id is missing; initialize first, and send what it answers")
        connection = self._connections.get(id)
        if (
            connection is None
            or connection.transport.closed.done()
            or not may_use_connection(principal, connection.principal)
        ):
            raise Refused(404, "there is no such connection any more; initialize a new one and load your sessions")
        return connection

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
        """End what timed out, and schedule the next check."""
        self._sweep_timer = None
        loop, now = asyncio.get_running_loop(), time.time()
        for connection in list(self._connections.values()):
            overdue = connection.transport.overdue_error(loop.time())
            if connection.principal.expires_at is not None and now > connection.principal.expires_at:
                overdue = (
                    TransportClosed(f"the token of {connection.principal.user} has expired; get a new one"),
                    EXPIRED,
                )
            if overdue is not None:
                error, code = overdue
                connection.transport.fail(error, code, str(error))
        self._rate_limiter.drop_full_buckets(time.monotonic())
        if self._connections:
            self._sweep_timer = loop.call_later(SWEEP_INTERVAL, self._end_overdue)

    async def close(self, reason: str = "the server ends") -> None:
        """Close every connection and refuse new ones."""
        self._closing = True
        if self._sweep_timer is not None:
            self._sweep_timer.cancel()
            self._sweep_timer = None
        tasks = []
        for connection in list(self._connections.values()):
            connection.transport.fail(TransportClosed(f"{reason}"), GOING_AWAY, reason)
            if connection.task is not None:
                tasks.append(connection.task)
        if tasks:
            _, unfinished = await asyncio.wait(tasks, timeout=SHUTDOWN_TIMEOUT)
            for task in unfinished:
                task.cancel()
            with suppress(asyncio.CancelledError):
                await asyncio.gather(*unfinished, return_exceptions=True)


def rate_limited_error(wait: float) -> Refused:
    """Return the refusal of too many requests."""
    seconds = max(1, math.ceil(wait))
    return Refused(429, f"too many requests; wait {max(wait, 0.1):.1f} seconds", {"retry-after": str(seconds)})


def agent_name(path: str) -> str | None:
    """Return the agent's name in /acp/NAME, "" for /acp; None for any other path."""
    parts = [part for part in path.split("/") if part]
    if parts and parts[0] == "acp":
        del parts[0]
    return None if len(parts) > 1 else "".join(parts)
