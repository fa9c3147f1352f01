"""The measured client written with the official Python SDK: `py_client SPECIFICATION AGENT ARG...`."""

import asyncio
import json
import os
import sys
from pathlib import Path
from typing import Any

from acp import PROTOCOL_VERSION, Client, spawn_agent_process, text_block
from acp import ReadTextFileResponse as FileText
from acp.client.connection import ClientSideConnection
from acp.schema import AgentMessageChunk, ClientCapabilities, FileSystemCapabilities, TextContentBlock

from bench.peers.drive import Take, drive
from bench.peers.texts import ANSWER


class BenchClient(Client):
    """Receives updates, offers files."""

    def __init__(self, real_files: bool) -> None:
        self.takes: dict[str, Take] = {}
        self._real_files = real_files

    async def session_update(self, session_id: str, update: Any, **kwargs: Any) -> None:
        """Hand a text chunk to the turn of its session."""
        if isinstance(update, AgentMessageChunk) and isinstance(update.content, TextContentBlock):
            self.takes[session_id](update.content.text)

    async def read_text_file(self, session_id: str, path: str, *args: Any, **kwargs: Any) -> FileText:
        """The constant answer, or what the file says."""
        return FileText(content=_text_of(path) if self._real_files else ANSWER)


def _text_of(path: str) -> str:
    return Path(path).read_text()


class Editor:
    """drive.Client on top of the SDK's connection."""

    def __init__(self, connection: ClientSideConnection, client: BenchClient, cwd: str) -> None:
        self._connection = connection
        self._client = client
        self._cwd = cwd

    async def open(self) -> str:
        """Make a new session."""
        return (await self._connection.new_session(cwd=self._cwd, mcp_servers=[])).session_id

    async def prompt(self, session: str, text: str, take: Take) -> str:
        """Run one turn."""
        self._client.takes[session] = take
        answer = await self._connection.prompt(session_id=session, prompt=[text_block(text)])
        return answer.stop_reason


async def main() -> None:
    """Start the agent, do the work, print the figures."""
    specification = json.loads(sys.argv[1])
    # The SDK's protocol classes are meant to be filled in part, which a type checker cannot know.
    client = BenchClient(real_files=bool(specification.get("path")))  # type: ignore[abstract]
    # The SDK trims the environment by default; the agents of the other kinds inherit all of it.
    spawned = spawn_agent_process(client, *sys.argv[2:], env=os.environ, transport_kwargs={"stderr": None})
    async with spawned as (connection, _process):
        await connection.initialize(
            protocol_version=PROTOCOL_VERSION,
            client_capabilities=ClientCapabilities(fs=FileSystemCapabilities(read_text_file=True)),
        )
        editor = Editor(connection, client, specification.get("cwd") or os.getcwd())
        print(json.dumps(await drive(specification, editor)))


if __name__ == "__main__":
    asyncio.run(main())
