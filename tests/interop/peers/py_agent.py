"""An agent written with the official Python SDK: the first word of a prompt is the action.

It does not import Dragoman. ts_agent.mjs is the same agent with the other SDK; change both together.
"""

import asyncio
import json
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
    RequestPermissionResponse,
    SetSessionModeResponse,
    plan_entry,
    run_agent,
    start_tool_call,
    text_block,
    tool_content,
    update_agent_message_text,
    update_agent_thought_text,
    update_plan,
    update_tool_call,
    update_user_message_text,
)
from acp.helpers import update_current_mode
from acp.schema import (
    AgentCapabilities,
    AllowedOutcome,
    Implementation,
    PermissionOption,
    SessionMode,
    SessionModeState,
    TextContentBlock,
    ToolCallUpdate,
)

OPTIONS = [
    PermissionOption(option_id="yes", name="Yes", kind="allow_once"),
    PermissionOption(option_id="no", name="No", kind="reject_once"),
]
MODES = [SessionMode(id="ask", name="Ask"), SessionMode(id="code", name="Code")]


class Session:
    """The state of a session: its mode, its history, whether its turn was cancelled."""

    def __init__(self) -> None:
        self.mode = "ask"
        self.history: list[Any] = []
        self.cancelled = asyncio.Event()


class PythonAgent(Agent):
    """An agent with one action for each feature of the protocol."""

    def __init__(self) -> None:
        self._sessions: dict[str, Session] = {}

    def on_connect(self, conn: Client) -> None:
        """Keep the connection for calls to the client."""
        self._client = conn

    async def initialize(self, protocol_version: int, *args: Any, **kwargs: Any) -> InitializeResponse:
        """Return our name and capabilities."""
        return InitializeResponse(
            protocol_version=PROTOCOL_VERSION,
            agent_capabilities=AgentCapabilities(load_session=True),
            agent_info=Implementation(name="python", version="1.0"),
        )

    async def new_session(self, cwd: str, *args: Any, **kwargs: Any) -> NewSessionResponse:
        """Make a session."""
        id = uuid4().hex
        self._sessions[id] = Session()
        return NewSessionResponse(session_id=id, modes=SessionModeState(current_mode_id="ask", available_modes=MODES))

    async def load_session(self, cwd: str, session_id: str, *args: Any, **kwargs: Any) -> LoadSessionResponse:
        """Send the history again."""
        if session_id not in self._sessions:
            raise RequestError.resource_not_found(session_id)
        for update in self._sessions[session_id].history:
            await self._client.session_update(session_id, update)
        mode = self._sessions[session_id].mode
        return LoadSessionResponse(modes=SessionModeState(current_mode_id=mode, available_modes=MODES))

    async def set_session_mode(self, session_id: str, mode_id: str, **kwargs: Any) -> SetSessionModeResponse:
        """Change the mode, and send the update."""
        self._sessions[session_id].mode = mode_id
        await self._client.session_update(session_id, update_current_mode(mode_id))
        return SetSessionModeResponse()

    async def cancel(self, session_id: str, **kwargs: Any) -> None:
        """End the turn that waits."""
        self._sessions[session_id].cancelled.set()

    async def ext_method(self, method: str, params: dict[str, Any]) -> dict[str, Any]:
        """There are no extensions (the inherited one would answer null)."""
        raise RequestError.method_not_found(f"_{method}")

    async def prompt(self, session_id: str, prompt: list[Any], **kwargs: Any) -> PromptResponse:
        """Run the action of the first word."""
        text = "".join(block.text for block in prompt if isinstance(block, TextContentBlock))
        verb, _, rest = text.partition(" ")
        session = self._sessions[session_id]
        session.cancelled.clear()
        session.history.append(update_user_message_text(text))
        turn = Performance(self._client, session_id, session)
        try:
            await getattr(turn, verb)(rest)
        except RequestError as error:
            await turn.say(f"error {error.code}: {error}")
        return PromptResponse(stop_reason="cancelled" if session.cancelled.is_set() else "end_turn")


class Performance:
    """One turn: a function for each action."""

    def __init__(self, client: Client, session_id: str, session: Session) -> None:
        self._client = client
        self._id = session_id
        self._session = session

    async def _tell(self, update: Any) -> None:
        self._session.history.append(update)
        await self._client.session_update(self._id, update)

    async def say(self, text: str) -> None:
        """Repeat the text."""
        await self._tell(update_agent_message_text(text))

    async def tour(self, _: str) -> None:
        """A thought, a plan, a tool call, a message."""
        await self._tell(update_agent_thought_text("hm"))
        await self._tell(update_plan([plan_entry("look", priority="high", status="in_progress")]))
        await self._tell(start_tool_call("call", "Look", kind="search", status="pending", raw_input={"what": "all"}))
        content = [tool_content(text_block("found"))]
        await self._tell(update_tool_call("call", status="completed", content=content))
        for piece in ("one ", "two ", "three"):
            await self.say(piece)

    async def ask(self, _: str) -> None:
        """Ask for permission, and send the answer as text."""
        question = ToolCallUpdate(tool_call_id="call", title="May I?", kind="execute", raw_input={"command": "ls"})
        answer: RequestPermissionResponse = await self._client.request_permission(
            session_id=self._id, tool_call=question, options=OPTIONS
        )
        outcome = answer.outcome
        await self.say(outcome.option_id if isinstance(outcome, AllowedOutcome) else outcome.outcome)

    async def read(self, rest: str) -> None:
        """Read a file, or some lines of it."""
        path, *window = rest.split()
        line, limit = map(int, window) if window else (None, None)
        answer = await self._client.read_text_file(session_id=self._id, path=path, line=line, limit=limit)
        await self.say(answer.content)

    async def write(self, rest: str) -> None:
        """Write a file."""
        path, _, text = rest.partition(" ")
        await self._client.write_text_file(session_id=self._id, path=path, content=text)
        await self.say("written")

    async def run(self, rest: str) -> None:
        """Run a command to its end."""
        made = await self._client.create_terminal(session_id=self._id, command="/bin/sh", args=["-c", rest])
        terminal = {"session_id": self._id, "terminal_id": made.terminal_id}
        ended = await self._client.wait_for_terminal_exit(**terminal)
        output = await self._client.terminal_output(**terminal)
        await self._client.release_terminal(**terminal)
        await self.say(json.dumps([ended.exit_code, ended.signal, output.output, output.truncated]))

    async def kill(self, _: str) -> None:
        """Start a command that never ends, and kill it."""
        line = "echo begun; exec sleep 300"
        made = await self._client.create_terminal(session_id=self._id, command="/bin/sh", args=["-c", line])
        terminal = {"session_id": self._id, "terminal_id": made.terminal_id}
        while "begun" not in (running := await self._client.terminal_output(**terminal)).output:  # noqa: ASYNC110
            await asyncio.sleep(0.01)
        await self._client.kill_terminal(**terminal)
        ended = await self._client.wait_for_terminal_exit(**terminal)
        output = await self._client.terminal_output(**terminal)
        await self._client.release_terminal(**terminal)
        is_running = running.exit_status is None
        await self.say(json.dumps([is_running, ended.exit_code, ended.signal, output.output]))

    async def abandon(self, _: str) -> None:
        """Start a command that never ends, and do not release it."""
        await self._client.create_terminal(session_id=self._id, command="sleep", args=["300"])
        await self.say("left")

    async def slow(self, _: str) -> None:
        """Wait for a cancel."""
        await self._tell(start_tool_call("call", "Wait", kind="other", status="in_progress"))
        await self._session.cancelled.wait()

    async def half(self, _: str) -> None:
        """Cut an emoji in two, as a stream of UTF-16 units would."""
        await self.say("a half: \ud83d")
        await self.say("a whole: 😀 中文 \x00 \u2028 ß")

    async def big(self, rest: str) -> None:
        """One large chunk."""
        await self.say("é" * int(rest))

    async def extension(self, _: str) -> None:
        """Send a request that the client does not know."""
        await self.say(json.dumps(await self._client.ext_method("example.org/unknown", {"a": 1})))


if __name__ == "__main__":
    # The SDK's protocol classes are meant to be filled in part, which a type checker cannot know.
    asyncio.run(run_agent(PythonAgent()))  # type: ignore[abstract]
