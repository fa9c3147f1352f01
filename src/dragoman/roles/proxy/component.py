"""Component: how one proxy of a chain is started, and what happens when it ends."""

from __future__ import annotations

import os
import re
import shlex
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Literal, Protocol, runtime_checkable

import msgspec

from dragoman.dialect.dialects import DEFAULT_DIALECT, DIALECT_NAMES
from dragoman.roles.proxy.functions import ProxyFunctions
from dragoman.roles.proxy.relay import Relay

OnExit = Literal["fail", "restart", "bypass"]

# Programs whose name does not say what they run.
_INTERPRETER = re.compile(r"python[\d.]*|node|bun|deno|ruby|perl|bash|sh|uv|uvx|npx")

ON_EXIT: tuple[OnExit, ...] = ("fail", "restart", "bypass")


class InProcessProxy(Protocol):
    """A proxy that runs in this process; `Proxy` is one."""

    name: str

    def extend(self, functions: ProxyFunctions) -> Callable[[], Awaitable[None]]:
        """Add its handlers for one chain; return the function that releases what they use."""


@runtime_checkable
class RelayProxy(Protocol):
    """A proxy in this process that can work on a relay with two connections of its own."""

    @property
    def needs_relay(self) -> bool:
        """Whether it works on nothing else."""

    def extend_relay(self, relay: Relay) -> Callable[[], Awaitable[None]]:
        """Add its handlers to a relay; return the function that releases what they use."""


class Component(msgspec.Struct, frozen=True, kw_only=True):
    """One proxy of a chain: a command, or a `Proxy` in this process.

    `on_exit` says what happens when its process ends: "fail" ends the chain, "restart" starts the proxy again, and
    "bypass" goes on without it. `env` is added to our environment. `dialect` is the one in
    which a process speaks; its messages are translated on both sides.
    """

    proxy: str | Sequence[str] | InProcessProxy
    name: str = ""
    on_exit: OnExit = "fail"
    env: Mapping[str, str] = {}
    dialect: str = DEFAULT_DIALECT

    def __post_init__(self) -> None:
        if self.on_exit not in ON_EXIT:
            raise ValueError(f"on_exit is one of {', '.join(ON_EXIT)}, not {self.on_exit!r}")
        if self.dialect not in DIALECT_NAMES:
            raise ValueError(f"unknown dialect {self.dialect!r}; choose one of {', '.join(DIALECT_NAMES)}")
        if isinstance(self.proxy, str | Sequence) and not self.command:
            raise ValueError("the command of a proxy is empty; give the command that starts it")

    @property
    def command(self) -> list[str]:
        """The command line of its process; empty for a proxy in this process."""
        if isinstance(self.proxy, str):
            return shlex.split(self.proxy)
        return list(self.proxy) if isinstance(self.proxy, Sequence) else []

    @property
    def in_process(self) -> InProcessProxy:
        """The proxy in this process."""
        assert not isinstance(self.proxy, str | Sequence)
        return self.proxy

    @property
    def label(self) -> str:
        """Its name, or that of its program."""
        if self.name:
            return self.name
        if not isinstance(self.proxy, str | Sequence):
            return self.proxy.name
        program, *arguments = self.command
        scripts = [word for word in arguments if not word.startswith("-")]
        is_script = _INTERPRETER.fullmatch(os.path.basename(program)) and scripts
        return os.path.basename(scripts[0] if is_script else program)
