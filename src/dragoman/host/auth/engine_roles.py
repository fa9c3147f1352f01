"""Roles in the engine of a fleet: in a table that PostgreSQL joins with its sessions, or as records."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection, Mapping
from urllib.parse import quote, unquote

from dragoman.host.auth.roles import ADMIN, check_role_name
from dragoman.store.fleet import Record, Records, Signals
from dragoman.store.postgres.database import Database

# The signal that the members of a session changed, with its id.
ROLES = "roles"

# Deletes the share links of a session.
RemoveLinks = Callable[[str], Awaitable[None]]


class PostgresRoles:
    """Roles in the table `members` (contract: `SessionRoles`)."""

    def __init__(self, database: Database, signals: Signals, remove_links: RemoveLinks, owner: str = "") -> None:
        self.owner = owner
        self._database = database
        self._signals = signals
        self._remove_links = remove_links

    async def role_of(self, user: str, session: str) -> str | None:
        found = await self.members_of(session)
        if not found:
            return ADMIN if user and user == self.owner else None
        return found.get(user)

    async def set_creator(self, session: str, user: str) -> None:
        await self._database.execute(
            "INSERT INTO members SELECT $1, $2, $3 WHERE NOT EXISTS (SELECT FROM members WHERE session = $1) "
            "ON CONFLICT DO NOTHING",
            session,
            user,
            ADMIN,
        )

    async def sessions_of(self, user: str) -> Mapping[str, str]:
        rows = await self._database.fetch("SELECT session, role FROM members WHERE member = $1", user)
        return {row[0]: row[1] for row in rows}

    async def sessions_closed_to(self, user: str) -> Collection[str]:
        query = "SELECT session FROM members GROUP BY session HAVING NOT bool_or(member = $1)"
        return [row[0] for row in await self._database.fetch(query, user)]

    async def members_of(self, session: str) -> Mapping[str, str]:
        rows = await self._database.fetch("SELECT member, role FROM members WHERE session = $1", session)
        return {row[0]: row[1] for row in rows}

    async def set_role(self, session: str, user: str, role: str | None) -> None:
        if role is None:
            await self._database.execute("DELETE FROM members WHERE session = $1 AND member = $2", session, user)
        else:
            check_role_name(role)
            if self.owner and not await self.members_of(session):
                await self.set_creator(session, self.owner)  # who keeps access to a session that was the owner's alone
            await self._database.execute(
                "INSERT INTO members VALUES ($1, $2, $3) ON CONFLICT (session, member) DO UPDATE SET role = $3",
                session,
                user,
                role,
            )
        await self._signals.send(ROLES, {"session": session})

    async def remove_session(self, session: str) -> None:
        await self._database.execute("DELETE FROM members WHERE session = $1", session)
        await self._remove_links(session)


# The kinds of the records: who is in a session, and the sessions of a user.
_MEMBER, _SESSION = "member", "member-of"


class RecordRoles:
    """Roles as two records each (contract: `SessionRoles`). The one by session decides; the other finds it by user."""

    def __init__(self, records: Records, signals: Signals, remove_links: RemoveLinks, owner: str = "") -> None:
        self.owner = owner
        self._records = records
        self._signals = signals
        self._remove_links = remove_links

    async def role_of(self, user: str, session: str) -> str | None:
        found = await self.members_of(session)
        if not found:
            return ADMIN if user and user == self.owner else None
        return found.get(user)

    async def set_creator(self, session: str, user: str) -> None:
        if not await self.members_of(session):
            await self._put(session, user, ADMIN)

    async def sessions_of(self, user: str) -> Mapping[str, str]:
        return _second_parts(await self._records.list_records(_SESSION, f"{_part(user)}/"))

    async def sessions_closed_to(self, user: str) -> Collection[str]:
        members: dict[str, set[str]] = {}
        for record in await self._records.list_records(_MEMBER):
            session, member = map(unquote, record.key.split("/"))
            members.setdefault(session, set()).add(member)
        return [session for session, users in members.items() if user not in users]

    async def members_of(self, session: str) -> Mapping[str, str]:
        return _second_parts(await self._records.list_records(_MEMBER, f"{_part(session)}/"))

    async def set_role(self, session: str, user: str, role: str | None) -> None:
        if role is None:
            await self._records.delete(_MEMBER, f"{_part(session)}/{_part(user)}")
            await self._records.delete(_SESSION, f"{_part(user)}/{_part(session)}")
        else:
            check_role_name(role)
            if self.owner and not await self.members_of(session):
                await self.set_creator(session, self.owner)
            await self._put(session, user, role)
        await self._signals.send(ROLES, {"session": session})

    async def remove_session(self, session: str) -> None:
        for user in await self.members_of(session):
            await self._records.delete(_SESSION, f"{_part(user)}/{_part(session)}")
            await self._records.delete(_MEMBER, f"{_part(session)}/{_part(user)}")
        await self._remove_links(session)

    async def _put(self, session: str, user: str, role: str) -> None:
        # A user finds a session only by the second record, so it comes first: a role without it would be invisible.
        await self._records.put(_SESSION, f"{_part(user)}/{_part(session)}", role.encode())
        await self._records.put(_MEMBER, f"{_part(session)}/{_part(user)}", role.encode())


def _part(text: str) -> str:
    return quote(text, safe="")


def _second_parts(records: list[Record]) -> dict[str, str]:
    return {unquote(record.key.split("/")[1]): record.value.decode() for record in records}
