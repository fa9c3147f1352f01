"""The agent of py_agent.py over HTTP and WebSocket, as the official Python SDK serves it under an ASGI server.

Prints its address, and serves until its standard input ends.
"""

import asyncio
import socket
import sys
from typing import Any

import uvicorn
from acp.http.asgi import create_asgi_app
from py_agent import PythonAgent  # type: ignore[import-not-found]  # it lies beside this script


def _agent(connection: Any) -> Any:
    agent = PythonAgent()
    agent.on_connect(connection)
    return agent


async def main() -> None:
    """Serve."""
    listening = socket.create_server(("127.0.0.1", 0))
    server = uvicorn.Server(uvicorn.Config(create_asgi_app(_agent), log_level="error", lifespan="off"))
    serving = asyncio.create_task(server.serve([listening]))
    print(f"http://127.0.0.1:{listening.getsockname()[1]}/acp", flush=True)
    await asyncio.to_thread(sys.stdin.read)
    server.force_exit = server.should_exit = True
    await serving


if __name__ == "__main__":
    asyncio.run(main())
