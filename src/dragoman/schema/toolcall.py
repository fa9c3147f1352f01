"""Tool calls: their kinds, states, contents and places (docs/protocol/tool-calls.md).

The two session updates that start and change a tool call are in update.py.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, Literal, TypeAlias

from dragoman.schema.base import UNSET, Maybe, Model, Unknown
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
    """Where a tool call stands; the last three are said only by some dialects."""

    PENDING: Final = "pending"
    IN_PROGRESS: Final = "in_progress"
    COMPLETED: Final = "completed"
    FAILED: Final = "failed"
    AWAITING_PERMISSION: Final = "awaiting_permission"
    DENIED: Final = "denied"
    CANCELLED: Final = "cancelled"


# The words that authors may use; messages of peers may have others.
ToolKindName = Literal[
    "read", "edit", "delete", "move", "search", "execute", "think", "fetch", "switch_mode", "other"
]  # fmt: skip
ToolCallStatusName = Literal["pending", "in_progress", "completed", "failed", "denied", "cancelled"]


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


if TYPE_CHECKING:
    ToolCallContent: TypeAlias = ToolCallBlock | Diff | TerminalEmbed | Unknown
else:
    ToolCallContent = ToolCallBlock | Diff | TerminalEmbed


class ToolCallLocation(Model, kw_only=True):
    """A file, perhaps a line of it, that a tool call is about."""

    path: str
    line: Maybe[int] = UNSET


class ToolCallUpdate(Model, kw_only=True):
    """A patch of a tool call: what is absent or null stays as it was, a list replaces the whole list."""

    tool_call_id: str
    title: Maybe[str] = UNSET
    name: Maybe[str] = UNSET
    kind: Maybe[str] = UNSET
    status: Maybe[str] = UNSET
    content: Maybe[list[ToolCallContent]] = UNSET
    locations: Maybe[list[ToolCallLocation]] = UNSET
    raw_input: Maybe[Any] = UNSET
    raw_output: Maybe[Any] = UNSET
