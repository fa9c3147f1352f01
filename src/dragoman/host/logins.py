"""Who is logged in to which agent: each room has an agent of its own, and every one of them must be told.

Keeps, in memory alone, by which method a user authenticated with an agent, and does the same with each agent that is
started for them. Above are desks and rooms.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import TYPE_CHECKING, NamedTuple
from weakref import WeakValueDictionary

from dragoman.errors import Kind, ProtocolError

if TYPE_CHECKING:
    from dragoman.roles.client import RemoteAgent


class Login(NamedTuple):
    """How somebody authenticated."""

    method: str
    credentials: Mapping[str, str]


class Logins:
    """The logins of all users of a house."""

    def __init__(self) -> None:
        self._known: dict[tuple[str, str], Login] = {}
        self._turns: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()

    def remember(self, user: str, agent: str, login: Login) -> None:
        """A user authenticated with an agent."""
        self._known[user, agent] = login

    def known(self, user: str, agent: str) -> tuple[str, tuple[tuple[str, str], ...]] | None:
        """How a user is logged in to an agent, as something to compare."""
        login = self._known.get((user, agent))
        return None if login is None else (login.method, tuple(sorted(login.credentials.items())))

    def turn(self, user: str) -> asyncio.Lock:
        """What a user's logins wait for, one after the other."""
        return self._turns.setdefault(user, asyncio.Lock())

    def forget(self, user: str, agent: str) -> None:
        """A user logged out."""
        self._known.pop((user, agent), None)

    async def replay(self, user: str, name: str, agent: RemoteAgent) -> None:
        """Authenticate with an agent that was started for this user; one that is refused now must be asked again."""
        login = self._known.get((user, name))
        if login is None:
            return
        try:
            await agent.authenticate(login.method, login.credentials or None)
        except ProtocolError as error:
            self.forget(user, name)
            message = f"the login of {user} with {name} is not taken any more ({error.message}); authenticate again"
            raise ProtocolError(Kind.AUTH_REQUIRED, message, error.data) from None
