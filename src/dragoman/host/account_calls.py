"""Calls about an agent instead of a session: login, logout, login status, model providers.

Each starts an agent for the user. Logins and providers are replayed to the user's running and later agents.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any, NamedTuple
from weakref import WeakValueDictionary

import msgspec
from msgspec import UNSET, UnsetType

from dragoman.dialect.side_data import side_data_of
from dragoman.engine.incoming import Incoming
from dragoman.engine.peer_info import offers
from dragoman.errors import ConnectionFailed, Kind, ProtocolError
from dragoman.host.access import check_may_open
from dragoman.host.room.notifications import Notification
from dragoman.schema.auth import LogoutParams

if TYPE_CHECKING:
    from dragoman.host.host_client import HostClient
    from dragoman.roles.client.remote_agent import RemoteAgent
    from dragoman.schema.elicitation import CreateElicitationParams
    from dragoman.wire.envelope import Id


# Providers that a user may have set. No agent has as many.
MAX_PROVIDERS = 100


class SavedLogin(NamedTuple):
    """How a user authenticated."""

    method: str
    credentials: Mapping[str, str]


class Accounts:
    """The logins and providers of all users of a host."""

    def __init__(self) -> None:
        self._logins: dict[tuple[str, str], SavedLogin] = {}
        self._providers: dict[tuple[str, str], dict[str, tuple[str, Any]]] = {}  # by provider: the call that set it
        self._locks: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()

    def remember_login(self, user: str, agent: str, login: SavedLogin) -> None:
        """Remember that a user authenticated with an agent."""
        self._logins[user, agent] = login

    def forget_login(self, user: str, agent: str) -> None:
        """Forget the login of a user."""
        self._logins.pop((user, agent), None)

    def remember_provider(self, user: str, agent: str, method: str, params: Any) -> None:
        """Remember the call by which a user set or disabled a provider of an agent."""
        known = self._providers.setdefault((user, agent), {})
        known.pop(params.provider_id, None)
        known[params.provider_id] = (method, params)
        if len(known) > MAX_PROVIDERS:
            del known[next(iter(known))]

    def login_key(self, user: str, agent: str) -> tuple[str, tuple[tuple[str, str], ...]] | None:
        """Return the login of a user at an agent, in a form that can be compared."""
        login = self._logins.get((user, agent))
        return None if login is None else (login.method, tuple(sorted(login.credentials.items())))

    def lock_of(self, user: str) -> asyncio.Lock:
        """Return the lock that runs a user's calls one after the other."""
        return self._locks.setdefault(user, asyncio.Lock())

    async def replay(self, user: str, name: str, agent: RemoteAgent, timeout: float) -> None:
        """Replay providers and login of a user to a new agent. A login that is refused is forgotten."""
        try:
            async with asyncio.timeout(timeout):
                await self._replay(user, name, agent)
        except TimeoutError:
            message = f"{name} did not accept the login of {user} in {timeout:.0f} s; try again, or authenticate again"
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
            self.forget_login(user, name)
            message = f"the login of {user} with {name} is not valid any more ({error.message}); authenticate again"
            raise ProtocolError(Kind.AUTH_REQUIRED, message, error.data) from None


class Caller:
    """The client whose call an agent is serving. It gets the agent's questions and notifications."""

    def __init__(self, client: HostClient, request: Id | UnsetType) -> None:
        self._client = client
        self._request = request

    async def elicit(self, params: CreateElicitationParams) -> Any:
        """Ask the client, as part of its own request. Return None if it cannot show the question."""
        connection = self._client.connection
        if not connection.offers(f"client.elicitation.{params.mode}"):
            return None
        question = msgspec.structs.replace(params, session_id=UNSET, tool_call_id=UNSET, request_id=self._request)
        try:
            return await connection.request(
                "elicitation/create", question, timeout=self._client.host.limits.answer_timeout
            )
        except (ConnectionFailed, ProtocolError):
            return None

    def notify(self, method: str, params: Any) -> None:
        """Notify the client, if it supports the method."""
        self._client.notify(Notification(method, params=params))


@asynccontextmanager
async def temporary_agent(
    client: HostClient, incoming: Incoming, *, with_account: bool = True
) -> AsyncIterator[RemoteAgent]:
    """Yield a new agent for one call, with the login of the user unless `with_account` is False."""
    host, user = client.host, client.principal.user
    agent_config = host.agent_catalog.find_agent(client.principal.agent)
    async with host.accounts.lock_of(user):  # each call starts an agent; one client must not start many at once
        agent = await host.agent_catalog.start_agent(agent_config, caller=Caller(client, incoming.id))
        try:
            # The user may be asked meanwhile, for example in a browser.
            async with asyncio.timeout(host.limits.answer_timeout):
                if with_account:
                    await host.accounts.replay(user, agent_config.name, agent, host.limits.open_timeout)
                yield agent
        except TimeoutError:
            message = (
                f"{agent_config.name} did not finish {incoming.method} in {host.limits.answer_timeout:.0f} s; try again"
            )
            raise ProtocolError(Kind.TIMEOUT, message) from None
        finally:
            await agent.close()


async def authenticate(client: HostClient, incoming: Incoming) -> None:
    """authenticate: log in, and remember the login for agents that start later."""
    check_may_open(client.principal, "log in")
    params, host = incoming.params, client.host
    credentials = side_data_of(params).get("credentials")
    login = SavedLogin(params.method_id, credentials if isinstance(credentials, dict) else {})
    async with temporary_agent(client, incoming, with_account=False) as agent:
        await agent.authenticate(login.method, login.credentials or None)
    host.accounts.remember_login(
        client.principal.user, host.agent_catalog.find_agent(client.principal.agent).name, login
    )


async def logout(client: HostClient, incoming: Incoming) -> None:
    """logout: forget the login, and log out at running agents that support it."""
    check_may_open(client.principal, "log out")
    host, user = client.host, client.principal.user
    agent_config = host.agent_catalog.find_agent(client.principal.agent)
    offered = (await host.agent_catalog.initialize_result(agent_config)).agent_capabilities
    try:
        if offers("agent.auth.logout", offered or None):
            async with temporary_agent(client, incoming, with_account=False) as agent:
                await agent.logout()
            await host.request_agents(user, agent_config.name, "logout", LogoutParams())
    finally:
        host.accounts.forget_login(user, agent_config.name)


async def request_agent(client: HostClient, incoming: Incoming) -> Any:
    """auth/status, providers/list: ask a temporary agent on behalf of this user."""
    check_may_open(client.principal, "use agents")
    async with temporary_agent(client, incoming) as agent:
        return await agent.request(incoming.method, incoming.params)


async def set_provider(client: HostClient, incoming: Incoming) -> Any:
    """providers/set, providers/disable: try it at a temporary agent, then send it to all agents of this user."""
    check_may_open(client.principal, "use agents")
    host, user, method, params = client.host, client.principal.user, incoming.method, incoming.params
    async with temporary_agent(client, incoming) as agent:
        result = await agent.request(method, params)
    name = host.agent_catalog.find_agent(client.principal.agent).name
    host.accounts.remember_provider(user, name, method, params)
    await host.request_agents(user, name, method, params)
    return result
