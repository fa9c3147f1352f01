"""The life of sessions: new, load, resume, fork, list, close, delete and unstable calls (docs/protocol/sessions.md)."""

from __future__ import annotations

from dragoman.schema.base import UNSET, Maybe, Model
from dragoman.schema.config import SessionConfigOption, SessionModeState
from dragoman.schema.content import ContentBlock
from dragoman.schema.mcp import McpServer


class SystemPromptMode:
    """Whether a system prompt is added to the agent's own or takes its place."""

    APPEND = "append"
    OVERRIDE = "override"


class SystemPrompt(Model, kw_only=True):
    """Instructions for a whole session."""

    mode: str
    content: list[ContentBlock]


class NewSessionParams(Model, kw_only=True):
    """session/new."""

    cwd: str
    mcp_servers: list[McpServer]
    additional_directories: Maybe[list[str]] = UNSET
    system_prompt: Maybe[SystemPrompt] = UNSET


class NewSessionResult(Model, kw_only=True):
    """The session that was made."""

    session_id: str
    modes: Maybe[SessionModeState] = UNSET
    config_options: Maybe[list[SessionConfigOption]] = UNSET


class LoadSessionParams(Model, kw_only=True):
    """session/load: open a stored session and replay its history."""

    session_id: str
    cwd: str
    mcp_servers: list[McpServer]
    additional_directories: Maybe[list[str]] = UNSET
    system_prompt: Maybe[SystemPrompt] = UNSET


class LoadSessionResult(Model, kw_only=True):
    """The history has been replayed."""

    modes: Maybe[SessionModeState] = UNSET
    config_options: Maybe[list[SessionConfigOption]] = UNSET


class ResumeSessionParams(Model, kw_only=True):
    """session/resume: open a stored session without a replay."""

    session_id: str
    cwd: str
    mcp_servers: Maybe[list[McpServer]] = UNSET
    additional_directories: Maybe[list[str]] = UNSET
    system_prompt: Maybe[SystemPrompt] = UNSET


class ResumeSessionResult(LoadSessionResult, kw_only=True):
    """The session is open again."""


class ForkSessionParams(ResumeSessionParams, kw_only=True):
    """session/fork: a new session that starts with the history of another."""


class ForkSessionResult(NewSessionResult, kw_only=True):
    """The session that was made."""


class ArchiveFilter:
    """Which sessions a list shows."""

    EXCLUDE = "exclude"
    INCLUDE = "include"
    ONLY = "only"


class ListSessionsParams(Model, kw_only=True):
    """session/list."""

    cwd: Maybe[str] = UNSET
    cursor: Maybe[str] = UNSET
    archived: Maybe[str] = UNSET


class SessionInfo(Model, kw_only=True):
    """A session as lists show it."""

    session_id: str
    cwd: str
    additional_directories: Maybe[list[str]] = UNSET
    title: Maybe[str] = UNSET
    updated_at: Maybe[str] = UNSET
    archived: Maybe[bool] = UNSET


class ListSessionsResult(Model, kw_only=True):
    """One page of sessions; no `next_cursor` means it is the last."""

    sessions: list[SessionInfo]
    next_cursor: Maybe[str] = UNSET


class DeleteSessionParams(Model, kw_only=True):
    """session/delete."""

    session_id: str


class DeleteSessionResult(Model, kw_only=True):
    """The session is gone."""


class CloseSessionParams(Model, kw_only=True):
    """session/close: end its work and free what it holds."""

    session_id: str


class CloseSessionResult(Model, kw_only=True):
    """The session is closed."""


class ArchiveSessionParams(Model, kw_only=True):
    """session/archive."""

    session_id: str


class ArchiveSessionResult(Model, kw_only=True):
    """The session is archived."""


class UnarchiveSessionParams(Model, kw_only=True):
    """session/unarchive."""

    session_id: str


class UnarchiveSessionResult(Model, kw_only=True):
    """The session is out of the archive."""


class SessionStatus:
    """Whether an agent has a session open or only stored."""

    OPEN = "open"
    SAVED = "saved"


class SessionStatusParams(Model, kw_only=True):
    """session/status."""

    session_id: str


class SessionStatusResult(Model, kw_only=True):
    """How the session stands."""

    status: str


class SetTitleParams(Model, kw_only=True):
    """session/set_title."""

    session_id: str
    title: str


class SetTitleResult(Model, kw_only=True):
    """The title as it was stored."""

    title: str
