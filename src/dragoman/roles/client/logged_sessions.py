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
from dragoman.roles.client.dial import ConnectedAgent
from dragoman.roles.client.logged_conversation import LoggedClientSession, LogSettings, with_use_logging
from dragoman.roles.client.remote_agent import RemoteAgent
from dragoman.roles.client.session import ClientSession
from dragoman.schema.base import to_json
from dragoman.schema.content import EmbeddedResource, ResourceContents, TextContent
from dragoman.schema.lenient import read_leniently
from dragoman.schema.mcp import McpServer
from dragoman.schema.session import ForkSessionResult
from dragoman.store.contract import Entry, EntryKind, Store, Summary
from dragoman.store.replay import build_transcript, render_markdown
from dragoman.store.session_log import SessionLog, restore_secrets

# As much of what was said before as an agent is told that does not know: the end of it. Characters.
MAX_TRANSCRIPT_CHARACTERS = 200_000

# Errors by which an agent says that it does not have a session any more, or cannot do what it offers (peers.md 22).
_SESSION_GONE = frozenset(
    {Kind.SESSION_NOT_FOUND, Kind.SESSION_EXPIRED, Kind.SESSION_CORRUPTED, Kind.RESOURCE_NOT_FOUND}
    | {Kind.METHOD_NOT_FOUND, Kind.INVALID_PARAMS, Kind.INTERNAL_ERROR, Kind.CAPABILITY_UNSUPPORTED}
)


class ContinuedSession(NamedTuple):
    """A session that goes on, and how: by session/resume, session/load, or session/new with a transcript."""

    session: ClientSession
    method: str
    reason: str = ""  # the agent's words, where it was asked for the session and did not have it


class LoggedAgent(RemoteAgent):
    """An agent as its client sees it; with logs."""

    _session_type: Callable[..., LoggedClientSession] = LoggedClientSession
    _shared_log: SessionLog | None = None  # of a log that others write to as well

    def __init__(self, store: Store, on_entry: Callable[[str, Entry], None] | None, *args: Any, **more: Any) -> None:
        super().__init__(*args, **more)
        self._log_settings = LogSettings(store, on_entry)
        self._logged_sessions: list[LoggedClientSession] = []
        self._reopening: dict[str, tuple[str, str | None]] = {}
        self._next_log_id: str | None = None
        self._fork_origin: str | None = None
        self._opening_count = 0  # sessions that are being opened
        self._translation_losses: list[str] = []  # what was lost in translation meanwhile
        self._handlers.update(with_use_logging(self._handlers, self._sessions.get))

    @property
    def store(self) -> Store:
        """Where its sessions are logged."""
        return self._log_settings.store

    async def open_session(self, cwd: str = ".", *, log_id: str | None = None, **more: Any) -> ClientSession:
        """Open a new session; its log, which may be given an id, has begun when this returns."""
        if log_id is None:
            return await self._finish_opening(super().open_session(cwd, **more))
        self._next_log_id = log_id
        try:
            return await self._finish_opening(super().open_session(cwd, **more))
        finally:
            self._next_log_id = None

    async def fork_session(self, session_id: str, cwd: str = ".", **more: Any) -> ClientSession:
        """Open a new session that starts with the history of another; its log does too."""
        self._fork_origin = await self._log_id_of(session_id)
        try:
            return await self._finish_opening(super().fork_session(session_id, cwd, **more))
        finally:
            self._fork_origin = None

    async def continue_session(
        self,
        log_id: str,
        cwd: str | None = None,
        *,
        mcp_servers: Sequence[McpServer] = (),
        restore_setup: bool = True,
    ) -> ContinuedSession:
        """Go on with a logged session, by its name or id: resume or load it if the agent can, else tell it anew.

        With the servers and folders it had before, unless others are given or `is_as_before` is false. Entries that
        were imported from a file count for neither: they must not decide what is started and read here.
        """
        summary = await self.store.find(log_id)
        place = cwd or summary.cwd or "."
        directories, servers = await self._stored_setup(summary) if restore_setup else ([], [])
        wanted = list(mcp_servers) or servers
        why = ""
        if not await self._owns_agent_session(summary):
            why = "the agent knows only the session that it was forked from"
        elif summary.agent_session and summary.agent == self._listed_name:
            for method, gate, call in (
                ("session/resume", "agent.sessionCapabilities.resume", self.resume_session),
                ("session/load", "agent.loadSession", self.load_session),
            ):
                if not offers(gate, self.capabilities):
                    continue
                self._reopening[summary.agent_session] = (method, summary.session_id)
                try:
                    session = await call(summary.agent_session, place, mcp_servers=wanted, directories=directories)
                except ProtocolError as error:
                    if error.kind not in _SESSION_GONE or isinstance(error, StoreFault):
                        raise
                    why = error.explanation
                else:
                    return ContinuedSession(session, method)
        return ContinuedSession(
            await self._open_with_transcript(summary, place, wanted, directories), "session/new", why
        )

    async def _owns_agent_session(self, summary: Summary) -> bool:
        """Whether the agent's session is this log's: a copy of a log has that of the one it was copied from."""
        if summary.forked_from is None:
            return True
        try:
            origin = await self.store.read(summary.forked_from, intact=True)
        except ProtocolError:
            return False  # nobody knows any more, and to tell it anew is never wrong
        opened = [e for e in await self.store.read(summary.session_id, intact=True) if e.kind == EntryKind.OPENED]
        return bool(opened) and opened[-1] not in origin

    async def _open_with_transcript(
        self, summary: Summary, cwd: str, mcp_servers: Sequence[McpServer], directories: Sequence[str]
    ) -> ClientSession:
        said = render_markdown(build_transcript(await self.store.lines(summary.session_id, intact=True)))[
            -MAX_TRANSCRIPT_CHARACTERS:
        ]
        self._next_log_id = summary.session_id
        try:
            session = await self.open_session(cwd, mcp_servers=mcp_servers, directories=directories)
        finally:
            self._next_log_id = None
        if said and isinstance(session, LoggedClientSession):
            session.set_preamble([self._transcript_block(summary, said)])
        return session

    def _transcript_block(self, summary: Summary, text: str) -> Any:
        prompts = self.capabilities.prompt_capabilities
        if prompts and prompts.embedded_context:
            uri = f"dragoman://session/{summary.session_id}/transcript.md"
            return EmbeddedResource(resource=ResourceContents(uri=uri, mime_type="text/markdown", text=text))
        return TextContent(text=f"This is what was said before:\n\n{text}\n\nNow:\n")

    async def _stored_setup(self, summary: Summary) -> tuple[list[str], list[McpServer]]:
        """The folders and servers it was opened with last, here: an imported entry names none."""
        opened: Any = {}
        for entry in await self.store.read(summary.session_id, summary.imported, intact=True):
            if entry.kind == EntryKind.OPENED:
                opened = entry.body
        servers = [read_leniently(McpServer, server)[0] for server in opened.get("mcpServers", ())]
        secrets = await self.store.credentials(summary.session_id)
        return list(opened.get("additionalDirectories", ())), restore_secrets(servers, secrets.get("mcp", {}))

    async def close(self) -> None:
        """End the agent; everything that was said is in the logs then."""
        for session in self._logged_sessions:
            session.is_closing = True
            await session.flush_log()
        await super().close()

    # --- conversations with a log -----------------------------------------------------------------------------

    @property
    def _agent_info(self) -> dict[str, Any]:
        """What the agent says it is; one that says nothing is called by its command."""
        return to_json(self.info) if self.info else {"name": os.path.basename(self.connection.transport.peer)}

    @property
    def _listed_name(self) -> str | None:
        """What it is listed as."""
        return self._agent_info.get("title") or self._agent_info.get("name")

    async def _reopen_session(
        self, method: str, params: Any, directories: Sequence[str], mcp_servers: Sequence[McpServer] = ()
    ) -> ClientSession:
        id = params.session_id
        known = self._reopening.pop(id, None) or (method, await self._log_id_of(id))
        self._reopening[id] = known
        try:
            return await self._finish_opening(super()._reopen_session(method, params, directories, mcp_servers))
        finally:
            self._reopening.pop(id, None)

    async def _finish_opening(self, opening: Awaitable[ClientSession]) -> ClientSession:
        """Wait until a session is open, and kept so; then what was lost in translation on the way is logged in it."""
        self._opening_count += 1
        try:
            session = await opening
        finally:
            self._opening_count -= 1
            lost, self._translation_losses = self._translation_losses, []
        if isinstance(session, LoggedClientSession):
            for text in lost:
                session.note_translation_loss(text)
            await session.wait_stored()
        return session

    def _use_agent(self, connected: ConnectedAgent) -> None:
        super()._use_agent(connected)
        connected.connection.on_translation_note = partial(self._note_translation_loss, connected.connection)

    def _note_translation_loss(self, connection: Connection, text: str) -> None:
        """Nobody says which session it was about: those with a turn, or else the one that was opened last."""
        if self._opening_count:
            self._translation_losses.append(text)
            return
        there = [session for session in self._logged_sessions if session.connection is connection]
        busy = [session for session in there if session.turn is not None and not session.turn.is_over]
        for session in busy or there[-1:]:
            session.note_translation_loss(text)

    async def _log_id_of(self, agent_session: str) -> str | None:
        for summary in await self.store.sessions():
            if summary.agent_session == agent_session and summary.agent == self._listed_name:
                return summary.session_id
        return None

    def _create_session(
        self,
        session_id: str,
        cwd: str,
        directories: Sequence[str],
        result: Any,
        connection: Connection,
        mcp_servers: Sequence[McpServer] = (),
    ) -> ClientSession:
        session = self._session_type(connection, session_id, cwd, directories, mcp_servers, terms=self._settings)
        how, log = "session/new", self._next_log_id
        if result is None:
            how, log = self._reopening.get(session_id, ("session/load", None))
        elif isinstance(result, ForkSessionResult):
            how = "session/fork"
        origin = self._fork_origin if how == "session/fork" else None
        session.log_to(self._log_settings, how, self._agent_info, log, origin, self._shared_log)
        self._logged_sessions.append(session)
        self._register_session(session, result)
        return session
