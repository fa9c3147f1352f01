"""The peer's requests that are running: each a task that starts at once, bounded in number, cancelled by id.

The connection owns it and cancels what still runs when it ends.
"""

from __future__ import annotations

import asyncio
import contextvars
from collections.abc import Awaitable, Callable
from typing import Any

from msgspec import UNSET

from dragoman.engine import eager
from dragoman.engine.errors import to_protocol_error
from dragoman.engine.incoming import Incoming
from dragoman.engine.limits import CLOSE_GRACE, MAX_RUNNING_REQUESTS
from dragoman.engine.pending import DoneCallback
from dragoman.wire.envelope import Id


class RunningRequests:
    """The peer's requests that are running."""

    def __init__(self, on_failure: Callable[[str, BaseException], None]) -> None:
        self._on_failure = on_failure
        self._starter = eager.Starter(asyncio.get_running_loop(), contextvars.copy_context())
        self._tasks: set[asyncio.Task[Any]] = set()
        self._by_id: dict[Id, asyncio.Task[Any]] = {}

    @property
    def is_full(self) -> bool:
        """Whether no more requests may start."""
        return len(self._tasks) >= MAX_RUNNING_REQUESTS

    def start(self, incoming: Incoming, work: Awaitable[None], done: DoneCallback) -> None:
        """Run the handler's coroutine as a task; its synchronous part runs before this returns."""
        task = self._starter.start(self._run_handler(incoming, work, done))
        if task is None:
            return
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        if incoming.id is not UNSET:
            key = incoming.id
            self._by_id[key] = task
            task.add_done_callback(lambda done_task: self._remove_task(key, done_task))

    async def _run_handler(self, incoming: Incoming, work: Awaitable[None], done: DoneCallback) -> None:
        try:
            await work
        except asyncio.CancelledError as error:
            done(None, to_protocol_error(error))
            raise
        except Exception as error:
            self._on_failure(f"the handler of {incoming.method}", error)
            done(None, to_protocol_error(error))

    def _remove_task(self, id: Id, done_task: asyncio.Task[Any]) -> None:
        if self._by_id.get(id) is done_task:  # a peer may use an id twice at a time
            del self._by_id[id]

    @property
    def is_busy(self) -> bool:
        """Whether any request is running."""
        return bool(self._tasks)

    def cancel(self, id: Id) -> bool:
        """Cancel the handler of this request; return whether there was one."""
        task = self._by_id.get(id)
        return task is not None and task.cancel()

    def cancel_all(self) -> None:
        """Cancel every handler except the calling one, which would wait for itself."""
        self._starter.close()
        for task in self._other_tasks():
            task.cancel()

    async def wait_finished(self, timeout: float) -> None:
        """Wait until the handlers end by themselves, up to a timeout."""
        if self._tasks:
            await asyncio.wait(set(self._tasks), timeout=timeout)

    async def wait_cancelled(self) -> None:
        """Wait until every other handler has ended after its cancel; report those that do not."""
        others = self._other_tasks()
        left = (await asyncio.wait(others, timeout=CLOSE_GRACE))[1] if others else set()
        for _ in left:
            self._on_failure("closing", TimeoutError(f"a handler did not end within {CLOSE_GRACE:g} s of its cancel"))

    def _other_tasks(self) -> set[asyncio.Task[Any]]:
        return self._tasks - {asyncio.current_task()}
