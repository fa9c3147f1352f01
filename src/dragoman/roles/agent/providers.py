"""The model providers of an agent: providers/list, set and disable (docs/protocol/extensions.md#providers).

Changes apply to all clients and last as long as the process. Headers can hold keys and are never sent to a client.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import msgspec
from msgspec import UNSET

from dragoman.errors import Kind, ProtocolError
from dragoman.schema import providers as types

if TYPE_CHECKING:
    from dragoman.roles.agent.agent import Agent


class Provider(msgspec.Struct, kw_only=True):
    """A model provider that clients may configure. `base_url` is empty while it is disabled."""

    id: str
    supported: Sequence[str]  # the API types it supports: "anthropic", "openai", ...
    required: bool = False  # whether it cannot be disabled
    api_type: str = ""
    base_url: str = ""
    headers: dict[str, str] = {}

    @property
    def is_enabled(self) -> bool:
        """Whether the provider is configured."""
        return bool(self.base_url)

    def __repr__(self) -> str:
        """Omit the headers, which can hold keys: a repr may end in a log."""
        return f"Provider({self.id!r}, api_type={self.api_type!r}, base_url={self.base_url!r})"


class ProviderCalls:
    """The providers/* calls."""

    def __init__(self, agent: Agent) -> None:
        self._agent = agent

    def list(self, _: Any) -> types.ListProvidersResult:
        """Handle providers/list."""
        return types.ListProvidersResult(
            providers=[_provider_info(provider) for provider in self._agent.providers.values()]
        )

    async def set(self, params: types.SetProviderParams) -> types.SetProviderResult:
        """Handle providers/set: replace the configuration of a provider. An error of the author's hook undoes it."""
        provider = self._find_provider(params.provider_id)
        if params.api_type not in provider.supported:
            known = ", ".join(provider.supported)
            raise _invalid_params("apiType", f"{provider.id} supports {known}, not {params.api_type!r}")
        if not params.base_url:
            raise _invalid_params("baseUrl", "baseUrl must not be empty; use providers/disable to disable a provider")
        await self._update_provider(
            provider, api_type=params.api_type, base_url=params.base_url, headers=dict(params.headers or {})
        )
        return types.SetProviderResult()

    async def disable(self, params: types.DisableProviderParams) -> types.DisableProviderResult:
        """Handle providers/disable. A required provider cannot be disabled."""
        provider = self._find_provider(params.provider_id)
        if provider.required:
            raise _invalid_params("providerId", f"this agent requires {provider.id}; it cannot be disabled")
        await self._update_provider(provider, api_type="", base_url="", headers={})
        return types.DisableProviderResult()

    async def _update_provider(self, provider: Provider, **members: Any) -> None:
        changed = msgspec.structs.replace(provider, **members)
        self._agent.providers[provider.id] = changed
        try:
            await self._agent._call_hook("provider_changed", changed)
        except BaseException:
            self._agent.providers[provider.id] = provider
            raise

    def _find_provider(self, id: str) -> Provider:
        provider = self._agent.providers.get(id)
        if provider is None:
            known = ", ".join(self._agent.providers)
            raise _invalid_params("providerId", f"unknown provider {id!r}; available: {known}")
        return provider


def _provider_info(provider: Provider) -> types.ProviderInfo:
    current = types.ProviderCurrentConfig(api_type=provider.api_type, base_url=provider.base_url)
    return types.ProviderInfo(
        provider_id=provider.id,
        supported=list(provider.supported),
        required=provider.required,
        current=current if provider.is_enabled else UNSET,
    )


def _invalid_params(member: str, message: str) -> ProtocolError:
    return ProtocolError(Kind.INVALID_PARAMS, message, {"errors": [{"path": member, "message": message}]})
