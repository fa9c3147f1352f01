"""Open sessions for a client: new, load, resume and fork (docs/protocol/sessions.md#lifecycle), also from the store."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec
from msgspec import UNSET

from dragoman.dialect.side_data import inferred_members, with_side_data
from dragoman.engine.connection import Connection
from dragoman.errors import Kind, ProtocolError
from dragoman.ids import new_id
from dragoman.roles.agent.logged_session import LoggedSession
from dragoman.roles.agent.prompt import busy_error
from dragoman.roles.agent.responders import AUTO_RESUME, is_auto_resumed
from dragoman.roles.agent.session import Session
from dragoman.schema.config import SessionConfigOption, SessionModeState
from dragoman.schema.session import (
    ForkSessionResult,
    LoadSessionResult,
    NewSessionResult,
    ResumeSessionResult,
    SystemPrompt,
    SystemPromptMode,
)
from dragoman.store.contract import EntryKind, Store

if TYPE_CHECKING:
    from dragoman.roles.agent.agent import Agent
    from dragoman.roles.agent.served_client import ServedClient


class OpenCalls:
    """The calls of one client that open sessions."""

    def __init__(self, client: ServedClient) -> None:
        self._client = client
        self._agent = client.agent
        self._has_auto_resume = any(option.id == AUTO_RESUME for option in client.agent.options)

    async def new(self, params: Any) -> NewSessionResult:
        """Handle session/new."""
        session = self._build_session(params)
        origin = self._previous_session(session) if self._has_auto_resume else None
        if origin is not None:
            return NewSessionResult(
                session_id=session.id, **_modes_and_options(await self._continue_from(session, origin, params))
            )
        session.modes, session.options = self._initial_modes(), _copy_options(self._agent.options)
        self._apply_params(session, params)
        await self._register_session(session, "opened", session)
        return NewSessionResult(session_id=session.id, **_modes_and_options(session))

    async def load(self, params: Any) -> LoadSessionResult:
        """Handle session/load: replay the whole history, then answer."""
        session = await self._reopen(params)
        session.replay()
        await session.drain()
        result = LoadSessionResult(**_modes_and_options(session))
        return with_side_data(result, workingDirectory=session.cwd) if "cwd" in inferred_members(params) else result

    async def resume(self, params: Any) -> ResumeSessionResult:
        """Handle session/resume: like load, without the history."""
        return ResumeSessionResult(**_modes_and_options(await self._reopen(params)))

    async def fork(self, params: Any) -> ForkSessionResult:
        """Handle session/fork: open a session with the history and settings of another."""
        await self._restore(params.session_id)
        origin = self._client.find_session(params.session_id)
        session = await self._continue_from(self._build_session(params), origin, params)
        return ForkSessionResult(session_id=session.id, **_modes_and_options(session))

    async def _continue_from(self, session: Session, origin: Session, params: Any) -> Session:
        """Open a session with the history and settings of another."""
        session.modes = msgspec.structs.replace(origin.modes) if origin.modes else None
        session.options = _copy_options(origin.options)
        session.commands = list(origin.commands)
        session.system_prompt, session.overrides_system_prompt = origin.system_prompt, origin.overrides_system_prompt
        self._apply_params(session, params)
        session.history = origin.history.copy()
        session.title = origin.title
        await self._register_session(session, "forked" if self._agent.has_hook("forked") else "opened", session, origin)
        return session

    def _previous_session(self, session: Session) -> Session | None:
        """Return the last session in the same folder if auto_resume is on (docs/protocol/dialects.md#banjo-options)."""
        for known in reversed(self._agent.sessions.values()):
            if known.cwd == session.cwd and not known.archived:
                return known if is_auto_resumed(known) else None
        return None

    def _build_session(self, params: Any) -> Session:
        agent = self._agent
        cwd = require_absolute(params.cwd, "cwd")
        more: dict[str, Any] = {"commands": agent.commands, "streaming": agent.streaming, "tools": agent.tools}
        if agent.store is None:
            return Session(new_id(), cwd, **more)
        from dragoman.roles.agent.logged_session import LoggedSession

        return LoggedSession(new_id(), cwd, **more).log_to(agent.store)

    async def _restore(self, session_id: str) -> None:
        if self._agent.store is not None:
            await restore_sessions(self._agent, session_id)

    async def _register_session(self, session: Session, hook: str, *sessions: Session) -> None:
        client = self._client
        self._agent.sessions[session.id] = session
        client.lifecycle.open_session(session.id)
        session.bind(client.connection)
        try:
            await self._log_opened(session, "session/new" if len(sessions) == 1 else "session/fork", *sessions[1:])
            await self._agent.call_hook(hook, *sessions[: 2 if hook == "forked" else 1])
        except BaseException:
            self._agent.sessions.pop(session.id, None)
            client.lifecycle.close_session(session.id)
            raise

    async def _reopen(self, params: Any) -> Session:
        await self._restore(params.session_id)
        session = self._client.find_session(params.session_id)
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
        session.bind(self._client.connection)
        lifecycle.open_session(session.id)
        try:
            await self._log_opened(session, "session/load")
            await self._agent.call_hook("reopened", session)
        except BaseException:
            if not was_open:
                lifecycle.close_session(session.id)
            raise
        return session

    async def _log_opened(self, session: Any, method: str, origin: Session | None = None) -> None:
        if self._agent.store is not None:
            await session.log_opened(method, self._agent.name, origin)

    def _initial_modes(self) -> SessionModeState | None:
        modes = self._agent.modes
        return SessionModeState(current_mode_id=modes[0].id, available_modes=list(modes)) if modes else None

    def _apply_params(self, session: Session, params: Any) -> None:
        session.directories = [
            require_absolute(path, f"additionalDirectories[{index}]")
            for index, path in enumerate(params.additional_directories or ())
        ]
        session.mcp_servers = list(params.mcp_servers or ())
        prompt = getattr(params, "system_prompt", UNSET) or None
        if prompt is not None:
            self._set_system_prompt(session, prompt)

    def _set_system_prompt(self, session: Session, prompt: SystemPrompt) -> None:
        """Set the system prompt, or fail the request (docs/protocol/sessions.md#system-prompt)."""
        offered = self._agent.system_prompt_mode or ("" if self._client.dialect.official else SystemPromptMode.APPEND)
        if prompt.mode not in {offered, SystemPromptMode.APPEND if offered else ""}:
            raise ProtocolError(
                Kind.INVALID_PARAMS,
                f"this agent does not support the system prompt mode {prompt.mode}",
                {"errors": [{"path": "systemPrompt.mode", "message": f"{prompt.mode} is not offered"}]},
            )
        session.system_prompt = "\n".join(getattr(block, "text", "") for block in prompt.content)
        session.overrides_system_prompt = prompt.mode == SystemPromptMode.OVERRIDE


def _modes_and_options(session: Session) -> dict[str, Any]:
    return {"modes": session.modes or UNSET, "config_options": session.options_for_client or UNSET}


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


async def restore_sessions(agent: Agent, session_id: str | None = None) -> None:
    """Add the sessions of the store to the agent, and load the history and settings of one of them."""
    store = agent.store
    if store is None:
        return
    known = agent.sessions.get(session_id or "")
    if known is None:
        if session_id is not None:
            await _raise_if_expired(store, session_id)
        for summary in reversed(await store.sessions()):
            if summary.session_id not in agent.sessions:
                agent.sessions[summary.session_id] = LoggedSession.from_summary(agent, store, summary)
        known = agent.sessions.get(session_id or "")
    if isinstance(known, LoggedSession):
        await known.restore()


def log_translation_loss(agent: Agent, connection: Connection, text: str) -> None:
    """Log a loss in translation. Its session is unknown: take those with a turn, or else the last one."""
    sessions = [
        session
        for session in agent.sessions.values()
        if isinstance(session, LoggedSession) and session.is_bound and session.connection is connection
    ]
    for session in [session for session in sessions if session.turn is not None] or sessions[-1:]:
        session.log.append(EntryKind.TRANSLATED, {"message": text}, actor="dragoman")


async def _raise_if_expired(store: Store, session_id: str) -> None:
    # An expired session must give its own error, not session_not_found.
    try:
        await store.lines(session_id, limit=1)
    except ProtocolError as error:
        if error.kind != "session_not_found":
            raise
