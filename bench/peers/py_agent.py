"""The measured agent written with the official Python SDK."""

import asyncio
from typing import Any
from uuid import uuid4

from acp import (
    PROTOCOL_VERSION,
    Agent,
    Client,
    InitializeResponse,
    NewSessionResponse,
    PromptResponse,
    run_agent,
    update_agent_message_text,
)
from acp.schema import Implementation, TextContentBlock

from bench.peers.perform import Performer


class BenchAgent(Agent):
    """Does the work of perform.py through the SDK's connection."""

    def __init__(self) -> None:
        self._performer = Performer()

    def on_connect(self, conn: Client) -> None:
        """Keep the connection to talk back."""
        self._client = conn

    async def initialize(self, protocol_version: int, *args: Any, **kwargs: Any) -> InitializeResponse:
        """Answer with our version."""
        return InitializeResponse(
            protocol_version=PROTOCOL_VERSION, agent_info=Implementation(name="bench", version="1.0")
        )

    async def new_session(self, cwd: str, *args: Any, **kwargs: Any) -> NewSessionResponse:
        """Make a session."""
        return NewSessionResponse(session_id=uuid4().hex)

    async def prompt(self, session_id: str, prompt: list[Any], **kwargs: Any) -> PromptResponse:
        """Do what the prompt's text says."""
        text = "".join(block.text for block in prompt if isinstance(block, TextContentBlock))

        def say(text: str) -> Any:
            return self._client.session_update(session_id, update_agent_message_text(text))

        async def read(path: str) -> str:
            answer = await self._client.read_text_file(session_id=session_id, path=path)
            return answer.content

        await self._performer.perform(text, say, read)
        return PromptResponse(stop_reason="end_turn")


if __name__ == "__main__":
    # The SDK's protocol classes are meant to be filled in part, which a type checker cannot know.
    asyncio.run(run_agent(BenchAgent()))  # type: ignore[abstract]
