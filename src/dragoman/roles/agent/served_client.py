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
from dragoman.engine.handler import Handler, answering
from dragoman.engine.incoming import Incoming
from dragoman.engine.lifecycle import Lifecycle
from dragoman.engine.peer_info import offers
from dragoman.engine.pending import Done
from dragoman.errors import Kind, ProtocolError
from dragoman.roles.agent.auth import Login, is_guarded, lenient
from dragoman.roles.agent.initialize import introduce
from dragoman.roles.agent.open_session import Opening
from dragoman.roles.agent.prompt import Prompting
from dragoman.roles.agent.session import Session
from dragoman.schema.initialize import AgentCapabilities
from dragoman.schema.methods import find
from dragoman.schema.side import Side
from dragoman.wire.envelope import Id

if TYPE_CHECKING:
    from dragoman.roles.agent.agent import Agent
    from dragoman.roles.agent.list_sessions import Catalogue
    from dragoman.roles.agent.providers import Providers


class Served:
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


_now: ContextVar[Served | None] = ContextVar("dragoman_served", default=None)


async def during(served: Served, work: Awaitable[None]) -> None:
    """Do the work of a handler, with its request named."""
    token = _now.set(served)
    try:
        await work
    finally:
        _now.reset(token)


def served_now() -> Served | None:
    """The request that is being served here, if one is."""
    return _now.get()


# After these the client knows a session, and hears which commands there are.
_OPENING = ("session/new", "session/load", "session/fork", "session/resume")

# Nothing is asked in these about the request itself.
_UNNAMED = frozenset({"initialize", "session/prompt", "session/cancel"})


class Reception:
    """What one client of an agent is answered with."""

    connection: Connection

    def __init__(self, agent: Agent) -> None:
        self.agent = agent
        self.offered = AgentCapabilities()  # told at initialize
        self.lifecycle = Lifecycle()
        self.login = Login(self)
        self.opening = Opening(self)
        self.prompting = Prompting(self)
        served = {name: answering(function) for name, function in self._served().items()}
        served.setdefault("session/prompt", self.prompting.prompt)
        handlers = {name: self._admitted(name, handler) for name, handler in served.items()}
        for name in _OPENING:
            handlers[name] = self._announcing(handlers[name])
        handlers["authenticate"] = self._reading_anything(handlers["authenticate"])
        self.handlers = {name: self._named(name, self._chained(handler)) for name, handler in handlers.items()}
        self.handlers["session/prompt"] = self.prompting.cancellable(self.handlers["session/prompt"])
        self.fallback = self._chained(self.decline)

    def _served(self) -> dict[str, Callable[[Any], Any]]:
        return {
            "initialize": lambda params: introduce(self, params),
            "authenticate": self.login.authenticate,
            "logout": self.login.logout,
            "auth/status": self.login.status,
            "session/new": self.opening.new,
            "session/load": self.opening.load,
            "session/resume": self.opening.resume,
            "session/fork": self.opening.fork,
            "session/list": lambda params: self.catalogue.list_sessions(params),
            "session/close": lambda params: self.catalogue.close(params),
            "session/delete": lambda params: self.catalogue.delete(params),
            "session/archive": lambda params: self.catalogue.archive(params),
            "session/unarchive": lambda params: self.catalogue.unarchive(params),
            "session/status": lambda params: self.catalogue.status(params),
            "session/set_title": lambda params: self.catalogue.set_title(params),
            "providers/list": lambda params: self.providers.list(params),
            "providers/set": lambda params: self.providers.set(params),
            "providers/disable": lambda params: self.providers.disable(params),
            "session/cancel": self.prompting.cancel,
            "session/set_mode": self.prompting.set_mode,
            "session/set_config_option": self.prompting.set_config_option,
            **self.agent.extensions,
        }

    @cached_property
    def catalogue(self) -> Catalogue:
        """Lists of sessions; loaded when a client first asks for one."""
        from dragoman.roles.agent.list_sessions import Catalogue

        return Catalogue(self)

    @cached_property
    def providers(self) -> Providers:
        """Model providers; loaded when a client first asks for them."""
        from dragoman.roles.agent.providers import Providers

        return Providers(self.agent)

    @property
    def spoken(self) -> str:
        """The name of the client's dialect."""
        speech = self.connection.speech
        return speech.dialect.name if speech is not None else "v1"

    def active(self, session_id: str) -> Session:
        """The session with that id, which this client must have opened."""
        session = self.find(session_id)
        if session_id not in self.lifecycle.sessions:
            raise ProtocolError(
                Kind.INVALID_STATE,
                f"session {session_id!r} is not open on this connection; load or resume it first",
                {"sessionId": session_id},
            )
        return session

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

    def decline(self, incoming: Incoming, done: Done) -> None:
        """A method nobody serves: an error for a request, nothing for a notification."""
        if incoming.is_request:
            kind = Kind.METHOD_NOT_FOUND if incoming.row is None else Kind.CAPABILITY_UNSUPPORTED
            what = f"this agent does not serve {incoming.method}"
            done(None, ProtocolError(kind, what, {"method": incoming.method}))

    # --- before a handler -------------------------------------------------------------------------------------

    def _admitted(self, name: str, handle: Handler) -> Handler:
        """Let a message in when the state, the capabilities told and the login allow it."""
        row = find(Side.AGENT, name)
        gate = row.gate if row is not None and row.gate.startswith("agent.") else ""
        guarded = is_guarded(name)

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
            if guarded and not self.login.is_in:
                return self._behind_login(handle, incoming, done)
            return handle(incoming, done)

        return handler

    async def _behind_login(self, handle: Handler, incoming: Incoming, done: Done) -> None:
        await self.login.require()
        work = handle(incoming, done)
        if work is not None:
            await work

    def _reading_anything(self, handler: Handler) -> Handler:
        """Banjo's authenticate may say anything (seed 003); who names no method may be banjo, which is read as v1."""

        def reading(incoming: Incoming, done: Done) -> Awaitable[None] | None:
            if self.spoken == "banjo" or (self.spoken == "v1" and _is_blank(incoming.values)):
                incoming.params = lenient(incoming.values)
            return handler(incoming, done)

        return reading

    def _announcing(self, handler: Handler) -> Handler:
        """Tell the client which commands there are, right after it learned of the session."""

        def announcing(incoming: Incoming, done: Done) -> Awaitable[None] | None:
            def told(result: Any, error: ProtocolError | None) -> None:
                done(result, error)
                if error is not None:
                    return
                identity = getattr(result, "session_id", None) or incoming.params.session_id
                session = self.agent.sessions.get(identity)
                if session is not None and session.commands:
                    # In the next pass: a flow of the dialect may still be at work on the answer.
                    asyncio.get_running_loop().call_soon(session.tell_commands)

            return handler(incoming, told)

        return announcing

    def _named(self, name: str, handler: Handler) -> Handler:
        """Let the author's code know which request it serves; turns, which have a session to ask in, do without."""
        if name in _UNNAMED:
            return handler
        is_plain = name == "session/new" and not self.agent.chain

        def naming(incoming: Incoming, done: Done) -> Awaitable[None] | None:
            work = handler(incoming, done)
            if work is None or isinstance(incoming.id, UnsetType) or (is_plain and not self.agent.has_hook("opened")):
                return work
            return during(Served(self.connection, incoming.id), work)

        return naming

    def _chained(self, handler: Handler) -> Handler:
        """The author's middleware around a handler; nothing where there is none."""
        chain = list(self.agent.chain)
        if not chain:
            return handler

        async def through(incoming: Incoming, done: Done) -> None:
            async def pass_on(place: int) -> Any:
                if place < len(chain):
                    return await chain[place](incoming, lambda: pass_on(place + 1))
                return await _handled(handler, incoming, done)

            result = await pass_on(0)
            if incoming.is_request:
                done(result, None)

        return through


def _is_blank(said: Any) -> bool:
    return not said or not isinstance(said, dict)


async def _handled(handler: Handler, incoming: Incoming, done: Done) -> Any:
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
