"""The measured agent of the official Python SDK behind its ASGI app: `py_server` prints its address and serves.

Under uvicorn, the faster server of those that its users take; the SDK asks for one with HTTP/2, but its own client
speaks that over TLS only.
"""

import asyncio
import socket
import sys

import uvicorn
from acp.http.asgi import create_asgi_app

from bench.peers.py_agent import BenchAgent


def _agent(connection: object) -> BenchAgent:
    agent = BenchAgent()  # type: ignore[abstract]  # filled in part, as the SDK means it
    agent.on_connect(connection)  # type: ignore[arg-type]
    return agent


async def main() -> None:
    """Serve until the standard input ends."""
    listening = socket.create_server(("127.0.0.1", 0))
    config = uvicorn.Config(create_asgi_app(_agent), loop="asyncio", log_level="error", lifespan="on")
    server = uvicorn.Server(config)
    serving = asyncio.create_task(server.serve([listening]))
    print(f"http://127.0.0.1:{listening.getsockname()[1]}/acp", flush=True)
    await asyncio.to_thread(sys.stdin.read)
    server.should_exit = True
    await serving


if __name__ == "__main__":
    asyncio.run(main())
