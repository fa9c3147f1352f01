"""A remote agent whose sessions are logged, and can be gone on with in another process, or with another agent.

Made by `connect(..., store=...)`. Opens conversations that write a log; goes on with a log by whatever its agent can
do: resume it, load it, or be told in a new session what was said before. Beside it is the remote agent without a store.
"""

from __future__ import annotations

import os
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from typing import Any, NamedTuple

from dragoman.engine.connection import Connection
from dragoman.engine.peer_info import offers
from dragoman.errors import Kind, ProtocolError, StoreFault
from dragoman.roles.client.dial import Dialled
from dragoman.roles.client.logged_conversation import LoggedConversation, Logging, logged_uses
from dragoman.roles.client.remote_agent import RemoteAgent
from dragoman.roles.client.session import Conversation
from dragoman.schema.base import to_json
from dragoman.schema.content import EmbeddedResource, ResourceContents, TextContent
from dragoman.schema.lenient import read
from dragoman.schema.mcp import McpServer
from dragoman.schema.session import ForkSessionResult
from dragoman.store.contract import Entry, EntryKind, Store, Summary
from dragoman.store.replay import as_text, minutes
from dragoman.store.session_log import Chronicle, with_secrets

# As much of what was said before as an agent is told that does not know: the end of it. Characters.
RETOLD = 200_000

# Errors by which an agent says that it does not have a session any more, or cannot do what it offers (peers.md 22).
_GONE = frozenset(
    {Kind.SESSION_NOT_FOUND, Kind.SESSION_EXPIRED, Kind.SESSION_CORRUPTED, Kind.RESOURCE_NOT_FOUND}
    | {Kind.METHOD_NOT_FOUND, Kind.INVALID_PARAMS, Kind.INTERNAL_ERROR, Kind.CAPABILITY_UNSUPPORTED}
)


class GoneOn(NamedTuple):
    """A session that goes on, and how: by session/resume, session/load, or session/new with a transcript."""

    session: Conversation
    how: str
    why: str = ""  # the agent's words, where it was asked for the session and did not have it


class LoggedAgent(RemoteAgent):
    """An agent as its client sees it; with logs."""

    _conversation: Callable[..., LoggedConversation] = LoggedConversation
    _chronicle: Chronicle | None = None  # of a log that others write to as well

    def __init__(self, store: Store, on_entry: Callable[[str, Entry], None] | None, *args: Any, **more: Any) -> None:
        super().__init__(*args, **more)
        self._logging = Logging(store, on_entry)
        self._logged: list[LoggedConversation] = []
        self._reopening: dict[str, tuple[str, str | None]] = {}
        self._next_log: str | None = None
        self._origin: str | None = None
        self._opening = 0  # sessions that are being opened
        self._translated: list[str] = []  # what was lost in translation meanwhile
        self._handlers.update(logged_uses(self._handlers, self._conversations.get))

    @property
    def store(self) -> Store:
        """Where its sessions are logged."""
        return self._logging.store

    async def open(self, cwd: str = ".", *, log: str | None = None, **more: Any) -> Conversation:
        """Open a new session; its log, which may be given an id, has begun when this returns."""
        if log is None:
            return await self._opened(super().open(cwd, **more))
        self._next_log = log
        try:
            return await self._opened(super().open(cwd, **more))
        finally:
            self._next_log = None

    async def fork(self, session_id: str, cwd: str = ".", **more: Any) -> Conversation:
        """Open a new session that starts with the history of another; its log does too."""
        self._origin = await self._log_of(session_id)
        try:
            return await self._opened(super().fork(session_id, cwd, **more))
        finally:
            self._origin = None

    async def go_on(
        self,
        log: str,
        cwd: str | None = None,
        *,
        mcp_servers: Sequence[McpServer] = (),
        is_as_before: bool = True,
    ) -> GoneOn:
        """Go on with a logged session, by its name or id: resume or load it if the agent can, else tell it anew.

        With the servers and folders it had before, unless others are given or `is_as_before` is false. Entries that
        were imported from a file count for neither: they must not decide what is started and read here.
        """
        summary = await self.store.find(log)
        place = cwd or summary.cwd or "."
        directories, servers = await self._setting(summary) if is_as_before else ([], [])
        wanted = list(mcp_servers) or servers
        why = ""
        if not await self._owns(summary):
            why = "the agent knows only the session that it was forked from"
        elif summary.agent_session and summary.agent == self._name:
            for method, gate, call in (
                ("session/resume", "agent.sessionCapabilities.resume", self.resume),
                ("session/load", "agent.loadSession", self.load),
            ):
                if not offers(gate, self.capabilities):
                    continue
                self._reopening[summary.agent_session] = (method, summary.session_id)
                try:
                    session = await call(summary.agent_session, place, mcp_servers=wanted, directories=directories)
                except ProtocolError as error:
                    if error.kind not in _GONE or isinstance(error, StoreFault):
                        raise
                    why = error.explanation
                else:
                    return GoneOn(session, method)
        return GoneOn(await self._retell(summary, place, wanted, directories), "session/new", why)

    async def _owns(self, summary: Summary) -> bool:
        """Whether the agent's session is this log's: a copy of a log has that of the one it was copied from."""
        if summary.forked_from is None:
            return True
        try:
            origin = await self.store.read(summary.forked_from, intact=True)
        except ProtocolError:
            return False  # nobody knows any more, and to tell it anew is never wrong
        opened = [e for e in await self.store.read(summary.session_id, intact=True) if e.kind == EntryKind.OPENED]
        return bool(opened) and opened[-1] not in origin

    async def _retell(
        self, summary: Summary, cwd: str, mcp_servers: Sequence[McpServer], directories: Sequence[str]
    ) -> Conversation:
        said = as_text(minutes(await self.store.lines(summary.session_id, intact=True)))[-RETOLD:]
        self._next_log = summary.session_id
        try:
            session = await self.open(cwd, mcp_servers=mcp_servers, directories=directories)
        finally:
            self._next_log = None
        if said and isinstance(session, LoggedConversation):
            session.introduce([self._transcript(summary, said)])
        return session

    def _transcript(self, summary: Summary, said: str) -> Any:
        prompts = self.capabilities.prompt_capabilities
        if prompts and prompts.embedded_context:
            uri = f"dragoman://session/{summary.session_id}/transcript.md"
            return EmbeddedResource(resource=ResourceContents(uri=uri, mime_type="text/markdown", text=said))
        return TextContent(text=f"This is what was said before:\n\n{said}\n\nNow:\n")

    async def _setting(self, summary: Summary) -> tuple[list[str], list[McpServer]]:
        """The folders and servers it was opened with last, here: an imported entry names none."""
        opened: Any = {}
        for entry in await self.store.read(summary.session_id, summary.imported, intact=True):
            if entry.kind == EntryKind.OPENED:
                opened = entry.body
        servers = [read(McpServer, server)[0] for server in opened.get("mcpServers", ())]
        secrets = await self.store.credentials(summary.session_id)
        return list(opened.get("additionalDirectories", ())), with_secrets(servers, secrets.get("mcp", {}))

    async def close(self) -> None:
        """End the agent; everything that was said is in the logs then."""
        for session in self._logged:
            session.is_closing = True
            await session.flush()
        await super().close()

    # --- conversations with a log -----------------------------------------------------------------------------

    @property
    def _told(self) -> dict[str, Any]:
        """What the agent says it is; one that says nothing is called by its command."""
        return to_json(self.info) if self.info else {"name": os.path.basename(self.connection.transport.peer)}

    @property
    def _name(self) -> str | None:
        """What it is listed as."""
        return self._told.get("title") or self._told.get("name")

    async def _reopen(
        self, method: str, params: Any, directories: Sequence[str], mcp_servers: Sequence[McpServer] = ()
    ) -> Conversation:
        id = params.session_id
        known = self._reopening.pop(id, None) or (method, await self._log_of(id))
        self._reopening[id] = known
        try:
            return await self._opened(super()._reopen(method, params, directories, mcp_servers))
        finally:
            self._reopening.pop(id, None)

    async def _opened(self, opening: Awaitable[Conversation]) -> Conversation:
        """Wait until a session is open, and kept so; then what was lost in translation on the way is logged in it."""
        self._opening += 1
        try:
            session = await opening
        finally:
            self._opening -= 1
            lost, self._translated = self._translated, []
        if isinstance(session, LoggedConversation):
            for text in lost:
                session.translated(text)
            await session.kept()
        return session

    def _bind(self, dialled: Dialled) -> None:
        super()._bind(dialled)
        dialled.connection.on_translated = partial(self._note_translated, dialled.connection)

    def _note_translated(self, connection: Connection, text: str) -> None:
        """Nobody says which session it was about: those with a turn, or else the one that was opened last."""
        if self._opening:
            self._translated.append(text)
            return
        there = [session for session in self._logged if session.connection is connection]
        busy = [session for session in there if session.turn is not None and not session.turn.is_over]
        for session in busy or there[-1:]:
            session.translated(text)

    async def _log_of(self, agent_session: str) -> str | None:
        for summary in await self.store.sessions():
            if summary.agent_session == agent_session and summary.agent == self._name:
                return summary.session_id
        return None

    def _enter(
        self,
        session_id: str,
        cwd: str,
        directories: Sequence[str],
        result: Any,
        connection: Connection,
        mcp_servers: Sequence[McpServer] = (),
    ) -> Conversation:
        session = self._conversation(connection, session_id, cwd, directories, mcp_servers, terms=self._terms)
        how, log = "session/new", self._next_log
        if result is None:
            how, log = self._reopening.get(session_id, ("session/load", None))
        elif isinstance(result, ForkSessionResult):
            how = "session/fork"
        origin = self._origin if how == "session/fork" else None
        session.log_to(self._logging, how, self._told, log, origin, self._chronicle)
        self._logged.append(session)
        self._admit(session, result)
        return session
