"""What the protocol has no words for, as a small JSON API under the same door: logs, search, names, share links.

    GET    /api/host                            who the caller is here, which agents there are, where sessions may work
    GET    /api/sessions                        those the caller may see, with role, awake, process, members
    GET    /api/sessions/ID                     one of them; ID may be a name or the beginning of an id
    GET    /api/sessions/ID/log?after=&limit=   entries of its log, a line each
    GET    /api/search?q=&limit=&session=       passages that have all words
    POST   /api/sessions/ID/name {name}         give it a name, or (null) take it away
    POST   /api/sessions/ID/fork {upto, name}   a copy of the caller's own
    POST   /api/sessions/ID/members {user, role}   make somebody something in it, or (null) nothing
    POST   /api/sessions/ID/shares {role, seconds, name}   a token for it alone
    GET    /api/sessions/ID/shares              its tokens, without their secrets
    DELETE /api/sessions/ID                     forget it
    DELETE /api/sessions/ID/shares/TOKEN        revoke one

Takes a visitor and a request's parts, gives a status and JSON, or raises. Who may see nothing of a session is answered
as if it were not there. Above is the app of the host; below are the house and its tokens.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, NamedTuple

import msgspec

from dragoman import __version__
from dragoman.errors import Kind, ProtocolError
from dragoman.host.access import not_found
from dragoman.host.auth.roles import ADMIN, EDITOR, VIEWER, may
from dragoman.host.auth.tokens import Token, Tokens
from dragoman.host.host import House
from dragoman.store.contract import Summary
from dragoman.transport.remote.server.auth import Visitor

# Entries in one answer, at most: few enough to hold, many enough to be fast.
PAGE = 2000

# Passages that are looked at for one search: those of others are left out of them, and the rest is cut to the limit.
LOOKED_AT = 2000

# A share link lasts so long unless told, and never longer than a quarter: links are forwarded and forgotten. Seconds.
SHARED = 24 * 3600.0
LONGEST_SHARE = 92 * 86400.0


class Call(NamedTuple):
    """One request."""

    visitor: Visitor
    query: Mapping[str, str]
    body: Mapping[str, Any]


class Answer(NamedTuple):
    """What is answered: JSON, or lines of it."""

    value: Any
    lines: list[bytes] | None = None


class Api:
    """The calls, for one house."""

    def __init__(self, house: House, tokens: Tokens | None) -> None:
        self._house = house
        self._tokens = tokens

    async def answer(self, method: str, path: str, call: Call) -> Answer:
        """Find the call and let it answer; raises ProtocolError."""
        for (known, pattern), handle in _ROUTES.items():
            found = re.fullmatch(pattern, path)
            if found is not None and known == method:
                return await handle(self, call, *found.groups())
        raise ProtocolError(Kind.METHOD_NOT_FOUND, f"there is no {method} {path}; docs/host.md lists what there is")

    # --- reading ------------------------------------------------------------------------------------------------

    async def host(self, call: Call) -> Answer:
        """What a client wants to know before it opens a session."""
        visitor, house = call.visitor, self._house
        roots = house.roots(visitor)
        return Answer(
            {
                "dragoman": __version__,
                "user": visitor.user,
                "role": visitor.role,
                "session": visitor.session,
                "agents": house.roster.names,
                "roots": None if roots is None else list(roots),
            }
        )

    async def sessions(self, call: Call) -> Answer:
        """Those that the caller may see."""
        seen = await self._house.visible(call.visitor)
        return Answer({"sessions": [await self._told(call.visitor, one) for one in seen]})

    async def session(self, call: Call, name: str) -> Answer:
        """One of them."""
        return Answer(await self._told(call.visitor, await self._found(call.visitor, name)))

    async def log(self, call: Call, name: str) -> Answer:
        """Entries of its log."""
        summary = await self._found(call.visitor, name)
        after, limit = _number(call.query, "after", 0), min(_number(call.query, "limit", PAGE), PAGE)
        room = self._house.rooms.get(summary.session_id)
        if room is not None:
            await room.chronicle.flush()
        intact = call.query.get("intact") == "1"
        return Answer(None, await self._house.store.lines(summary.session_id, after, limit, intact=intact))

    async def search(self, call: Call) -> Answer:
        """Passages that have all words, of sessions that the caller may see."""
        within = call.query.get("session")
        if within is not None:
            within = (await self._found(call.visitor, within)).session_id
        limit = _number(call.query, "limit", 20)
        hits = await self._house.store.search(call.query.get("q", ""), limit=LOOKED_AT, session_id=within)
        seen = {one.session_id for one in await self._house.visible(call.visitor)}
        return Answer({"hits": msgspec.to_builtins([hit for hit in hits if hit.session_id in seen][:limit])})

    # --- changing -----------------------------------------------------------------------------------------------

    async def name(self, call: Call, name: str) -> Answer:
        """Give it a name, or take it away: for its admins, also with a token that lets them be no more than editors."""
        summary = await self._found(call.visitor, name, EDITOR)
        if not await self._is_held_back(call.visitor, summary.session_id, ADMIN):
            summary = await self._found(call.visitor, name, ADMIN)
        wanted = call.body.get("name")
        await self._house.rename(call.visitor, summary.session_id, None if wanted is None else str(wanted))
        return Answer(msgspec.to_builtins(await self._found(call.visitor, summary.session_id)))

    async def fork(self, call: Call, name: str) -> Answer:
        """A copy that goes its own way, of the caller's own."""
        summary = await self._found(call.visitor, name, EDITOR)
        if call.visitor.session is not None:
            raise _denied("this link opens one session and no other")
        upto = call.body.get("upto")
        if upto is not None and (not isinstance(upto, int) or isinstance(upto, bool)):
            raise ProtocolError(Kind.INVALID_PARAMS, "upto is the number of an entry")
        room = self._house.rooms.get(summary.session_id)
        if room is not None:
            await room.chronicle.flush()
        copy = await self._house.copy(summary.session_id, call.visitor, upto)
        if (wanted := call.body.get("name")) is not None:
            try:
                await self._house.rename(call.visitor, copy.session_id, str(wanted))
            except ProtocolError:  # who cannot have it as they want it has nothing
                await self._house.store.delete(copy.session_id)
                await self._house.directory.remove(copy.session_id)
                raise
        return Answer(msgspec.to_builtins(await self._found(call.visitor, copy.session_id)))

    async def delete(self, call: Call, name: str) -> Answer:
        """Forget it, whoever is in it."""
        summary = await self._found(call.visitor, name)
        # What somebody opened, and said nothing in, they can take back with whatever token.
        is_empty = not summary.turns and may(call.visitor.role, EDITOR)
        if not is_empty or not await self._is_held_back(call.visitor, summary.session_id, ADMIN):
            summary = await self._found(call.visitor, name, ADMIN)
        room = await self._house.room(summary.session_id)
        try:
            await self._house.delete(room, call.visitor.user)
        finally:
            self._house.done_with(room)
        return Answer({"deleted": summary.session_id})

    async def members(self, call: Call, name: str) -> Answer:
        """Make somebody something in it, or nothing."""
        summary = await self._found(call.visitor, name, ADMIN)
        user, role = call.body.get("user"), call.body.get("role")
        if not isinstance(user, str) or not user or role not in (None, VIEWER, EDITOR, ADMIN):
            raise ProtocolError(Kind.INVALID_PARAMS, "user is a name, role is viewer, editor, admin or null")
        await self._house.directory.set_role(summary.session_id, user, role)
        await self._house.roles_changed(summary.session_id)
        told: dict[str, Any] = {"members": dict(await self._house.directory.members_of(summary.session_id))}
        owner = self._house.directory.owner
        if self._tokens is not None and call.visitor.user == owner != user:  # who has tokens is nobody else's business
            told["token"] = await asyncio.to_thread(self._tokens.most, user)
        return Answer(told)

    # --- share links --------------------------------------------------------------------------------------------

    async def share(self, call: Call, name: str) -> Answer:
        """A token for this session alone; an admin's leave is not to be had by a link."""
        summary = await self._found(call.visitor, name, ADMIN)
        role = call.body.get("role", VIEWER)
        seconds = call.body.get("seconds", SHARED)
        guest = call.body.get("name", "")
        if role not in (VIEWER, EDITOR) or not isinstance(guest, str):
            raise ProtocolError(Kind.INVALID_PARAMS, "a link is for a viewer or an editor; name is a text")
        if isinstance(seconds, bool) or not isinstance(seconds, int | float) or not 0 < seconds <= LONGEST_SHARE:
            raise ProtocolError(Kind.INVALID_PARAMS, f"a link lasts at most {LONGEST_SHARE / 86400:g} days")
        make = self._kept().share
        text, token = await asyncio.to_thread(
            make, summary.session_id, role, float(seconds), name=guest, maker=call.visitor.user
        )
        return Answer({"token": text, **_shown(token)})

    async def shares(self, call: Call, name: str) -> Answer:
        """Its tokens."""
        summary = await self._found(call.visitor, name, ADMIN)
        return Answer({"shares": [_shown(token) for token in self._kept().listed(summary.session_id)]})

    async def unshare(self, call: Call, name: str, id: str) -> Answer:
        """Revoke one of them."""
        summary = await self._found(call.visitor, name, ADMIN)
        tokens = self._kept()
        if all(token.id != id for token in tokens.listed(summary.session_id)):
            raise ProtocolError(Kind.RESOURCE_NOT_FOUND, f"this session has no link {id!r}")
        await asyncio.to_thread(tokens.revoke, id)
        return Answer({"revoked": id})

    def _kept(self) -> Tokens:
        if self._tokens is None:
            raise ProtocolError(Kind.CAPABILITY_UNSUPPORTED, "this host has no tokens, so it has no links either")
        return self._tokens

    # --- finding ------------------------------------------------------------------------------------------------

    async def _found(self, visitor: Visitor, name: str, least: str = VIEWER) -> Summary:
        """The session that is meant; only among those that the caller may see, so that nothing else can be guessed."""
        seen = await self._house.visible(visitor)
        meant = [one for one in seen if name in (one.session_id, one.name)]
        if not meant and len(name) >= 8:
            meant = [one for one in seen if one.session_id.startswith(name)]
        if len(meant) != 1:
            raise not_found(name)
        role = await self._house.role_in(visitor, meant[0].session_id)
        if role is None:
            raise not_found(name)
        if not may(role, least):
            if await self._is_held_back(visitor, meant[0].session_id, least):
                raise _denied(f"with this token you are no more than {role} anywhere, and this needs {least}")
            raise _denied(f"you are {role} in this session, and this needs {least}; ask an admin of it")
        return meant[0]

    async def _is_held_back(self, visitor: Visitor, session: str, least: str) -> bool:
        """Whether somebody may do in a session what needs this role, and only the role of their token is in the way."""
        if visitor.session is not None or may(visitor.role, least):
            return False
        return may(await self._house.directory.role_of(visitor.user, session) or "", least)

    async def _told(self, visitor: Visitor, summary: Summary) -> dict[str, Any]:
        room = self._house.rooms.get(summary.session_id)
        return {
            **msgspec.to_builtins(summary),
            "role": await self._house.role_in(visitor, summary.session_id),
            "awake": room is not None and room.is_awake,
            "process": room.process if room is not None and room.is_awake else "",
            "members": [member.shown for member in room.members.values()] if room is not None else [],
        }


def _shown(token: Token) -> dict[str, Any]:
    told: dict[str, Any] = msgspec.to_builtins(token)
    return told


def _denied(what: str) -> ProtocolError:
    return ProtocolError(Kind.PERMISSION_DENIED, what)


def _number(query: Mapping[str, str], name: str, otherwise: int) -> int:
    text = query.get(name, "")
    if not text:
        return otherwise
    if not (text.isascii() and text.isdigit() and len(text) < 16):
        raise ProtocolError(Kind.INVALID_PARAMS, f"{name} is a number")
    return int(text)


# An id is whatever an agent or a store made it, also with slashes; so what follows it is looked for first.
_ID = r"/api/sessions/(.+)"
_ROUTES: dict[tuple[str, str], Callable[..., Awaitable[Answer]]] = {
    ("GET", r"/api/host"): Api.host,
    ("GET", r"/api/search"): Api.search,
    ("GET", r"/api/sessions"): Api.sessions,
    ("GET", _ID + "/log"): Api.log,
    ("GET", _ID + "/shares"): Api.shares,
    ("GET", _ID): Api.session,
    ("POST", _ID + "/name"): Api.name,
    ("POST", _ID + "/fork"): Api.fork,
    ("POST", _ID + "/members"): Api.members,
    ("POST", _ID + "/shares"): Api.share,
    ("DELETE", _ID + "/shares/([^/]+)"): Api.unshare,
    ("DELETE", _ID): Api.delete,
}
