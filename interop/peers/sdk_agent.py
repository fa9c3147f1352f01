"""An agent written with the official Python SDK, for the matrix: it does what `[[...]]` in a prompt orders.

Knows nothing of Dragoman. Sessions are files in its home, so that another process can load them. sdk_agent.mjs is the
same agent with the other SDK; keep the two in step.
"""

import asyncio
import json
import os
import re
from importlib.metadata import version
from pathlib import Path
from typing import Any
from uuid import uuid4

from acp import (
    PROTOCOL_VERSION,
    Agent,
    Client,
    InitializeResponse,
    LoadSessionResponse,
    NewSessionResponse,
    PromptResponse,
    RequestError,
    run_agent,
    start_tool_call,
    update_agent_message_text,
    update_tool_call,
    update_user_message_text,
)
from acp.schema import (
    AgentCapabilities,
    AllowedOutcome,
    Implementation,
    PermissionOption,
    TextContentBlock,
    ToolCallLocation,
    ToolCallUpdate,
)

ORDER = re.compile(r"\[\[(say|write|run|slow|recall)(?: ([^\]]*))?\]\]")
OPTIONS = [
    PermissionOption(option_id="yes", name="Yes", kind="allow_once"),
    PermissionOption(option_id="no", name="No", kind="reject_once"),
]
HOME = Path(os.environ["HOME"]) / "sessions"
BEAT = 0.1


class Sdk(Agent):
    """Answers, writes, runs commands, waits and loads sessions, as the prompt says."""

    def __init__(self) -> None:
        self._told: dict[str, list[str]] = {}
        self._turns: dict[str, asyncio.Task[None]] = {}

    def on_connect(self, conn: Client) -> None:
        """Keep the connection to talk back."""
        self._client = conn

    async def initialize(self, protocol_version: int, *args: Any, **kwargs: Any) -> InitializeResponse:
        """Tell who we are."""
        return InitializeResponse(
            protocol_version=PROTOCOL_VERSION,
            agent_capabilities=AgentCapabilities(load_session=True),
            agent_info=Implementation(name="official Python SDK", version=version("agent-client-protocol")),
        )

    async def new_session(self, cwd: str, *args: Any, **kwargs: Any) -> NewSessionResponse:
        """Make a session."""
        id = uuid4().hex
        self._told[id] = []
        return NewSessionResponse(session_id=id)

    async def load_session(self, cwd: str, session_id: str, *args: Any, **kwargs: Any) -> LoadSessionResponse:
        """Say again what was said."""
        kept = HOME / f"{session_id}.json"
        if not kept.exists():
            raise RequestError.resource_not_found(session_id)
        self._told[session_id] = json.loads(kept.read_text())
        for text in self._told[session_id]:
            await self._client.session_update(session_id, update_user_message_text(text))
        return LoadSessionResponse()

    async def cancel(self, session_id: str, **kwargs: Any) -> None:
        """End the turn."""
        if session_id in self._turns:
            self._turns[session_id].cancel()

    async def prompt(self, session_id: str, prompt: list[Any], **kwargs: Any) -> PromptResponse:
        """Do what the order says."""
        text = "".join(block.text for block in prompt if isinstance(block, TextContentBlock))
        self._told[session_id].append(text)
        HOME.mkdir(exist_ok=True)
        (HOME / f"{session_id}.json").write_text(json.dumps(self._told[session_id]))
        found = ORDER.search(text)
        verb, rest = (found[1], found[2] or "") if found else ("say", "I was told nothing.")
        turn = self._turns[session_id] = asyncio.create_task(getattr(self, f"_{verb}")(session_id, rest))
        try:
            await turn
        except asyncio.CancelledError:
            return PromptResponse(stop_reason="cancelled")
        return PromptResponse(stop_reason="end_turn")

    async def _say(self, id: str, text: str) -> None:
        for piece in re.findall(r"\S+\s*", text):
            await self._client.session_update(id, update_agent_message_text(piece))

    async def _slow(self, id: str, seconds: str) -> None:
        for number in range(int(float(seconds) / BEAT)):
            await self._say(id, f"{number} ")
            await asyncio.sleep(BEAT)

    async def _recall(self, id: str, _: str) -> None:
        await self._say(id, f"Earlier I was told: {'; '.join(self._told[id][:-1])}")

    async def _write(self, id: str, rest: str) -> None:
        path, _, text = rest.partition(" ")
        if await self._may(id, "Write a file", "edit", {"path": path, "content": text}, path):
            await self._client.write_text_file(session_id=id, path=path, content=text)
            await self._client.session_update(id, update_tool_call("call", status="completed"))
            await self._say(id, "Written.")

    async def _run(self, id: str, line: str) -> None:
        if await self._may(id, f"Run {line}", "execute", {"command": line}, None):
            made = await self._client.create_terminal(session_id=id, command="/bin/sh", args=["-c", line])
            terminal = {"session_id": id, "terminal_id": made.terminal_id}
            ended = await self._client.wait_for_terminal_exit(**terminal)
            await self._client.release_terminal(**terminal)
            await self._client.session_update(id, update_tool_call("call", status="completed"))
            await self._say(id, f"It ended with exit code {ended.exit_code}.")

    async def _may(self, id: str, title: str, kind: Any, given: dict[str, Any], path: str | None) -> bool:
        where = [ToolCallLocation(path=path)] if path else None
        begun = start_tool_call("call", title, kind=kind, status="pending", raw_input=given, locations=where)
        await self._client.session_update(id, begun)
        question = ToolCallUpdate(tool_call_id="call", title=title, kind=kind, raw_input=given, locations=where)
        answer = await self._client.request_permission(session_id=id, tool_call=question, options=OPTIONS)
        if isinstance(answer.outcome, AllowedOutcome) and answer.outcome.option_id == "yes":
            return True
        await self._client.session_update(id, update_tool_call("call", status="failed"))
        await self._say(id, "I may not.")
        return False


if __name__ == "__main__":
    # The SDK's protocol classes are meant to be filled in part, which a type checker cannot know.
    asyncio.run(run_agent(Sdk()))  # type: ignore[abstract]
