"""Opening sessions for a client: new, load, resume and fork, as the author declared them (reference 1.5).

Takes params, makes or finds Sessions, binds them to the client and gives what it must know of them. Above is the
reception, which guards and announces; below are the sessions.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from dragoman.engine.connection import Connection
from dragoman.errors import ProtocolError
from dragoman.roles.agent.logged_session import LoggedSession
from dragoman.store.contract import EntryKind, Store

if TYPE_CHECKING:
    from dragoman.roles.agent.agent import Agent

from typing import TYPE_CHECKING, Any

import msgspec
from msgspec import UNSET

from dragoman.dialect.side_data import inferred, noted
from dragoman.errors import Kind
from dragoman.roles.agent.prompt import is_busy
from dragoman.roles.agent.session import OFFICIAL, Session, new_id
from dragoman.roles.agent.voices import AUTO_RESUME, goes_on
from dragoman.schema.config import SessionConfigOption, SessionModeState
from dragoman.schema.session import (
    ForkSessionResult,
    LoadSessionResult,
    NewSessionResult,
    ResumeSessionResult,
    SystemPrompt,
    SystemPromptMode,
)

if TYPE_CHECKING:
    from dragoman.roles.agent.served_client import Reception


class Opening:
    """How one client's sessions are opened."""

    def __init__(self, reception: Reception) -> None:
        self._reception = reception
        self._agent = reception.agent
        self._resumes = any(option.id == AUTO_RESUME for option in reception.agent.options)

    async def new(self, params: Any) -> NewSessionResult:
        """session/new."""
        session = self._made(params)
        origin = self._before(session) if self._resumes else None
        if origin is not None:
            return NewSessionResult(session_id=session.id, **_settings(await self._go_on(session, origin, params)))
        session.modes, session.options = self._modes(), _copies(self._agent.options)
        self._set_up(session, params)
        await self._enter(session, "opened", session)
        return NewSessionResult(session_id=session.id, **_settings(session))

    async def load(self, params: Any) -> LoadSessionResult:
        """session/load: the whole history first, then the answer."""
        session = await self._reopen(params)
        session.replay()
        await session.flow_control()
        result = LoadSessionResult(**_settings(session))
        return noted(result, workingDirectory=session.cwd) if "cwd" in inferred(params) else result

    async def resume(self, params: Any) -> ResumeSessionResult:
        """session/resume: the same without the history."""
        return ResumeSessionResult(**_settings(await self._reopen(params)))

    async def fork(self, params: Any) -> ForkSessionResult:
        """session/fork: a new session with the history and the settings of another."""
        await self._remember(params.session_id)
        origin = self._reception.find(params.session_id)
        session = await self._go_on(self._made(params), origin, params)
        return ForkSessionResult(session_id=session.id, **_settings(session))

    async def _go_on(self, session: Session, origin: Session, params: Any) -> Session:
        """Begin a session with the history and the settings of another."""
        session.modes = msgspec.structs.replace(origin.modes) if origin.modes else None
        session.options = _copies(origin.options)
        session.commands = list(origin.commands)
        session.system_prompt, session.overrides_prompt = origin.system_prompt, origin.overrides_prompt
        self._set_up(session, params)
        session.transcript = origin.transcript.copy()
        session.title = origin.title
        await self._enter(session, "forked" if self._agent.has_hook("forked") else "opened", session, origin)
        return session

    def _before(self, session: Session) -> Session | None:
        """The last session in the same folder, where it is set to be gone on with (seed 003: auto_resume)."""
        for known in reversed(self._agent.sessions.values()):
            if known.cwd == session.cwd and not known.archived:
                return known if goes_on(known) else None
        return None

    def _made(self, params: Any) -> Session:
        agent = self._agent
        cwd = absolute(params.cwd, "cwd")
        more: dict[str, Any] = {"commands": agent.commands, "streaming": agent.streaming, "tools": agent.tools}
        if agent.store is None:
            return Session(new_id(), cwd, **more)
        from dragoman.roles.agent.logged_session import LoggedSession

        return LoggedSession(new_id(), cwd, **more).log_to(agent.store)

    async def _remember(self, session_id: str) -> None:
        """A session of an agent that was restarted meanwhile."""
        if self._agent.store is not None:
            await remember(self._agent, session_id)

    async def _enter(self, session: Session, hook: str, *known: Session) -> None:
        reception = self._reception
        self._agent.sessions[session.id] = session
        reception.lifecycle.open(session.id)
        session.bind(reception.connection)
        try:
            await self._note(session, "session/new" if len(known) == 1 else "session/fork", *known[1:])
            await self._agent.call_hook(hook, *known[: 2 if hook == "forked" else 1])
        except BaseException:
            self._agent.sessions.pop(session.id, None)
            reception.lifecycle.close(session.id)
            raise

    async def _reopen(self, params: Any) -> Session:
        await self._remember(params.session_id)
        session = self._reception.find(params.session_id)
        # A dialect in which session/load names no folder has one guessed: the session knows its own.
        cwd = session.cwd if "cwd" in inferred(params) or not params.cwd else absolute(params.cwd, "cwd")
        if cwd != session.cwd:
            raise ProtocolError(
                Kind.INVALID_PARAMS, f"session {session.id} belongs to {session.cwd}", {"cwd": session.cwd}
            )
        if session.turn is not None and session.connection.failure is None:
            raise is_busy(session)  # of another client, which is still there
        self._set_up(session, params)
        lifecycle = self._reception.lifecycle
        was_open = session.id in lifecycle.sessions
        session.bind(self._reception.connection)
        lifecycle.open(session.id)
        try:
            await self._note(session, "session/load")
            await self._agent.call_hook("reopened", session)
        except BaseException:
            if not was_open:
                lifecycle.close(session.id)
            raise
        return session

    async def _note(self, session: Any, how: str, origin: Session | None = None) -> None:
        if self._agent.store is not None:
            await session.opened(how, self._agent.name, origin)

    def _modes(self) -> SessionModeState | None:
        modes = self._agent.modes
        return SessionModeState(current_mode_id=modes[0].id, available_modes=list(modes)) if modes else None

    def _set_up(self, session: Session, params: Any) -> None:
        session.directories = [
            absolute(path, f"additionalDirectories[{index}]")
            for index, path in enumerate(params.additional_directories or ())
        ]
        session.mcp_servers = list(params.mcp_servers or ())
        prompt = getattr(params, "system_prompt", UNSET) or None
        if prompt is not None:
            self._instruct(session, prompt)

    def _instruct(self, session: Session, prompt: SystemPrompt) -> None:
        """A system prompt that cannot be applied must fail the request (reference 1.5)."""
        taken = self._agent.system_prompt or ("" if self._reception.spoken in OFFICIAL else SystemPromptMode.APPEND)
        if prompt.mode not in {taken, SystemPromptMode.APPEND if taken else ""}:
            raise ProtocolError(
                Kind.INVALID_PARAMS,
                f"this agent cannot {prompt.mode} a system prompt",
                {"errors": [{"path": "systemPrompt.mode", "message": f"{prompt.mode} is not offered"}]},
            )
        session.system_prompt = "\n".join(getattr(block, "text", "") for block in prompt.content)
        session.overrides_prompt = prompt.mode == SystemPromptMode.OVERRIDE


def _settings(session: Session) -> dict[str, Any]:
    return {"modes": session.modes or UNSET, "config_options": session.shown_options or UNSET}


def _copies(options: list[SessionConfigOption]) -> list[SessionConfigOption]:
    return [msgspec.structs.replace(option) for option in options]


def absolute(path: str, member: str) -> str:
    """The path, which must be absolute."""
    if not path.startswith("/") or "\0" in path:
        raise ProtocolError(
            Kind.INVALID_PARAMS,
            f"{member} must be an absolute path, not {path!r}",
            {"errors": [{"path": member, "message": "not an absolute path"}]},
        )
    return path


async def remember(agent: Agent, session_id: str | None = None) -> None:
    """Bring the sessions of an agent's store back, all of them into its list and one of them whole."""
    store = agent.store
    if store is None:
        return
    known = agent.sessions.get(session_id or "")
    if known is None:
        if session_id is not None:
            await _check(store, session_id)
        for summary in reversed(await store.sessions()):
            if summary.session_id not in agent.sessions:
                agent.sessions[summary.session_id] = LoggedSession.listed(agent, store, summary)
        known = agent.sessions.get(session_id or "")
    if isinstance(known, LoggedSession):
        await known.recall()


def note_translated(agent: Agent, connection: Connection, text: str) -> None:
    """Something was lost in translation. Nobody says in which session: those with a turn, or else the last one."""
    there = [
        session
        for session in agent.sessions.values()
        if isinstance(session, LoggedSession) and session.is_bound and session.connection is connection
    ]
    for session in [session for session in there if session.turn is not None] or there[-1:]:
        session.chronicle.note(EntryKind.TRANSLATED, {"message": text}, actor="dragoman")


async def _check(store: Store, session_id: str) -> None:
    """A session that expired is told apart from one that never was."""
    try:
        await store.lines(session_id, limit=1)
    except ProtocolError as error:
        if error.kind != "session_not_found":
            raise
