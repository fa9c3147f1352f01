"""An agent in a dozen lines: declare what it is, decorate the function that answers prompts, run it.

The author's function gets a Turn; the library serves everything else: initialize, sessions with load, resume, list,
fork, close and delete, modes, options, commands, cancellation. One Agent serves any number of connections; its sessions
outlive them, in memory, and with a store they outlive the process.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

from dragoman.dialect.dialects import load_dialect as find_dialect
from dragoman.dialect.emulator import EmulatorSettings
from dragoman.engine.connection import Connection
from dragoman.engine.loop import run as run_loop
from dragoman.roles.agent.hooks import Hooks
from dragoman.roles.agent.served_client import ServedClient, current_request
from dragoman.roles.agent.session import Session, new_id, now
from dragoman.roles.agent.turn import Turn
from dragoman.roles.agent.voices import run_responders, with_route_options
from dragoman.schema.auth import AuthMethod
from dragoman.schema.config import SessionConfigOption, SessionMode
from dragoman.schema.initialize import AgentCapabilities
from dragoman.schema.side import Side
from dragoman.schema.update import AvailableCommand
from dragoman.transport.base import Transport

if TYPE_CHECKING:
    from contextlib import AbstractAsyncContextManager

    from dragoman.roles.agent.elicitation import ElicitationAnswer, Form
    from dragoman.roles.agent.providers import Provider
    from dragoman.store.contract import Store
    from dragoman.transport.remote.server.auth import Authenticate
    from dragoman.transport.remote.server.endpoint import Endpoint
    from dragoman.transport.remote.server.limits import ServerLimits
    from dragoman.transport.remote.server.listener import Listener

PromptHandler = Callable[[Turn], Awaitable[str | None]]


class Agent(Hooks):
    """An agent: its name, what it offers, and the function that answers prompts."""

    def __init__(
        self,
        name: str,
        *,
        version: str = "0.0.0",
        title: str | None = None,
        dialect: str = "auto",
        image: bool = False,
        audio: bool = False,
        embedded_context: bool = True,
        streaming: bool = True,
        tools: Sequence[str] | None = None,
        modes: Sequence[SessionMode] = (),
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
        super().__init__()
        self.name = name
        self.version = version
        self.title = title
        self.dialect = dialect
        self.image = image
        self.audio = audio
        self.embedded_context = embedded_context
        self.streaming = streaming  # False: a message is told whole, when it is finished
        self.tools = None if tools is None else list(tools)  # the names of all its tools; None: it does not say
        self.modes = list(modes)
        self.options = list(options)
        self.commands = list(commands)
        self.auth_methods = list(auth_methods)
        self.auth_required = auth_required  # True: no session without authenticate, or with a login that is over
        self.providers = {provider.id: provider for provider in providers}  # as they are set now
        self.system_prompt_mode = system_prompt_mode  # "append" or "override": how far a client may instruct the agent
        self.unstable = unstable  # True: offers what the official protocol has and does not promise to keep
        self.instructions = instructions
        self.required_capabilities = dict(required_capabilities or {})
        self.capabilities = capabilities  # told instead of what follows from the rest
        self.store = store  # where its sessions are kept; None: they last as long as the process
        self.sessions: dict[str, Session] = {}
        self.responders: dict[str, PromptHandler] = {}
        self.prompt_handler: PromptHandler | None = None
        self._clients: set[ServedClient] = set()

    def prompt(self, function: PromptHandler) -> PromptHandler:
        """Decorator: this function answers prompts. What it returns, if anything, is the stop reason."""
        self.prompt_handler = function
        return function

    def responder(self, name: str) -> Callable[[PromptHandler], PromptHandler]:
        """Decorator: one of several functions that answer prompts; the options route and primary_agent choose."""

        def register(function: PromptHandler) -> PromptHandler:
            self.responders[name] = function
            self.options = with_route_options(self.options, list(self.responders))
            if self.prompt_handler is None:
                self.prompt_handler = partial(run_responders, self.responders)
            return function

        return register

    async def elicit(self, message: str, *, form: Form | None = None, url: str | None = None) -> ElicitationAnswer:
        """Ask the user about the request being served: in an `authenticate` or `opened` hook, or a method of one's own.

        In a turn there is `turn.elicit`.
        """
        from dragoman.roles.agent.elicitation import elicit

        served = current_request()
        if served is None:
            raise RuntimeError("no request is being served here; in a turn, use turn.elicit")
        about = {"request_id": served.id}
        return await elicit(served, message, form=form, url=url, scope=about, id=new_id())

    async def notify_auth_changed(self) -> None:
        """Tell every client that asked for it who is logged in now, as after a login in a browser."""
        for reception in list(self._clients):
            await reception.login.notify_status()

    def run(self) -> None:
        """Serve one client over standard input and output, until it leaves."""
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
        """Serve one client over this transport, until it leaves.

        An address instead (`"127.0.0.1:8000"`, or `bind=`) serves any number of remote clients until it is cancelled;
        what else can be said there `serve_http` tells.
        """
        if transport is None or isinstance(transport, str):
            async with self.serve_http(bind or transport or "127.0.0.1:0", report=report, **http_options) as served:
                (report or print)(f"{self.name} is at {served.url}")
                await served.wait_closed()
            return
        if bind is not None or http_options:
            raise TypeError("a transport needs no address: give one of the two")
        connection = self.start_connection(transport, report=report)
        try:
            await connection.ended.wait()
        finally:
            await connection.close()

    def serve_http(
        self,
        bind: str = "127.0.0.1:0",
        *,
        tls: tuple[str, str] | None = None,
        authenticate: Authenticate | None = None,
        limits: ServerLimits | None = None,
        origins: Collection[str] = (),
        hosts: Collection[str] = (),
        report: Callable[[str], None] | None = None,
    ) -> AbstractAsyncContextManager[Listener]:
        """Serve remote clients over HTTP and WebSocket while the block lasts; it gives the address as `url`.

        By default only the owner of this process comes in, on loopback. Another address needs `tls` (a certificate and
        its key) and an `admit` that says who comes.
        """
        from dragoman.roles.agent.serve import serve_http

        return serve_http(
            self, bind, tls=tls, authenticate=authenticate, limits=limits, origins=origins, hosts=hosts, report=report
        )

    def asgi(
        self,
        *,
        authenticate: Authenticate | None = None,
        limits: ServerLimits | None = None,
        origins: Collection[str] = (),
        hosts: Collection[str] = (),
        report: Callable[[str], None] | None = None,
    ) -> Endpoint:
        """The agent as an ASGI app, to mount at any path of another; close it when that one ends."""
        from dragoman.roles.agent.serve import build_endpoint

        return build_endpoint(
            self, authenticate=authenticate, limits=limits, origins=origins, hosts=hosts, report=report
        )

    def start_connection(self, transport: Transport, *, report: Callable[[str], None] | None = None) -> Connection:
        """Begin to serve a client; the connection given back is the caller's to close."""
        reception = ServedClient(self)
        connection = Connection(
            transport,
            Side.AGENT,
            reception.handlers,
            fallback=reception.fallback,
            settings=emulator_settings(),
            peer_dialect=None if self.dialect == "auto" else find_dialect(self.dialect),
            report=report,
        )
        reception.connection = connection
        if self.store is not None:
            from dragoman.roles.agent.open_session import log_translation_loss

            connection.on_translation_note = partial(log_translation_loss, self, connection)
        self._clients.add(reception)
        connection.on_close = lambda _: self._remove_client(reception)
        connection.start()
        return connection

    def _remove_client(self, client: ServedClient) -> None:
        """A client is gone: its turns are being cancelled with the connection."""
        self._clients.discard(client)
        client.login.cancel_expiry()


def emulator_settings(cwd: str | None = None, permission: str = "ask") -> EmulatorSettings:
    """The settings of a ledger on this machine: real time, random ids."""
    return EmulatorSettings(cwd=cwd or os.getcwd(), permission=permission, now=now, new_id=new_id)
