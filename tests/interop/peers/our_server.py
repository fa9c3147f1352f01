"""The everything agent behind Dragoman's own server: prints its address and serves until its input ends."""

import asyncio
import sys

from dragoman.agents.everything.agent import everything


async def main() -> None:
    """Serve until the standard input ends."""
    async with everything().serve_http() as served:
        print(served.url, flush=True)
        await asyncio.to_thread(sys.stdin.read)


if __name__ == "__main__":
    asyncio.run(main())
