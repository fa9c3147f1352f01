"""The measured client of protocol version 2 of the official Python SDK: `py_v2_client SPECIFICATION AGENT ARG...`."""

import asyncio
import json
import os
import sys
from typing import Any

from acp import spawn_stdio_transport
from acp.experimental.v2 import PROTOCOL_VERSION, ClientSideConnection, connect_to_agent, schema

from bench.peers.drive import Take, drive


class BenchClient:
    """Receives updates: text for the turn of its session, and the state that ends it."""

    def __init__(self) -> None:
        self.takes: dict[str, Take] = {}
        self.ends: dict[str, asyncio.Future[str]] = {}

    async def session_update(self, session_id: str, update: Any, **kwargs: Any) -> None:
        """Hand a text chunk to the turn of its session; end it at idle."""
        if isinstance(update, schema.AgentMessageChunk):
            if isinstance(update.content, schema.TextContentBlock):
                self.takes[session_id](update.content.text)
        elif isinstance(update, schema.IdleSessionStateUpdate) and update.stop_reason:
            self.ends[session_id].set_result(str(update.stop_reason))


class Editor:
    """drive.Client on top of the SDK's connection."""

    def __init__(self, connection: ClientSideConnection, client: BenchClient, cwd: str) -> None:
        self._connection = connection
        self._client = client
        self._cwd = cwd

    async def open(self) -> str:
        """Make a new session."""
        return str((await self._connection.new_session(cwd=self._cwd)).session_id)

    async def prompt(self, session: str, text: str, take: Take) -> str:
        """Run one turn: the prompt is answered at once, and idle ends it."""
        self._client.takes[session] = take
        ended: asyncio.Future[str] = asyncio.get_running_loop().create_future()
        self._client.ends[session] = ended
        await self._connection.prompt(session_id=session, prompt=[schema.TextContentBlock(text=text)])
        return await ended


async def main() -> None:
    """Start the agent, do the work, print the figures."""
    specification = json.loads(sys.argv[1])
    client = BenchClient()
    # The SDK trims the environment by default; the agents of the other kinds inherit all of it.
    spawned = spawn_stdio_transport(*sys.argv[2:], env=dict(os.environ), stderr=None)
    async with spawned as (reader, writer, _process):
        connection = connect_to_agent(client, writer, reader)
        await connection.initialize(PROTOCOL_VERSION, schema.Implementation(name="bench", version="1.0"))
        editor = Editor(connection, client, specification.get("cwd") or os.getcwd())
        print(json.dumps(await drive(specification, editor)))


if __name__ == "__main__":
    asyncio.run(main())
