"""The logs of an agent's sessions, for a client with a store: nothing is delivered before it is stored. A session can
be continued later, also with another agent: by session/resume, session/load, or a new session with the transcript.
"""

from __future__ import annotations

import os
from collections.abc import Awaitable, Callable, Mapping, Sequence
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec
from msgspec import UNSET, Raw

from dragoman.engine.connection import Connection
from dragoman.engine.incoming import DoneCallback, Handler, Incoming, to_protocol_error
from dragoman.engine.peer_info import offers
from dragoman.errors import Kind, ProtocolError, StoreFault
from dragoman.ids import new_id
from dragoman.roles.client.open_sessions import open_params
from dragoman.roles.client.session import ClientSession
from dragoman.schema.base import encode, to_json
from dragoman.schema.content import EmbeddedResource, ResourceContents, TextContent
from dragoman.schema.lenient import read_leniently
from dragoman.schema.mcp import McpServer
from dragoman.schema.methods import METHODS, methods_that
from dragoman.schema.session import LoadSessionParams, ResumeSessionParams
from dragoman.session.message import ROLES
from dragoman.store.contract import Entry, EntryKind, Store, Summary
from dragoman.store.replay import build_transcript, render_markdown
from dragoman.store.session_log import SessionLog, opened_body, restore_secrets, strip_secrets

if TYPE_CHECKING:
    from dragoman.roles.client.remote_agent import RemoteAgent

# The end of the transcript that an agent gets in a new session. Characters.
MAX_TRANSCRIPT_CHARACTERS = 200_000

# Errors by which an agent says that it no longer has a session, or cannot do what it offers
# (docs/protocol/peers.md#offered-but-missing).
_SESSION_GONE = frozenset(
    {Kind.SESSION_NOT_FOUND, Kind.SESSION_EXPIRED, Kind.SESSION_CORRUPTED, Kind.RESOURCE_NOT_FOUND}
    | {Kind.METHOD_NOT_FOUND, Kind.INVALID_PARAMS, Kind.INTERNAL_ERROR, Kind.CAPABILITY_UNSUPPORTED}
)

# The entry kind of a use of the workspace, by the prefix of its method.
ENTRY_KINDS = {"fs": EntryKind.FILE, "terminal": EntryKind.TERMINAL}

# Calls that are repeated often and change nothing.
_NOT_LOGGED = frozenset(row.name for row in METHODS.values() if not row.is_logged)

# The logged members of a use; never the content of a file, an environment or an output.
_LOGGED_FIELDS = ("path", "line", "limit", "command", "args", "cwd", "terminal_id", "exit_code", "signal")


class LogSettings(msgspec.Struct, frozen=True, kw_only=True):
    """Where and how sessions are logged. The members after `on_entry` are for the room of a host."""

    store: Store
    on_entry: Callable[[str, Entry], None] | None = None  # gets the log's id and each stored entry
    log: SessionLog | None = None  # a log that others write to as well
    opener: str = "user"  # who opens the sessions
    agent_info: Mapping[str, Any] = MappingProxyType({})  # more members of the agent's info
    real_folder: Callable[[str], str] = os.path.realpath


class ContinuedSession(NamedTuple):
    """A continued session, and how: by session/resume, session/load, or session/new with the transcript."""

    session: ClientSession
    method: str
    reason: str = ""  # the agent's error, if it was asked for the session and did not have it


class LoggedSession:
    """One session, and how its log begins."""

    def __init__(
        self, session: ClientSession, settings: LogSettings, method: str, log_id: str | None, origin: str | None
    ) -> None:
        self.session = session
        self.method = method  # opens the session
        self._settings = settings
        self._origin = origin  # the log to fork
        self._continues_log = log_id is not None
        # Updates that the agent replays while it opens a stored session; some agents do so on resume too
        # (docs/protocol/peers.md#replay).
        self._replayed: list[Any] | None = [] if method in methods_that("reopens") else None
        self._log = settings.log or SessionLog(
            settings.store, log_id or self._create_log_id, on_entries=_each(settings.on_entry)
        )
        self._log.on_failure = self._on_log_failed
        session.log = self._log
        session._receive, session._receive_run = self.receive, self.receive_run

    async def _create_log_id(self) -> str:
        """Return the session's id as the log's id, unless another session has it, as with agents that count."""
        session, store = self.session, self._settings.store
        known = {summary.session_id for summary in await store.sessions()}
        key = session.id if session.id not in known else f"{session.id}-{new_id()[:8]}"
        if self._origin is not None:
            await store.fork(self._origin, key)
        return key

    def log_opened(self, agent_info: Mapping[str, Any], result: Any) -> None:
        """Log that the session is open, and what was replayed, unless the log has it already."""
        session, log, store = self.session, self._log, self._settings.store
        body = opened_body(
            session,
            self.method,
            agent_info,
            result.modes,
            result.config_options or (),
            resolved=linked_folders(session, self._settings.real_folder),
        )
        secrets = strip_secrets(session.mcp_servers)[1]
        keep = (lambda: store.keep_credentials(log.session_id, {"mcp": secrets})) if secrets else None
        log.append(EntryKind.OPENED, body, actor=self._settings.opener, then=keep)
        history, self._replayed = self._replayed, None
        for update in history or ():
            log.append(EntryKind.UPDATE, update)

    def receive(self, update: Any) -> Awaitable[None] | None:
        """Log one update, then deliver it."""
        session, log, keeps_messages = self.session, self._log, self.session._settings.keeps_messages
        if self._replayed is not None:  # a replay is not new
            if not self._continues_log:
                self._replayed.append(update)
            if keeps_messages:
                return session._deliver(update)
            if type(update) not in ROLES:
                session._note_state(update)
            return None
        if keeps_messages:
            log.append(EntryKind.UPDATE, update, then=lambda: session._deliver(update))
        else:  # encoded once, for the log and for those who read it
            note = None if type(update) in ROLES else lambda: session._note_state(update)
            log.append(EntryKind.UPDATE, Raw(encode(update)), then=note)
        return log.wait_for_space() if log.is_full else None

    def receive_run(self, chunks: list[Any]) -> bool | Awaitable[None]:
        """Log text chunks of one message at once; return False, and do nothing, if each is delivered here too."""
        log = self._log
        if self._replayed is not None or self.session._settings.keeps_messages:
            return False
        log.append_run(EntryKind.UPDATE, [Raw(encode(chunk)) for chunk in chunks])
        return log.wait_for_space() if log.is_full else True

    def _on_log_failed(self, error: ProtocolError) -> None:
        """Fail and cancel the turn, because the log cannot be written."""
        turn = self.session.turn
        if turn is not None and not turn.is_over:
            turn._fail(error)
            if self.session.connection.failure is None:
                self.session.cancel("the session cannot be logged")


class SessionLogs:
    """The logs of an agent's sessions."""

    def __init__(self, agent: RemoteAgent, settings: LogSettings) -> None:
        self._agent = agent
        self._settings = settings
        self._logged: dict[ClientSession, LoggedSession] = {}
        self._opening_count = 0  # sessions that are being opened
        self._translation_losses: list[str] = []  # losses in translation meanwhile

    @property
    def _agent_name(self) -> str | None:
        """The agent's name in the session list."""
        info = agent_info(self._agent)
        return info.get("title") or info.get("name")

    # --- opening ----------------------------------------------------------------------------------------------

    def add(self, session: ClientSession, method: str, log_id: str | None, origin: str | None) -> None:
        """Log a session that this method opens. `log_id` is the log to continue, `origin` the log to fork."""
        self._logged[session] = LoggedSession(session, self._settings, method, log_id, origin)

    def log_opened(self, session: ClientSession, result: Any) -> None:
        """Log that a session is open."""
        info = {**agent_info(self._agent), **self._settings.agent_info}
        self._logged[session].log_opened(info, result)

    async def finish_opening(self, opening: Awaitable[ClientSession]) -> ClientSession:
        """Wait until a session is open and stored; log the losses in translation on the way."""
        self._opening_count += 1
        try:
            session = await opening
        finally:
            self._opening_count -= 1
            losses, self._translation_losses = self._translation_losses, []
        for text in losses:
            _log_translation_loss(session, text)
        await session.log.wait_stored()
        return session

    def note_translation_loss(self, connection: Connection, text: str) -> None:
        """Log a loss in translation. Its session is unknown: take those with a turn, or else the last one."""
        if self._opening_count:
            self._translation_losses.append(text)
            return
        sessions = [session for session in self._logged if session.connection is connection]
        busy = [session for session in sessions if session.turn is not None and not session.turn.is_over]
        for session in busy or sessions[-1:]:
            _log_translation_loss(session, text)

    async def find_log_id(self, agent_session: str) -> str | None:
        """Return the log of one of the agent's sessions, or None."""
        for summary in await self._settings.store.sessions():
            if summary.agent_session == agent_session and summary.agent == self._agent_name:
                return summary.session_id
        return None

    async def close(self) -> None:
        """Wait until everything is logged, because the agent will be ended."""
        for session in self._logged:
            session.is_closing = True
            await session.log.flush()

    # --- continuing -------------------------------------------------------------------------------------------

    async def continue_session(
        self,
        log_id: str,
        cwd: str | None,
        mcp_servers: Sequence[McpServer],
        directories: Sequence[str],
        restore_setup: bool,
    ) -> ContinuedSession:
        """Continue a logged session, as `RemoteAgent.continue_session` describes."""
        agent, store = self._agent, self._settings.store
        summary = await store.find(log_id)
        opened = await last_opened(store, summary)
        # An imported log may name any folder; it counts only after the session was opened here.
        folder = cwd or (opened.get("cwd") if summary.imported else summary.cwd) or "."
        if restore_setup:
            known_directories, known_servers = await stored_setup(store, summary)
            directories, mcp_servers = directories or known_directories, mcp_servers or known_servers
        why = ""
        if not await self._owns_agent_session(summary):
            why = "the agent knows only the session it was forked from"
        elif summary.agent_session and summary.agent == self._agent_name:
            for method, gate, kind in _REOPEN_METHODS:
                if not offers(gate, agent.capabilities):
                    continue
                params = open_params(kind, folder, mcp_servers, directories, session_id=summary.agent_session)
                try:
                    session = await agent._reopen_session(method, params, summary.session_id)
                except ProtocolError as error:
                    if error.kind not in _SESSION_GONE or isinstance(error, StoreFault):
                        raise
                    why = error.explanation
                else:
                    return ContinuedSession(session, method)
        text = render_markdown(build_transcript(await store.lines(summary.session_id, intact=True)))
        session = await agent.open_session(
            folder, mcp_servers=mcp_servers, directories=directories, log_id=summary.session_id
        )
        if text:
            session._preamble = [self._transcript_block(summary, text[-MAX_TRANSCRIPT_CHARACTERS:])]
        return ContinuedSession(session, "session/new", why)

    async def _owns_agent_session(self, summary: Summary) -> bool:
        """Return whether the agent's session belongs to this log: a copy of a log names that of the original."""
        if summary.forked_from is None:
            return True
        store = self._settings.store
        try:
            origin = await store.read(summary.forked_from, intact=True)
        except ProtocolError:
            return False  # unknown; sending the transcript is always safe
        opened = [e for e in await store.read(summary.session_id, intact=True) if e.kind == EntryKind.OPENED]
        return bool(opened) and opened[-1] not in origin

    def _transcript_block(self, summary: Summary, text: str) -> Any:
        prompts = self._agent.capabilities.prompt_capabilities
        if prompts and prompts.embedded_context:
            uri = f"dragoman://session/{summary.session_id}/transcript.md"
            return EmbeddedResource(resource=ResourceContents(uri=uri, mime_type="text/markdown", text=text))
        return TextContent(text=f"This is what was said before:\n\n{text}\n\nNow:\n")


def _each(on_entry: Callable[[str, Entry], None] | None) -> Callable[[str, list[Entry]], None] | None:
    """Return a callback for stored entries that passes them on one by one."""
    if on_entry is None:
        return None

    def pass_on(log_id: str, entries: list[Entry]) -> None:
        for entry in entries:
            on_entry(log_id, entry)

    return pass_on


_REOPEN_METHODS: tuple[tuple[str, str, Callable[..., Any]], ...] = (
    ("session/resume", "agent.sessionCapabilities.resume", ResumeSessionParams),
    ("session/load", "agent.loadSession", LoadSessionParams),
)


def agent_info(agent: RemoteAgent) -> dict[str, Any]:
    """Return an agent's name and version; without one, the name of its command."""
    return to_json(agent.info) if agent.info else {"name": os.path.basename(agent.connection.transport.peer)}


async def last_opened(store: Store, summary: Summary) -> dict[str, Any]:
    """Return the body of the entry with which a session was last opened here; {} if it was only imported."""
    opened: Any = {}
    for entry in await store.read(summary.session_id, summary.imported, intact=True):
        if entry.kind == EntryKind.OPENED:
            opened = entry.body
    return opened if isinstance(opened, dict) else {}


async def stored_setup(store: Store, summary: Summary) -> tuple[list[str], list[McpServer]]:
    """Return the folders and servers a session was last opened with, ignoring imported entries."""
    opened = await last_opened(store, summary)
    servers = [read_leniently(McpServer, server)[0] for server in opened.get("mcpServers", ())]
    secrets = await store.credentials(summary.session_id)
    return list(opened.get("additionalDirectories", ())), restore_secrets(servers, secrets.get("mcp", {}))


def linked_folders(session: ClientSession, real_folder: Callable[[str], str]) -> dict[str, str]:
    """Return the real paths of folders behind links, to notice later whether they have changed."""
    folders = ((path, real_folder(path)) for path in session.roots)
    return {path: real for path, real in folders if real != path}


def _log_translation_loss(session: ClientSession, text: str) -> None:
    session.log.append(EntryKind.TRANSLATED, {"message": text}, actor="dragoman")


# --- uses of the workspace ------------------------------------------------------------------------------------


def with_use_logging(
    handlers: dict[str, Handler], find_session: Callable[[str], ClientSession | None]
) -> dict[str, Handler]:
    """Wrap the workspace handlers, so that each use is logged before the agent gets the result."""

    def logged(method: str, handler: Handler) -> Handler:
        def handle(incoming: Incoming, done: DoneCallback) -> Awaitable[None] | None:
            params = incoming.params
            session = find_session(getattr(params, "session_id", None) or "")
            if session is None:
                return handler(incoming, done)

            def log_use(result: Any, error: ProtocolError | None) -> None:
                session.log.append(
                    ENTRY_KINDS[method.partition("/")[0]],
                    _use_body(method, params, result, error),
                    then=lambda: done(result, error),
                    on_failure=lambda fault: done(None, fault),
                )

            try:
                work = handler(incoming, log_use)
            except Exception as error:
                log_use(None, to_protocol_error(error))
                return None
            return None if work is None else _forward_errors(work, log_use)

        return handle

    return {
        method: logged(method, handler)
        for method, handler in handlers.items()
        if method.partition("/")[0] in ENTRY_KINDS and method not in _NOT_LOGGED
    }


def _use_body(method: str, params: Any, result: Any, error: ProtocolError | None) -> dict[str, Any]:
    body: dict[str, Any] = {"method": method}
    for source in (params, result):
        for name in _LOGGED_FIELDS:
            value = getattr(source, name, None)
            if value is not None and value is not UNSET:
                body[name] = value
    if error is not None:
        body["error"] = {"kind": error.kind, "message": error.message}
    return body


async def _forward_errors(work: Awaitable[None], done: DoneCallback) -> None:
    try:
        await work
    except Exception as error:
        done(None, to_protocol_error(error))
