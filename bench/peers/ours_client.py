"""The measured client written with Dragoman: `ours_client SPECIFICATION AGENT ARG...`."""

import asyncio
import json
import sys
from collections.abc import Mapping
from typing import Any

from bench.peers.drive import Take, drive
from bench.peers.texts import ANSWER
from dragoman import ClientSession, RemoteAgent, WorkspaceAccess, connect
from dragoman.schema.content import TextContent
from dragoman.schema.fs import ReadTextFileParams, ReadTextFileResult
from dragoman.schema.update import AgentMessageChunk


class Editor:
    """drive.Client on top of the public door."""

    def __init__(self, agent: RemoteAgent, cwd: str) -> None:
        self._agent = agent
        self._cwd = cwd

    async def open(self) -> ClientSession:
        """Make a new session."""
        return await self._agent.open_session(cwd=self._cwd)

    async def prompt(self, session: ClientSession, text: str, take: Take) -> str:
        """Run one turn."""
        async with session.prompt(text) as turn:
            async for update in turn:
                if isinstance(update, AgentMessageChunk) and isinstance(update.content, TextContent):
                    take(update.content.text)
        return turn.stop_reason or ""


async def constant(params: ReadTextFileParams) -> ReadTextFileResult:
    """The same answer whatever the path."""
    return ReadTextFileResult(content=ANSWER)


def workspace_options(specification: Mapping[str, Any]) -> dict[str, Any]:
    """The files that the client serves: real ones if the job names a path, otherwise a constant answer."""
    if specification.get("path"):
        return {"workspace": WorkspaceAccess()}
    return {"on": {"fs/read_text_file": constant}}


async def main() -> None:
    """Start the agent, do the work, print the figures."""
    specification = json.loads(sys.argv[1])
    version = specification.get("version", 1)
    async with connect(sys.argv[2:], version=version, **workspace_options(specification)) as agent:
        print(json.dumps(await drive(specification, Editor(agent, specification.get("cwd") or "."))))


if __name__ == "__main__":
    asyncio.run(main())
