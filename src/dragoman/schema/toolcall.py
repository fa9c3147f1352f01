"""Tool calls: their kinds, states, contents and places (docs/protocol/tool-calls.md).

The two session updates that start and change a tool call are in update.py.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, Literal, TypeAlias

from dragoman.schema.base import UNSET, Marker, Maybe, Model, Unknown
from dragoman.schema.content import ContentBlock


class ToolKind:
    """What sort of work a tool call does."""

    READ: Final = "read"
    EDIT: Final = "edit"
    DELETE: Final = "delete"
    MOVE: Final = "move"
    SEARCH: Final = "search"
    EXECUTE: Final = "execute"
    THINK: Final = "think"
    FETCH: Final = "fetch"
    SWITCH_MODE: Final = "switch_mode"
    OTHER: Final = "other"


class ToolCallStatus:
    """Where a tool call stands; the last four are said only by some dialects."""

    PENDING: Final = "pending"
    IN_PROGRESS: Final = "in_progress"
    COMPLETED: Final = "completed"
    FAILED: Final = "failed"
    AWAITING_PERMISSION: Final = "awaiting_permission"
    DENIED: Final = "denied"
    CANCELLED: Final = "cancelled"
    PAUSED: Final = "paused"


# The words that authors may use; messages of peers may have others.
ToolKindName = Literal[
    "read", "edit", "delete", "move", "search", "execute", "think", "fetch", "switch_mode", "other"
]  # fmt: skip
ToolCallStatusName = Literal["pending", "in_progress", "completed", "failed", "denied", "cancelled"]


class ToolMember:
    """Members of a tool call that can be cleared, by their names on the wire."""

    NAME: Final = "name"
    TITLE: Final = "title"
    KIND: Final = "kind"
    STATUS: Final = "status"
    CONTENT: Final = "content"
    LOCATIONS: Final = "locations"
    RAW_INPUT: Final = "rawInput"
    RAW_OUTPUT: Final = "rawOutput"


ToolMemberName = Literal["name", "title", "kind", "status", "content", "locations", "rawInput", "rawOutput"]


class ToolCallBlock(Model, kw_only=True, tag_field="type", tag="content"):
    """A content block among the results of a tool call."""

    content: ContentBlock


class Diff(Model, kw_only=True, tag_field="type", tag="diff"):
    """A file before and after; `old_text` is null for a new file."""

    path: str
    new_text: str
    old_text: Maybe[str] = UNSET


class TerminalEmbed(Model, kw_only=True, tag_field="type", tag="terminal"):
    """The live output of a terminal, by its id."""

    terminal_id: str


class FileChange(Model, kw_only=True):
    """One file that a tool call changes: `add`, `modify`, `delete`, `move` or `copy`."""

    operation: str
    path: Maybe[str] = UNSET
    old_path: Maybe[str] = UNSET  # of move and copy
    file_type: Maybe[str] = UNSET  # text, binary, directory, symlink
    mime_type: Maybe[str] = UNSET


class Patch(Model, kw_only=True):
    """The text of a patch; the official format is `git_patch`."""

    format: str
    text: str


class PatchDiff(Model, kw_only=True, tag_field="type", tag="patch"):
    """Changes of several files, with a patch where there is one; v2 calls it `diff`."""

    changes: list[FileChange]
    patch: Maybe[Patch] = UNSET


class AgentTerminalEmbed(Model, kw_only=True, tag_field="type", tag="agent_terminal"):
    """The output of a terminal that the agent runs itself, by its id; v2 calls it `terminal`."""

    terminal_id: str


if TYPE_CHECKING:
    ToolCallContent: TypeAlias = ToolCallBlock | Diff | TerminalEmbed | PatchDiff | AgentTerminalEmbed | Unknown
else:
    ToolCallContent = ToolCallBlock | Diff | TerminalEmbed | PatchDiff | AgentTerminalEmbed


class ToolCallLocation(Model, kw_only=True):
    """A file, perhaps a line of it, that a tool call is about."""

    path: str
    line: Maybe[int] = UNSET


class ControlCapabilities(Model, kw_only=True):
    """What a client may do to a tool call or to an agent's terminal while it runs."""

    cancel: Maybe[Marker] = UNSET


class CancelToolCallParams(Model, kw_only=True):
    """tool_call/cancel: stop one tool call, not the turn."""

    session_id: str
    tool_call_id: str


class CancelToolCallResult(Model, kw_only=True):
    """The agent stops the tool call."""


class ToolCallUpdate(Model, kw_only=True):
    """A patch of a tool call: what is absent or null stays as it was, a list replaces the whole list.

    `clear` names members (as on the wire) that lose their value.
    """

    tool_call_id: str
    title: Maybe[str] = UNSET
    name: Maybe[str] = UNSET
    kind: Maybe[str] = UNSET
    status: Maybe[str] = UNSET
    content: Maybe[list[ToolCallContent]] = UNSET
    locations: Maybe[list[ToolCallLocation]] = UNSET
    raw_input: Maybe[Any] = UNSET
    raw_output: Maybe[Any] = UNSET
    capabilities: Maybe[ControlCapabilities] = UNSET
    clear: Maybe[list[str]] = UNSET
