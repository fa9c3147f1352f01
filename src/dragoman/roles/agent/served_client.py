"""One client being served by an Agent: the table of handlers, and what stands before each of them.

Made for each connection. A message goes through the author's middleware, is let in if the state of the connection, the
capabilities and the login allow it, and is answered by the part that serves it: introduction, login, opening,
catalogue, prompting, or a function of the author's. Knows nothing of transports.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextvars import ContextVar
from functools import cached_property
from typing import TYPE_CHECKING, Any

from msgspec import UnsetType

from dragoman.engine.connection import Connection
from dragoman.engine.handler import Handler, make_handler
from dragoman.engine.incoming import Incoming
from dragoman.engine.lifecycle import Lifecycle
from dragoman.engine.peer_info import offers
from dragoman.engine.pending import DoneCallback
from dragoman.errors import Kind, ProtocolError
from dragoman.roles.agent.auth import ClientLogin, lenient_params, requires_login
from dragoman.roles.agent.initialize import answer_initialize
from dragoman.roles.agent.open_session import OpenCalls
from dragoman.roles.agent.prompt import PromptCalls
from dragoman.roles.agent.session import Session
from dragoman.schema.initialize import AgentCapabilities
from dragoman.schema.methods import find_method
from dragoman.schema.side import Side
from dragoman.wire.envelope import Id

if TYPE_CHECKING:
    from dragoman.roles.agent.agent import Agent
    from dragoman.roles.agent.list_sessions import SessionCalls
    from dragoman.roles.agent.providers import ProviderCalls


class CurrentRequest:
    """A request that is being served: who asked, and under which id."""

    def __init__(self, connection: Connection, id: Id) -> None:
        self.connection = connection
        self.id = id

    async def request(self, method: str, params: Any) -> Any:
        """Ask the client whose request this is."""
        return await self.connection.request(method, params)

    def notify(self, method: str, params: Any) -> None:
        """Tell the client whose request this is."""
        self.connection.notify(method, params)


_current: ContextVar[CurrentRequest | None] = ContextVar("dragoman_served", default=None)


async def run_with_request(request: CurrentRequest, work: Awaitable[None]) -> None:
    """Do the work of a handler, with its request named."""
    token = _current.set(request)
    try:
        await work
    finally:
        _current.reset(token)


def current_request() -> CurrentRequest | None:
    """The request that is being served here, if one is."""
    return _current.get()


# After these the client knows a session, and hears which commands there are.
_OPEN_METHODS = ("session/new", "session/load", "session/fork", "session/resume")

# Nothing is asked in these about the request itself.
_WITHOUT_CURRENT_REQUEST = frozenset({"initialize", "session/prompt", "session/cancel"})


class ServedClient:
    """What one client of an agent is answered with."""

    connection: Connection

    def __init__(self, agent: Agent) -> None:
        self.agent = agent
        self.capabilities = AgentCapabilities()  # told at initialize
        self.lifecycle = Lifecycle()
        self.login = ClientLogin(self)
        self.open_calls = OpenCalls(self)
        self.prompt_calls = PromptCalls(self)
        served = {name: make_handler(function) for name, function in self._method_table().items()}
        served.setdefault("session/prompt", self.prompt_calls.prompt)
        handlers = {name: self._with_checks(name, handler) for name, handler in served.items()}
        for name in _OPEN_METHODS:
            handlers[name] = self._with_commands_update(handlers[name])
        handlers["authenticate"] = self._with_lenient_params(handlers["authenticate"])
        self.handlers = {
            name: self._with_current_request(name, self._with_middleware(handler)) for name, handler in handlers.items()
        }
        self.handlers["session/prompt"] = self.prompt_calls.with_cancellation(self.handlers["session/prompt"])
        self.fallback = self._with_middleware(self.reject_unknown)

    def _method_table(self) -> dict[str, Callable[[Any], Any]]:
        return {
            "initialize": lambda params: answer_initialize(self, params),
            "authenticate": self.login.authenticate,
            "logout": self.login.logout,
            "auth/status": self.login.status,
            "session/new": self.open_calls.new,
            "session/load": self.open_calls.load,
            "session/resume": self.open_calls.resume,
            "session/fork": self.open_calls.fork,
            "session/list": lambda params: self.session_calls.list_sessions(params),
            "session/close": lambda params: self.session_calls.close(params),
            "session/delete": lambda params: self.session_calls.delete(params),
            "session/archive": lambda params: self.session_calls.archive(params),
            "session/unarchive": lambda params: self.session_calls.unarchive(params),
            "session/status": lambda params: self.session_calls.status(params),
            "session/set_title": lambda params: self.session_calls.set_title(params),
            "providers/list": lambda params: self.provider_calls.list(params),
            "providers/set": lambda params: self.provider_calls.set(params),
            "providers/disable": lambda params: self.provider_calls.disable(params),
            "session/cancel": self.prompt_calls.cancel,
            "session/set_mode": self.prompt_calls.set_mode,
            "session/set_config_option": self.prompt_calls.set_config_option,
            **self.agent.method_handlers,
        }

    @cached_property
    def session_calls(self) -> SessionCalls:
        """Lists of sessions; loaded when a client first asks for one."""
        from dragoman.roles.agent.list_sessions import SessionCalls

        return SessionCalls(self)

    @cached_property
    def provider_calls(self) -> ProviderCalls:
        """Model providers; loaded when a client first asks for them."""
        from dragoman.roles.agent.providers import ProviderCalls

        return ProviderCalls(self.agent)

    @property
    def dialect(self) -> str:
        """The name of the client's dialect."""
        speech = self.connection.codec
        return speech.dialect.name if speech is not None else "v1"

    def find_open_session(self, session_id: str) -> Session:
        """The session with that id, which this client must have opened."""
        session = self.find_session(session_id)
        if session_id not in self.lifecycle.sessions:
            raise ProtocolError(
                Kind.INVALID_STATE,
                f"session {session_id!r} is not open on this connection; load or resume it first",
                {"sessionId": session_id},
            )
        return session

    def find_session(self, session_id: str) -> Session:
        """The session of this agent with that id."""
        session = self.agent.sessions.get(session_id)
        if session is None:
            raise ProtocolError(
                Kind.SESSION_NOT_FOUND,
                f"there is no session {session_id!r}",
                {"sessionId": session_id, "suggestion": "open one with session/new"},
            )
        return session

    def reject_unknown(self, incoming: Incoming, done: DoneCallback) -> None:
        """A method nobody serves: an error for a request, nothing for a notification."""
        if incoming.is_request:
            kind = Kind.METHOD_NOT_FOUND if incoming.row is None else Kind.CAPABILITY_UNSUPPORTED
            what = f"this agent does not serve {incoming.method}"
            done(None, ProtocolError(kind, what, {"method": incoming.method}))

    # --- before a handler -------------------------------------------------------------------------------------

    def _with_checks(self, name: str, handle: Handler) -> Handler:
        """Let a message in when the state, the capabilities told and the login allow it."""
        row = find_method(Side.AGENT, name)
        gate = row.gate if row is not None and row.gate.startswith("agent.") else ""
        guarded = requires_login(name)

        def handler(incoming: Incoming, done: DoneCallback) -> Awaitable[None] | None:
            session = getattr(incoming.params, "session_id", None)
            self.lifecycle.check_allowed(name, session if isinstance(session, str) else None)
            if gate and not offers(gate, self.capabilities):
                what = gate.partition(".")[2]
                raise ProtocolError(
                    Kind.CAPABILITY_UNSUPPORTED,
                    f"{name} needs {what}, which this agent does not offer",
                    {"method": name, "capability": what},
                )
            if guarded and not self.login.allows_sessions:
                return self._handle_after_login(handle, incoming, done)
            return handle(incoming, done)

        return handler

    async def _handle_after_login(self, handle: Handler, incoming: Incoming, done: DoneCallback) -> None:
        await self.login.require()
        work = handle(incoming, done)
        if work is not None:
            await work

    def _with_lenient_params(self, handler: Handler) -> Handler:
        """Banjo's authenticate may say anything (seed 003); who names no method may be banjo, which is read as v1."""

        def reading(incoming: Incoming, done: DoneCallback) -> Awaitable[None] | None:
            if self.dialect == "banjo" or (self.dialect == "v1" and _is_blank(incoming.values)):
                incoming.params = lenient_params(incoming.values)
            return handler(incoming, done)

        return reading

    def _with_commands_update(self, handler: Handler) -> Handler:
        """Tell the client which commands there are, right after it learned of the session."""

        def announcing(incoming: Incoming, done: DoneCallback) -> Awaitable[None] | None:
            def told(result: Any, error: ProtocolError | None) -> None:
                done(result, error)
                if error is not None:
                    return
                identity = getattr(result, "session_id", None) or incoming.params.session_id
                session = self.agent.sessions.get(identity)
                if session is not None and session.commands:
                    # In the next pass: a flow of the dialect may still be at work on the answer.
                    asyncio.get_running_loop().call_soon(session.send_commands)

            return handler(incoming, told)

        return announcing

    def _with_current_request(self, name: str, handler: Handler) -> Handler:
        """Let the author's code know which request it serves; turns, which have a session to ask in, do without."""
        if name in _WITHOUT_CURRENT_REQUEST:
            return handler
        is_plain = name == "session/new" and not self.agent.middleware_chain

        def naming(incoming: Incoming, done: DoneCallback) -> Awaitable[None] | None:
            work = handler(incoming, done)
            if work is None or isinstance(incoming.id, UnsetType) or (is_plain and not self.agent.has_hook("opened")):
                return work
            return run_with_request(CurrentRequest(self.connection, incoming.id), work)

        return naming

    def _with_middleware(self, handler: Handler) -> Handler:
        """The author's middleware around a handler; nothing where there is none."""
        chain = list(self.agent.middleware_chain)
        if not chain:
            return handler

        async def through(incoming: Incoming, done: DoneCallback) -> None:
            async def pass_on(place: int) -> Any:
                if place < len(chain):
                    return await chain[place](incoming, lambda: pass_on(place + 1))
                return await _call_handler(handler, incoming, done)

            result = await pass_on(0)
            if incoming.is_request:
                done(result, None)

        return through


def _is_blank(values: Any) -> bool:
    return not values or not isinstance(values, dict)


async def _call_handler(handler: Handler, incoming: Incoming, done: DoneCallback) -> Any:
    """What a handler answers; its error is raised. An answer to work that does not end goes out past the chain."""
    answers: list[tuple[Any, ProtocolError | None]] = []
    ours = asyncio.current_task()

    def answer(result: Any, error: ProtocolError | None) -> None:
        answers.append((result, error))
        if asyncio.current_task() is not ours:
            done(result, error)

    work = handler(incoming, answer)
    if work is not None:
        await work
    if not answers:
        return None
    result, error = answers[0]
    if error is not None:
        raise error
    return result
