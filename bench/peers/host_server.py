"""The measured host: `host_server full|memory FILE` serves a host with the measured agent until its input ends.

The same parts as `dragoman serve`, with limits that let one user have a thousand connections and sessions.
"""

import asyncio
import sys
from pathlib import Path

from dragoman.config.config_file import NamedAgent
from dragoman.host.auth.roles import MemorySessionRoles
from dragoman.host.host import Host
from dragoman.host.limits import HostLimits
from dragoman.store.memory import MemoryStore
from dragoman.store.sqlite import SqliteStore
from dragoman.transport.remote.server.endpoint import Endpoint
from dragoman.transport.remote.server.limits import ServerLimits
from dragoman.transport.remote.server.listener import open_listener
from dragoman.transport.remote.server.origin import current_user

MANY = 1_000_000
LIMITS = ServerLimits(connections=MANY, rate=float(MANY), burst=MANY, keepalive=600.0)


async def main(durability: str, path: str) -> None:
    """Serve until the standard input ends."""
    store = MemoryStore() if durability == "memory" else await SqliteStore.open(path, durability=durability)
    # It works in the session's folder, where this package is not.
    here = {"PYTHONPATH": str(Path(__file__).parents[2])}
    agent = NamedAgent(name="bench", command=sys.executable, args=("-m", "bench.peers.ours_agent"), env=here)
    async with Host(
        [agent],
        store=store,
        session_roles=MemorySessionRoles(current_user()),
        limits=HostLimits(max_sessions=MANY),
        report=lambda _: None,
    ) as host:
        async with open_listener(Endpoint(host.serve_client, limits=LIMITS)) as served:
            print(served.url, flush=True)
            await asyncio.to_thread(sys.stdin.read)
    await store.close()


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
