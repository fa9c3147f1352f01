"""Start coroutines so that their first, synchronous part runs at once.

Most handlers end in their first step and need no task. Python 3.12 can start tasks eagerly. On 3.11 a spare task, the
carrier, is the current task while the first step runs. Work that has to wait keeps the carrier as its task; otherwise
the next work uses it.
"""

from __future__ import annotations

import asyncio
import contextvars
import sys
from collections.abc import Coroutine, Generator
from typing import Any

Work = Coroutine[Any, Any, Any]

if sys.version_info >= (3, 12):

    class Starter:
        """Starts coroutines in copies of one context."""

        def __init__(self, loop: asyncio.AbstractEventLoop, context: contextvars.Context) -> None:
            self._loop = loop
            self._context = context

        def start(self, work: Work) -> asyncio.Task[Any] | None:
            """Start this work; return its task, or None if it has already succeeded."""
            task = asyncio.Task(work, loop=self._loop, context=self._context.copy(), eager_start=True)
            return None if task.done() and not task.cancelled() and task.exception() is None else task

        def close(self) -> None:
            """Do nothing: there is no spare task to cancel."""

else:

    class _Carrier(Coroutine[Any, Any, Any]):
        """The coroutine of a spare task: waits for work, and runs that work from its second step on."""

        def __init__(self, loop: asyncio.AbstractEventLoop, context: contextvars.Context) -> None:
            self.context = context.copy()
            self.task: asyncio.Task[Any] = loop.create_task(self, context=self.context)
            self._loop = loop
            self._work: Work | None = None
            self._error: BaseException | None = None  # the exception that ended the first step, if it ended
            self._first_awaited: Any = None  # what the work awaits after its first step
            self._wake_future: asyncio.Future[None] | None = None  # what the task awaits while it is a spare
            self._is_resumed = False  # whether the task awaits what its work awaits

        def begin(self, work: Work) -> None:
            """Run the first step of this work."""
            try:
                self._first_awaited = work.send(None)
                self._work = work
            except BaseException as error:
                self._error = error

        @property
        def is_finished(self) -> bool:
            """Whether the work succeeded and needs no task."""
            return type(self._error) is StopIteration

        def try_reuse(self, context: contextvars.Context) -> bool:
            """Become a spare again and return True, unless the work changed the task."""
            if self.context != context or self.task.cancelling() or sys.getrefcount(self.task) > _UNSHARED:
                return False
            self._error = None
            return True

        def resume_task(self) -> None:
            """Let the task continue the work, or end with its error."""
            if self._wake_future is not None and not self._wake_future.done():
                self._wake_future.set_result(None)

        def _first_step(self) -> Any:
            if self._error is not None:
                self._is_resumed = True
                raise self._error
            if self._work is not None:
                self._is_resumed = True
                return self._first_awaited
            self._wake_future = self._loop.create_future()
            self._wake_future._asyncio_future_blocking = True  # what `yield from` sets on a future for its task
            return self._wake_future

        def send(self, value: Any) -> Any:
            if self._is_resumed and self._work is not None:
                return self._work.send(value)
            return self._first_step()

        def throw(self, *error: Any) -> Any:
            """Pass an exception to the work. Before the task awaits what its work awaits, only a cancel can arrive
            here.
            """
            if self._work is None:
                raise self._error or (error[0] if isinstance(error[0], BaseException) else error[0]())
            if not self._is_resumed:
                self._is_resumed = True
                if isinstance(self._first_awaited, asyncio.Future) and self._first_awaited.cancel():
                    return self._first_awaited
            return self._work.throw(*error)

        def close(self) -> None:
            if self._work is not None:
                self._work.close()

        def __await__(self) -> Generator[Any, Any, Any]:
            raise TypeError("only a task runs this")

    # References to a task that nobody kept: the carrier's, that of its next step, and that of getrefcount.
    _UNSHARED = 3

    class Starter:
        """Starts coroutines in copies of one context."""

        def __init__(self, loop: asyncio.AbstractEventLoop, context: contextvars.Context) -> None:
            self._loop = loop
            self._context = context
            self._spare: _Carrier | None = None

        def start(self, work: Work) -> asyncio.Task[Any] | None:
            """Start this work; return its task, or None if it has already succeeded."""
            loop = self._loop
            carrier, self._spare = self._spare or _Carrier(loop, self._context), None
            current = asyncio.current_task(loop)
            if current is not None:
                asyncio.tasks._leave_task(loop, current)
            asyncio.tasks._enter_task(loop, carrier.task)
            try:
                carrier.context.run(carrier.begin, work)
            finally:
                asyncio.tasks._leave_task(loop, carrier.task)
                if current is not None:
                    asyncio.tasks._enter_task(loop, current)
            if not carrier.is_finished:
                carrier.resume_task()
                return carrier.task
            if self._spare is None and carrier.try_reuse(self._context):
                self._spare = carrier
            else:
                carrier.resume_task()
            return None

        def close(self) -> None:
            """Cancel the spare task."""
            if self._spare is not None:
                self._spare.task.cancel()
                self._spare = None
