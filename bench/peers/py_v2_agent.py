"""The measured agent of protocol version 2, written with the official Python SDK (its release candidate)."""

import asyncio
from typing import Any
from uuid import uuid4

from acp.experimental.v2 import PROTOCOL_VERSION, AgentSideConnection, run_agent, schema

from bench.peers.perform import Performer


async def no_files(path: str) -> str:
    """Version 2 has no files of the client."""
    raise NotImplementedError(path)


class BenchAgent:
    """Does the work of perform.py through the SDK's connection."""

    def __init__(self) -> None:
        self._performer = Performer()
        self._work: set[asyncio.Task[None]] = set()

    def on_connect(self, conn: AgentSideConnection) -> None:
        """Keep the connection to talk back."""
        self._client = conn

    async def initialize(self, protocol_version: int, *args: Any, **kwargs: Any) -> schema.InitializeResponse:
        """Answer with our version."""
        return schema.InitializeResponse(
            protocol_version=PROTOCOL_VERSION,
            info=schema.Implementation(name="bench", version="1.0"),
            capabilities=schema.AgentCapabilities(session=schema.SessionCapabilities()),
        )

    async def new_session(self, cwd: str, *args: Any, **kwargs: Any) -> schema.NewSessionResponse:
        """Make a session."""
        return schema.NewSessionResponse(session_id=uuid4().hex)

    async def prompt(self, session_id: str, prompt: list[Any], **kwargs: Any) -> schema.PromptResponse:
        """Insert the message; do what its text says after the answer."""
        text = "".join(block.text for block in prompt if isinstance(block, schema.TextContentBlock))
        message = uuid4().hex
        await self._client.session_update(session_id, schema.UserMessageUpdate(message_id=message, content=prompt))
        task = asyncio.create_task(self._perform(session_id, text))
        self._work.add(task)
        task.add_done_callback(self._work.discard)
        return schema.PromptResponse(message_id=message)

    async def _perform(self, session_id: str, text: str) -> None:
        message = uuid4().hex

        def say(text: str) -> Any:
            content = schema.TextContentBlock(text=text)
            return self._client.session_update(
                session_id, schema.AgentMessageChunk(message_id=message, content=content)
            )

        await self._client.session_update(session_id, schema.RunningSessionStateUpdate())
        await self._performer.perform(text, say, no_files)
        await self._client.session_update(session_id, schema.IdleSessionStateUpdate(stop_reason="end_turn"))


if __name__ == "__main__":
    asyncio.run(run_agent(BenchAgent()))
