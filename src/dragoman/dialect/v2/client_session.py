"""The sessions and prompts of a v2 client, as its emulator knows them. No I/O."""

from __future__ import annotations

from collections import deque
from typing import Any, Final

import msgspec
from msgspec import UNSET

from dragoman.dialect.reshape import ABSENT
from dragoman.dialect.side_data import (
    DERIVED,
    OWN_STATE,
    OWN_TURN,
    get_member,
    side_data_of,
    with_members,
    with_side_data,
)
from dragoman.dialect.v2.message_ids import MessageIds
from dragoman.dialect.v2.options import Options
from dragoman.dialect.v2.session import COMMANDS
from dragoman.dialect.v2.tables import CODES
from dragoman.errors import Kind, ProtocolError
from dragoman.schema.base import Unknown, to_json
from dragoman.schema.content import TextContent
from dragoman.schema.prompt import PromptResult, StopReason
from dragoman.schema.toolcall import ToolCallStatus
from dragoman.schema.update import (
    AgentMessage,
    AgentThought,
    AvailableCommandsUpdate,
    ConfigOptionUpdate,
    SessionState,
    SessionStateUpdate,
    ToolCallProgress,
    ToolCallStart,
    UserMessage,
    UserMessageChunk,
    WholeMessage,
)

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

_OPEN_STATUSES: Final = (ToolCallStatus.PENDING, ToolCallStatus.IN_PROGRESS)

_WHOLE_MESSAGES: Final[dict[str, type[WholeMessage]]] = {
    "user_message_chunk": UserMessage,
    "agent_message_chunk": AgentMessage,
    "agent_thought_chunk": AgentThought,
}


class ClientPrompt(msgspec.Struct, eq=False):
    """A prompt of the client."""

    number: int
    params: Any
    message_id: str
    echo: str  # text of the prompt that the agent may still repeat
    is_started: bool = False  # a host says that its turn runs
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
    joined: list[ClientPrompt] = msgspec.field(default_factory=list)  # prompts that are part of the running turn
    is_working: bool = False  # the agent works without a prompt
    background: Any = UNSET  # the last list of background work; every later state has it
    questions: dict[str, None] = msgspec.field(default_factory=dict)  # open ones, by key
    tool_calls: dict[str, str] = msgspec.field(default_factory=dict)  # id -> status
    titles: dict[str, str] = msgspec.field(default_factory=dict)  # of tool calls
    options: Options = msgspec.field(default_factory=Options)
    ids: MessageIds = msgspec.field(default_factory=MessageIds)
    is_opening: bool = False  # its client does not know it yet
    is_replaying: bool = False
    is_reopening: bool = False  # states are only noted: one is told with the answer
    is_shared: bool = False  # a host tells the turns of all its clients
    replayed: set[tuple[str, str]] = msgspec.field(default_factory=set)  # messages that the replay has begun
    is_silent: bool = False  # a replay that nobody asked for
    is_closed: bool = False
    commands: Any = None  # that came before the answer

    def begin_reopening(self) -> None:
        """Forget the state: the session is opened again."""
        self.is_closed, self.is_reopening = False, True
        self.tells_state, self.state = False, SessionState.RUNNING if self.is_working else SessionState.IDLE
        self.replayed.clear()

    def can_insert(self, prompt: ClientPrompt) -> bool:
        """Return whether a sign of work can be of this prompt; in a shared session others work too."""
        return not self.is_working and (not self.is_shared or prompt.is_started)

    @property
    def can_be_joined(self) -> bool:
        """Whether a prompt can become part of the running turn."""
        turn = self.running
        return turn is not None and turn.is_inserted and not turn.is_cancelled and not self.held

    def open_calls(self) -> list[str]:
        """Return the tool calls that end with the turn: those in the background do not."""
        kept = {item.get("toolCallId") for item in self.background or () if isinstance(item, dict)}
        return [id for id, status in self.tool_calls.items() if status in _OPEN_STATUSES and id not in kept]

    def with_background(self, state: SessionStateUpdate) -> SessionStateUpdate:
        """Return a state with the background work: who reports it has it on every state."""
        return state if self.background is UNSET else with_members(state, background=self.background)

    def note_own_state(self, update: SessionStateUpdate) -> SessionStateUpdate:
        """Note a state of an agent whose turns we tell: work of its own, or background work; return what to send."""
        if update.background is not UNSET:
            self.background = update.background
        turn = self.running
        if turn is not None and turn.is_inserted:
            update = with_members(update, state=self.state)
        else:
            self.is_working = update.state != SessionState.IDLE
            self.state = update.state
        self.ids.end_message()
        return self.with_background(with_side_data(update, **{OWN_STATE: ABSENT}))

    def note_own_turn(self, prompt: ClientPrompt, update: Any) -> None:
        """Note whether an update says that the turn of this prompt begins."""
        if isinstance(update, SessionStateUpdate) and OWN_TURN in side_data_of(update):
            self.is_shared = prompt.is_started = True

    def note_whole_message(self, update: Any) -> None:
        """Note a whole message: its chunks in a replay continue it."""
        if self.is_replaying and isinstance(update, WholeMessage):
            self.replayed.add((str(update.__struct_config__.tag), update.message_id))

    def note_state(self, update: SessionStateUpdate) -> bool:
        """Note a state; return whether the client is told."""
        self.ids.end_message()
        is_derived, turn = DERIVED in side_data_of(update), self.running
        if is_derived:  # by a host, from the turns of all its clients: it says what the agent does not
            self.is_shared = True
            if not self.is_reopening and (update.state == self.state or (turn is not None and turn.is_inserted)):
                return False
        elif not self.is_reopening:
            is_told = not self.tells_state and update.state == self.state == SessionState.RUNNING
            self.tells_state = True
            if is_told:
                return False
        self.state = update.state
        return not self.is_reopening

    def begin_replayed(self, kind: str, id: str) -> WholeMessage | None:
        """Return the empty message that comes before the first of its chunks in a replay; None for another chunk."""
        whole = _WHOLE_MESSAGES[kind]
        key = str(whole.__struct_config__.tag), id
        if not self.is_replaying or key in self.replayed:
            return None
        self.replayed.add(key)
        return whole(message_id=id, content=[])

    def opening_result(self, result: Any) -> Any:
        """Return the result that opened it, with modes as an option and with the commands that came before it."""
        self.options.set(get_member(result, "modes"), get_member(result, "config_options"))
        if self.options.has_any:
            result = with_members(result, modes=UNSET, config_options=self.options.all)
        if self.commands is not None:
            result = with_side_data(result, **{COMMANDS: to_json(self.commands)})
            self.commands = None
        return result

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


def check_prompt(blocks: Any) -> None:
    """Raise for a prompt without content, and for a kind of content that nobody knows."""
    if not blocks:
        raise ProtocolError(Kind.INVALID_PARAMS, "prompt must have at least one content block")
    for index, block in enumerate(blocks):
        if isinstance(block, Unknown):
            path = f"prompt[{index}].type"
            raise ProtocolError(
                Kind.INVALID_PARAMS,
                f"{path}: {block.tag!r} is not supported; send text, image, audio, resource or resource_link",
                {"errors": [{"path": path, "message": f"{block.tag!r} is not supported"}]},
            )


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


def is_sign_of_work(update: Any) -> bool:
    """Return whether an update shows that the agent works on a prompt; settings and a plain idle do not."""
    if isinstance(update, SessionStateUpdate):
        return update.state != SessionState.IDLE or bool(update.stop_reason)
    return not isinstance(update, AvailableCommandsUpdate | ConfigOptionUpdate)
