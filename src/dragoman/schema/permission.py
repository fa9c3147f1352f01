"""Permission requests, their options and outcome (docs/protocol/permission.md), and crow's answer
(docs/protocol/extensions.md#crow-permission).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

from dragoman.schema.base import UNSET, Maybe, Model, Unknown
from dragoman.schema.toolcall import ToolCallUpdate


class PermissionOptionKind:
    """What choosing an option means."""

    ALLOW_ONCE = "allow_once"
    ALLOW_ALWAYS = "allow_always"
    REJECT_ONCE = "reject_once"
    REJECT_ALWAYS = "reject_always"


class PermissionOption(Model, kw_only=True):
    """One answer that the user can give."""

    option_id: str
    name: str
    kind: str


class ToolCallSubject(Model, kw_only=True, tag_field="type", tag="tool_call"):
    """The question is about the tool call of the request."""


class CommandSubject(Model, kw_only=True, tag_field="type", tag="command"):
    """The question is about a command; the tool call of the request describes it, for clients that need one."""

    command: str
    cwd: str
    tool_call_id: Maybe[str] = UNSET
    terminal_id: Maybe[str] = UNSET


if TYPE_CHECKING:
    PermissionSubject: TypeAlias = ToolCallSubject | CommandSubject | Unknown
else:
    PermissionSubject = ToolCallSubject | CommandSubject


class RequestPermissionParams(Model, kw_only=True):
    """session/request_permission; title, description and subject only where a dialect has them.

    A question without a subject has a tool call that nothing else refers to.
    """

    session_id: str
    tool_call: ToolCallUpdate
    options: list[PermissionOption]
    title: Maybe[str] = UNSET
    description: Maybe[str] = UNSET
    subject: Maybe[PermissionSubject] = UNSET


class SelectedOutcome(Model, kw_only=True, tag_field="outcome", tag="selected"):
    """The user chose an option."""

    option_id: str


class CancelledOutcome(Model, kw_only=True, tag_field="outcome", tag="cancelled"):
    """The turn was cancelled, or the question was closed without an answer."""


if TYPE_CHECKING:
    PermissionOutcome: TypeAlias = SelectedOutcome | CancelledOutcome | Unknown
else:
    PermissionOutcome = SelectedOutcome | CancelledOutcome


class RequestPermissionResult(Model, kw_only=True):
    """What became of the question."""

    outcome: PermissionOutcome


class PermissionResponseParams(Model, kw_only=True):
    """permission_response of crow: the answer to a question that came as an update."""

    session_id: str
    tool_call_id: str
    option_id: str
