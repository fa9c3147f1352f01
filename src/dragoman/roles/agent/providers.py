"""The model providers of an agent: providers/list, set and disable, as the author declared them (reference 1.15).

Kept for as long as the process lives, for all clients together, and never written down. Headers, which hold keys, are
for the author's code only: no client is ever told them. Above is the reception.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import msgspec
from msgspec import UNSET

from dragoman.errors import Kind, ProtocolError
from dragoman.schema.providers import (
    DisableProviderParams,
    DisableProviderResult,
    ListProvidersResult,
    ProviderCurrentConfig,
    ProviderInfo,
    SetProviderParams,
    SetProviderResult,
)

if TYPE_CHECKING:
    from dragoman.roles.agent.agent import Agent


class Provider(msgspec.Struct, kw_only=True):
    """A model provider that clients may point an agent to; `base_url` is empty while it is off."""

    id: str
    supported: Sequence[str]  # the interfaces it can be reached by: "anthropic", "openai", ...
    required: bool = False  # whether the agent cannot do without it
    api_type: str = ""
    base_url: str = ""
    headers: dict[str, str] = {}

    @property
    def is_enabled(self) -> bool:
        """Whether it can be used now."""
        return bool(self.base_url)

    def __repr__(self) -> str:
        """Without the headers, which hold keys: a repr may end in a log."""
        return f"Provider({self.id!r}, api_type={self.api_type!r}, base_url={self.base_url!r})"


class ProviderCalls:
    """What clients may ask of an agent's providers."""

    def __init__(self, agent: Agent) -> None:
        self._agent = agent

    def list(self, _: Any) -> ListProvidersResult:
        """providers/list."""
        return ListProvidersResult(providers=[_provider_info(provider) for provider in self._agent.providers.values()])

    async def set(self, params: SetProviderParams) -> SetProviderResult:
        """providers/set: the whole configuration of one; the author hears of it, and an error keeps the old one."""
        provider = self._find_provider(params.provider_id)
        if params.api_type not in provider.supported:
            known = ", ".join(provider.supported)
            raise _invalid_params("apiType", f"{provider.id} is reached by {known}, not by {params.api_type!r}")
        if not params.base_url:
            raise _invalid_params("baseUrl", "an address is needed; providers/disable turns a provider off")
        await self._update_provider(
            provider, api_type=params.api_type, base_url=params.base_url, headers=dict(params.headers or {})
        )
        return SetProviderResult()

    async def disable(self, params: DisableProviderParams) -> DisableProviderResult:
        """providers/disable: one that the agent cannot do without stays."""
        provider = self._find_provider(params.provider_id)
        if provider.required:
            raise _invalid_params("providerId", f"this agent cannot do without {provider.id}")
        await self._update_provider(provider, api_type="", base_url="", headers={})
        return DisableProviderResult()

    async def _update_provider(self, provider: Provider, **members: Any) -> None:
        changed = msgspec.structs.replace(provider, **members)
        self._agent.providers[provider.id] = changed
        try:
            await self._agent.call_hook("provider_changed", changed)
        except BaseException:
            self._agent.providers[provider.id] = provider
            raise

    def _find_provider(self, id: str) -> Provider:
        provider = self._agent.providers.get(id)
        if provider is None:
            known = ", ".join(self._agent.providers)
            raise _invalid_params("providerId", f"there is no provider {id!r}; there are: {known}")
        return provider


def _provider_info(provider: Provider) -> ProviderInfo:
    now = ProviderCurrentConfig(api_type=provider.api_type, base_url=provider.base_url)
    return ProviderInfo(
        provider_id=provider.id,
        supported=list(provider.supported),
        required=provider.required,
        current=now if provider.is_enabled else UNSET,
    )


def _invalid_params(member: str, message: str) -> ProtocolError:
    return ProtocolError(Kind.INVALID_PARAMS, message, {"errors": [{"path": member, "message": message}]})
