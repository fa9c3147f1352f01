"""Roles of users in sessions: the contract, and an implementation in memory.

A user without a role in a session may not see it. The user who opens a session is its admin.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Protocol

VIEWER, EDITOR, ADMIN = "viewer", "editor", "admin"

# The rank of each role. A higher role includes the lower ones.
RANK: Mapping[str, int] = {VIEWER: 0, EDITOR: 1, ADMIN: 2}


def lower_role(first: str, second: str) -> str:
    """Return the lower of two roles. An unknown role counts as viewer."""
    return min((role if role in RANK else VIEWER for role in (first, second)), key=RANK.__getitem__)


def is_at_least(role: str, required: str) -> bool:
    """Tell whether a role is at least the required one."""
    return RANK.get(role, -1) >= RANK[required]


def check_role_name(role: str) -> None:
    """Raise ValueError if this is not a role."""
    if role not in RANK:
        raise ValueError(f"{role!r} is not a role; the roles are {', '.join(RANK)}")


class SessionRoles(Protocol):
    """Who may see which session. Called from tasks of one event loop. Raises StoreFault if storage fails."""

    owner: str  # is admin of every session that nobody opened here; "" is nobody

    async def role_of(self, user: str, session: str) -> str | None:
        """Return viewer, editor or admin; None if the user may not see the session."""
        ...

    async def set_creator(self, session: str, user: str) -> None:
        """Make the user who opened a session its admin, unless it has members already."""
        ...

    async def sessions_of(self, user: str) -> Mapping[str, str]:
        """Return the sessions that a user may see, with their role in each."""
        ...

    async def sessions_closed_to(self, user: str) -> Collection[str]:
        """Return the sessions that have members, but not this user."""
        ...

    async def members_of(self, session: str) -> Mapping[str, str]:
        """Return who may see a session, with their roles, connected or not."""
        ...

    async def set_role(self, session: str, user: str, role: str | None) -> None:
        """Set the role of a user in a session; None removes them."""
        ...

    async def remove_session(self, session: str) -> None:
        """Remove the roles and share links of a deleted session."""
        ...


class MemorySessionRoles:
    """Roles in memory. `owner` is admin of every session that nobody else opened."""

    def __init__(self, owner: str = "") -> None:
        self.owner = owner
        self._roles: dict[str, dict[str, str]] = {}

    async def role_of(self, user: str, session: str) -> str | None:
        """Return the role of a user in a session."""
        known = self._roles.get(session)
        if known is None:
            return ADMIN if user and user == self.owner else None
        return known.get(user)

    async def set_creator(self, session: str, user: str) -> None:
        """Make the user who opened a session its admin."""
        self._roles.setdefault(session, {user: ADMIN})

    async def sessions_of(self, user: str) -> Mapping[str, str]:
        """Return the sessions that a user may see."""
        return {session: roles[user] for session, roles in self._roles.items() if user in roles}

    async def sessions_closed_to(self, user: str) -> Collection[str]:
        """Return the sessions that have members, but not this user."""
        return [session for session, roles in self._roles.items() if user not in roles]

    async def members_of(self, session: str) -> Mapping[str, str]:
        """Return who may see a session."""
        return dict(self._roles.get(session, {}))

    async def set_role(self, session: str, user: str, role: str | None) -> None:
        """Set the role of a user in a session; None removes them."""
        roles = self._roles.setdefault(session, {})
        if role is None:
            roles.pop(user, None)
        else:
            roles[user] = role

    async def remove_session(self, session: str) -> None:
        """Remove the roles of a deleted session."""
        self._roles.pop(session, None)
