"""What concerns the running programs rather than one session: providers, proxies, attached clients."""

from __future__ import annotations

from typing import Any

from dragoman.schema.base import UNSET, Maybe, Model


class LlmProtocol:
    """The interfaces of model providers that have official names."""

    ANTHROPIC = "anthropic"
    OPENAI = "openai"
    AZURE = "azure"
    VERTEX = "vertex"
    BEDROCK = "bedrock"


class ProviderCurrentConfig(Model, kw_only=True):
    """How a provider is reached now."""

    api_type: str
    base_url: str


class ProviderInfo(Model, kw_only=True):
    """A provider that an agent can be pointed to."""

    provider_id: str
    supported: list[str]
    required: bool
    current: Maybe[ProviderCurrentConfig] = UNSET


class ListProvidersParams(Model, kw_only=True):
    """providers/list."""


class ListProvidersResult(Model, kw_only=True):
    """All providers, without their headers."""

    providers: list[ProviderInfo]


class SetProviderParams(Model, kw_only=True):
    """providers/set: replaces the whole configuration of one."""

    provider_id: str
    api_type: str
    base_url: str
    headers: Maybe[dict[str, str]] = UNSET


class SetProviderResult(Model, kw_only=True):
    """The provider is set."""


class DisableProviderParams(Model, kw_only=True):
    """providers/disable."""

    provider_id: str


class DisableProviderResult(Model, kw_only=True):
    """The provider is off."""


class SuccessorParams(Model, kw_only=True):
    """proxy/successor: a message to or from the next component of the chain."""

    method: str
    params: Maybe[Any] = UNSET


class AttachRole:
    """What an attached client may do."""

    CONTROLLER = "controller"
    OBSERVER = "observer"


class HistoryPolicy:
    """How much of the past an attached client is told."""

    FULL = "full"
    PENDING_ONLY = "pending_only"
    NONE = "none"


class AttachParams(Model, kw_only=True):
    """session/attach."""

    session_id: str
    role: Maybe[str] = UNSET
    history_policy: Maybe[str] = UNSET
    cursor: Maybe[Any] = UNSET


class AttachResult(Model, kw_only=True):
    """Attached, as what and from where."""

    role: Maybe[str] = UNSET
    cursor: Maybe[Any] = UNSET


class DetachParams(Model, kw_only=True):
    """session/detach."""

    session_id: str


class DetachResult(Model, kw_only=True):
    """Detached."""
