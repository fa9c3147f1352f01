"""A minimal echo agent written with the official Python SDK: what the start-up row starts."""

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
    update_agent_message,
)


class EchoAgent(Agent):
    """Sends the prompt back."""

    def on_connect(self, conn: Client) -> None:
        """Keep the connection to talk back."""
        self._client = conn

    async def initialize(self, protocol_version: int, *args: Any, **kwargs: Any) -> InitializeResponse:
        """Answer with our version."""
        return InitializeResponse(protocol_version=PROTOCOL_VERSION)

    async def new_session(self, cwd: str, *args: Any, **kwargs: Any) -> NewSessionResponse:
        """Make a session."""
        return NewSessionResponse(session_id=uuid4().hex)

    async def prompt(self, session_id: str, prompt: list[Any], **kwargs: Any) -> PromptResponse:
        """Say each block back."""
        for block in prompt:
            await self._client.session_update(session_id, update_agent_message(block))
        return PromptResponse(stop_reason="end_turn")


if __name__ == "__main__":
    # The SDK's protocol classes are meant to be filled in part, which a type checker cannot know.
    asyncio.run(run_agent(EchoAgent()))  # type: ignore[abstract]
