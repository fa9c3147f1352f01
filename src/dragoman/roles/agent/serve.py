"""An agent that remote clients reach: one endpoint for HTTP and WebSocket, with the safe defaults of the transport.

Takes an Agent, gives an ASGI app or a server that runs. Every client gets a connection of its own; the agent's sessions
outlive them. Only the owner of this process comes in, unless the author gives an `admit`. Loaded when it is asked for.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Collection
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

from dragoman.transport.base import Transport
from dragoman.transport.remote.server.auth import Admit, Visitor
from dragoman.transport.remote.server.endpoint import Endpoint
from dragoman.transport.remote.server.limits import Limits
from dragoman.transport.remote.server.origin import check_bind, local_only

if TYPE_CHECKING:
    from dragoman.roles.agent.agent import Agent
    from dragoman.transport.remote.server.listener import Served


def endpoint(
    agent: Agent,
    *,
    admit: Admit | None = None,
    limits: Limits | None = None,
    origins: Collection[str] = (),
    hosts: Collection[str] = (),
    report: Callable[[str], None] | None = None,
) -> Endpoint:
    """The ASGI app of an agent."""

    async def accept(transport: Transport, visitor: Visitor) -> None:
        await agent.serve(transport, report=report)

    return Endpoint(accept, admit=admit or local_only, limits=limits, origins=origins, hosts=hosts)


@asynccontextmanager
async def served(
    agent: Agent,
    bind: str,
    *,
    tls: tuple[str, str] | None = None,
    admit: Admit | None = None,
    limits: Limits | None = None,
    origins: Collection[str] = (),
    hosts: Collection[str] = (),
    report: Callable[[str], None] | None = None,
) -> AsyncIterator[Served]:
    """Serve an agent at this address until the block ends."""
    check_bind(bind, has_tls=tls is not None, has_leave=admit is not None)
    from dragoman.transport.remote.server.listener import serving

    app = endpoint(agent, admit=admit, limits=limits, origins=origins, hosts=hosts, report=report)
    async with serving(app, bind, tls=tls) as running:
        yield running
