"""The Agent class: declare what an agent offers, decorate the function that answers prompts, and run it."""

from __future__ import annotations

import asyncio
import inspect
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Mapping, Sequence
from contextlib import asynccontextmanager
from datetime import datetime, timedelta
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

from msgspec import UNSET

from dragoman.dialect.dialects import OFFICIAL_VERSIONS, load_dialect
from dragoman.engine.connection import Connection
from dragoman.engine.loop import run as run_loop
from dragoman.ids import new_id
from dragoman.roles.agent.author.declarations import (
    check_handler,
    check_hook,
    check_identity,
    check_logins,
    check_name,
    check_outside_loop,
    check_setup,
)
from dragoman.roles.agent.prompt import run_responders, with_route_options
from dragoman.roles.agent.served_client import ServedClient, current_request
from dragoman.roles.agent.session import Session
from dragoman.roles.agent.turn import Turn
from dragoman.roles.emulator_settings import emulator_settings
from dragoman.schema.auth import AuthMethod
from dragoman.schema.config import SessionConfigOption, SessionMode
from dragoman.schema.initialize import AgentCapabilities
from dragoman.schema.side import Side
from dragoman.schema.update import AvailableCommand
from dragoman.transport.base import Transport

if TYPE_CHECKING:
    from dragoman.engine.incoming import Incoming
    from dragoman.roles.agent.elicitation import ElicitationAnswer, Form
    from dragoman.roles.agent.providers import Provider
    from dragoman.store.contract import Store
    from dragoman.transport.remote.server.auth import Authenticate, Principal
    from dragoman.transport.remote.server.endpoint import Endpoint
    from dragoman.transport.remote.server.limits import ServerLimits
    from dragoman.transport.remote.server.listener import Listener

F = TypeVar("F", bound=Callable[..., Any])

# How long a login is valid: not at all, without end, or until a time.
LoginValidity = bool | datetime | timedelta | None

# Passes a message to the next middleware and finally to its handler; returns the result.
CallNext = Callable[[], Awaitable[Any]]
Middleware = Callable[["Incoming", CallNext], Awaitable[Any]]

PromptHandler = Callable[[Turn], Awaitable[str | None]]


class Agent:
    """An ACP agent: its name, what it offers, and the function that answers prompts.

    The library handles initialize, sessions (new, load, resume, list, fork, close, delete), modes, options, commands
    and cancellation. One Agent serves any number of connections. Its sessions outlive a connection, and with a `store`
    also the process.
    """

    def __init__(
        self,
        name: str,
        *,
        version: str = "0.0.0",
        title: str | None = None,
        dialect: str = "auto",
        versions: Sequence[int] = OFFICIAL_VERSIONS,
        image: bool = False,
        audio: bool = False,
        embedded_context: bool = True,
        mcp_http: bool = False,
        mcp_sse: bool = False,
        streaming: bool = True,
        tools: Sequence[str] | None = None,
        mcp: bool = True,
        modes: Sequence[SessionMode | str] = (),
        options: Sequence[SessionConfigOption] = (),
        commands: Sequence[AvailableCommand] = (),
        auth_methods: Sequence[AuthMethod] = (),
        auth_required: bool = False,
        providers: Sequence[Provider] = (),
        system_prompt_mode: str = "",
        unstable: bool = False,
        instructions: str = "",
        required_capabilities: Mapping[str, Any] | None = None,
        capabilities: AgentCapabilities | None = None,
        store: Store | None = None,
    ) -> None:
        check_identity(name, version, title)
        check_logins(auth_methods, providers, capabilities)
        check_setup(dialect, versions, tools=tools, modes=modes, options=options, commands=commands, store=store)
        self.name = name
        self.version = version
        self.title = title
        self.dialect = dialect
        self.versions = tuple(versions)  # of the official protocol, by the client's first message
        self.image = image
        self.audio = audio
        self.embedded_context = embedded_context
        self.mcp_http = mcp_http  # whether its sessions take MCP servers over HTTP
        self.mcp_sse = mcp_sse
        self.streaming = streaming  # False: send each message whole, when it is finished
        self.tools = None if tools is None else list(tools)  # the names of all its tools; None: not announced
        self.mcp = mcp  # False: the author's code connects the MCP servers of its sessions
        self.modes = [SessionMode(id=mode, name=mode) if isinstance(mode, str) else mode for mode in modes]
        self.options = list(options)
        self.commands = list(commands)
        self.auth_methods = list(auth_methods)
        self._auth_hooks: dict[str, Callable[..., Any]] = {}
        self._method_handlers: dict[str, Callable[..., Any]] = {}
        self._middleware_chain: list[Middleware] = []
        self._hooks: dict[str, Callable[..., Any]] = {}
        self._hosted: dict[str, list[Callable[..., Any]]] = {}
        self.auth_required = auth_required  # True: sessions need a login that is valid
        self.providers = {provider.id: provider for provider in providers}  # with their current configuration
        self.system_prompt_mode = system_prompt_mode  # "append" or "override": what a client's system prompt may do
        self.unstable = unstable  # True: offer the unstable parts of the official protocol
        self.instructions = instructions
        self.required_capabilities = dict(required_capabilities or {})
        self.capabilities = capabilities  # announced instead of the capabilities derived from the other arguments
        self.store = store  # where its sessions are stored; None: in memory only
        self.sessions: dict[str, Session] = {}
        self.responders: dict[str, PromptHandler] = {}
        self.prompt_handler: PromptHandler | None = None
        self._clients: set[ServedClient] = set()
        self._closing: set[asyncio.Task[None]] = set()  # MCP servers of clients that have left

    def prompt(self, function: PromptHandler = None) -> PromptHandler:  # type: ignore[assignment]  # it is refused
        """Decorator: register the function that answers prompts. It may return a stop reason."""
        check_handler("@agent.prompt", function, "turn", known=self.prompt_handler)
        self.prompt_handler = function
        return function

    def responder(self, name: str) -> Callable[[PromptHandler], PromptHandler]:
        """Decorator: register one of several functions that answer prompts.

        The session options `route` and `primary_agent` choose which of them answers.
        """
        check_name("@agent.responder", name)

        def register(function: PromptHandler) -> PromptHandler:
            check_handler("@agent.responder", function, "turn")
            self.responders[name] = function
            self.options = with_route_options(self.options, list(self.responders))
            if self.prompt_handler is None:
                self.prompt_handler = partial(run_responders, self.responders)
            return function

        return register

    def steer(self, function: F) -> F:
        """Decorator: called with (turn, prompt) when a v2 client sends a prompt while its turn runs.

        The prompt then is part of that turn and ends with it. If the function returns False, the prompt waits for the
        end of the turn, as all do without it; an error refuses the prompt.
        """
        return self._register_hook("steer", function)

    # --- sessions ---------------------------------------------------------------------------------------------

    def on_session_opened(self, function: F) -> F:
        """Decorator: called with each new session before the client is answered. An error rejects the session."""
        return self._register_hook("opened", function)

    def on_session_reopened(self, function: F) -> F:
        """Decorator: called with each session that is loaded or resumed, before its history is replayed."""
        return self._register_hook("reopened", function)

    def on_session_forked(self, function: F) -> F:
        """Decorator: called with a new session and the one it was forked from."""
        return self._register_hook("forked", function)

    def on_session_closed(self, function: F) -> F:
        """Decorator: called with each session that a client closes or deletes, after its turn has ended."""
        return self._register_hook("closed", function)

    def on_session_deleted(self, function: F) -> F:
        """Decorator: called with each deleted session."""
        return self._register_hook("deleted", function)

    # --- settings ---------------------------------------------------------------------------------------------

    def on_mode_changed(self, function: F) -> F:
        """Decorator: called with (session, mode id) when a client changes the mode. An error keeps the old mode."""
        return self._register_hook("mode_changed", function)

    def on_option_changed(self, function: F) -> F:
        """Decorator: called with (session, option id, value) when a client sets an option. An error keeps the old."""
        return self._register_hook("option_changed", function)

    def on_provider_changed(self, function: F) -> F:
        """Decorator: called with each Provider that a client sets or disables. An error undoes the change."""
        return self._register_hook("provider_changed", function)

    # --- logins -----------------------------------------------------------------------------------------------

    def authenticate(self, method: str, name: str = "", description: str = "") -> Callable[[F], F]:
        """Decorator: register the function that checks the credentials of an auth method, and offer that method.

        The function gets a dict: `{"token": ...}` from 2025.1, `{"apiKey": ...}` and similar from the draft, an empty
        one from clients that only name a method. It returns how long the login is valid: a datetime, a timedelta, or
        None for the lifetime of the connection. False or a ProtocolError rejects the login.
        """
        check_name("@agent.authenticate", method)

        def register(function: F) -> F:
            self._auth_hooks[method] = check_hook("authenticate", function, self._auth_hooks.get(method))
            if all(known.id != method for known in self.auth_methods):
                self.auth_methods.append(AuthMethod(id=method, name=name or method, description=description or UNSET))
            return function

        return register

    def check_login(self, function: F) -> F:
        """Decorator: called when no client has authenticated; return whether a stored login is valid."""
        return self._register_hook("logged_in", function)

    def on_logout(self, function: F) -> F:
        """Decorator: called when the client logs out; delete stored credentials here."""
        return self._register_hook("logout", function)

    def list_accounts(self, function: F) -> F:
        """Decorator: return the accounts (AuthAccount) that are sent with the login status."""
        return self._register_hook("accounts", function)

    # --- MCP --------------------------------------------------------------------------------------------------

    def offers(self, name: str, *functions: Callable[..., Any]) -> None:
        """Host an MCP server whose tools are these functions, for clients and for other agents (extra `mcp`)."""
        from dragoman.mcp.functions import check_tools  # few agents need it

        example = 'agent.offers("notes", NAME)'
        if not isinstance(name, str) or not functions:
            raise TypeError(f"offers needs the name of a server and its functions; write: {example}")
        hosted = [*self._hosted.get(name, ()), *functions]
        check_tools(hosted, example)
        self._hosted[name] = hosted

    def sample(self, function: F) -> F:
        """Decorator: called with (session, params) when an MCP server asks for an answer of the model; return its text.

        Without it, such requests are declined.
        """
        return self._register_hook("sample", function)

    # --- messages ---------------------------------------------------------------------------------------------

    def on(self, method: str) -> Callable[[F], F]:
        """Decorator: handle a method, an extension or one that the library would handle."""
        check_name("@agent.on", method)

        def register(function: F) -> F:
            self._method_handlers[method] = check_hook("on", function, self._method_handlers.get(method))
            return function

        return register

    def middleware(self, function: Middleware) -> Middleware:
        """Decorator: called with (message, call_next) for every message of a client, in the order of registration.

        `return await call_next()` passes the message on, with changes to `message.params`. Any other return value is
        the answer.
        """
        self._middleware_chain.append(check_hook("middleware", function))
        return function

    # --- calling hooks ----------------------------------------------------------------------------------------

    def _register_hook(self, name: str, function: F) -> F:
        self._hooks[name] = check_hook(name, function, self._hooks.get(name))
        return function

    def _has_hook(self, name: str) -> bool:
        return name in self._hooks

    async def _call_hook(self, name: str, *arguments: Any) -> Any:
        hook = self._hooks.get(name)
        return None if hook is None else await self._call_function(hook, *arguments)

    async def _call_function(self, function: Callable[..., Any], *arguments: Any) -> Any:
        result = function(*arguments)
        return await result if inspect.isawaitable(result) else result

    # --- serving ----------------------------------------------------------------------------------------------

    async def elicit(self, message: str, *, form: Form | None = None, url: str | None = None) -> ElicitationAnswer:
        """Ask the user about the current request, in an `authenticate` or session hook or in a method handler.

        In a turn, use `turn.elicit`.
        """
        from dragoman.roles.agent.elicitation import elicit

        served = current_request()
        if served is None:
            raise RuntimeError("agent.elicit works only while a request is handled; in a turn, use turn.elicit")
        scope = {"request_id": served.id}
        return await elicit(served, message, form=form, url=url, scope=scope, id=new_id())

    async def notify_auth_changed(self) -> None:
        """Send the current login status to every client that takes it, for example after a login in a browser."""
        for client in list(self._clients):
            await client.login.notify_status()

    def run(self) -> None:
        """Serve one client over standard input and output until it disconnects."""
        check_outside_loop("agent.run()")
        try:
            run_loop(self._run_stdio())
        except KeyboardInterrupt:
            sys.exit(130)

    async def _run_stdio(self) -> None:
        from dragoman.transport.stdio import stdio

        try:
            await self.serve(stdio(), report=lambda text: print(f"{self.name}: {text}", file=sys.stderr))
        finally:
            if self.store is not None:
                await self.store.close()

    async def serve(
        self,
        transport: Transport | str | None = None,
        *,
        bind: str | None = None,
        report: Callable[[str], None] | None = None,
        **http_options: Any,
    ) -> None:
        """Serve one client over this transport until it disconnects.

        With an address (`"127.0.0.1:8000"`, or `bind=`) instead, serve any number of remote clients until cancelled.
        Other keyword arguments are those of `serve_http`.
        """
        if transport is None or isinstance(transport, str):
            async with self.serve_http(bind or transport or "127.0.0.1:0", report=report, **http_options) as listener:
                (report or print)(f"{self.name} is at {listener.url}")
                await listener.wait_closed()
            return
        if bind is not None or http_options:
            raise TypeError("give either a transport or an address with its options, not both")
        connection = self.start_connection(transport, report=report)
        try:
            await connection.ended.wait()
        finally:
            await connection.close()
            await self._wait_closing()

    @asynccontextmanager
    async def serve_http(
        self,
        bind: str = "127.0.0.1:0",
        *,
        tls: tuple[str, str] | None = None,
        authenticate: Authenticate | None = None,
        limits: ServerLimits | None = None,
        origins: Collection[str] = (),
        hosts: Collection[str] = (),
        report: Callable[[str], None] | None = None,
    ) -> AsyncIterator[Listener]:
        """Serve remote clients over HTTP and WebSocket in an `async with` block, which gives a listener with a `url`.

        By default only the user who runs this process can connect, on loopback. Another address needs `tls` (the
        certificate file and its key file) and an `authenticate` function that checks clients.
        """
        from dragoman.transport.remote.server.origin import check_bind, check_owner_known

        check_bind(bind, has_tls=tls is not None, has_auth=authenticate is not None)
        if authenticate is None:
            check_owner_known()
        from dragoman.transport.remote.server.listener import open_listener

        app = self.asgi(authenticate=authenticate, limits=limits, origins=origins, hosts=hosts, report=report)
        async with open_listener(app, bind, tls=tls) as listener:
            yield listener

    def asgi(
        self,
        *,
        authenticate: Authenticate | None = None,
        limits: ServerLimits | None = None,
        origins: Collection[str] = (),
        hosts: Collection[str] = (),
        report: Callable[[str], None] | None = None,
    ) -> Endpoint:
        """Return the agent as an ASGI app, to mount in another app. Close it when that app shuts down."""
        from dragoman.transport.remote.server.endpoint import Endpoint
        from dragoman.transport.remote.server.origin import authenticate_local

        async def accept(transport: Transport, principal: Principal) -> None:
            await self.serve(transport, report=report)

        return Endpoint(
            accept, authenticate=authenticate or authenticate_local, limits=limits, origins=origins, hosts=hosts
        )

    def start_connection(self, transport: Transport, *, report: Callable[[str], None] | None = None) -> Connection:
        """Start serving a client and return the connection. The caller closes it."""
        client = ServedClient(self)
        connection = Connection(
            transport,
            Side.AGENT,
            client.handlers,
            fallback=client.fallback,
            settings=emulator_settings(joins_prompts=self._has_hook("steer")),
            peer_dialect=None if self.dialect == "auto" else load_dialect(self.dialect),
            versions=self.versions,
            report=report,
        )
        client.connection = connection
        if self.store is not None:
            from dragoman.roles.agent.session_calls import log_translation_loss

            connection.sender.on_translation_note = partial(log_translation_loss, self, connection)
        self._clients.add(client)
        connection.on_close = lambda _: self._remove_client(client)
        connection.start()
        return connection

    def _remove_client(self, client: ServedClient) -> None:
        self._clients.discard(client)
        client.login.cancel_expiry()
        # A session stays, but its MCP servers and its background work belong to a client; load or resume opens the
        # servers again.
        for session in self.sessions.values():
            if not session.is_bound or session.connection is not client.connection:
                continue
            for part in (session.tools, session._background):
                if part:
                    task = asyncio.get_running_loop().create_task(part.close())
                    self._closing.add(task)
                    task.add_done_callback(self._closing.discard)

    async def _wait_closing(self) -> None:
        if self._closing:
            await asyncio.wait(self._closing)  # each has its own limits
