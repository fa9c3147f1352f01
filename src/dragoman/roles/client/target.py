"""What a client connects to: a command, an address, a transport, or something of this process such as an Agent."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from typing import Any, Protocol, runtime_checkable

from dragoman.engine.connection import Connection
from dragoman.transport.base import Transport, WrappedTransport
from dragoman.transport.memory import memory_pair


@runtime_checkable
class OpensTransport(Protocol):
    """Something that runs in this process and is connected to as an agent, such as a `Chain`."""

    peer: str

    async def open_transport(
        self, report: Callable[[str], None] | None, stderr: Callable[[bytes], None] | None
    ) -> Transport:
        """Start it; return the client's end."""


@runtime_checkable
class ServesClients(Protocol):
    """An `Agent`: the module of agents is not imported only to recognize one."""

    name: str

    def start_connection(self, transport: Transport) -> Connection:
        """Start serving a client."""


Target = str | Sequence[str] | Transport | OpensTransport


def target_of(target: Any, caller: str) -> Target:
    """Return what a Dialer can use. Raise if it is nothing that a client can connect to."""
    if isinstance(target, ServesClients):
        return AgentInProcess(target)
    if isinstance(target, str | OpensTransport) or (hasattr(target, "send") and hasattr(target, "receive")):
        return target  # type: ignore[no-any-return]
    if isinstance(target, Sequence) and all(isinstance(word, str | os.PathLike) for word in target):
        return [os.fspath(word) for word in target]
    wanted = "a command (a str, or a list of its arguments), an address, a transport, an Agent or a Chain"
    advice = "; use str(...)" if isinstance(target, os.PathLike) else ""
    raise TypeError(f"{caller} takes {wanted}, not {target!r:.80}{advice}")


class AgentInProcess:
    """An Agent of this process, which is served in memory."""

    def __init__(self, agent: ServesClients) -> None:
        self.peer = agent.name
        self._agent = agent

    async def open_transport(
        self, report: Callable[[str], None] | None, stderr: Callable[[bytes], None] | None
    ) -> Transport:
        """Serve one more client; return the client's end."""
        near, far = memory_pair()
        near.peer = self.peer
        return _AgentTransport(near, self._agent.start_connection(far))


class _AgentTransport(WrappedTransport):
    """The client's end of an Agent in this process; closing it ends the agent's connection too."""

    def __init__(self, transport: Transport, serving: Connection) -> None:
        super().__init__(transport)
        self._serving = serving

    async def close(self, reason: str = "") -> None:
        """Close both ends."""
        await super().close(reason)
        await self._serving.close()
