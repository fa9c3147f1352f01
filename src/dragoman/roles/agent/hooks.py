"""What an agent's author can hook into besides prompts: sessions, settings, logins, and every message.

Each decorator takes a plain or an async function. Above is the Agent, which is one of these; the reception and its
parts call what is registered here. Knows nothing of connections.
"""

from __future__ import annotations

import inspect as inspect_
from collections.abc import Awaitable, Callable
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any, TypeVar

from msgspec import UNSET

from dragoman.schema.auth import AuthMethod

if TYPE_CHECKING:
    from dragoman.engine.incoming import Incoming

F = TypeVar("F", bound=Callable[..., Any])

# How long a login counts: no, for good, or until then.
LoginValidity = bool | datetime | timedelta | None

# Lets a message go on to the next middleware and at last to its handler; gives the answer.
CallNext = Callable[[], Awaitable[Any]]
Middleware = Callable[["Incoming", CallNext], Awaitable[Any]]


class Hooks:
    """The functions of an agent's author, by what they are called for."""

    def __init__(self) -> None:
        self.auth_methods: list[AuthMethod] = []
        self.auth_hooks: dict[str, Callable[..., Any]] = {}
        self.method_handlers: dict[str, Callable[..., Any]] = {}
        self.middleware_chain: list[Middleware] = []
        self._hooks: dict[str, Callable[..., Any]] = {}

    # --- sessions ---------------------------------------------------------------------------------------------

    def on_session_opened(self, function: F) -> F:
        """Decorator: called with each new session, before its client is answered; an error refuses the session."""
        return self._register_hook("opened", function)

    def on_session_reopened(self, function: F) -> F:
        """Decorator: called with each session that is loaded or resumed, before its history is told."""
        return self._register_hook("reopened", function)

    def on_session_forked(self, function: F) -> F:
        """Decorator: called with a new session and the one it was forked from."""
        return self._register_hook("forked", function)

    def on_session_closed(self, function: F) -> F:
        """Decorator: called with each session that its client closes or deletes; its turn has ended by then."""
        return self._register_hook("closed", function)

    def on_session_deleted(self, function: F) -> F:
        """Decorator: called with each session that is deleted: forget what belongs to it."""
        return self._register_hook("deleted", function)

    # --- settings ---------------------------------------------------------------------------------------------

    def on_mode_changed(self, function: F) -> F:
        """Decorator: called with (session, mode id) when a client changes the mode; an error keeps the old one."""
        return self._register_hook("mode_changed", function)

    def on_option_changed(self, function: F) -> F:
        """Decorator: called with (session, option id, value) when a client sets an option; an error keeps the old."""
        return self._register_hook("option_changed", function)

    def on_provider_changed(self, function: F) -> F:
        """Decorator: called with each Provider that a client sets or turns off; an error keeps it as it was."""
        return self._register_hook("provider_changed", function)

    # --- logins -----------------------------------------------------------------------------------------------

    def authenticate(self, method: str, name: str = "", description: str = "") -> Callable[[F], F]:
        """Decorator: this function checks the credentials of a method, which is offered to clients.

        It gets a dict: `{"token": ...}` from 2025.1, `{"apiKey": ...}` and the like from the draft, nothing from
        clients that only name a method. It says for how long the login counts: a datetime, a timedelta, or None for
        as long as the connection lives; False or a ProtocolError refuses.
        """

        def register(function: F) -> F:
            self.auth_hooks[method] = function
            if all(known.id != method for known in self.auth_methods):
                self.auth_methods.append(AuthMethod(id=method, name=name or method, description=description or UNSET))
            return function

        return register

    def check_login(self, function: F) -> F:
        """Decorator: says whether a stored login counts (as from a terminal), when nobody authenticated here."""
        return self._register_hook("logged_in", function)

    def on_logout(self, function: F) -> F:
        """Decorator: called when the client logs out: forget what is stored."""
        return self._register_hook("logout", function)

    def list_accounts(self, function: F) -> F:
        """Decorator: gives the accounts (AuthAccount) that are told with the status of the login."""
        return self._register_hook("accounts", function)

    # --- messages ---------------------------------------------------------------------------------------------

    def on(self, method: str) -> Callable[[F], F]:
        """Decorator: this function answers a method (an extension, or one the library serves otherwise)."""

        def register(function: F) -> F:
            self.method_handlers[method] = function
            return function

        return register

    def middleware(self, function: Middleware) -> Middleware:
        """Decorator: called with (message, pass_on) for every message of a client, the first registered first.

        `return await pass_on()` lets the message go on, changed if `message.params` was; any other return claims it.
        """
        self.middleware_chain.append(function)
        return function

    # --- calling them -----------------------------------------------------------------------------------------

    def _register_hook(self, name: str, function: F) -> F:
        self._hooks[name] = function
        return function

    def has_hook(self, name: str) -> bool:
        """Whether the author registered this hook."""
        return name in self._hooks

    async def call_hook(self, name: str, *arguments: Any) -> Any:
        """Call a hook, if there is one."""
        hook = self._hooks.get(name)
        return None if hook is None else await self.call_function(hook, *arguments)

    async def call_function(self, function: Callable[..., Any], *arguments: Any) -> Any:
        """Call a function that may be async."""
        result = function(*arguments)
        return await result if inspect_.isawaitable(result) else result
