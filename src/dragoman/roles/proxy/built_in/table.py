"""The table of built-in proxies: their names, purposes and modules. A module is loaded when its proxy is used.

Each module has OPTIONS and `make`, which takes their values and returns a proxy for one chain.
"""

from __future__ import annotations

from collections.abc import Sequence
from importlib import import_module
from typing import Any, NamedTuple

from dragoman.roles.proxy.built_in.option import ProxyOption
from dragoman.roles.proxy.component import InProcessProxy


class BuiltIn(NamedTuple):
    """One built-in proxy: its module and what it does."""

    module: str
    purpose: str


BUILT_IN: dict[str, BuiltIn] = {
    "context": BuiltIn(
        "dragoman.roles.proxy.built_in.context", "AGENTS.md, CLAUDE.md and other files before the first prompt"
    ),
    "redact": BuiltIn("dragoman.roles.proxy.built_in.redact", "remove secrets from messages in both directions"),
    "budget": BuiltIn("dragoman.roles.proxy.built_in.budget", "stop a turn that uses too much"),
    "filter": BuiltIn("dragoman.roles.proxy.built_in.filter", "refuse methods, tools and paths"),
    "record": BuiltIn("dragoman.roles.proxy.built_in.record", "write the messages at its place into a file"),
    "lsp": BuiltIn("dragoman.bridge.lsp.chain_proxy", "diagnostics of language servers after each write"),
}


def make_proxy(words: Sequence[str]) -> InProcessProxy | None:
    """Make the built-in proxy that these words name, with its options; None if the first word names none.

    Raise ValueError for a wrong option.
    """
    found = BUILT_IN.get(words[0]) if words else None
    if found is None:
        return None
    module = import_module(found.module)
    proxy: InProcessProxy = module.make(**read_options(words[0], list(words[1:]), module.OPTIONS))
    return proxy


def read_options(name: str, words: list[str], known: Sequence[ProxyOption]) -> dict[str, Any]:
    """Return the values of options written as --name value; raise ValueError with what is possible."""
    by_flag = {option.flag: option for option in known}
    values: dict[str, Any] = {}
    while words:
        flag, _, joined = words.pop(0).partition("=")
        option = by_flag.get(flag)
        if option is None:
            raise ValueError(f"the proxy {name} has no option {flag!r}; it has {', '.join(by_flag) or 'none'}")
        if not joined:
            if not words:
                raise ValueError(f"the proxy {name} needs a value after {flag}: {option.help}")
            joined = words.pop(0)
        try:
            value = option.read(joined)
        except ValueError:
            raise ValueError(f"the proxy {name} cannot read {flag} {joined!r}: {option.help}") from None
        if option.repeated:
            values.setdefault(option.member, []).append(value)
        else:
            values[option.member] = value
    return values
