"""The first call: versions, names and capabilities of both ends (docs/protocol/initialize.md).

An absent capability is unsupported.
"""

from __future__ import annotations

from dragoman.schema.auth import AuthMethod
from dragoman.schema.base import UNSET, Marker, Maybe, Model


class Implementation(Model, kw_only=True):
    """Name and version of a program."""

    name: str
    version: str
    title: Maybe[str] = UNSET


class FileSystemCapabilities(Model, kw_only=True):
    """Which file calls a client serves."""

    read_text_file: Maybe[bool] = UNSET
    write_text_file: Maybe[bool] = UNSET


class ConfigOptionsCapabilities(Model, kw_only=True):
    """Which config options a client can show beyond `select`."""

    boolean: Maybe[Marker] = UNSET


class ClientSessionCapabilities(Model, kw_only=True):
    """Which session features a client can show."""

    compaction: Maybe[Marker] = UNSET
    config_options: Maybe[ConfigOptionsCapabilities] = UNSET
    notices: Maybe[Marker] = UNSET


class ClientAuthCapabilities(Model, kw_only=True):
    """Which ways of authentication a client can offer."""

    terminal: Maybe[bool] = UNSET


class ElicitationCapabilities(Model, kw_only=True):
    """Which questions to the user a client can put."""

    form: Maybe[Marker] = UNSET
    url: Maybe[Marker] = UNSET


class ClientCapabilities(Model, kw_only=True):
    """What a client can do for an agent."""

    fs: Maybe[FileSystemCapabilities] = UNSET
    terminal: Maybe[bool] = UNSET
    session: Maybe[ClientSessionCapabilities] = UNSET
    subagents: Maybe[Marker] = UNSET
    plan: Maybe[Marker] = UNSET
    auth: Maybe[ClientAuthCapabilities] = UNSET
    elicitation: Maybe[ElicitationCapabilities] = UNSET


class PromptCapabilities(Model, kw_only=True):
    """Which content an agent takes beyond text and links."""

    image: Maybe[bool] = UNSET
    audio: Maybe[bool] = UNSET
    embedded_context: Maybe[bool] = UNSET


class McpCapabilities(Model, kw_only=True):
    """Which MCP servers an agent connects to beyond stdio."""

    http: Maybe[bool] = UNSET
    sse: Maybe[bool] = UNSET
    acp: Maybe[bool] = UNSET


class SystemPromptModeCapabilities(Model, kw_only=True):
    """Which modes of a system prompt an agent takes beyond `append`."""

    override: Maybe[Marker] = UNSET


class SystemPromptCapabilities(Model, kw_only=True):
    """That an agent takes a system prompt, and how."""

    mode: Maybe[SystemPromptModeCapabilities] = UNSET


class SessionCapabilities(Model, kw_only=True):
    """Which session calls an agent serves beyond new, prompt and cancel."""

    list: Maybe[Marker] = UNSET
    delete: Maybe[Marker] = UNSET
    additional_directories: Maybe[Marker] = UNSET
    system_prompt: Maybe[SystemPromptCapabilities] = UNSET
    fork: Maybe[Marker] = UNSET
    archive: Maybe[Marker] = UNSET
    status: Maybe[Marker] = UNSET
    title: Maybe[Marker] = UNSET
    resume: Maybe[Marker] = UNSET
    close: Maybe[Marker] = UNSET


class AgentAuthCapabilities(Model, kw_only=True):
    """Which calls about authentication an agent serves."""

    status: Maybe[Marker] = UNSET
    logout: Maybe[Marker] = UNSET


class AgentCapabilities(Model, kw_only=True):
    """What an agent can do for a client."""

    load_session: Maybe[bool] = UNSET
    prompt_capabilities: Maybe[PromptCapabilities] = UNSET
    mcp_capabilities: Maybe[McpCapabilities] = UNSET
    session_capabilities: Maybe[SessionCapabilities] = UNSET
    auth: Maybe[AgentAuthCapabilities] = UNSET
    providers: Maybe[Marker] = UNSET


class InitializeParams(Model, kw_only=True):
    """initialize (and proxy/initialize)."""

    protocol_version: int
    client_capabilities: Maybe[ClientCapabilities] = UNSET
    client_info: Maybe[Implementation] = UNSET


class InitializeResult(Model, kw_only=True):
    """What the agent is and can do."""

    protocol_version: int
    agent_capabilities: Maybe[AgentCapabilities] = UNSET
    auth_methods: Maybe[list[AuthMethod]] = UNSET
    agent_info: Maybe[Implementation] = UNSET
