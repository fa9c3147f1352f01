"""The measured agent served by Dragoman: `ours_server` prints its address and serves until its input ends."""

import asyncio
import sys

from bench.peers.ours_agent import agent


async def main() -> None:
    """Serve until the standard input ends."""
    async with agent.serve_http() as served:
        print(served.url, flush=True)
        await asyncio.to_thread(sys.stdin.read)


if __name__ == "__main__":
    asyncio.run(main())
