"""Calls about an agent and not about a session: log in, log out, who is logged in, which model providers it uses.

An agent is started for each, as this user, and ended after it; what it takes is told to those of the user's sessions
that are awake, and to all that are started later. What it asks meanwhile goes to the client whose call it is. Above is
the desk; below are the agents of the house.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, NamedTuple
from weakref import WeakValueDictionary

from dragoman.errors import Kind, ProtocolError

if TYPE_CHECKING:
    from dragoman.roles.client.remote_agent import RemoteAgent

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

import msgspec
from msgspec import UNSET, UnsetType

from dragoman.dialect.side_data import side_data_of
from dragoman.engine.incoming import Incoming
from dragoman.engine.peer_info import offers
from dragoman.errors import ConnectionFailed
from dragoman.host.access import check_may_open
from dragoman.host.room.notifications import Notification
from dragoman.schema.auth import AuthenticateResult, LogoutParams, LogoutResult

if TYPE_CHECKING:
    from dragoman.host.host_client import HostClient
    from dragoman.roles.client.remote_agent import RemoteAgent
    from dragoman.schema.elicitation import CreateElicitationParams
    from dragoman.wire.envelope import Id


# Providers that somebody may have set; no agent knows as many.
MAX_PROVIDERS = 100


class SavedLogin(NamedTuple):
    """How somebody authenticated."""

    method: str
    credentials: Mapping[str, str]


class Accounts:
    """The logins and providers of all users of a house."""

    def __init__(self) -> None:
        self._logins: dict[tuple[str, str], SavedLogin] = {}
        self._providers: dict[tuple[str, str], dict[str, tuple[str, Any]]] = {}  # by provider: the call that set it
        self._locks: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()

    def remember_login(self, user: str, agent: str, login: SavedLogin) -> None:
        """A user authenticated with an agent."""
        self._logins[user, agent] = login

    def forget_login(self, user: str, agent: str) -> None:
        """A user logged out."""
        self._logins.pop((user, agent), None)

    def remember_provider(self, user: str, agent: str, method: str, params: Any) -> None:
        """A user set or disabled a provider of an agent, by this call."""
        known = self._providers.setdefault((user, agent), {})
        known.pop(params.provider_id, None)
        known[params.provider_id] = (method, params)
        if len(known) > MAX_PROVIDERS:
            del known[next(iter(known))]

    def login_key(self, user: str, agent: str) -> tuple[str, tuple[tuple[str, str], ...]] | None:
        """How a user is logged in to an agent, as something to compare."""
        login = self._logins.get((user, agent))
        return None if login is None else (login.method, tuple(sorted(login.credentials.items())))

    def lock_of(self, user: str) -> asyncio.Lock:
        """What a user's errands wait for, one after the other."""
        return self._locks.setdefault(user, asyncio.Lock())

    async def replay(self, user: str, name: str, agent: RemoteAgent, timeout: float) -> None:
        """Tell an agent that was started for this user; a login that is refused now must be made again."""
        try:
            async with asyncio.timeout(timeout):
                await self._replay(user, name, agent)
        except TimeoutError:
            message = f"{name} did not take the login of {user} in {timeout:.0f} s; try again, or authenticate again"
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
            message = f"the login of {user} with {name} is not taken any more ({error.message}); authenticate again"
            raise ProtocolError(Kind.AUTH_REQUIRED, message, error.data) from None


class Caller:
    """The client whose call an agent is busy with: what it asks and tells meanwhile goes there."""

    def __init__(self, client: HostClient, request: Id | UnsetType) -> None:
        self._client = client
        self._request = request

    async def elicit(self, params: CreateElicitationParams) -> Any:
        """Put a question to the client, about the request that it made; None where it cannot show it."""
        connection = self._client.connection
        if not connection.offers(f"client.elicitation.{params.mode}"):
            return None
        wanted = msgspec.structs.replace(params, session_id=UNSET, tool_call_id=UNSET, request_id=self._request)
        try:
            return await connection.request(
                "elicitation/create", wanted, timeout=self._client.host.limits.answer_timeout
            )
        except (ConnectionFailed, ProtocolError):
            return None

    def notify(self, method: str, params: Any) -> None:
        """Tell the client, if that is for it."""
        self._client.notify(Notification(method, params=params))


@asynccontextmanager
async def temporary_agent(
    client: HostClient, incoming: Incoming, *, with_account: bool = True
) -> AsyncIterator[RemoteAgent]:
    """An agent of the kind behind this door, for one call; told what is known of the user, or new to them."""
    house, user = client.host, client.principal.user
    named = house.agent_catalog.find_agent(client.principal.agent)
    async with house.accounts.lock_of(user):  # each starts an agent: a client must not start any number
        agent = await house.agent_catalog.start_agent(named, caller=Caller(client, incoming.id))
        try:
            async with asyncio.timeout(house.limits.answer_timeout):  # people are asked meanwhile, in a browser say
                if with_account:
                    await house.accounts.replay(user, named.name, agent, house.limits.open_timeout)
                yield agent
        except TimeoutError:
            message = f"{named.name} did not finish {incoming.method} in {house.limits.answer_timeout:.0f} s; try again"
            raise ProtocolError(Kind.TIMEOUT, message) from None
        finally:
            await agent.close()


async def authenticate(client: HostClient, incoming: Incoming) -> AuthenticateResult:
    """authenticate: those that are started later are told as well."""
    check_may_open(client.principal, "log in")
    params, house = incoming.params, client.host
    credentials = side_data_of(params).get("credentials")
    login = SavedLogin(params.method_id, credentials if isinstance(credentials, dict) else {})
    async with temporary_agent(client, incoming, with_account=False) as agent:
        await agent.authenticate(login.method, login.credentials or None)
    house.accounts.remember_login(
        client.principal.user, house.agent_catalog.find_agent(client.principal.agent).name, login
    )
    return AuthenticateResult()


async def logout(client: HostClient, incoming: Incoming) -> LogoutResult:
    """logout: at the agent where it has that, also at those that are awake; nobody is logged in again by us."""
    check_may_open(client.principal, "log out")
    house, user = client.host, client.principal.user
    named = house.agent_catalog.find_agent(client.principal.agent)
    offered = (await house.agent_catalog.initialize_result(named)).agent_capabilities
    try:
        if offers("agent.auth.logout", offered or None):
            async with temporary_agent(client, incoming, with_account=False) as agent:
                await agent.logout()
            await house.request_agents(user, named.name, "logout", LogoutParams())
    finally:
        house.accounts.forget_login(user, named.name)
    return LogoutResult()


async def request_agent(client: HostClient, incoming: Incoming) -> Any:
    """auth/status, providers/list: what an agent says of this user."""
    check_may_open(client.principal, "use agents")
    async with temporary_agent(client, incoming) as agent:
        return await agent.request(incoming.method, incoming.params)


async def set_provider(client: HostClient, incoming: Incoming) -> Any:
    """providers/set, providers/disable: at one that tells whether it is right, then at all of this user."""
    check_may_open(client.principal, "use agents")
    house, user, method, params = client.host, client.principal.user, incoming.method, incoming.params
    async with temporary_agent(client, incoming) as agent:
        result = await agent.request(method, params)
    name = house.agent_catalog.find_agent(client.principal.agent).name
    house.accounts.remember_provider(user, name, method, params)
    await house.request_agents(user, name, method, params)
    return result
