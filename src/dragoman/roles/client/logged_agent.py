"""LoggedAgent: a RemoteAgent with a store, made by `connect(..., store=...)`.

Its sessions are logged. A logged session can be continued later, also with another agent: by session/resume,
session/load, or a new session that gets the transcript.
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
from dragoman.roles.client.logged_session import LoggedClientSession, LogSettings, with_use_logging
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

# The end of the transcript that an agent gets in a new session. Characters.
MAX_TRANSCRIPT_CHARACTERS = 200_000

# Errors by which an agent says that it no longer has a session, or cannot do what it offers
# (docs/protocol/peers.md#offered-but-missing).
_SESSION_GONE = frozenset(
    {Kind.SESSION_NOT_FOUND, Kind.SESSION_EXPIRED, Kind.SESSION_CORRUPTED, Kind.RESOURCE_NOT_FOUND}
    | {Kind.METHOD_NOT_FOUND, Kind.INVALID_PARAMS, Kind.INTERNAL_ERROR, Kind.CAPABILITY_UNSUPPORTED}
)


class ContinuedSession(NamedTuple):
    """A continued session, and how: by session/resume, session/load, or session/new with the transcript."""

    session: ClientSession
    method: str
    reason: str = ""  # the agent's error, if it was asked for the session and did not have it


class LoggedAgent(RemoteAgent):
    """A RemoteAgent whose sessions are logged."""

    _session_type: Callable[..., LoggedClientSession] = LoggedClientSession
    _shared_log: SessionLog | None = None  # a log that others write to as well

    def __init__(self, store: Store, on_entry: Callable[[str, Entry], None] | None, *args: Any, **more: Any) -> None:
        super().__init__(*args, **more)
        self._log_settings = LogSettings(store, on_entry)
        self._logged_sessions: list[LoggedClientSession] = []
        self._reopening: dict[str, tuple[str, str | None]] = {}
        self._next_log_id: str | None = None
        self._fork_origin: str | None = None
        self._opening_count = 0  # sessions that are being opened
        self._translation_losses: list[str] = []  # losses in translation meanwhile
        self._handlers.update(with_use_logging(self._handlers, self._sessions.get))

    @property
    def store(self) -> Store:
        """The store of the logs."""
        return self._log_settings.store

    async def open_session(self, cwd: str = ".", *, log_id: str | None = None, **more: Any) -> ClientSession:
        """Open a new session. Its log, optionally with this id, has begun when this returns."""
        if log_id is None:
            return await self._finish_opening(super().open_session(cwd, **more))
        self._next_log_id = log_id
        try:
            return await self._finish_opening(super().open_session(cwd, **more))
        finally:
            self._next_log_id = None

    async def fork_session(self, session_id: str, cwd: str = ".", **more: Any) -> ClientSession:
        """Open a new session with the history of another; its log starts with the other log."""
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
        """Continue a logged session, by its name or id: resume or load it, or else open a new one with the transcript.

        It gets the MCP servers and folders it had, unless others are given or `restore_setup` is False. Imported
        entries do not count for this: a file must not decide what is started and read here.
        """
        summary = await self.store.find(log_id)
        folder = cwd or summary.cwd or "."
        directories, servers = await self._stored_setup(summary) if restore_setup else ([], [])
        servers = list(mcp_servers) or servers
        why = ""
        if not await self._owns_agent_session(summary):
            why = "the agent knows only the session it was forked from"
        elif summary.agent_session and summary.agent == self._listed_name:
            for method, gate, call in (
                ("session/resume", "agent.sessionCapabilities.resume", self.resume_session),
                ("session/load", "agent.loadSession", self.load_session),
            ):
                if not offers(gate, self.capabilities):
                    continue
                self._reopening[summary.agent_session] = (method, summary.session_id)
                try:
                    session = await call(summary.agent_session, folder, mcp_servers=servers, directories=directories)
                except ProtocolError as error:
                    if error.kind not in _SESSION_GONE or isinstance(error, StoreFault):
                        raise
                    why = error.explanation
                else:
                    return ContinuedSession(session, method)
        return ContinuedSession(
            await self._open_with_transcript(summary, folder, servers, directories), "session/new", why
        )

    async def _owns_agent_session(self, summary: Summary) -> bool:
        """Return whether the agent's session belongs to this log: a copy of a log names that of the original."""
        if summary.forked_from is None:
            return True
        try:
            origin = await self.store.read(summary.forked_from, intact=True)
        except ProtocolError:
            return False  # unknown; sending the transcript is always safe
        opened = [e for e in await self.store.read(summary.session_id, intact=True) if e.kind == EntryKind.OPENED]
        return bool(opened) and opened[-1] not in origin

    async def _open_with_transcript(
        self, summary: Summary, cwd: str, mcp_servers: Sequence[McpServer], directories: Sequence[str]
    ) -> ClientSession:
        text = render_markdown(build_transcript(await self.store.lines(summary.session_id, intact=True)))
        text = text[-MAX_TRANSCRIPT_CHARACTERS:]
        self._next_log_id = summary.session_id
        try:
            session = await self.open_session(cwd, mcp_servers=mcp_servers, directories=directories)
        finally:
            self._next_log_id = None
        if text and isinstance(session, LoggedClientSession):
            session.set_preamble([self._transcript_block(summary, text)])
        return session

    def _transcript_block(self, summary: Summary, text: str) -> Any:
        prompts = self.capabilities.prompt_capabilities
        if prompts and prompts.embedded_context:
            uri = f"dragoman://session/{summary.session_id}/transcript.md"
            return EmbeddedResource(resource=ResourceContents(uri=uri, mime_type="text/markdown", text=text))
        return TextContent(text=f"This is what was said before:\n\n{text}\n\nNow:\n")

    async def _stored_setup(self, summary: Summary) -> tuple[list[str], list[McpServer]]:
        """Return the folders and servers it was last opened with, ignoring imported entries."""
        opened: Any = {}
        for entry in await self.store.read(summary.session_id, summary.imported, intact=True):
            if entry.kind == EntryKind.OPENED:
                opened = entry.body
        servers = [read_leniently(McpServer, server)[0] for server in opened.get("mcpServers", ())]
        secrets = await self.store.credentials(summary.session_id)
        return list(opened.get("additionalDirectories", ())), restore_secrets(servers, secrets.get("mcp", {}))

    async def close(self) -> None:
        """End the agent, after everything is logged."""
        for session in self._logged_sessions:
            session.is_closing = True
            await session.flush_log()
        await super().close()

    # --- sessions with a log ----------------------------------------------------------------------------------

    @property
    def _agent_info(self) -> dict[str, Any]:
        """The agent's name and version; without one, the name of its command."""
        return to_json(self.info) if self.info else {"name": os.path.basename(self.connection.transport.peer)}

    @property
    def _listed_name(self) -> str | None:
        """The agent's name in the session list."""
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
        """Wait until a session is open and stored; log the losses in translation on the way."""
        self._opening_count += 1
        try:
            session = await opening
        finally:
            self._opening_count -= 1
            losses, self._translation_losses = self._translation_losses, []
        if isinstance(session, LoggedClientSession):
            for text in losses:
                session.note_translation_loss(text)
            await session.wait_stored()
        return session

    def _use_agent(self, connected: ConnectedAgent) -> None:
        super()._use_agent(connected)
        connected.connection.sender.on_translation_note = partial(self._note_translation_loss, connected.connection)

    def _note_translation_loss(self, connection: Connection, text: str) -> None:
        """Log a loss in translation. Its session is unknown: take those with a turn, or else the last one."""
        if self._opening_count:
            self._translation_losses.append(text)
            return
        sessions = [session for session in self._logged_sessions if session.connection is connection]
        busy = [session for session in sessions if session.turn is not None and not session.turn.is_over]
        for session in busy or sessions[-1:]:
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
        session = self._session_type(connection, session_id, cwd, directories, mcp_servers, settings=self._settings)
        method, log_id = "session/new", self._next_log_id
        if result is None:
            method, log_id = self._reopening.get(session_id, ("session/load", None))
        elif isinstance(result, ForkSessionResult):
            method = "session/fork"
        origin = self._fork_origin if method == "session/fork" else None
        session.log_to(self._log_settings, method, self._agent_info, log_id, origin, self._shared_log)
        self._logged_sessions.append(session)
        self._register_session(session, result)
        return session
