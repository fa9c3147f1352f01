"""The measured agent behind Dragoman's own server: `ours_server` prints its address and serves until its input ends."""

import asyncio
import sys

from bench.peers.ours_agent import agent
from dragoman.transport.contract import Transport
from dragoman.transport.remote.endpoint import Endpoint
from dragoman.transport.remote.serving import serving
from dragoman.transport.remote.visitor import Visitor


async def accept(transport: Transport, visitor: Visitor) -> None:
    """One client, until it leaves."""
    await agent.serve(transport)


async def main() -> None:
    """Serve until the standard input ends."""
    async with serving(Endpoint(accept)) as served:
        print(served.url, flush=True)
        await asyncio.to_thread(sys.stdin.read)


if __name__ == "__main__":
    asyncio.run(main())
