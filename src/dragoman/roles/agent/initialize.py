"""The answer to initialize: name, capabilities and auth methods of an agent."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from msgspec import UNSET

from dragoman.dialect.dialects import Dialect
from dragoman.engine.peer_info import missing_capabilities
from dragoman.errors import Kind, ProtocolError
from dragoman.schema import initialize as types
from dragoman.schema.auth import AuthForm
from dragoman.schema.base import Marker
from dragoman.schema.session import SystemPromptMode

if TYPE_CHECKING:
    from dragoman.roles.agent.agent import Agent
    from dragoman.roles.agent.served_client import ServedClient


def answer_initialize(client: ServedClient, params: types.InitializeParams) -> types.InitializeResult:
    """Handle initialize."""
    agent, dialect = client.agent, client.dialect
    version = params.protocol_version
    if dialect.rejects_versions and version != 1:  # banjo (docs/protocol/dialects.md#banjo-errors); others get ours
        raise ProtocolError(Kind.UNSUPPORTED_VERSION, f"version {version} is not supported; use 1", {"supported": [1]})
    _check_client_capabilities(agent, params)
    client.lifecycle.is_initialized = True
    client.capabilities = agent.capabilities or agent_capabilities(agent, dialect)
    is_official = dialect.official
    side: dict[str, Any] = {}
    if agent.instructions:
        side["instructions"] = agent.instructions
    if agent.required_capabilities:
        side["requiredClientCapabilities"] = agent.required_capabilities
    # Terminal methods only for clients that can open a terminal (docs/protocol/auth.md#terminal-methods).
    has_terminal = client.connection.offers("client.auth.terminal")
    methods = [method for method in agent.auth_methods if method.form != AuthForm.TERMINAL or has_terminal]
    return types.InitializeResult(
        protocol_version=1,
        agent_capabilities=client.capabilities,
        auth_methods=methods if methods or is_official else UNSET,
        agent_info=types.Implementation(name=agent.name, title=agent.title or UNSET, version=agent.version),
        meta={"dragoman": side} if side and not is_official else UNSET,
    )


def agent_capabilities(agent: Agent, dialect: Dialect) -> types.AgentCapabilities:
    """Return the capabilities that follow from the agent's declaration; some dialects get more in side data."""
    is_official = dialect.official
    extra = {"streaming": agent.streaming, "audio": agent.audio, "tools": agent.tools}
    side: dict[str, Any] = {
        "modes": [mode.id for mode in agent.modes],
        **{name: extra[name] for name in dialect.extra_capabilities if extra[name] is not None},
    }
    return types.AgentCapabilities(
        load_session=True,
        prompt_capabilities=types.PromptCapabilities(
            image=agent.image,
            audio=agent.audio,
            embedded_context=agent.embedded_context,
            meta=_prompt_side_data(agent, dialect),
        ),
        mcp_capabilities=_mcp_capabilities(agent),
        session_capabilities=_session_capabilities(agent, is_official),
        auth=_auth_capabilities(agent),
        providers=Marker() if agent.providers else UNSET,
        meta=UNSET if is_official else {"dragoman": side},
    )


def _mcp_capabilities(agent: Agent) -> types.McpCapabilities:
    from dragoman.mcp.sdk import is_installed

    can_connect = agent.mcp and is_installed()
    return types.McpCapabilities(
        http=can_connect or agent.mcp_http, sse=can_connect or agent.mcp_sse, acp=True if can_connect else UNSET
    )


def _prompt_side_data(agent: Agent, dialect: Dialect) -> Any:
    """Return what only some dialects announce: text in crow, streaming in the draft."""
    extra = {name: name != "streaming" or agent.streaming for name in sorted(dialect.extra_prompt_capabilities)}
    return {"dragoman": extra} if extra else UNSET


def _session_capabilities(agent: Agent, is_official: bool) -> types.SessionCapabilities:
    side = {
        "modes": [mode.id for mode in agent.modes],
        "configOptions": [option.id for option in agent.options],
        "persistence": True,
    }
    unstable = Marker() if agent.unstable else UNSET
    return types.SessionCapabilities(
        list=Marker(),
        resume=Marker(),
        close=Marker(),
        delete=Marker(),
        fork=Marker(),
        additional_directories=Marker(),
        archive=unstable,
        status=unstable,
        title=unstable,
        system_prompt=_system_prompt_capabilities(agent, is_official),
        meta=UNSET if is_official else {"dragoman": side},
    )


def _system_prompt_capabilities(agent: Agent, is_official: bool) -> Any:
    if agent.system_prompt_mode == SystemPromptMode.OVERRIDE:
        return types.SystemPromptCapabilities(mode=types.SystemPromptModeCapabilities(override=Marker()))
    return types.SystemPromptCapabilities() if agent.system_prompt_mode or not is_official else UNSET


def _auth_capabilities(agent: Agent) -> Any:
    has_logout = agent.auth_methods or agent._has_hook("logout") or "logout" in agent._method_handlers
    if not has_logout and not agent.unstable:
        return UNSET
    return types.AgentAuthCapabilities(
        logout=Marker() if has_logout else UNSET, status=Marker() if agent.unstable else UNSET
    )


def _check_client_capabilities(agent: Agent, params: types.InitializeParams) -> None:
    """Raise if a client lacks a required capability (the draft, section 10.3)."""
    missing = missing_capabilities(agent.required_capabilities, params.client_capabilities)
    if missing:
        raise ProtocolError(
            Kind.CAPABILITY_UNSUPPORTED,
            f"this agent requires the client capabilities {', '.join(missing)}",
            {"missing": missing, "requiredClientCapabilities": agent.required_capabilities},
        )
