"""The part of the JSON API that the web page needs besides the protocol: status, folders, files, output, documents."""

from __future__ import annotations

import asyncio
import io
import time
from collections.abc import Callable, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any

import msgspec

from dragoman import __version__
from dragoman.errors import Kind, ProtocolError
from dragoman.host.access import check_may_open, session_not_found
from dragoman.host.auth.roles import EDITOR
from dragoman.host.http.folders import files_matching, folders_at
from dragoman.host.settings import effective_limits
from dragoman.host.visible_sessions import visible_sessions
from dragoman.ids import now
from dragoman.store.contract import Summary
from dragoman.store.export import export_session
from dragoman.transport.remote.server.auth import Principal

if TYPE_CHECKING:
    from dragoman.host.http.api import Api, ApiRequest

# Renders a session as a document for people: from its summary and the lines of its log.
RenderDocument = Callable[[Summary, list[bytes]], str]

# Entries of a session that becomes a document. A page of more is of no use.
MAX_DOCUMENT_ENTRIES = 200_000

_CONTENT_TYPES = {"jsonl": "application/x-ndjson", "html": "text/html; charset=utf-8", "markdown": "text/markdown"}


class Download(msgspec.Struct, frozen=True):
    """An answer that a browser stores as a file."""

    body: bytes
    content_type: str
    on_sent: Callable[[], None]  # called when it was sent, or could not be


async def get_status(api: Api, request: ApiRequest) -> Any:
    """Return the state of the host; with users and tokens for its owner."""
    principal, host = request.principal, api.host
    if principal.session is not None:
        raise ProtocolError(Kind.PERMISSION_DENIED, "a share link gives no access to the state of the host")
    summaries = await visible_sessions(host, principal)
    rooms = [host.rooms[summary.session_id] for summary in summaries if summary.session_id in host.rooms]
    details = {each["name"]: each for each in host.agent_catalog.describe()}
    status: dict[str, Any] = {
        "version": __version__,
        "uptime": time.monotonic() - api.started_at,
        "storeFault": await host.store.unavailable_reason() or None,
        "sessions": len(summaries),
        "awake": sum(1 for room in rooms if room.agent.is_running),
        "people": len({member.client.principal.user for room in rooms for member in room.members.values()}),
        "connections": sum(
            1 for client in host.clients if _is_own(principal, client.principal, host.session_roles.owner)
        ),
        "counters": {
            "prompts": host.counters.prompts,
            "agentStarts": host.counters.agent_starts,
            "agentCrashes": host.counters.agent_crashes,
        },
        "agents": [
            {**details.get(name, {"name": name}), "path": "acp" if at == 0 else f"acp/{name}"}
            for at, name in enumerate(host.agent_catalog.names)
        ],
        "limits": effective_limits(api.limits, host.limits),
    }
    if api.tokens is not None and _is_owner(api, principal):
        moment = time.time()
        tokens = await api.tokens.list_tokens()
        status["tokens"] = [{**msgspec.to_builtins(token), "state": token.state(moment)} for token in tokens]
    return status


def _is_own(principal: Principal, other: Principal, owner: str) -> bool:
    """Whether a user may know of another's connection: their own, or everybody's for the owner."""
    return principal.user == owner or principal.is_local or principal.user == other.user


def _is_owner(api: Api, principal: Principal) -> bool:
    is_owner = principal.is_local or principal.user == api.host.session_roles.owner
    return is_owner and principal.session is None and principal.role == "admin"


async def revoke_token(api: Api, request: ApiRequest, id: str) -> Any:
    """Revoke any token of the host, for its owner."""
    if api.tokens is None or not _is_owner(api, request.principal):
        raise ProtocolError(Kind.PERMISSION_DENIED, "only the owner of the host may revoke tokens")
    await api.tokens.revoke(id)
    return {"revoked": id}


async def list_folders(api: Api, request: ApiRequest) -> Any:
    """Return folders for a new session that begin with a path."""
    check_may_open(request.principal, "open new sessions")
    roots = api.host.roots_of(request.principal)
    path = request.query.get("path", "")
    return {"folders": await asyncio.to_thread(folders_at, path, roots)}


async def list_files(api: Api, request: ApiRequest, name: str) -> Any:
    """Return files in the folder of a session, for those who may prompt its agent."""
    summary = await api.find_session(request.principal, name, EDITOR)
    room = await api.host.acquire_any_room(summary.session_id)
    try:
        folder = await room.agent.working_folder()
    finally:
        api.host.release_room(room)
    words = request.query.get("q", "")[:200]
    return {"files": await asyncio.to_thread(files_matching, folder, words) if folder else []}


async def get_terminal(api: Api, request: ApiRequest, name: str, id: str) -> Any:
    """Return what a command of the agent has written so far, while its host has it."""
    summary = await api.find_session(request.principal, name)
    room = api.host.rooms.get(summary.session_id)
    output = room.workspace.terminals.output(id) if room is not None else None
    if output is None:
        raise ProtocolError(Kind.RESOURCE_NOT_FOUND, "the output of this command is no longer available")
    return {"output": output}


async def get_document(api: Api, request: ApiRequest, name: str) -> Any:
    """Return a session as a file: its log (jsonl), or a document for people."""
    summary = await api.find_session(request.principal, name)
    format = request.query.get("format", "jsonl")
    if format != "jsonl" and format not in api.documents:
        known = ", ".join(["jsonl", *api.documents])
        raise ProtocolError(Kind.INVALID_PARAMS, f"there is no format {format!r} here; the formats are {known}")
    slots = api.document_slots
    slot = slots.take(request.principal)
    try:
        async with slots.making():
            body = await _make_document(api, summary, format)
    except BaseException:
        slots.give_back(slot)
        raise
    return Download(body, _CONTENT_TYPES.get(format, "text/plain"), partial(slots.give_back, slot))


async def _make_document(api: Api, summary: Summary, format: str) -> bytes:
    await api.flush_log(summary.session_id)
    if format == "jsonl":
        file = io.BytesIO()
        await export_session(api.host.store, summary.session_id, file, now())
        return file.getvalue()
    lines = await api.host.store.lines(summary.session_id, 0, MAX_DOCUMENT_ENTRIES, intact=True)
    if not lines:
        raise session_not_found(summary.session_id)
    text = await asyncio.to_thread(api.documents[format], summary, lines)
    return text.encode("utf-8", "replace")


Documents = Mapping[str, RenderDocument]
