"""Who may see which session, and as what: the seam between the house and whatever keeps that.

A user has a role in each session they may see, and nothing in all others. Whoever opens a session is its admin. The
directory in memory is for tests and for hosts that forget; the one that is kept lies beside it. Knows no clients.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

VIEWER, EDITOR, ADMIN = "viewer", "editor", "admin"

# What each role may do; a higher one may all that a lower one may.
RANK: Mapping[str, int] = {VIEWER: 0, EDITOR: 1, ADMIN: 2}


def lower_role(one: str, other: str) -> str:
    """The role that may do less of the two; what nobody knows may only look."""
    return min((role if role in RANK else VIEWER for role in (one, other)), key=RANK.__getitem__)


def is_at_least(role: str, required: str) -> bool:
    """Whether this role may do what needs at least that one."""
    return RANK.get(role, -1) >= RANK[required]


class SessionRoles(Protocol):
    """Who may see which session. Calls may come from any task of one event loop; StoreFault where the place fails."""

    owner: str  # may see, as admin, whatever nobody opened here; "" is nobody

    async def role_of(self, user: str, session: str) -> str | None:
        """What a user is in a session: viewer, editor, admin; None: they may not know that it is there."""
        ...

    async def set_creator(self, session: str, user: str) -> None:
        """A user opened a session: they are its admin. A session that has one keeps it."""
        ...

    async def sessions_of(self, user: str) -> Mapping[str, str]:
        """The sessions that a user may see, each with their role in it."""
        ...

    async def members_of(self, session: str) -> Mapping[str, str]:
        """Who may see a session, each with their role, whether they are there or not."""
        ...

    async def set_role(self, session: str, user: str, role: str | None) -> None:
        """Make a user something in a session; None takes them out."""
        ...

    async def remove_session(self, session: str) -> None:
        """A session was deleted: nobody is anything in it, and links to it lead nowhere."""
        ...


class MemorySessionRoles:
    """A directory that lasts as long as the process. `owner` may see, as admin, whatever nobody else opened."""

    def __init__(self, owner: str = "") -> None:
        self.owner = owner
        self._roles: dict[str, dict[str, str]] = {}

    async def role_of(self, user: str, session: str) -> str | None:
        """What a user is in a session."""
        known = self._roles.get(session)
        if known is None:
            return ADMIN if user and user == self.owner else None
        return known.get(user)

    async def set_creator(self, session: str, user: str) -> None:
        """A user opened a session: they are its admin."""
        self._roles.setdefault(session, {user: ADMIN})

    async def sessions_of(self, user: str) -> Mapping[str, str]:
        """The sessions that a user may see."""
        return {session: roles[user] for session, roles in self._roles.items() if user in roles}

    async def members_of(self, session: str) -> Mapping[str, str]:
        """Who may see a session."""
        return dict(self._roles.get(session, {}))

    async def set_role(self, session: str, user: str, role: str | None) -> None:
        """Make a user something in a session; None takes them out."""
        roles = self._roles.setdefault(session, {})
        if role is None:
            roles.pop(user, None)
        else:
            roles[user] = role

    async def remove_session(self, session: str) -> None:
        """A session was deleted."""
        self._roles.pop(session, None)
