"""The table of built-in proxies: their names, and the modules that make them. Loaded when one is used."""

from __future__ import annotations

from dragoman.roles.proxy.component import InProcessProxy

# Each module has `make(options)`, which returns a proxy for one chain.
MODULES: dict[str, str] = {}


def make_proxy(words: list[str]) -> InProcessProxy | None:
    """Make the built-in proxy that these words name, with its options; None if the first word names none."""
    return None
