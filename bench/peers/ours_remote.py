"""The measured remote client written with Dragoman: `ours_remote SPECIFICATION SERVER ARG...`, over ws or http."""

import asyncio
import json
import sys

from bench.peers.drive import drive
from bench.peers.ours_client import Editor, workspace_options
from bench.peers.served import scheme, served
from dragoman import connect


async def main() -> None:
    """Start the server, do the work, print the figures."""
    specification = json.loads(sys.argv[1])
    with served(sys.argv[2:]) as address:
        async with connect(scheme(address, specification["over"]), **workspace_options(specification)) as agent:
            print(json.dumps(await drive(specification, Editor(agent, specification.get("cwd") or "."))), flush=True)


if __name__ == "__main__":
    asyncio.run(main())
