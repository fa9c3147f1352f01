"""A connection of ours and a peer that is only frames, for the tests of the engine."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine, Mapping
from contextlib import asynccontextmanager
from typing import Any, NamedTuple, TypeVar

import msgspec

from dragoman.dialect.dialects import Dialect
from dragoman.dialect.dialects import load_dialect as find
from dragoman.dialect.emulator import EmulatorSettings
from dragoman.engine.connection import Connection
from dragoman.engine.incoming import DoneCallback, Handler, Incoming, make_handler
from dragoman.errors import Kind, ProtocolError
from dragoman.schema.side import Side
from dragoman.testing import ScriptedPeer
from dragoman.transport.base import Transport
from dragoman.transport.memory import memory_pair

T = TypeVar("T")

# No test takes longer unless it hangs.
BOUND = 30.0

SETTINGS = EmulatorSettings(cwd="/work", now=lambda: "2025-01-01T00:00:00Z", new_id=lambda: "fresh")


class Talk(NamedTuple):
    """Both ends: our connection, the raw peer, and what was reported."""

    connection: Connection
    peer: ScriptedPeer
    reports: list[str]

    async def answers(self) -> list[dict[str, Any]]:
        """Return everything sent to the peer so far; a last request marks the end."""
        received = len(self.peer.received)
        await self.peer.request("last", "_echo", {})
        return self.peer.received[received:-1]


def run(work: Coroutine[Any, Any, T]) -> T:
    """Run a test's coroutine, within bounds."""

    async def bounded() -> T:
        async with asyncio.timeout(BOUND):
            return await work

    return asyncio.run(bounded())


def decline(incoming: Incoming, done: DoneCallback) -> None:
    """Serve nothing."""
    if incoming.is_request:
        done(None, ProtocolError(Kind.METHOD_NOT_FOUND, f"{incoming.method} is not served"))


@asynccontextmanager
async def talking(
    functions: Mapping[str, Callable[[Any], Any]] | None = None,
    *,
    handlers: Mapping[str, Handler] | None = None,
    we: Side = Side.AGENT,
    dialect: str | Dialect = "v1",
    ends: tuple[Transport, Transport] | None = None,
) -> AsyncIterator[Talk]:
    """Open a connection with these functions (of the params) or handlers, and its peer; `_echo` is always served."""
    ours, theirs = ends or memory_pair()
    reports: list[str] = []
    served: dict[str, Handler] = {"_echo": make_handler(lambda params: params)}
    served.update({name: make_handler(function) for name, function in (functions or {}).items()})
    served.update(handlers or {})
    connection = Connection(
        ours,
        we,
        served,
        fallback=decline,
        settings=SETTINGS,
        peer_dialect=find(dialect) if isinstance(dialect, str) else dialect,
        report=reports.append,
    )
    connection.start()
    try:
        yield Talk(connection, ScriptedPeer(theirs), reports)
    finally:
        await connection.close()
        await theirs.close()


def call(id: Any, method: str, params: Any = msgspec.UNSET) -> dict[str, Any]:
    """A request."""
    message = {"jsonrpc": "2.0", "id": id, "method": method}
    return message if params is msgspec.UNSET else {**message, "params": params}


def note(method: str, params: Any) -> dict[str, Any]:
    """A notification."""
    return {"jsonrpc": "2.0", "method": method, "params": params}


def result(id: Any, value: Any) -> dict[str, Any]:
    """A result."""
    return {"jsonrpc": "2.0", "id": id, "result": value}
