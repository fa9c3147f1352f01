"""Several hosts of one process on one engine, linked over real sockets: shared by the tests of a fleet."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

from dragoman import Agent
from dragoman.host.auth.roles import MemorySessionRoles
from dragoman.host.fleet.audit_anchors import AuditAnchors
from dragoman.host.fleet.distant_room import DistantRoom
from dragoman.host.fleet.fleet import Fleet
from dragoman.host.fleet.lease import LeaseTimes
from dragoman.host.fleet.node_tls import NodeTls
from dragoman.host.http.app import HostApp
from dragoman.store.fleet import Engine
from dragoman.store.local_fleet import local_engine
from dragoman.store.memory import MemoryStore
from dragoman.transport.remote.server.listener import open_listener
from tests.host.memory_host import Hosted, running_host, talker

SECRET = "the secret of this fleet"

# Leases that last longer than a busy machine leaves a task without its turn.
STEADY = LeaseTimes(renew=0.2, stop_turns=30.0, end_agents=32.0, kill_agents=34.0, counts=40.0)

# Leases that are soon over, for tests that wait for that. A busy machine may not run a task for two seconds.
FAST = LeaseTimes(renew=0.3, stop_turns=2.8, end_agents=3.3, kill_agents=3.7, counts=4.2)


class Node:
    """One node for a test."""

    def __init__(self, hosted: Hosted, fleet: Fleet, app: HostApp) -> None:
        self.hosted = hosted
        self.host = hosted.host
        self.fleet = fleet
        self.app = app
        self.client = hosted.client
        self.name = fleet.node

    def distant(self, session: str) -> DistantRoom:
        """The room here of a session that runs elsewhere."""
        return self.fleet.ownership.distant_rooms[session]

    def owns(self, session: str) -> bool:
        return session in self.host.rooms

    async def cut_links(self) -> None:
        """End all links of this node, as a network would."""
        for link in list(self.fleet.links.links.values()):
            await link.close("cut by the test")

    def die(self) -> None:
        """Stop like a killed process: no renewals, no links, no answers. Its agents are left to the caller."""
        self.fleet.lease.freeze()


@asynccontextmanager
async def running_fleet(
    names: Sequence[str] = ("n1", "n2", "n3"),
    make: Callable[[], Agent] = talker,
    *,
    engine: Engine | None = None,
    times: LeaseTimes = STEADY,
    labels: dict[str, tuple[str, ...]] | None = None,
    workspaces: Path | None = None,
    audit: AuditAnchors | None = None,
    tls: dict[str, NodeTls] | None = None,
    certificates: dict[str, tuple[str, str]] | None = None,
    **options: Any,
) -> AsyncIterator[list[Node]]:
    """Yield nodes on one engine, with agents in memory. All mount the volume `all` at /.

    `certificates` are those by which nodes are served, and `tls` how they know others.
    """
    engine = engine or local_engine("memory", MemoryStore(), ["nothing is stored"])
    roles = options.pop("session_roles", None) or MemorySessionRoles("ann")
    async with AsyncExitStack() as stack:
        nodes = []
        for name in names:
            wanted = (labels or {}).get(name, ("shared:all=/",))
            folder = "" if workspaces is None else str(workspaces / name)
            fleet = Fleet(
                engine,
                name,
                "",
                labels=wanted,
                token=SECRET,
                times=times,
                uses_watchdog=False,
                workspaces=folder,
                audit=audit,
                tls=(tls or {}).get(name, NodeTls()),
            )
            hosted = await stack.enter_async_context(
                running_host(make, store=engine.store, session_roles=roles, fleet=fleet, **options)
            )
            app = HostApp(hosted.host, local=None)
            own = (tls or {}).get(name, NodeTls())
            listener = await stack.enter_async_context(
                open_listener(
                    app,
                    "127.0.0.1:0",
                    tls=(certificates or {}).get(name),
                    client_ca=own.ca if own.certificate else "",
                    report=hosted.host.report,
                )
            )
            fleet.url = listener.url.removesuffix("/acp")
            await fleet.start()
            nodes.append(Node(hosted, fleet, app))
        async with asyncio.timeout(120):
            yield nodes
