"""Open requests: ours by id until they are answered, the peer's as tasks that start at once.

Our ids and the peer's are in separate tables: both ends count from zero (docs/protocol/peers.md#id-shapes).
"""

from __future__ import annotations

import asyncio
import contextvars
from collections.abc import Awaitable, Callable
from typing import Any

from msgspec import UNSET, UnsetType

from dragoman.engine import eager
from dragoman.engine.incoming import DoneCallback, Incoming, to_protocol_error
from dragoman.wire.envelope import Id

# Late answers to abandoned requests are expected; above this many the oldest ids are forgotten.
MAX_ABANDONED = 1024

# Requests of the peer that may run at once, each a task; more are answered with rate_limited.
MAX_RUNNING_REQUESTS = 4096

# How long a close waits for cancelled handlers; one that does not end must not keep its process alive. Seconds.
CLOSE_GRACE = 10.0

# Digits of the longest number we use as an id.
MAX_ID_DIGITS = 19


class PendingRequest:
    """One request of ours: its method, its callback, and whether a notification handler sent it."""

    __slots__ = ("done", "is_nested", "is_raw", "is_verbatim", "method")

    def __init__(
        self, method: str, done: DoneCallback, is_nested: bool = False, is_raw: bool = False, is_verbatim: bool = False
    ) -> None:
        self.method = method
        self.done = done
        self.is_nested = is_nested
        self.is_raw = is_raw  # the callback takes the result untyped
        self.is_verbatim = is_verbatim  # the callback takes the whole envelope, untranslated


class PendingRequests:
    """Our requests without an answer yet."""

    __slots__ = ("_abandoned", "_last_id", "by_id", "nested_count")

    def __init__(self) -> None:
        self._last_id = -1
        self.by_id: dict[Id, PendingRequest] = {}
        self.nested_count = 0  # requests of notification handlers, whose answers bypass the inbox
        self._abandoned: dict[Id, None] = {}

    def add(self, request: PendingRequest) -> int:
        """Add a request and return its new id."""
        self._last_id += 1
        self.nested_count += request.is_nested
        self.by_id[self._last_id] = request
        return self._last_id

    def is_nested(self, id: Id | UnsetType) -> bool:
        """Whether a notification handler sent the open request with that id."""
        request = None if isinstance(id, UnsetType) else self.by_id.get(self._own_id(id))
        return request is not None and request.is_nested

    def pop(self, id: Id) -> PendingRequest | None:
        """Remove and return the request with that id."""
        request = self.by_id.pop(self._own_id(id), None)
        if request is not None and request.is_nested:
            self.nested_count -= 1
        return request

    def _own_id(self, id: Id) -> Id:
        """Return the id as we sent it: some peers turn numbers into strings."""
        if isinstance(id, str) and len(id) <= MAX_ID_DIGITS and id.isascii() and id.isdigit():
            return int(id)
        return id

    def abandon(self, id: Id) -> None:
        """Stop waiting; a late answer is then expected."""
        if self.by_id.pop(id, None) is not None:
            self._abandoned[id] = None
            if len(self._abandoned) > MAX_ABANDONED:
                del self._abandoned[next(iter(self._abandoned))]

    def was_abandoned(self, id: Id) -> bool:
        """Whether this id belongs to an abandoned request."""
        return self._own_id(id) in self._abandoned


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
        except GeneratorExit:  # the loop is closed; nothing can be sent
            raise
        except BaseException as error:  # also what ends the program, or a test: the peer must not wait forever
            self._on_failure(f"the handler of {incoming.method}", error)
            done(None, to_protocol_error(error))
            if isinstance(error, SystemExit | KeyboardInterrupt):
                raise

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
