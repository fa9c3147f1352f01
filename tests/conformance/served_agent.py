"""`python -m tests.conformance.served_agent`: the agent that ships, over HTTP and WebSocket; prints its URL as JSON."""

from __future__ import annotations

import asyncio
import json

from dragoman.agents.everything.agent import everything


async def main() -> None:
    """Serve until the process is ended."""
    async with everything("auto").serve_http("127.0.0.1:0", report=lambda _: None) as listener:
        print(json.dumps({"url": listener.url}), flush=True)
        await listener.wait_closed()


if __name__ == "__main__":
    asyncio.run(main())
