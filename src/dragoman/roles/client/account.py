"""What a client may ask of an agent beside its sessions: who is logged in, and which model providers it uses.

The RemoteAgent is one of these; each call is one request. All but logout are unstable in the official protocol: an
agent that does not offer them is not asked, and the error says so.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from msgspec import UNSET

from dragoman.schema.auth import AuthStatusParams, AuthStatusResult, LogoutParams
from dragoman.schema.providers import DisableProviderParams, ListProvidersParams, ProviderInfo, SetProviderParams


def _ignore_secrets(secrets: Iterable[str]) -> None:
    """Nobody has to keep secrets."""


class AccountCalls(ABC):
    """The calls about logins and providers; whoever is to keep their secrets hears them at `on_secrets`."""

    on_secrets: Callable[[Iterable[str]], None] = staticmethod(_ignore_secrets)

    @abstractmethod
    async def request(self, method: str, params: Any, *, timeout: float | None = None) -> Any:
        """Ask the agent anything; typed params and results for known methods, plain JSON for extensions."""

    async def logout(self) -> None:
        """Log out."""
        await self.request("logout", LogoutParams())

    async def auth_status(self) -> AuthStatusResult:
        """Who is logged in; news of it come to `connect(on={"auth/status_update": ...})`."""
        return await self.request("auth/status", AuthStatusParams())  # type: ignore[no-any-return]

    async def list_providers(self) -> list[ProviderInfo]:
        """The model providers that the agent can be pointed to, and where they point now."""
        return list((await self.request("providers/list", ListProvidersParams())).providers)

    async def set_provider(
        self, provider_id: str, *, api_type: str, base_url: str, headers: Mapping[str, str] | None = None
    ) -> None:
        """Point the agent to a model provider; its whole configuration is replaced."""
        self.on_secrets((headers or {}).values())
        params = SetProviderParams(
            provider_id=provider_id, api_type=api_type, base_url=base_url, headers=dict(headers) if headers else UNSET
        )
        await self.request("providers/set", params)

    async def disable_provider(self, provider_id: str) -> None:
        """Turn a model provider off."""
        await self.request("providers/disable", DisableProviderParams(provider_id=provider_id))
