"""One client served by an Agent: the table of handlers, and the checks before each of them.

A message passes the author's middleware, then the checks of state, capabilities and login, then its handler.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextvars import ContextVar
from functools import cached_property
from typing import TYPE_CHECKING, Any

from msgspec import UnsetType

from dragoman.dialect.dialects import Dialect
from dragoman.engine.connection import Connection
from dragoman.engine.incoming import DoneCallback, Handler, Incoming, make_handler
from dragoman.engine.lifecycle import Lifecycle, gate_error
from dragoman.engine.peer_info import offers
from dragoman.errors import Kind, ProtocolError
from dragoman.roles.agent.auth import ClientLogin, lenient_params
from dragoman.roles.agent.initialize import answer_initialize
from dragoman.roles.agent.prompt import PromptCalls
from dragoman.roles.agent.session import Session
from dragoman.roles.agent.session_calls import SessionCalls
from dragoman.schema.initialize import AgentCapabilities
from dragoman.schema.methods import find_method, mcp_methods, methods_that
from dragoman.schema.side import Side
from dragoman.wire.envelope import Id

if TYPE_CHECKING:
    from dragoman.roles.agent.agent import Agent
    from dragoman.roles.agent.providers import ProviderCalls


class CurrentRequest:
    """The request that is being handled: its connection and id."""

    def __init__(self, connection: Connection, id: Id) -> None:
        self.connection = connection
        self.id = id

    async def request(self, method: str, params: Any) -> Any:
        """Send a request to the client."""
        return await self.connection.request(method, params)

    def notify(self, method: str, params: Any) -> None:
        """Send a notification to the client."""
        self.connection.notify(method, params)


_current: ContextVar[CurrentRequest | None] = ContextVar("dragoman_served", default=None)


async def run_with_request(request: CurrentRequest, work: Awaitable[None]) -> None:
    """Run a handler with its request as the current one."""
    token = _current.set(request)
    try:
        await work
    finally:
        _current.reset(token)


def current_request() -> CurrentRequest | None:
    """Return the request that is being handled here, or None."""
    return _current.get()


# With these a client gets to know a session and its commands: a new session after the answer, which has its id.
_OPEN_METHODS = methods_that("opens", "forks", "reopens")
_REOPEN_METHODS = methods_that("reopens")


class ServedClient:
    """The handlers of one client of an agent."""

    connection: Connection

    def __init__(self, agent: Agent) -> None:
        self.agent = agent
        self.capabilities = AgentCapabilities()  # set by initialize
        self.lifecycle = Lifecycle()
        self.login = ClientLogin(self)
        self.session_calls = SessionCalls(self)
        self.prompt_calls = PromptCalls(self)
        served = {name: make_handler(function) for name, function in self._method_table().items()}
        served.setdefault("session/prompt", self.prompt_calls.prompt)
        if agent.mcp:
            for name in mcp_methods(Side.AGENT):
                served.setdefault(name, self._handle_mcp)
        handlers = {name: self._with_checks(name, handler) for name, handler in served.items()}
        for name in _OPEN_METHODS:
            handlers[name] = self._with_commands_update(name, handlers[name])
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
            "session/new": self.session_calls.new,
            "session/load": self.session_calls.load,
            "session/resume": self.session_calls.resume,
            "session/fork": self.session_calls.fork,
            "session/list": self.session_calls.list_sessions,
            "session/close": self.session_calls.close,
            "session/delete": self.session_calls.delete,
            "session/archive": self.session_calls.archive,
            "session/unarchive": self.session_calls.unarchive,
            "session/status": self.session_calls.status,
            "session/set_title": self.session_calls.set_title,
            "providers/list": lambda params: self.provider_calls.list(params),
            "providers/set": lambda params: self.provider_calls.set(params),
            "providers/disable": lambda params: self.provider_calls.disable(params),
            "session/cancel": self.prompt_calls.cancel,
            "session/set_mode": self.prompt_calls.set_mode,
            "session/set_config_option": self.prompt_calls.set_config_option,
            "tool_call/cancel": self.prompt_calls.cancel_tool_call,
            "terminal/cancel": self.prompt_calls.cancel_terminal,
            **self.agent._method_handlers,
        }

    @cached_property
    def provider_calls(self) -> ProviderCalls:
        """The provider calls, loaded when first used."""
        from dragoman.roles.agent.providers import ProviderCalls

        return ProviderCalls(self.agent)

    @property
    def dialect(self) -> Dialect:
        """The client's dialect."""
        return self.connection.dialect

    def find_open_session(self, session_id: str) -> Session:
        """Return the session with this id. Raise if this client has not opened it."""
        session = self.find_session(session_id)
        if session_id not in self.lifecycle.sessions:
            raise ProtocolError(
                Kind.INVALID_STATE,
                f"session {session_id!r} is not open on this connection; load or resume it first",
                {"sessionId": session_id},
            )
        return session

    def find_session(self, session_id: str) -> Session:
        """Return the session of this agent with this id. Raise session_not_found if there is none."""
        session = self.agent.sessions.get(session_id)
        if session is None:
            raise ProtocolError(
                Kind.SESSION_NOT_FOUND,
                f"there is no session {session_id!r}",
                {"sessionId": session_id, "suggestion": "open one with session/new"},
            )
        return session

    def reject_unknown(self, incoming: Incoming, done: DoneCallback) -> None:
        """Answer an unknown request with an error; ignore an unknown notification."""
        if incoming.is_request:
            kind = Kind.METHOD_NOT_FOUND if incoming.row is None else Kind.CAPABILITY_UNSUPPORTED
            message = f"this agent does not support {incoming.method}"
            done(None, ProtocolError(kind, message, {"method": incoming.method}))

    def _handle_mcp(self, incoming: Incoming, done: DoneCallback) -> Awaitable[None] | None:
        """Handle a message of MCP over ACP: for a server that the agent hosts, or from one that the client offers."""
        from dragoman.mcp.sdk import is_installed

        if not is_installed():
            self.reject_unknown(incoming, done)
            return None
        return self._pass_to_mcp(incoming, done)

    async def _pass_to_mcp(self, incoming: Incoming, done: DoneCallback) -> None:
        from dragoman.roles.agent.mcp_servers import hosting_calls

        calls = await hosting_calls(self.connection, self.agent._hosted)
        work = calls.handlers()[incoming.method](incoming, done)
        if work is not None:
            await work

    # --- wrappers of handlers ---------------------------------------------------------------------------------

    def _with_checks(self, name: str, handle: Handler) -> Handler:
        """Check the state, the offered capabilities and the login before the handler."""
        row = find_method(Side.AGENT, name)
        gate = row.gate if row is not None and row.gate.startswith("agent.") else ""
        needs_login = row is not None and row.needs_login
        is_prompt = name == "session/prompt"

        def handler(incoming: Incoming, done: DoneCallback) -> Awaitable[None] | None:
            session = getattr(incoming.params, "session_id", None)
            session = session if isinstance(session, str) else None
            if session is not None and is_prompt and self.prompt_calls.can_join(self.agent.sessions.get(session)):
                session = None  # it needs no idle session
            self.lifecycle.check_allowed(name, session)
            if gate and not offers(gate, self.capabilities):
                raise gate_error(name, gate, "agent")
            if needs_login and not self.login.allows_sessions:
                return self._handle_after_login(handle, incoming, done)
            return handle(incoming, done)

        return handler

    async def _handle_after_login(self, handle: Handler, incoming: Incoming, done: DoneCallback) -> None:
        await self.login.require()
        work = handle(incoming, done)
        if work is not None:
            await work

    def _with_lenient_params(self, handler: Handler) -> Handler:
        """Accept any params of banjo's authenticate (docs/protocol/dialects.md#banjo-authenticate).

        A client that names no method may be banjo, which is detected as v1.
        """

        def wrapped(incoming: Incoming, done: DoneCallback) -> Awaitable[None] | None:
            dialect, values = self.dialect, incoming.values
            is_blank = not values or not isinstance(values, dict)
            if not dialect.names_auth_method or (dialect.official and is_blank):
                incoming.params = lenient_params(values)
            return handler(incoming, done)

        return wrapped

    def _with_commands_update(self, name: str, handler: Handler) -> Handler:
        """Send the available commands before the answer that reopens a session, or right after one that opens it."""

        def wrapped(incoming: Incoming, done: DoneCallback) -> Awaitable[None] | None:
            def answer(result: Any, error: ProtocolError | None) -> None:
                session = None
                if error is None:
                    session = self.agent.sessions.get(getattr(result, "session_id", None) or incoming.params.session_id)
                sends = session is not None and bool(session.all_commands)
                if session is not None and sends and name in _REOPEN_METHODS:
                    session.send_commands()  # docs/protocol/sessions.md#load: all updates come before the answer
                done(result, error)
                if session is not None and sends and name not in _REOPEN_METHODS:
                    # In the next loop iteration: the dialect's emulator may still be working on the answer.
                    asyncio.get_running_loop().call_soon(session.send_commands)
                if session is not None and session.tools:
                    asyncio.get_running_loop().call_soon(session.tools.show_failures)

            return handler(incoming, answer)

        return wrapped

    def _with_current_request(self, name: str, handler: Handler) -> Handler:
        """Set the current request for the author's code. Turns do not need it."""
        if name == "session/prompt":
            return handler
        skips_hook = name == "session/new" and not self.agent._middleware_chain

        def wrapped(incoming: Incoming, done: DoneCallback) -> Awaitable[None] | None:
            work = handler(incoming, done)
            if (
                work is None
                or isinstance(incoming.id, UnsetType)
                or (skips_hook and not self.agent._has_hook("opened"))
            ):
                return work
            return run_with_request(CurrentRequest(self.connection, incoming.id), work)

        return wrapped

    def _with_middleware(self, handler: Handler) -> Handler:
        """Wrap a handler in the author's middleware, if there is any."""
        chain = list(self.agent._middleware_chain)
        if not chain:
            return handler

        async def wrapped(incoming: Incoming, done: DoneCallback) -> None:
            async def call_next(index: int) -> Any:
                if index < len(chain):
                    return await chain[index](incoming, lambda: call_next(index + 1))
                return await _call_handler(handler, incoming, done)

            result = await call_next(0)
            if incoming.is_request:
                done(result, None)

        return wrapped


async def _call_handler(handler: Handler, incoming: Incoming, done: DoneCallback) -> Any:
    """Return a handler's answer or raise its error. An answer from another task goes directly to `done`."""
    answers: list[tuple[Any, ProtocolError | None]] = []
    own_task = asyncio.current_task()

    def answer(result: Any, error: ProtocolError | None) -> None:
        answers.append((result, error))
        if asyncio.current_task() is not own_task:
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
