"""The sessions and prompts of a v2 client, as its emulator knows them. No I/O."""

from __future__ import annotations

from collections import deque
from typing import Any, Final

import msgspec
from msgspec import UNSET

from dragoman.dialect.v2.message_ids import MessageIds
from dragoman.dialect.v2.options import Options
from dragoman.dialect.v2.tables import CODES
from dragoman.errors import Kind, ProtocolError
from dragoman.schema.content import TextContent
from dragoman.schema.prompt import PromptResult, StopReason
from dragoman.schema.toolcall import ToolCallStatus
from dragoman.schema.update import SessionState, ToolCallProgress, ToolCallStart, UserMessageChunk

# Members of a tool call that a new start of the same id must clear, by their name on the wire.
_START_MEMBERS: Final = {
    "name": "name",
    "kind": "kind",
    "status": "status",
    "content": "content",
    "locations": "locations",
    "raw_input": "rawInput",
    "raw_output": "rawOutput",
}


class ClientPrompt(msgspec.Struct, eq=False):
    """A prompt of the client."""

    number: int
    params: Any
    message_id: str
    echo: str  # text of the prompt that the agent may still repeat
    is_inserted: bool = False
    is_cancelled: bool = False
    error: ProtocolError | None = None  # why it was refused

    @property
    def key(self) -> str:
        """Names the request that its receipt answers."""
        return f"prompt {self.number}"

    @property
    def receipt(self) -> PromptResult:
        """The answer to it."""
        return PromptResult(stop_reason=StopReason.END_TURN, message_id=self.message_id)

    @property
    def is_answered(self) -> bool:
        """Whether the client knows what became of it."""
        return self.is_inserted or self.error is not None


class ClientSession(msgspec.Struct, eq=False):
    """One session as the client knows it."""

    id: str
    cwd: str = ""
    state: str = SessionState.IDLE
    tells_state: bool = False  # the agent itself tells states
    running: ClientPrompt | None = None
    held: deque[ClientPrompt] = msgspec.field(default_factory=deque)
    questions: dict[str, None] = msgspec.field(default_factory=dict)  # open ones, by key
    tool_calls: dict[str, str] = msgspec.field(default_factory=dict)  # id -> status
    titles: dict[str, str] = msgspec.field(default_factory=dict)  # of tool calls
    options: Options = msgspec.field(default_factory=Options)
    ids: MessageIds = msgspec.field(default_factory=MessageIds)
    is_opening: bool = False  # its client does not know it yet
    is_replaying: bool = False
    is_silent: bool = False  # a replay that nobody asked for
    is_closed: bool = False
    commands: Any = None  # that came before the answer

    def start_tool_call(self, update: ToolCallStart) -> ToolCallProgress:
        """Return the start of a tool call as a patch; an id that is used again clears what the start lacks."""
        self.ids.end_message()
        members = {name: getattr(update, name) for name in (*_START_MEMBERS, "title", "tool_call_id", "meta")}
        missing = [wire for name, wire in _START_MEMBERS.items() if members[name] in (UNSET, None)]
        is_known = update.tool_call_id in self.tool_calls
        self.tool_calls[update.tool_call_id] = update.status or ToolCallStatus.PENDING
        self.titles[update.tool_call_id] = update.title
        return ToolCallProgress(**members, clear=missing if is_known and missing else UNSET)

    def note_tool_call(self, update: ToolCallProgress) -> None:
        """Note the status and title of a tool call."""
        self.ids.end_message()
        if update.status:
            self.tool_calls[update.tool_call_id] = update.status
        if update.title:
            self.titles[update.tool_call_id] = update.title


def stop_of(error: ProtocolError, is_cancelled: bool) -> tuple[str, Any]:
    """Return the stop reason and error object of a turn that ended with an error."""
    if is_cancelled or error.kind == Kind.CANCELLED:
        return StopReason.CANCELLED, UNSET
    return StopReason.ERROR, error_object(error)


def error_object(error: ProtocolError) -> dict[str, Any]:
    """Return an error as a state has it."""
    code = error.code if error.code is not None else CODES.get(error.kind, -32603)
    said: dict[str, Any] = {"code": code, "message": error.message}
    return {**said, "data": error.data} if error.data else said


def text_of(blocks: Any) -> str:
    """Return the text of a prompt."""
    return "".join(block.text for block in blocks if isinstance(block, TextContent))


def take_echo(prompt: ClientPrompt, update: UserMessageChunk) -> bool:
    """Return whether a chunk repeats the next part of the prompt, which the client has been told already."""
    text = update.content.text if isinstance(update.content, TextContent) else ""
    if not text or not prompt.echo.startswith(text):
        return False
    prompt.echo = prompt.echo[len(text) :]
    return True
