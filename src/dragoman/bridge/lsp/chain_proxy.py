"""The proxy `lsp`: language servers in a chain. It adds their diagnostics to each write of the agent."""

from __future__ import annotations

import sys
from collections.abc import Awaitable, Callable

from dragoman.bridge.lsp.workspace_observer import relay_extension, user_table
from dragoman.roles.proxy.built_in.option import ProxyOption
from dragoman.roles.proxy.functions import ProxyFunctions
from dragoman.roles.proxy.relay import Relay

OPTIONS: tuple[ProxyOption, ...] = ()


def make() -> LspProxy:
    """Return the proxy."""
    return LspProxy()


class LspProxy:
    """Language servers at one place of a chain."""

    name = "lsp"
    needs_relay = True

    def extend_relay(self, relay: Relay) -> Callable[[], Awaitable[None]]:
        """Watch the writes that pass one relay."""
        return relay_extension(user_table(), None, _report)(relay)

    def extend(self, functions: ProxyFunctions) -> Callable[[], Awaitable[None]]:
        """Raise: it needs a relay."""
        raise NotImplementedError


def _report(text: str) -> None:
    print(f"lsp: {text}", file=sys.stderr, flush=True)
