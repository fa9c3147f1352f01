"""Which request of a client is being served now, known wherever its handler goes.

The reception names the request around the handlers that an author's code may run in; `agent.elicit` reads it here, for
a question about a request must name it (reference 1.13). Prompts are not named: a turn has a session to ask in.
"""

from __future__ import annotations

from collections.abc import Awaitable
from contextvars import ContextVar
from typing import Any

from dragoman.engine.connection import Connection
from dragoman.wire.envelope import Id


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
