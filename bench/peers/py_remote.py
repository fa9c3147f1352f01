"""The measured remote client of the official Python SDK: `py_remote SPECIFICATION SERVER ARG...`, over ws or http."""

import asyncio
import json
import os
import sys

from acp import PROTOCOL_VERSION, connect_to_agent
from acp.http import create_http_stream
from acp.schema import ClientCapabilities
from acp.ws import create_websocket_stream

from bench.peers.drive import drive
from bench.peers.py_client import BenchClient, Editor
from bench.peers.served import scheme, served


async def main() -> None:
    """Start the server, do the work, print the figures."""
    specification = json.loads(sys.argv[1])
    over = specification["over"]
    with served(sys.argv[2:]) as address:
        url = scheme(address, over)
        transport = await create_websocket_stream(url) if over == "ws" else create_http_stream(url)
        client = BenchClient(real_files=False)  # type: ignore[abstract]  # filled in part, as the SDK means it
        connection = connect_to_agent(client, transport)
        await connection.initialize(protocol_version=PROTOCOL_VERSION, client_capabilities=ClientCapabilities())
        editor = Editor(connection, client, specification.get("cwd") or os.getcwd())
        print(json.dumps(await drive(specification, editor)), flush=True)
        await connection.close()


if __name__ == "__main__":
    asyncio.run(main())
