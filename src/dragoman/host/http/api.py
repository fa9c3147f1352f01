"""JSON API for what the protocol has no method for: logs, search, names, share links. `_ROUTES` has the paths.

A session that the caller may not see gets the same answer as one that does not exist.
"""

from __future__ import annotations

import re
import time
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, NamedTuple

import msgspec

from dragoman import __version__
from dragoman.errors import Kind, ProtocolError
from dragoman.host.access import role_denied, session_not_found
from dragoman.host.activity import room_activity
from dragoman.host.auth.roles import ADMIN, EDITOR, VIEWER, is_at_least
from dragoman.host.auth.token_calls import TokenCalls
from dragoman.host.host import Host
from dragoman.host.http import page_api
from dragoman.host.http.reading_slots import DocumentSlots
from dragoman.host.visible_sessions import find_visible, visible_sessions
from dragoman.store.contract import Selection, Summary
from dragoman.transport.remote.server.auth import Principal
from dragoman.transport.remote.server.limits import ServerLimits

# Entries in one answer at most: few enough to hold in memory, many enough to be fast.
PAGE_SIZE = 2000

# Hits read for one search. Those the caller may not see are removed, and the rest is cut to the limit.
SEARCH_LIMIT = 2000

# The default lifetime of a share link, and the longest: links are forwarded and forgotten. Seconds.
DEFAULT_SHARE_SECONDS = 24 * 3600.0
MAX_SHARE_SECONDS = 92 * 86400.0


class ApiRequest(NamedTuple):
    """One request."""

    principal: Principal
    query: Mapping[str, str]
    body: Mapping[str, Any]


class Api:
    """The API of one host."""

    def __init__(
        self,
        host: Host,
        tokens: TokenCalls | None,
        *,
        limits: ServerLimits | None = None,
        documents: page_api.Documents | None = None,
    ) -> None:
        self.host = host
        self.tokens = tokens
        self.limits = limits or ServerLimits()
        self.documents = dict(documents or {})
        self.document_slots = DocumentSlots()
        self.started_at = time.monotonic()

    async def dispatch(self, method: str, path: str, request: ApiRequest) -> Any:
        """Find the route and return its answer as a JSON value. Raise ProtocolError if there is none."""
        for known, pattern, serve in _ROUTES:
            found = re.fullmatch(f"/api/{pattern}", path)
            if found is not None and known == method:
                return await serve(self, request, *found.groups())
        raise ProtocolError(Kind.METHOD_NOT_FOUND, f"there is no {method} {path}; docs/host.md lists all paths")

    # --- reading ------------------------------------------------------------------------------------------------

    async def get_host(self, request: ApiRequest) -> Any:
        """Return what a client needs before it opens a session."""
        principal, host = request.principal, self.host
        roots = host.roots_of(principal)
        return {
            "dragoman": __version__,
            "user": principal.user,
            "role": principal.role,
            "session": principal.session,
            "agents": host.agent_catalog.names,
            "agentDetails": host.agent_catalog.describe(),
            "roots": None if roots is None else list(roots),
            "local": principal.is_local and not principal.token_id,
            "expires": principal.expires_at,
        }

    async def list_sessions(self, request: ApiRequest) -> Any:
        """Return the sessions that the caller may see."""
        limit = _int_param(request.query, "limit", 0) or None
        wanted = Selection(after=request.query.get("after"), limit=limit)
        visible = await visible_sessions(self.host, request.principal, wanted)
        return {"sessions": [await self._session_json(request.principal, summary) for summary in visible]}

    async def get_session(self, request: ApiRequest, name: str) -> Any:
        """Return one session."""
        return await self._session_json(request.principal, await self.find_session(request.principal, name))

    async def get_log(self, request: ApiRequest, name: str) -> Any:
        """Return entries of a log, as lines of JSON."""
        summary = await self.find_session(request.principal, name)
        after, limit = _int_param(request.query, "after", 0), _int_param(request.query, "limit", PAGE_SIZE)
        intact = request.query.get("intact") == "1"
        await self.flush_log(summary.session_id)
        return await self.host.store.lines(summary.session_id, after, min(limit, PAGE_SIZE), intact=intact)

    async def search(self, request: ApiRequest) -> Any:
        """Return passages that contain all words, from sessions that the caller may see."""
        within = request.query.get("session")
        if within is not None:
            within = (await self.find_session(request.principal, within)).session_id
        limit = _int_param(request.query, "limit", 20)
        hits = await self.host.store.search(request.query.get("q", ""), limit=SEARCH_LIMIT, session_id=within)
        principal, host = request.principal, self.host
        visible = {id for id in {hit.session_id for hit in hits} if await host.role_in(principal, id) is not None}
        return {"hits": [hit for hit in hits if hit.session_id in visible][:limit]}

    # --- changing -----------------------------------------------------------------------------------------------

    async def set_name(self, request: ApiRequest, name: str) -> Any:
        """Set or remove the name. Needs an admin of the session, whose token may be limited to editor."""
        summary = await self.find_session(request.principal, name, EDITOR)
        if not await self._is_limited_by_token(request.principal, summary.session_id, ADMIN):
            summary = await self.find_session(request.principal, name, ADMIN)
        new_name = request.body.get("name")
        await self.host.rename_session(
            request.principal, summary.session_id, None if new_name is None else str(new_name)
        )
        return await self.find_session(request.principal, summary.session_id)

    async def fork_session(self, request: ApiRequest, name: str) -> Any:
        """Copy a session for the caller."""
        summary = await self.find_session(request.principal, name, EDITOR)
        if request.principal.session is not None:
            raise ProtocolError(Kind.PERMISSION_DENIED, "this link gives access to one session only")
        upto = request.body.get("upto")
        if upto is not None and (not isinstance(upto, int) or isinstance(upto, bool)):
            raise ProtocolError(Kind.INVALID_PARAMS, "upto must be the number of an entry")
        await self.flush_log(summary.session_id)
        copy = await self.host.copy_log(summary.session_id, request.principal, upto)
        if (new_name := request.body.get("name")) is not None:
            try:
                await self.host.rename_session(request.principal, copy.session_id, str(new_name))
            except ProtocolError:  # without the name the caller asked for there is no copy
                await self.host.store.delete(copy.session_id)
                await self.host.session_roles.remove_session(copy.session_id)
                raise
        return await self.find_session(request.principal, copy.session_id)

    async def delete_session(self, request: ApiRequest, name: str) -> Any:
        """Delete a session, whoever is in it."""
        summary = await self.find_session(request.principal, name)
        # An admin of an empty session can delete it with any token.
        is_empty = not summary.turns and is_at_least(request.principal.role, EDITOR)
        if not is_empty or not await self._is_limited_by_token(request.principal, summary.session_id, ADMIN):
            summary = await self.find_session(request.principal, name, ADMIN)
        room = await self.host.acquire_room(summary.session_id)
        try:
            await self.host.delete_session(room, request.principal.user)
        finally:
            self.host.release_room(room)
        return {"deleted": summary.session_id}

    async def set_member(self, request: ApiRequest, name: str) -> Any:
        """Set the role of a user in a session, or remove the user."""
        summary = await self.find_session(request.principal, name, ADMIN)
        user, role = request.body.get("user"), request.body.get("role")
        if not isinstance(user, str) or not user or role not in (None, VIEWER, EDITOR, ADMIN):
            raise ProtocolError(Kind.INVALID_PARAMS, "user must be a name, role must be viewer, editor, admin or null")
        await self.host.session_roles.set_role(summary.session_id, user, role)
        await self.host.apply_role_changes(summary.session_id)
        result: dict[str, Any] = {"members": dict(await self.host.session_roles.members_of(summary.session_id))}
        # Only the owner may know who has tokens.
        if self.tokens is not None and request.principal.user == self.host.session_roles.owner != user:
            result["token"] = await self.tokens.highest_role(user)
        return result

    # --- share links --------------------------------------------------------------------------------------------

    async def create_share(self, request: ApiRequest, name: str) -> Any:
        """Create a token for this session only. Links cannot give the admin role."""
        summary = await self.find_session(request.principal, name, ADMIN)
        role = request.body.get("role", VIEWER)
        seconds = request.body.get("seconds", DEFAULT_SHARE_SECONDS)
        guest = request.body.get("name", "")
        if role not in (VIEWER, EDITOR) or not isinstance(guest, str):
            raise ProtocolError(Kind.INVALID_PARAMS, "role must be viewer or editor; name must be a string")
        if isinstance(seconds, bool) or not isinstance(seconds, int | float) or not 0 < seconds <= MAX_SHARE_SECONDS:
            raise ProtocolError(
                Kind.INVALID_PARAMS, f"seconds must be more than 0 and at most {MAX_SHARE_SECONDS / 86400:g} days"
            )
        create, maker = self._require_tokens().create_share_link, request.principal.user
        text, token = await create(summary.session_id, role, float(seconds), name=guest, maker=maker)
        return {"token": text, **msgspec.to_builtins(token)}

    async def list_shares(self, request: ApiRequest, name: str) -> Any:
        """Return the tokens of a session."""
        summary = await self.find_session(request.principal, name, ADMIN)
        return {"shares": await self._require_tokens().list_tokens(summary.session_id)}

    async def revoke_share(self, request: ApiRequest, name: str, id: str) -> Any:
        """Revoke a token of a session."""
        summary = await self.find_session(request.principal, name, ADMIN)
        tokens = self._require_tokens()
        if all(token.id != id for token in await tokens.list_tokens(summary.session_id)):
            raise ProtocolError(Kind.RESOURCE_NOT_FOUND, f"this session has no link {id!r}")
        await tokens.revoke(id)
        return {"revoked": id}

    def _require_tokens(self) -> TokenCalls:
        if self.tokens is None:
            raise ProtocolError(Kind.CAPABILITY_UNSUPPORTED, "this host has no tokens, so it has no share links")
        return self.tokens

    # --- finding ------------------------------------------------------------------------------------------------

    async def find_session(self, principal: Principal, name: str, required: str = VIEWER) -> Summary:
        """Find a session by id, name or start of an id, among those that the caller may see."""
        found = await find_visible(self.host, principal, name)
        role = await self.host.role_in(principal, found.session_id)
        if role is None:
            raise session_not_found(name)
        if not is_at_least(role, required):
            if await self._is_limited_by_token(principal, found.session_id, required):
                message = f"with this token you are at most {role}, and this needs {required}; use another token"
                raise ProtocolError(Kind.PERMISSION_DENIED, message)
            raise role_denied(found.session_id, role, required)
        return found

    async def flush_log(self, session: str) -> None:
        """Wait until the entries of a session that is in use are stored."""
        if (room := self.host.rooms.get(session)) is not None:
            await room.log.flush()

    async def _is_limited_by_token(self, principal: Principal, session: str, required: str) -> bool:
        """Tell whether the user's role in the session would suffice, and only the role of the token is too low."""
        if principal.session is not None or is_at_least(principal.role, required):
            return False
        return is_at_least(await self.host.session_roles.role_of(principal.user, session) or "", required)

    async def _session_json(self, principal: Principal, summary: Summary) -> dict[str, Any]:
        room = self.host.rooms.get(summary.session_id)
        role = await self.host.role_in(principal, summary.session_id)
        return {
            **msgspec.to_builtins(summary),
            "role": role,
            **room_activity(room, may_answer=is_at_least(role or "", EDITOR)),
            "awake": room is not None and room.agent.is_running,
            "process": room.agent.process_note if room is not None and room.agent.is_running else "",
            "members": [member.presence for member in room.members.values()] if room is not None else [],
        }


def _int_param(query: Mapping[str, str], name: str, default: int) -> int:
    text = query.get(name, "")
    if not text:
        return default
    if not (text.isascii() and text.isdigit() and len(text) < 16):
        raise ProtocolError(Kind.INVALID_PARAMS, f"{name} is a number")
    return int(text)


# A session is named by its id, its name or the start of its id. It may contain slashes, so longer paths come first.
_SESSION = "sessions/(.+)"
_ROUTES: tuple[tuple[str, str, Callable[..., Awaitable[Any]]], ...] = (
    ("GET", "host", Api.get_host),
    ("GET", "status", page_api.get_status),
    ("DELETE", "tokens/([^/]+)", page_api.revoke_token),
    ("GET", "folders", page_api.list_folders),  # ?path=
    ("GET", "search", Api.search),  # ?q=&limit=&session=
    ("GET", "sessions", Api.list_sessions),
    ("GET", f"{_SESSION}/log", Api.get_log),  # ?after=&limit=&intact=
    ("GET", f"{_SESSION}/files", page_api.list_files),  # ?q=
    ("GET", f"{_SESSION}/terminals/([^/]+)", page_api.get_terminal),
    ("GET", f"{_SESSION}/export", page_api.get_document),  # ?format=jsonl|html|markdown
    ("GET", f"{_SESSION}/shares", Api.list_shares),
    ("GET", _SESSION, Api.get_session),
    ("POST", f"{_SESSION}/name", Api.set_name),  # {name}; null removes it
    ("POST", f"{_SESSION}/fork", Api.fork_session),  # {upto, name}
    ("POST", f"{_SESSION}/members", Api.set_member),  # {user, role}; role null removes the user
    ("POST", f"{_SESSION}/shares", Api.create_share),  # {role, seconds, name}
    ("DELETE", f"{_SESSION}/shares/([^/]+)", Api.revoke_share),
    ("DELETE", _SESSION, Api.delete_session),
)
