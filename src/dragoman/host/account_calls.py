"""Calls about an agent and not about a session: log in, log out, who is logged in, which model providers it uses.

An agent is started for each, as this user, and ended after it; what it takes is told to those of the user's sessions
that are awake, and to all that are started later. What it asks meanwhile goes to the client whose call it is. Above is
the desk; below are the agents of the house.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

import msgspec
from msgspec import UNSET, UnsetType

from dragoman.dialect.side_data import side
from dragoman.engine.capability import offers
from dragoman.engine.incoming import Incoming
from dragoman.errors import ConnectionFailed, Kind, ProtocolError
from dragoman.host.access import check_may_open
from dragoman.host.accounts import Login
from dragoman.host.room.notifications import News
from dragoman.schema.auth import AuthenticateResult, LogoutParams, LogoutResult

if TYPE_CHECKING:
    from dragoman.host.host_client import Desk
    from dragoman.roles.client.remote_agent import RemoteAgent
    from dragoman.schema.elicitation import CreateElicitationParams
    from dragoman.wire.envelope import Id


class Caller:
    """The client whose call an agent is busy with: what it asks and tells meanwhile goes there."""

    def __init__(self, desk: Desk, request: Id | UnsetType) -> None:
        self._desk = desk
        self._request = request

    async def elicit(self, params: CreateElicitationParams) -> Any:
        """Put a question to the client, about the request that it made; None where it cannot show it."""
        connection = self._desk.connection
        if not connection.offers(f"client.elicitation.{params.mode}"):
            return None
        wanted = msgspec.structs.replace(params, session_id=UNSET, tool_call_id=UNSET, request_id=self._request)
        try:
            return await connection.request("elicitation/create", wanted, timeout=self._desk.house.bounds.patience)
        except (ConnectionFailed, ProtocolError):
            return None

    def tell(self, method: str, params: Any) -> None:
        """Tell the client, if that is for it."""
        self._desk.hear(News(method, params=params))


@asynccontextmanager
async def errand(desk: Desk, incoming: Incoming, *, known: bool = True) -> AsyncIterator[RemoteAgent]:
    """An agent of the kind behind this door, for one call; told what is known of the user, or new to them."""
    house, user = desk.house, desk.visitor.user
    named = house.roster.named(desk.visitor.agent)
    async with house.accounts.turn(user):  # each starts an agent: a client must not start any number
        agent = await house.roster.visit(named, caller=Caller(desk, incoming.id))
        try:
            async with asyncio.timeout(house.bounds.patience):  # people are asked meanwhile, in a browser say
                if known:
                    await house.accounts.replay(user, named.name, agent, house.bounds.opening)
                yield agent
        except TimeoutError:
            message = f"{named.name} did not finish {incoming.method} in {house.bounds.patience:.0f} s; try again"
            raise ProtocolError(Kind.TIMEOUT, message) from None
        finally:
            await agent.close()


async def authenticate(desk: Desk, incoming: Incoming) -> AuthenticateResult:
    """authenticate: those that are started later are told as well."""
    check_may_open(desk.visitor, "log in")
    params, house = incoming.params, desk.house
    credentials = side(params).get("credentials")
    login = Login(params.method_id, credentials if isinstance(credentials, dict) else {})
    async with errand(desk, incoming, known=False) as agent:
        await agent.authenticate(login.method, login.credentials or None)
    house.accounts.remember(desk.visitor.user, house.roster.named(desk.visitor.agent).name, login)
    return AuthenticateResult()


async def logout(desk: Desk, incoming: Incoming) -> LogoutResult:
    """logout: at the agent where it has that, also at those that are awake; nobody is logged in again by us."""
    check_may_open(desk.visitor, "log out")
    house, user = desk.house, desk.visitor.user
    named = house.roster.named(desk.visitor.agent)
    offered = (await house.roster.introduction(named)).agent_capabilities
    try:
        if offers("agent.auth.logout", offered or None):
            async with errand(desk, incoming, known=False) as agent:
                await agent.logout()
            await house.tell_agents(user, named.name, "logout", LogoutParams())
    finally:
        house.accounts.forget(user, named.name)
    return LogoutResult()


async def ask(desk: Desk, incoming: Incoming) -> Any:
    """auth/status, providers/list: what an agent says of this user."""
    check_may_open(desk.visitor, "use agents")
    async with errand(desk, incoming) as agent:
        return await agent.request(incoming.method, incoming.params)


async def set_provider(desk: Desk, incoming: Incoming) -> Any:
    """providers/set, providers/disable: at one that tells whether it is right, then at all of this user."""
    check_may_open(desk.visitor, "use agents")
    house, user, method, params = desk.house, desk.visitor.user, incoming.method, incoming.params
    async with errand(desk, incoming) as agent:
        result = await agent.request(method, params)
    name = house.roster.named(desk.visitor.agent).name
    house.accounts.remember_provider(user, name, method, params)
    await house.tell_agents(user, name, method, params)
    return result
