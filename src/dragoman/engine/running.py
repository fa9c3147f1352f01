"""Requests of the peer under way: each a task, begun at once, bounded in number, cancelled by id.

Above is the connection, which owns it; below are the handlers' coroutines. Nothing is fired and forgotten: what is
still running when the connection ends is cancelled with it.
"""

from __future__ import annotations

import asyncio
import contextvars
from collections.abc import Awaitable, Callable
from typing import Any

from msgspec import UNSET

from dragoman.engine import eager
from dragoman.engine.errors import as_error
from dragoman.engine.incoming import Incoming
from dragoman.engine.limits import CLOSE_GRACE, MAX_INBOUND
from dragoman.engine.pending import Done
from dragoman.wire.envelope import Id


class Inbound:
    """The peer's requests that are being answered."""

    def __init__(self, fault: Callable[[str, BaseException], None]) -> None:
        self._fault = fault
        self._starter = eager.Starter(asyncio.get_running_loop(), contextvars.copy_context())
        self._tasks: set[asyncio.Task[Any]] = set()
        self._by_id: dict[Id, asyncio.Task[Any]] = {}

    @property
    def is_full(self) -> bool:
        """Whether as many are under way as may be."""
        return len(self._tasks) >= MAX_INBOUND

    def start(self, incoming: Incoming, work: Awaitable[None], done: Done) -> None:
        """Run the handler's coroutine as a task; its synchronous part runs before this returns."""
        task = self._starter.start(self._attend(incoming, work, done))
        if task is None:
            return
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        if incoming.id is not UNSET:
            key = incoming.id
            self._by_id[key] = task
            task.add_done_callback(lambda ended: self._forget(key, ended))

    async def _attend(self, incoming: Incoming, work: Awaitable[None], done: Done) -> None:
        try:
            await work
        except asyncio.CancelledError as error:
            done(None, as_error(error))
            raise
        except Exception as error:
            self._fault(f"the handler of {incoming.method}", error)
            done(None, as_error(error))

    def _forget(self, id: Id, ended: asyncio.Task[Any]) -> None:
        if self._by_id.get(id) is ended:  # a peer may use an id twice at a time
            del self._by_id[id]

    @property
    def is_busy(self) -> bool:
        """Whether any request is under way."""
        return bool(self._tasks)

    def cancel(self, id: Id) -> bool:
        """Cancel the handler of this request; whether there was one."""
        task = self._by_id.get(id)
        return task is not None and task.cancel()

    def cancel_all(self) -> None:
        """Cancel every handler but the one that asks for it, which would wait for itself."""
        self._starter.close()
        for task in self._others():
            task.cancel()

    async def finish(self, patience: float) -> None:
        """Let the handlers end by themselves, for a while."""
        if self._tasks:
            await asyncio.wait(set(self._tasks), timeout=patience)

    async def gone(self) -> None:
        """Return when every other handler, cancelled before, has ended; one that will not end is told."""
        others = self._others()
        left = (await asyncio.wait(others, timeout=CLOSE_GRACE))[1] if others else set()
        for _ in left:
            self._fault("closing", TimeoutError(f"a handler did not end within {CLOSE_GRACE:g} s of its cancel"))

    def _others(self) -> set[asyncio.Task[Any]]:
        return self._tasks - {asyncio.current_task()}
