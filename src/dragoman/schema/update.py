"""session/update: every kind of update of a session (docs/protocol/updates.md), a union tagged by `sessionUpdate`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from dragoman.schema.base import UNSET, Marker, Maybe, Model, Unknown
from dragoman.schema.config import SessionConfigOption
from dragoman.schema.content import ContentBlock
from dragoman.schema.plan import PlanEntry, PlanUpdateContent
from dragoman.schema.prompt import Usage
from dragoman.schema.terminal import TerminalExitStatus
from dragoman.schema.toolcall import ControlCapabilities, ToolCallContent, ToolCallLocation, ToolCallUpdate


class Update(Model, kw_only=True, tag_field="sessionUpdate"):
    """What all kinds of updates have in common: their tag."""


class MessageChunk(Update, kw_only=True):
    """A piece of a message or a thought."""

    content: ContentBlock
    message_id: Maybe[str] = UNSET


class UserMessageChunk(MessageChunk, kw_only=True, tag="user_message_chunk"):
    """A piece of what the user said."""


class AgentMessageChunk(MessageChunk, kw_only=True, tag="agent_message_chunk"):
    """A piece of what the agent says."""


class AgentThoughtChunk(MessageChunk, kw_only=True, tag="agent_thought_chunk"):
    """A piece of what the agent thinks."""


class WholeMessage(Update, kw_only=True):
    """A message as it stands now: absent content stays, null or an empty list removes what was said."""

    message_id: str
    content: Maybe[list[ContentBlock]] = UNSET


class UserMessage(WholeMessage, kw_only=True, tag="user_message"):
    """What the user said, as a whole."""


class AgentMessage(WholeMessage, kw_only=True, tag="agent_message"):
    """What the agent says, as a whole."""


class AgentThought(WholeMessage, kw_only=True, tag="agent_thought"):
    """What the agent thinks, as a whole."""


class ToolCallStart(Update, kw_only=True, tag="tool_call"):
    """A tool call begins."""

    tool_call_id: str
    title: str
    name: Maybe[str] = UNSET
    kind: Maybe[str] = UNSET
    status: Maybe[str] = UNSET
    content: Maybe[list[ToolCallContent]] = UNSET
    locations: Maybe[list[ToolCallLocation]] = UNSET
    raw_input: Maybe[Any] = UNSET
    raw_output: Maybe[Any] = UNSET


class ToolCallProgress(ToolCallUpdate, kw_only=True, tag_field="sessionUpdate", tag="tool_call_update"):
    """A tool call changes."""


class ToolCallContentChunk(Update, kw_only=True, tag="tool_call_content_chunk"):
    """One more item of the content of a tool call."""

    tool_call_id: str
    content: ToolCallContent


class TerminalOutput(Model, kw_only=True):
    """Everything that a terminal has written; bytes in base64."""

    data: str


class TerminalSize(Model, kw_only=True):
    """Columns and rows of a terminal."""

    cols: int
    rows: int


class TerminalUpdate(Update, kw_only=True, tag="terminal_update"):
    """A terminal that the agent runs appeared or changed: absent stays, null removes."""

    terminal_id: str
    command: Maybe[str] = UNSET
    cwd: Maybe[str] = UNSET
    output: Maybe[TerminalOutput] = UNSET
    exit_status: Maybe[TerminalExitStatus] = UNSET
    size: Maybe[TerminalSize] = UNSET
    capabilities: Maybe[ControlCapabilities] = UNSET


class TerminalOutputChunk(Update, kw_only=True, tag="terminal_output_chunk"):
    """More output of a terminal that the agent runs; bytes in base64, each chunk by itself."""

    terminal_id: str
    data: str


class Plan(Update, kw_only=True, tag="plan"):
    """The whole plan as it stands now."""

    entries: list[PlanEntry]


class PlanUpdate(Update, kw_only=True, tag="plan_update"):
    """One identified plan as it stands now."""

    plan: PlanUpdateContent


class PlanRemoved(Update, kw_only=True, tag="plan_removed"):
    """An identified plan is gone."""

    plan_id: str


class CommandInput(Model, kw_only=True):
    """What a command takes after its name."""

    hint: str


class AvailableCommand(Model, kw_only=True):
    """A slash command."""

    name: str
    description: str
    input: Maybe[CommandInput] = UNSET


class AvailableCommandsUpdate(Update, kw_only=True, tag="available_commands_update"):
    """All slash commands there are now."""

    available_commands: list[AvailableCommand]


class CurrentModeUpdate(Update, kw_only=True, tag="current_mode_update"):
    """The session is in another mode."""

    current_mode_id: str


class ConfigOptionUpdate(Update, kw_only=True, tag="config_option_update"):
    """All config options as they stand now."""

    config_options: list[SessionConfigOption]


class SessionInfoUpdate(Update, kw_only=True, tag="session_info_update"):
    """Title or time changed: absent means unchanged, null means none."""

    title: Maybe[str] = UNSET
    updated_at: Maybe[str] = UNSET


class Cost(Model, kw_only=True):
    """Money spent so far."""

    amount: float
    currency: str


class UsageUpdate(Update, kw_only=True, tag="usage_update"):
    """How full the context window is."""

    used: int
    size: int
    cost: Maybe[Cost] = UNSET


class NoticeSeverity:
    """How much a notice matters."""

    INFO = "info"
    WARNING = "warning"
    ERROR = "error"


NoticeSeverityName = Literal["info", "warning", "error"]


class Notice(Update, kw_only=True, tag="notice"):
    """Something the user should know; not part of the history."""

    severity: str
    title: str
    description: Maybe[str] = UNSET


class CompactionStatus:
    """Where a compaction stands."""

    IN_PROGRESS = "in_progress"
    COMPLETED = "completed"
    FAILED = "failed"
    CANCELLED = "cancelled"


class CompactionUpdate(Update, kw_only=True, tag="compaction_update"):
    """The history is being shortened, or was."""

    compaction_id: str
    status: str
    summary: Maybe[list[ContentBlock]] = UNSET
    error: Maybe[str] = UNSET


class CompactionSummaryChunk(Update, kw_only=True, tag="compaction_summary_chunk"):
    """A piece of the summary that takes the place of the history."""

    compaction_id: str
    content: ContentBlock


class SubagentSessionCapabilities(Model, kw_only=True):
    """What can be done to a subagent's session."""

    cancel: Maybe[Marker] = UNSET


class SessionState:
    """What a session is doing; agents may have other states of their own, which are never idle."""

    RUNNING = "running"
    IDLE = "idle"
    REQUIRES_ACTION = "requires_action"
    UNKNOWN = "unknown"


class StateUpdate(Model, kw_only=True):
    """The state of a session; stop reason, usage and error only when idle."""

    state: str
    stop_reason: Maybe[str] = UNSET
    usage: Maybe[Usage] = UNSET
    error: Maybe[Any] = UNSET

    @property
    def form(self) -> str:
        """Which of the official forms this is: its `state`."""
        return self.state


class SessionStateUpdate(Update, kw_only=True, tag="state_update"):
    """What the session is doing now; stop reason, error and usage only when idle."""

    state: str
    stop_reason: Maybe[str] = UNSET
    error: Maybe[Any] = UNSET
    usage: Maybe[Usage] = UNSET
    background: Maybe[list[Any]] = UNSET  # what goes on without a turn: {type, toolCallId | terminalId}


class SubagentUpdate(Update, kw_only=True, tag="subagent_update"):
    """A child session appeared or changed; absent means unchanged."""

    session_id: str
    title: Maybe[str] = UNSET
    description: Maybe[str] = UNSET
    capabilities: Maybe[SubagentSessionCapabilities] = UNSET
    state: Maybe[StateUpdate] = UNSET
    cwd: Maybe[str] = UNSET
    additional_directories: Maybe[list[str]] = UNSET


class SessionMessage(Update, kw_only=True, tag="session_message"):
    """A message between sessions."""

    message_id: str
    sender_session_id: Maybe[str] = UNSET
    recipient_session_id: Maybe[str] = UNSET
    sender_message_id: Maybe[str] = UNSET
    recipient_message_id: Maybe[str] = UNSET
    content: Maybe[list[ContentBlock]] = UNSET


class SessionMessageChunk(Update, kw_only=True, tag="session_message_chunk"):
    """A piece of a message between sessions."""

    message_id: str
    content: ContentBlock


KnownUpdate: TypeAlias = (
    UserMessageChunk
    | AgentMessageChunk
    | AgentThoughtChunk
    | UserMessage
    | AgentMessage
    | AgentThought
    | ToolCallStart
    | ToolCallProgress
    | ToolCallContentChunk
    | TerminalUpdate
    | TerminalOutputChunk
    | SessionStateUpdate
    | Plan
    | PlanUpdate
    | PlanRemoved
    | AvailableCommandsUpdate
    | CurrentModeUpdate
    | ConfigOptionUpdate
    | SessionInfoUpdate
    | UsageUpdate
    | Notice
    | CompactionUpdate
    | CompactionSummaryChunk
    | SubagentUpdate
    | SessionMessage
    | SessionMessageChunk
)

if TYPE_CHECKING:
    SessionUpdate: TypeAlias = KnownUpdate | Unknown
else:
    SessionUpdate = KnownUpdate


class UpdateParams(Model, kw_only=True):
    """session/update."""

    session_id: str
    update: SessionUpdate
