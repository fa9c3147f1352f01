"""An agent of protocol version 2 written with the official Python SDK: it does what `[[...]]` in a prompt orders.

Knows nothing of Dragoman. Sessions are files in its home, so that another process can load them. sdk_agent_v2.mjs is
the same agent with the other SDK; keep the two in step.
"""

import asyncio
import base64
import json
import os
import re
from importlib.metadata import version
from pathlib import Path
from typing import Any
from uuid import uuid4

from acp import RequestError
from acp.experimental.v2 import PROTOCOL_VERSION, AgentSideConnection, run_agent, schema

ORDER = re.compile(r"\[\[(say|write|run|slow|recall)(?: ([^\]]*))?\]\]")
OPTIONS = [
    schema.PermissionOption(option_id="yes", name="Yes", kind="allow_once"),
    schema.PermissionOption(option_id="no", name="No", kind="reject_once"),
]
HOME = Path(os.environ["HOME"]) / "sessions"
BEAT = 0.1


def block(text: str) -> dict[str, str]:
    """A text block."""
    return {"type": "text", "text": text}


class Sdk:
    """Answers, writes, runs commands, waits and loads sessions, as the prompt says."""

    def __init__(self) -> None:
        self._told: dict[str, list[str]] = {}
        self._turns: dict[str, asyncio.Task[None]] = {}

    def on_connect(self, conn: AgentSideConnection) -> None:
        """Keep the connection to talk back."""
        self._client = conn

    async def initialize(self, protocol_version: int, *args: Any, **kwargs: Any) -> schema.InitializeResponse:
        """Tell who we are."""
        return schema.InitializeResponse(
            protocol_version=PROTOCOL_VERSION,
            info=schema.Implementation(name="official Python SDK, v2", version=version("agent-client-protocol")),
            capabilities=schema.AgentCapabilities(session=schema.SessionCapabilities()),
        )

    async def new_session(self, cwd: str, *args: Any, **kwargs: Any) -> schema.NewSessionResponse:
        """Make a session."""
        id = uuid4().hex
        self._told[id] = []
        return schema.NewSessionResponse(session_id=id)

    async def list_sessions(self, *args: Any, **kwargs: Any) -> schema.ListSessionsResponse:
        """Return no sessions."""
        return schema.ListSessionsResponse(sessions=[])

    async def close_session(self, session_id: str, **kwargs: Any) -> schema.CloseSessionResponse:
        """End the turn."""
        await self.cancel_session(session_id)
        return schema.CloseSessionResponse()

    async def resume_session(
        self, session_id: str, cwd: str, *args: Any, replay_from: Any = None, **kwargs: Any
    ) -> schema.ResumeSessionResponse:
        """Say again what was said, if the client wants it."""
        kept = HOME / f"{session_id}.json"
        if not kept.exists():
            raise RequestError.resource_not_found(session_id)
        self._told[session_id] = json.loads(kept.read_text())
        for number, text in enumerate(self._told[session_id] if replay_from is not None else ()):
            await self._tell(session_id, "user_message", messageId=f"{session_id}-{number}", content=[block(text)])
        await self._tell(session_id, "state_update", state="idle")
        return schema.ResumeSessionResponse()

    async def cancel_session(self, session_id: str, **kwargs: Any) -> None:
        """End the turn."""
        if session_id in self._turns:
            self._turns[session_id].cancel()

    async def prompt(self, session_id: str, prompt: list[Any], **kwargs: Any) -> schema.PromptResponse:
        """Insert the message; the work comes after the answer."""
        text = "".join(each.text for each in prompt if isinstance(each, schema.TextContentBlock))
        self._told[session_id].append(text)
        HOME.mkdir(exist_ok=True)
        (HOME / f"{session_id}.json").write_text(json.dumps(self._told[session_id]))
        found = ORDER.search(text)
        verb, rest = (found[1], found[2] or "") if found else ("say", "I was told nothing.")
        id = uuid4().hex
        await self._tell(session_id, "user_message", messageId=id, content=[block(text)])
        self._turns[session_id] = asyncio.create_task(self._work(session_id, verb, rest))
        return schema.PromptResponse(message_id=id)

    async def _work(self, id: str, verb: str, rest: str) -> None:
        reason = "end_turn"
        try:
            await self._tell(id, "state_update", state="running")
            await getattr(self, f"_{verb}")(id, rest)
        except asyncio.CancelledError:
            reason = "cancelled"
        await self._tell(id, "state_update", state="idle", stopReason=reason)

    async def _tell(self, id: str, update: str, /, **members: Any) -> None:
        said = {"sessionId": id, "update": {"sessionUpdate": update, **members}}
        await self._client.session_update(id, schema.UpdateSessionNotification.model_validate(said).update)

    async def _say(self, id: str, text: str) -> None:
        message = f"said-{len(self._told[id])}"
        for piece in re.findall(r"\S+\s*", text):
            await self._tell(id, "agent_message_chunk", messageId=message, content=block(piece))

    async def _slow(self, id: str, seconds: str) -> None:
        for number in range(int(float(seconds) / BEAT)):
            await self._say(id, f"{number} ")
            await asyncio.sleep(BEAT)

    async def _recall(self, id: str, _: str) -> None:
        await self._say(id, f"Earlier I was told: {'; '.join(self._told[id][:-1])}")

    async def _write(self, id: str, rest: str) -> None:
        path, _, text = rest.partition(" ")
        given = {"path": path, "content": text}
        if await self._may(id, "Write a file", "edit", rawInput=given, locations=[{"path": path}]):
            Path(path).write_text(text)
            await self._tell(id, "tool_call_update", toolCallId="call", status="completed")
            await self._say(id, "Written.")

    async def _run(self, id: str, line: str) -> None:
        if await self._may(id, f"Run {line}", "execute", rawInput={"command": line}):
            terminal, shown = uuid4().hex, {"toolCallId": "call", "status": "in_progress"}
            await self._tell(id, "terminal_update", terminalId=terminal, command=line)
            content = [{"type": "terminal", "terminalId": terminal}]
            await self._tell(id, "tool_call_update", **shown, content=content)
            process = await asyncio.create_subprocess_shell(line, stdout=asyncio.subprocess.PIPE)
            output, _ = await process.communicate()
            data = base64.b64encode(output).decode()
            await self._tell(id, "terminal_output_chunk", terminalId=terminal, data=data)
            exited = {"exitCode": process.returncode}
            await self._tell(id, "terminal_update", terminalId=terminal, exitStatus=exited)
            await self._tell(id, "tool_call_update", toolCallId="call", status="completed")
            await self._say(id, f"It ended with exit code {process.returncode}.")

    async def _may(self, id: str, title: str, kind: str, **given: Any) -> bool:
        call = {"toolCallId": "call", "title": title, "kind": kind, **given}
        await self._tell(id, "tool_call_update", **call, status="pending")
        await self._tell(id, "state_update", state="requires_action")
        subject = schema.ToolCallPermissionSubjectVariant.model_validate({"type": "tool_call", "toolCall": call})
        answer = await self._client.request_permission(session_id=id, title=title, subject=subject, options=OPTIONS)
        await self._tell(id, "state_update", state="running")
        outcome = answer.outcome
        if isinstance(outcome, schema.SelectedPermissionOutcomeVariant) and outcome.option_id == "yes":
            return True
        await self._tell(id, "tool_call_update", toolCallId="call", status="failed")
        await self._say(id, "I may not.")
        return False


if __name__ == "__main__":
    asyncio.run(run_agent(Sdk()))
