"""One client being served by an Agent: the handlers of every method the library serves for the author.

Made for each connection, with a table of handlers built once. Takes messages, keeps the wire state (lifecycle), and
calls the author's function for prompts. Knows nothing of transports.
"""

from __future__ import annotations

import asyncio
import inspect as inspect_
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any

import msgspec
from msgspec import UNSET

from dragoman.dialect.book import side_data
from dragoman.engine.capability import missing, offers
from dragoman.engine.connection import Connection
from dragoman.engine.exchange import Done
from dragoman.engine.handler import Handler, answering
from dragoman.engine.lifecycle import Lifecycle
from dragoman.engine.message import Incoming
from dragoman.errors import Kind, ProtocolError
from dragoman.roles.sessions import OFFICIAL, Session, new_id, now
from dragoman.roles.turn import Turn
from dragoman.schema.auth import AuthenticateResult
from dragoman.schema.base import Empty, Marker, Unknown
from dragoman.schema.config import SessionModeState, SetConfigOptionResult, SetModeResult
from dragoman.schema.initialize import (
    AgentAuthCapabilities,
    AgentCapabilities,
    Implementation,
    InitializeParams,
    InitializeResult,
    McpCapabilities,
    PromptCapabilities,
    SessionCapabilities,
    SystemPromptCapabilities,
)
from dragoman.schema.methods import find
from dragoman.schema.prompt import PromptParams, PromptResult, StopReason
from dragoman.schema.session import (
    ForkSessionResult,
    ListSessionsResult,
    LoadSessionResult,
    NewSessionResult,
    ResumeSessionResult,
    SessionInfo,
)
from dragoman.schema.side import Side
from dragoman.schema.update import AvailableCommandsUpdate, UserMessageChunk

if TYPE_CHECKING:
    from dragoman.roles.agent import Agent

# One page of session/list: enough for any list on a screen, small enough for one frame.
PAGE = 50


class Reception:
    """What one client of an agent is answered with."""

    connection: Connection

    def __init__(self, agent: Agent) -> None:
        self.agent = agent
        self.offered = AgentCapabilities()  # told at initialize
        self.lifecycle = Lifecycle()
        self._running: dict[str, asyncio.Task[Any]] = {}
        served: dict[str, Callable[[Any], Any]] = {
            "initialize": self.initialize,
            "authenticate": self.authenticate,
            "logout": lambda _: Empty(),
            "session/new": self.new,
            "session/load": self.load,
            "session/resume": self.resume,
            "session/list": self.list_sessions,
            "session/fork": self.fork,
            "session/close": self.close,
            "session/delete": self.delete,
            "session/prompt": self.prompt,
            "session/cancel": self.cancel,
            "session/set_mode": self.set_mode,
            "session/set_config_option": self.set_config_option,
        }
        self.handlers: dict[str, Handler] = {name: self._admitted(name, fn) for name, fn in served.items()}
        for name, function in agent.extensions.items():
            self.handlers[name] = self._admitted(name, function)
        self.handlers["session/new"] = self._announcing(self.handlers["session/new"])
        self.handlers["session/load"] = self._announcing(self.handlers["session/load"])
        self.handlers["session/fork"] = self._announcing(self.handlers["session/fork"])
        self.handlers["session/resume"] = self._announcing(self.handlers["session/resume"])
        self.handlers["$/cancel_request"] = self._cancel_request

    def _admitted(self, name: str, function: Callable[[Any], Any]) -> Handler:
        handle = answering(function)
        row = find(Side.AGENT, name)
        gate = row.gate if row is not None and row.gate.startswith("agent.") else ""

        def handler(incoming: Incoming, done: Done) -> Awaitable[None] | None:
            session = getattr(incoming.params, "session_id", None)
            self.lifecycle.admit(name, session if isinstance(session, str) else None)
            if gate and not offers(gate, self.offered):
                what = gate.partition(".")[2]
                raise ProtocolError(
                    Kind.CAPABILITY_UNSUPPORTED,
                    f"{name} needs {what}, which this agent does not offer",
                    {"method": name, "capability": what},
                )
            return handle(incoming, done)

        return handler

    def _announcing(self, handler: Handler) -> Handler:
        """Tell the client which commands there are, right after it learned of the session."""

        def announcing(incoming: Incoming, done: Done) -> Awaitable[None] | None:
            def told(result: Any, error: ProtocolError | None) -> None:
                done(result, error)
                if error is None and self.agent.commands:
                    identity = getattr(result, "session_id", None) or incoming.params.session_id
                    session = self.agent.sessions.get(identity)
                    if session is not None:
                        # In the next pass: a flow of the dialect may still be at work on the answer.
                        asyncio.get_running_loop().call_soon(self._announce, session)

            return handler(incoming, told)

        return announcing

    def _announce(self, session: Session) -> None:
        from dragoman.schema.update import UpdateParams

        update = AvailableCommandsUpdate(available_commands=self.agent.commands)
        self.connection.notify("session/update", UpdateParams(session_id=session.id, update=update))

    def decline(self, incoming: Incoming, done: Done) -> None:
        """A method nobody serves: an error for a request, nothing for a notification."""
        if incoming.is_request:
            kind = Kind.METHOD_NOT_FOUND if incoming.row is None else Kind.CAPABILITY_UNSUPPORTED
            what = f"this agent does not serve {incoming.method}"
            done(None, ProtocolError(kind, what, {"method": incoming.method}))

    def leave(self, _: BaseException) -> None:
        """The client is gone: its turns are being cancelled with the connection."""
        self._running.clear()

    # --- the connection ---------------------------------------------------------------------------------------

    def initialize(self, params: InitializeParams) -> InitializeResult:
        agent = self.agent
        self._check_version(params.protocol_version)
        self._check_required(params)
        self.lifecycle.initialized = True
        spoken = self.connection.speech.dialect.name if self.connection.speech else "v1"
        self.offered = agent.capabilities or self._offered(spoken)
        side: dict[str, Any] = {}
        if agent.instructions:
            side["instructions"] = agent.instructions
        if agent.requires:
            side["requiredClientCapabilities"] = agent.requires
        is_official = spoken in OFFICIAL
        return InitializeResult(
            protocol_version=1,
            agent_capabilities=self.offered,
            auth_methods=agent.auth_methods if agent.auth_methods or is_official else UNSET,
            agent_info=Implementation(name=agent.name, title=agent.title or UNSET, version=agent.version),
            meta={"dragoman": side} if side and not is_official else UNSET,
        )

    def _offered(self, spoken: str) -> AgentCapabilities:
        """What follows from how the agent was declared; dialects that name more here are told that, too."""
        agent = self.agent
        is_official = spoken in OFFICIAL
        side: dict[str, Any] = {"modes": [mode.id for mode in agent.modes]}
        if spoken == "2025.1":
            side |= {"streaming": agent.streaming, "audio": agent.audio}
            if agent.tools is not None:
                side["tools"] = agent.tools
        prompt_side = {"streaming": False, "cancellation": True, "attachments": True}
        may_log_out = bool(agent.auth_methods) or "logout" in agent.extensions
        session_side = {
            "modes": side["modes"],
            "configOptions": [option.id for option in agent.options],
            "persistence": True,
        }
        return AgentCapabilities(
            load_session=True,
            prompt_capabilities=PromptCapabilities(
                image=agent.image,
                audio=agent.audio,
                embedded_context=agent.embedded_context,
                meta=UNSET if spoken != "draft" or agent.streaming else {"dragoman": prompt_side},
            ),
            mcp_capabilities=McpCapabilities(http=False, sse=False),
            session_capabilities=SessionCapabilities(
                list=Marker(),
                resume=Marker(),
                close=Marker(),
                delete=Marker(),
                fork=Marker(),
                additional_directories=Marker(),
                system_prompt=UNSET if is_official else SystemPromptCapabilities(),  # unstable in official v1
                meta=UNSET if is_official else {"dragoman": session_side},
            ),
            auth=AgentAuthCapabilities(logout=Marker()) if may_log_out else UNSET,
            meta=UNSET if is_official else {"dragoman": side},
        )

    def _check_version(self, version: int) -> None:
        """Banjo refuses other versions (seed 003 note 5); everybody else is answered with ours."""
        speech = self.connection.speech
        if speech is not None and speech.dialect.name == "banjo" and version != 1:
            raise ProtocolError(
                Kind.UNSUPPORTED_VERSION, f"version {version} is not supported; use 1", {"supported": [1]}
            )

    def _check_required(self, params: InitializeParams) -> None:
        """The draft: a missing required capability fails initialize, naming what is missing (section 10.3)."""
        lacking = missing(self.agent.requires, params.client_capabilities)
        if lacking:
            raise ProtocolError(
                Kind.CAPABILITY_UNSUPPORTED,
                f"this agent needs the client capabilities {', '.join(lacking)}",
                {"missing": lacking, "requiredClientCapabilities": self.agent.requires},
            )

    def authenticate(self, _: Any) -> AuthenticateResult:
        return AuthenticateResult()

    def _cancel_request(self, incoming: Incoming, _: Done) -> None:
        self.connection.inbound.cancel(incoming.params.request_id)

    # --- sessions ---------------------------------------------------------------------------------------------

    async def new(self, params: Any) -> NewSessionResult:
        session = self._made(params)
        self._set_up(session, params)
        await self._opened(session)
        return NewSessionResult(
            session_id=session.id,
            modes=session.modes or UNSET,
            config_options=session.shown_options or UNSET,
        )

    def _made(self, params: Any) -> Session:
        agent = self.agent
        return Session(
            new_id(),
            _absolute(params.cwd, "cwd"),
            modes=self._modes(),
            options=self._options(),
            streaming=agent.streaming,
            tools=agent.tools,
        )

    async def _opened(self, session: Session) -> None:
        self.agent.sessions[session.id] = session
        self.lifecycle.open(session.id)
        session.bind(self.connection)
        if self.agent.on_open is not None:
            opening = self.agent.on_open(session)
            if inspect_.isawaitable(opening):
                await opening

    def _modes(self) -> SessionModeState | None:
        modes = self.agent.modes
        return SessionModeState(current_mode_id=modes[0].id, available_modes=list(modes)) if modes else None

    def _options(self) -> list[Any]:
        return [msgspec.structs.replace(option) for option in self.agent.options]

    def _set_up(self, session: Session, params: Any) -> None:
        session.directories = [
            _absolute(path, f"additionalDirectories[{index}]")
            for index, path in enumerate(params.additional_directories or ())
        ]
        session.mcp_servers = list(params.mcp_servers or ())
        prompt = getattr(params, "system_prompt", UNSET) or None
        if prompt is not None:
            session.system_prompt = "\n".join(getattr(block, "text", "") for block in prompt.content)

    def find(self, session_id: str) -> Session:
        """The session of this agent with that id."""
        session = self.agent.sessions.get(session_id)
        if session is None:
            raise ProtocolError(
                Kind.SESSION_NOT_FOUND,
                f"there is no session {session_id!r}",
                {"sessionId": session_id, "suggestion": "open one with session/new"},
            )
        return session

    async def _reopen(self, params: Any) -> Session:
        session = self.find(params.session_id)
        cwd = _absolute(params.cwd, "cwd") if params.cwd else session.cwd
        if cwd != session.cwd:
            raise ProtocolError(
                Kind.INVALID_PARAMS, f"session {session.id} belongs to {session.cwd}", {"cwd": session.cwd}
            )
        self._set_up(session, params)
        session.bind(self.connection)
        self.lifecycle.open(session.id)
        return session

    async def load(self, params: Any) -> LoadSessionResult:
        session = await self._reopen(params)
        session.replay()
        await session.flow_control()
        return LoadSessionResult(modes=session.modes or UNSET, config_options=session.shown_options or UNSET)

    async def resume(self, params: Any) -> ResumeSessionResult:
        session = await self._reopen(params)
        return ResumeSessionResult(modes=session.modes or UNSET, config_options=session.shown_options or UNSET)

    async def fork(self, params: Any) -> ForkSessionResult:
        origin = self.find(params.session_id)
        session = self._made(params)
        self._set_up(session, params)
        session.transcript = origin.transcript.copy()
        session.title = origin.title
        await self._opened(session)
        return ForkSessionResult(
            session_id=session.id, modes=session.modes or UNSET, config_options=session.shown_options or UNSET
        )

    def list_sessions(self, params: Any) -> ListSessionsResult:
        found = [s for s in self.agent.sessions.values() if not params.cwd or s.cwd == params.cwd]
        found.reverse()  # the newest first
        start = _cursor(params.cursor)
        page = found[start : start + PAGE]
        more = start + PAGE < len(found)
        return ListSessionsResult(
            sessions=[
                SessionInfo(
                    session_id=s.id,
                    cwd=s.cwd,
                    additional_directories=s.directories or UNSET,
                    title=s.title or UNSET,
                    updated_at=s.updated_at,
                )
                for s in page
            ],
            next_cursor=str(start + PAGE) if more else UNSET,
        )

    async def close(self, params: Any) -> Empty:
        session = self.find(params.session_id)
        await self._stop(session.id)
        await session.terminals.close()
        self.lifecycle.close(session.id)
        return Empty()

    async def delete(self, params: Any) -> Empty:
        session = self.agent.sessions.get(params.session_id)
        if session is not None:
            await self._stop(session.id)
            self.agent.sessions.pop(session.id, None)  # another delete may have been faster
            self.lifecycle.close(session.id)
        return Empty()

    async def _stop(self, session_id: str) -> None:
        task = self._running.get(session_id)
        if task is not None:
            self.cancel_turn(session_id)
            await asyncio.wait({task})

    # --- turns ------------------------------------------------------------------------------------------------

    async def prompt(self, params: PromptParams) -> PromptResult:
        session = self.find(params.session_id)
        self._check_content(params)
        if session.turn is not None:
            raise ProtocolError(Kind.INVALID_STATE, "a turn is already running in this session")
        session.bind(self.connection)
        session.turns += 1
        session.turn = turn = Turn(session, params.prompt)
        session.transcript.end_message()
        for block in params.prompt:
            session.transcript.add(UserMessageChunk(content=block))
        self.lifecycle.begin(session.id)
        task = asyncio.current_task()
        assert task is not None
        self._running[session.id] = task
        try:
            return await self._answer(turn, task)
        finally:
            session.turn = None
            session.updated_at = now()
            session.transcript.end_message()
            self.lifecycle.end(session.id)
            self._running.pop(session.id, None)

    async def _answer(self, turn: Turn, task: asyncio.Task[Any]) -> PromptResult:
        if self.agent.answer is None:
            raise ProtocolError(
                Kind.INTERNAL_ERROR, "this agent has no prompt function; decorate one with @agent.prompt"
            )
        try:
            reason = await self.agent.answer(turn)
        except asyncio.CancelledError:
            task.uncancel()
            turn.cancelled = True
        except ProtocolError:
            if not turn.cancelled:
                raise
        except Exception:
            if not turn.cancelled:  # an error caused by the cancel itself is no error (reference 1.7)
                raise
        else:
            if reason is not None:
                turn.stop_reason = reason
        finally:
            turn.session.finish_message()
            if turn.cancelled:
                for tool in list(turn.open_tools.values()):
                    tool.close_cancelled()
        return turn.result()

    def _check_content(self, params: PromptParams) -> None:
        """Content the agent did not offer to take is refused by its name."""
        offered = {
            "image": self.agent.image,
            "audio": self.agent.audio,
            "resource": self.agent.embedded_context,
        }
        for index, block in enumerate(params.prompt):
            tag = block.tag if isinstance(block, Unknown) else block.__struct_config__.tag
            if not offered.get(str(tag), True):
                raise ProtocolError(
                    Kind.CAPABILITY_UNSUPPORTED,
                    f"this agent takes no {tag} content",
                    {"errors": [{"path": f"prompt[{index}]", "message": f"{tag} is not offered"}]},
                )

    def cancel(self, params: Any) -> None:
        self.cancel_turn(params.session_id, side_data(params).get("reason"))

    def cancel_turn(self, session_id: str, reason: str | None = None) -> None:
        """Cancel the author's code of a running turn; nothing happens when none runs."""
        task = self._running.get(session_id)
        session = self.agent.sessions.get(session_id)
        if task is not None and session is not None and session.turn is not None:
            session.turn.cancelled = True
            session.turn.cancel_reason = reason
            session.turn.stop_reason = StopReason.CANCELLED
            task.cancel()

    def set_mode(self, params: Any) -> SetModeResult:
        self.find(params.session_id).set_mode(params.mode_id)
        return SetModeResult()

    def set_config_option(self, params: Any) -> SetConfigOptionResult:
        session = self.find(params.session_id)
        session.set_option(params.config_id, side_data(params).get("value", params.value), tell=False)
        return SetConfigOptionResult(config_options=session.shown_options)


def _absolute(path: str, member: str) -> str:
    if not path.startswith("/") or "\0" in path:
        raise ProtocolError(
            Kind.INVALID_PARAMS,
            f"{member} must be an absolute path, not {path!r}",
            {"errors": [{"path": member, "message": "not an absolute path"}]},
        )
    return path


def _cursor(cursor: Any) -> int:
    if not cursor:
        return 0
    if not (cursor.isascii() and cursor.isdigit() and len(cursor) < 20):
        raise ProtocolError(Kind.INVALID_PARAMS, f"unknown cursor {cursor!r}; start without one")
    return int(cursor)
