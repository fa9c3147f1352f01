"""An agent that remote clients reach: one endpoint for HTTP and WebSocket, with the safe defaults of the transport.

Takes an Agent, gives an ASGI app or a server that runs. Every client gets a connection of its own; the agent's sessions
outlive them. Only the owner of this process comes in, unless the author gives an `admit`. Loaded when it is asked for.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Collection
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

from dragoman.transport.base import Transport
from dragoman.transport.remote.server.auth import Authenticate, Principal
from dragoman.transport.remote.server.endpoint import Endpoint
from dragoman.transport.remote.server.limits import ServerLimits
from dragoman.transport.remote.server.origin import authenticate_local, check_bind

if TYPE_CHECKING:
    from dragoman.roles.agent.agent import Agent
    from dragoman.transport.remote.server.listener import Listener


def build_endpoint(
    agent: Agent,
    *,
    authenticate: Authenticate | None = None,
    limits: ServerLimits | None = None,
    origins: Collection[str] = (),
    hosts: Collection[str] = (),
    report: Callable[[str], None] | None = None,
) -> Endpoint:
    """The ASGI app of an agent."""

    async def accept(transport: Transport, visitor: Principal) -> None:
        await agent.serve(transport, report=report)

    return Endpoint(
        accept, authenticate=authenticate or authenticate_local, limits=limits, origins=origins, hosts=hosts
    )


@asynccontextmanager
async def serve_http(
    agent: Agent,
    bind: str,
    *,
    tls: tuple[str, str] | None = None,
    authenticate: Authenticate | None = None,
    limits: ServerLimits | None = None,
    origins: Collection[str] = (),
    hosts: Collection[str] = (),
    report: Callable[[str], None] | None = None,
) -> AsyncIterator[Listener]:
    """Serve an agent at this address until the block ends."""
    check_bind(bind, has_tls=tls is not None, has_auth=authenticate is not None)
    from dragoman.transport.remote.server.listener import open_listener

    app = build_endpoint(agent, authenticate=authenticate, limits=limits, origins=origins, hosts=hosts, report=report)
    async with open_listener(app, bind, tls=tls) as running:
        yield running
