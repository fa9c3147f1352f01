"""The session calls of a client: new, load, resume, fork, list, close, delete, and the unstable archive, status and
title (docs/protocol/sessions.md#lifecycle). Sessions of the store are restored when they are needed.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, TypeVar

import msgspec
from msgspec import UNSET

from dragoman.dialect.reshape import SIDE_DATA_KEY
from dragoman.dialect.side_data import inferred_members, with_side_data
from dragoman.engine.connection import Connection
from dragoman.errors import Kind, ProtocolError
from dragoman.ids import new_id
from dragoman.roles.agent.prompt import AUTO_RESUME, busy_error, is_auto_resumed
from dragoman.roles.agent.session import Session
from dragoman.schema import session as types
from dragoman.schema.base import to_json
from dragoman.schema.config import SessionConfigOption, SessionModeState
from dragoman.schema.initialize import McpCapabilities
from dragoman.schema.lenient import read_leniently
from dragoman.schema.mcp import McpForm, McpServer
from dragoman.schema.update import ConfigOptionUpdate, CurrentModeUpdate, SessionInfoUpdate
from dragoman.store.contract import EntryKind, Store, Summary
from dragoman.store.replay import decode_updates
from dragoman.store.session_log import opened_body, restore_secrets, strip_secrets

if TYPE_CHECKING:
    from dragoman.roles.agent.agent import Agent
    from dragoman.roles.agent.served_client import ServedClient


# Sessions in one page of session/list: enough for a screen, small enough for one frame.
PAGE_SIZE = 50

T = TypeVar("T")


class SessionCalls:
    """The calls of one client about sessions."""

    def __init__(self, client: ServedClient) -> None:
        self._client = client
        self._agent = client.agent
        self._has_auto_resume = any(option.id == AUTO_RESUME for option in client.agent.options)

    async def new(self, params: Any) -> types.NewSessionResult:
        """Handle session/new."""
        session = self._build_session(params)
        origin = self._previous_session(session) if self._has_auto_resume else None
        if origin is not None:
            return types.NewSessionResult(
                session_id=session.id, **_modes_and_options(await self._continue_from(session, origin, params))
            )
        session.modes, session.options = self._initial_modes(), _copy_options(self._agent.options)
        self._apply_params(session, params)
        await self._register_session(session, "opened", session)
        return types.NewSessionResult(session_id=session.id, **_modes_and_options(session))

    async def load(self, params: Any) -> types.LoadSessionResult:
        """Handle session/load: replay the whole history, then answer."""
        session = await self._reopen(params)
        session._replay()
        await session.drain()
        result = types.LoadSessionResult(**_modes_and_options(session))
        return with_side_data(result, workingDirectory=session.cwd) if "cwd" in inferred_members(params) else result

    async def resume(self, params: Any) -> types.ResumeSessionResult:
        """Handle session/resume: like load, without the history."""
        return types.ResumeSessionResult(**_modes_and_options(await self._reopen(params)))

    async def fork(self, params: Any) -> types.ForkSessionResult:
        """Handle session/fork: open a session with the history and settings of another."""
        origin = await self._stored_session(params)
        session = await self._continue_from(self._build_session(params), origin, params)
        return types.ForkSessionResult(session_id=session.id, **_modes_and_options(session))

    async def _continue_from(self, session: Session, origin: Session, params: Any) -> Session:
        """Open a session with the history and settings of another."""
        session.modes = msgspec.structs.replace(origin.modes) if origin.modes else None
        session.options = _copy_options(origin.options)
        session.commands = list(origin.commands)
        session.system_prompt, session.overrides_system_prompt = origin.system_prompt, origin.overrides_system_prompt
        self._apply_params(session, params)
        session.history = origin.history.copy()
        session.title = origin.title
        await self._register_session(
            session, "forked" if self._agent._has_hook("forked") else "opened", session, origin
        )
        return session

    def _previous_session(self, session: Session) -> Session | None:
        """Return the last session in the same folder if auto_resume is on (docs/protocol/dialects.md#banjo-options)."""
        for known in reversed(self._agent.sessions.values()):
            if known.cwd == session.cwd and not known.archived:
                return known if is_auto_resumed(known) else None
        return None

    def _build_session(self, params: Any) -> Session:
        return create_session(self._agent, new_id(), require_absolute(params.cwd, "cwd"))

    async def _stored_session(self, params: Any) -> Session:
        """Return the session of a call, also one that was stored before the agent was restarted."""
        await restore_sessions(self._agent, params.session_id)
        return self._client.find_session(params.session_id)

    async def _register_session(self, session: Session, hook: str, *sessions: Session) -> None:
        client = self._client
        self._agent.sessions[session.id] = session
        client.lifecycle.open_session(session.id)
        session._bind(client.connection)
        try:
            await self._log_opened(session, "session/new" if len(sessions) == 1 else "session/fork", *sessions[1:])
            await self._open_tools(session)
            await self._agent._call_hook(hook, *sessions[: 2 if hook == "forked" else 1])
        except BaseException:
            self._agent.sessions.pop(session.id, None)
            client.lifecycle.close_session(session.id)
            await session.tools.close()
            raise

    async def _open_tools(self, session: Session) -> None:
        """Connect the MCP servers that the client named, unless the agent does that itself."""
        if self._agent.mcp:
            await session.tools.open(session.mcp_servers, self._agent)

    async def _reopen(self, params: Any) -> Session:
        session = await self._stored_session(params)
        # In a dialect whose session/load has no folder, params.cwd is a guess: use the session's own.
        cwd = (
            session.cwd if "cwd" in inferred_members(params) or not params.cwd else require_absolute(params.cwd, "cwd")
        )
        if cwd != session.cwd:
            raise ProtocolError(
                Kind.INVALID_PARAMS, f"session {session.id} belongs to the folder {session.cwd}", {"cwd": session.cwd}
            )
        if session.turn is not None and session.connection.failure is None:
            raise busy_error(session)  # another client that is still connected runs a turn
        self._apply_params(session, params)
        lifecycle = self._client.lifecycle
        was_open = session.id in lifecycle.sessions
        session._bind(self._client.connection)
        lifecycle.open_session(session.id)
        try:
            await self._log_opened(session, "session/load")
            await self._open_tools(session)
            await self._agent._call_hook("reopened", session)
        except BaseException:
            if not was_open:
                lifecycle.close_session(session.id)
            raise
        return session

    async def _log_opened(self, session: Session, method: str, origin: Session | None = None) -> None:
        """Log that the session was opened, reopened or forked."""
        log = session.log
        if log.store is None:
            return
        log.clear_fault()
        if origin is not None:
            await log.store.fork(origin.id, session.id)
        prompt = {"text": session.system_prompt, "overrides": session.overrides_system_prompt}
        body = opened_body(
            session,
            method,
            {"name": self._agent.name},
            session.modes,
            session.options,
            systemPrompt=prompt if session.system_prompt else None,
            title=session.title,
        )
        await log.append_and_wait(EntryKind.OPENED, body, actor="user")
        if secrets := strip_secrets(session.mcp_servers)[1]:
            await log.store.keep_credentials(session.id, {"mcp": secrets})

    def _initial_modes(self) -> SessionModeState | None:
        modes = self._agent.modes
        return SessionModeState(current_mode_id=modes[0].id, available_modes=list(modes)) if modes else None

    def _apply_params(self, session: Session, params: Any) -> None:
        session.directories = [
            require_absolute(path, f"additionalDirectories[{index}]")
            for index, path in enumerate(params.additional_directories or ())
        ]
        offered = self._client.capabilities.mcp_capabilities or None
        session.mcp_servers = check_servers(params.mcp_servers or ())
        check_server_forms(session.mcp_servers, offered)
        prompt = getattr(params, "system_prompt", UNSET) or None
        if prompt is not None:
            self._set_system_prompt(session, prompt)

    def _set_system_prompt(self, session: Session, prompt: types.SystemPrompt) -> None:
        """Set the system prompt, or fail the request (docs/protocol/sessions.md#system-prompt)."""
        offered = self._agent.system_prompt_mode or (
            "" if self._client.dialect.official else types.SystemPromptMode.APPEND
        )
        if prompt.mode not in {offered, types.SystemPromptMode.APPEND if offered else ""}:
            raise ProtocolError(
                Kind.INVALID_PARAMS,
                f"this agent does not support the system prompt mode {prompt.mode}",
                {"errors": [{"path": "systemPrompt.mode", "message": f"{prompt.mode} is not offered"}]},
            )
        session.system_prompt = "\n".join(getattr(block, "text", "") for block in prompt.content)
        session.overrides_system_prompt = prompt.mode == types.SystemPromptMode.OVERRIDE

    # --- other calls ------------------------------------------------------------------------------------------

    async def list_sessions(self, params: Any) -> types.ListSessionsResult:
        """Handle session/list: one page, newest session first. Changes between requests do not shift later pages."""
        await restore_sessions(self._agent)
        before = parse_cursor(params.cursor, math.inf)
        found = [
            session
            for session in self._agent.sessions.values()
            if session._sequence_number < before and is_listed(params, session.cwd, session.archived)
        ]
        found.sort(key=lambda session: session._sequence_number, reverse=True)
        page = found[:PAGE_SIZE]
        more = len(found) > PAGE_SIZE
        return types.ListSessionsResult(
            sessions=[_session_info(session) for session in page],
            next_cursor=str(page[-1]._sequence_number) if more else UNSET,
        )

    async def close(self, params: Any) -> types.CloseSessionResult:
        """Handle session/close: cancel the turn and release the session."""
        await self._close_session(self._client.find_session(params.session_id))
        return types.CloseSessionResult()

    async def delete(self, params: Any) -> types.DeleteSessionResult:
        """Handle session/delete. Deleting a session that does not exist is no error."""
        session = self._agent.sessions.pop(params.session_id, None)  # another delete may have been faster
        if session is not None:
            await self._close_session(session)
            await self._agent._call_hook("deleted", session)
        if self._agent.store is not None:
            await self._agent.store.delete(params.session_id)
        return types.DeleteSessionResult()

    async def _close_session(self, session: Session) -> None:
        await self._client.prompt_calls.cancel_and_wait(session)
        if session.is_bound:
            await session.terminals.close()
        if session._background is not None:
            await session._background.close()
        await session.tools.close()
        self._client.lifecycle.close_session(session.id)
        await self._agent._call_hook("closed", session)

    async def archive(self, params: Any) -> types.ArchiveSessionResult:
        """Handle session/archive: close the session and hide it from the list."""
        session = await self._stored_session(params)
        await self._close_session(session)
        await _set_archived(session, True)
        return types.ArchiveSessionResult()

    async def unarchive(self, params: Any) -> types.UnarchiveSessionResult:
        """Handle session/unarchive."""
        await _set_archived(await self._stored_session(params), False)
        return types.UnarchiveSessionResult()

    async def status(self, params: Any) -> types.SessionStatusResult:
        """Handle session/status: whether the session is open on this connection."""
        session = await self._stored_session(params)
        is_open = session.id in self._client.lifecycle.sessions
        return types.SessionStatusResult(status=types.SessionStatus.OPEN if is_open else types.SessionStatus.SAVED)

    async def set_title(self, params: Any) -> types.SetTitleResult:
        """Handle session/set_title."""
        session = await self._stored_session(params)
        title = check_title(params.title)
        session.set_title(title)
        await session.log.wait_stored()
        return types.SetTitleResult(title=title)


def _modes_and_options(session: Session) -> dict[str, Any]:
    return {"modes": session.modes or UNSET, "config_options": session._options_for_client or UNSET}


def _copy_options(options: list[SessionConfigOption]) -> list[SessionConfigOption]:
    return [msgspec.structs.replace(option) for option in options]


def require_absolute(path: str, member: str) -> str:
    """Return the path. Raise invalid_params unless it is absolute."""
    if not path.startswith("/") or "\0" in path:
        raise ProtocolError(
            Kind.INVALID_PARAMS,
            f"{member} must be an absolute path, not {path!r}",
            {"errors": [{"path": member, "message": "not an absolute path"}]},
        )
    return path


def check_servers(servers: Sequence[McpServer]) -> list[McpServer]:
    """Return the MCP servers. Raise invalid_params for one that nobody can start or reach."""
    names: set[str] = set()
    for index, server in enumerate(servers):
        if server.name in names:  # its tools could not be told apart (docs/protocol/mcp.md#names)
            raise ProtocolError(
                Kind.INVALID_PARAMS,
                f"mcpServers[{index}].name: there are two MCP servers {server.name!r}; give each its own name",
                {"errors": [{"path": f"mcpServers[{index}].name", "message": "not unique"}]},
            )
        names.add(server.name)
        if member := server.missing_member:
            path = f"mcpServers[{index}].{member}"
            what = f"{server.form} is not a known type" if member == "type" else "is missing"
            raise ProtocolError(
                Kind.INVALID_PARAMS,
                f"{path}: {what}; the MCP server {server.name!r} needs command, args and env, or type, url and headers",
                {"errors": [{"path": path, "message": what}]},
            )
    return list(servers)


def check_server_forms(servers: Sequence[McpServer], offered: McpCapabilities | None) -> None:
    """Raise capability_unsupported for a server of a form that the agent did not announce."""
    for index, server in enumerate(servers):
        if server.form != McpForm.STDIO and getattr(offered, server.form, False) is not True:
            raise ProtocolError(
                Kind.CAPABILITY_UNSUPPORTED,
                f"this agent does not support {server.form} MCP servers; leave out {server.name!r}",
                {"errors": [{"path": f"mcpServers[{index}].type", "message": f"{server.form} is not offered"}]},
            )


def create_session(agent: Agent, id: str, cwd: str) -> Session:
    """Create a session with what the agent offers."""
    return Session(id, cwd, commands=agent.commands, streaming=agent.streaming, tools=agent.tools, store=agent.store)


async def restore_sessions(agent: Agent, session_id: str | None = None) -> None:
    """Add the sessions of the store to the agent, and load the history and settings of one of them."""
    store = agent.store
    if store is None:
        return
    if session_id not in agent.sessions:
        if session_id is not None:
            await _raise_if_expired(store, session_id)
        for summary in reversed(await store.sessions()):
            if summary.session_id not in agent.sessions:
                agent.sessions[summary.session_id] = _session_from_summary(agent, summary)
    known = agent.sessions.get(session_id or "")
    if known is not None and not known._is_restored:
        await _restore(known, store)


def _session_from_summary(agent: Agent, summary: Summary) -> Session:
    session = create_session(agent, summary.session_id, summary.cwd or "/")
    session.title = summary.title
    session.updated_at = summary.updated_at
    session.turn_count = summary.turns
    session.archived = summary.archived
    session._is_restored = False
    return session


async def _restore(session: Session, store: Store) -> None:
    """Load settings and history from the log. Raises session_corrupted and other store errors."""
    lines = await store.lines(session.id)
    opened: dict[str, Any] = {}
    for line in lines:
        if line.find(b'"kind":"opened"', 0, 60) >= 0:
            opened |= msgspec.json.decode(line)["body"]
    session.directories = list(opened.get("additionalDirectories", ()))
    servers = [read_leniently(McpServer, server)[0] for server in opened.get("mcpServers", ())]
    session.modes = read_leniently(SessionModeState, opened["modes"])[0] if "modes" in opened else None
    session.options = [read_leniently(SessionConfigOption, option)[0] for option in opened.get("configOptions", ())]
    prompt = opened.get("systemPrompt", {})
    session.system_prompt, session.overrides_system_prompt = prompt.get("text", ""), bool(prompt.get("overrides"))
    for update in decode_updates(lines):
        _apply_stored_update(session, update)
    session.mcp_servers = restore_secrets(servers, (await store.credentials(session.id)).get("mcp", {}))
    session._is_restored = True


def _apply_stored_update(session: Session, update: Any) -> None:
    if isinstance(update, CurrentModeUpdate) and session.modes is not None:
        session.modes.current_mode_id = update.current_mode_id
    elif isinstance(update, ConfigOptionUpdate):
        session.options = list(update.config_options)
    elif isinstance(update, SessionInfoUpdate) and SIDE_DATA_KEY in (update.meta or {}):
        session.archived = bool((update.meta or {})[SIDE_DATA_KEY].get("archived", session.archived))
        return
    session.history.add(update)


def log_translation_loss(agent: Agent, connection: Connection, text: str) -> None:
    """Log a loss in translation. Its session is unknown: take those with a turn, or else the last one."""
    sessions = [session for session in agent.sessions.values() if session.is_bound and session.connection is connection]
    for session in [session for session in sessions if session.turn is not None] or sessions[-1:]:
        session.log.append(EntryKind.TRANSLATED, {"message": text}, actor="dragoman")


async def _raise_if_expired(store: Store, session_id: str) -> None:
    # An expired session must give its own error, not session_not_found.
    try:
        await store.lines(session_id, limit=1)
    except ProtocolError as error:
        if error.kind != "session_not_found":
            raise


async def _set_archived(session: Session, archived: bool) -> None:
    session._clear_log_fault()
    update = SessionInfoUpdate(meta={SIDE_DATA_KEY: {"archived": archived}})
    await session.log.append_and_wait(EntryKind.UPDATE, to_json(update), actor="user")
    session.archived = archived


def is_listed(params: Any, cwd: str | None, archived: bool) -> bool:
    """Tell whether session/list with these params lists a session in this folder."""
    which = params.archived or types.ArchiveFilter.EXCLUDE
    is_chosen = which == types.ArchiveFilter.INCLUDE or archived == (which == types.ArchiveFilter.ONLY)
    return is_chosen and (not params.cwd or cwd == params.cwd)


def _session_info(session: Session) -> types.SessionInfo:
    return types.SessionInfo(
        session_id=session.id,
        cwd=session.cwd,
        additional_directories=session.directories or UNSET,
        title=session.title or UNSET,
        updated_at=session.updated_at,
        archived=True if session.archived else UNSET,
    )


def check_title(text: str) -> str:
    """Return a title without blanks around it. Raise invalid_params if nothing is left."""
    if not (title := text.strip()):
        errors = [{"path": "title", "message": "empty"}]
        raise ProtocolError(Kind.INVALID_PARAMS, "a title cannot be empty", {"errors": errors})
    return title


def parse_cursor(cursor: Any, first: T) -> int | T:
    """Return the number in the cursor of session/list; `first` without a cursor."""
    if not cursor:
        return first
    if not (cursor.isascii() and cursor.isdigit() and len(cursor) < 20):
        raise ProtocolError(Kind.INVALID_PARAMS, f"unknown cursor {cursor!r}; start without a cursor")
    return int(cursor)
