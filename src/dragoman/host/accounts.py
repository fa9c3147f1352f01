"""What users told agents that every process of them must be told: how they log in, and which model providers they use.

Each room has an agent of its own, and processes remember nothing. Kept in memory alone, by user and agent, and said
again to each that is started for them. Above are desks and rooms.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, NamedTuple
from weakref import WeakValueDictionary

from dragoman.errors import Kind, ProtocolError

if TYPE_CHECKING:
    from dragoman.roles.client.remote_agent import RemoteAgent

# Providers that somebody may have set; no agent knows as many.
MOST = 100


class Login(NamedTuple):
    """How somebody authenticated."""

    method: str
    credentials: Mapping[str, str]


class Accounts:
    """The logins and providers of all users of a house."""

    def __init__(self) -> None:
        self._logins: dict[tuple[str, str], Login] = {}
        self._providers: dict[tuple[str, str], dict[str, tuple[str, Any]]] = {}  # by provider: the call that set it
        self._turns: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()

    def remember(self, user: str, agent: str, login: Login) -> None:
        """A user authenticated with an agent."""
        self._logins[user, agent] = login

    def forget(self, user: str, agent: str) -> None:
        """A user logged out."""
        self._logins.pop((user, agent), None)

    def remember_provider(self, user: str, agent: str, method: str, params: Any) -> None:
        """A user set or disabled a provider of an agent, by this call."""
        known = self._providers.setdefault((user, agent), {})
        known.pop(params.provider_id, None)
        known[params.provider_id] = (method, params)
        if len(known) > MOST:
            del known[next(iter(known))]

    def known(self, user: str, agent: str) -> tuple[str, tuple[tuple[str, str], ...]] | None:
        """How a user is logged in to an agent, as something to compare."""
        login = self._logins.get((user, agent))
        return None if login is None else (login.method, tuple(sorted(login.credentials.items())))

    def turn(self, user: str) -> asyncio.Lock:
        """What a user's errands wait for, one after the other."""
        return self._turns.setdefault(user, asyncio.Lock())

    async def replay(self, user: str, name: str, agent: RemoteAgent, patience: float) -> None:
        """Tell an agent that was started for this user; a login that is refused now must be made again."""
        try:
            async with asyncio.timeout(patience):
                await self._replay(user, name, agent)
        except TimeoutError:
            message = f"{name} did not take the login of {user} in {patience:.0f} s; try again, or authenticate again"
            raise ProtocolError(Kind.TIMEOUT, message) from None

    async def _replay(self, user: str, name: str, agent: RemoteAgent) -> None:
        for method, params in list(self._providers.get((user, name), {}).values()):
            await agent.request(method, params)
        login = self._logins.get((user, name))
        if login is None:
            return
        try:
            await agent.authenticate(login.method, login.credentials or None)
        except ProtocolError as error:
            self.forget(user, name)
            message = f"the login of {user} with {name} is not taken any more ({error.message}); authenticate again"
            raise ProtocolError(Kind.AUTH_REQUIRED, message, error.data) from None
