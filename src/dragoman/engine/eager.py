"""Starting work whose first, synchronous part runs at once, as a task of its own.

Most handlers end in their first step and never need a task of their own. From Python 3.12 on asyncio starts tasks
eagerly. On 3.11 the same is done by hand: a spare task, the carrier, is the current one while the first step runs; work
that has to wait keeps the carrier as its task, work that has ended leaves it to the next.
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
        """Starts work in copies of one context."""

        def __init__(self, loop: asyncio.AbstractEventLoop, context: contextvars.Context) -> None:
            self._loop = loop
            self._context = context

        def start(self, work: Work) -> asyncio.Task[Any] | None:
            """Begin this work; gives its task, None if it has ended well already."""
            task = asyncio.Task(work, loop=self._loop, context=self._context.copy(), eager_start=True)
            return None if task.done() and not task.cancelled() and task.exception() is None else task

        def close(self) -> None:
            """Keep nothing for later."""

else:

    class _Carrier(Coroutine[Any, Any, Any]):
        """The coroutine of a spare task: waits for work, and is that work from its second step on."""

        def __init__(self, loop: asyncio.AbstractEventLoop, context: contextvars.Context) -> None:
            self.context = context.copy()
            self.task: asyncio.Task[Any] = loop.create_task(self, context=self.context)
            self._loop = loop
            self._work: Work | None = None
            self._ended: BaseException | None = None  # how it ended in its first step, if it did
            self._first: Any = None  # what it waits for after its first step
            self._called: asyncio.Future[None] | None = None  # what the task waits for while it is a spare
            self._taken = False  # whether the task knows what its work waits for

        def begin(self, work: Work) -> None:
            """Run the first step of this work."""
            try:
                self._first = work.send(None)
                self._work = work
            except BaseException as ended:
                self._ended = ended

        @property
        def ended_well(self) -> bool:
            """Whether the work needs no task any more."""
            return type(self._ended) is StopIteration

        def spare(self, context: contextvars.Context) -> bool:
            """Be a spare again, unless the work left its mark on the task; whether it is."""
            if self.context != context or self.task.cancelling() or sys.getrefcount(self.task) > _UNSHARED:
                return False
            self._ended = None
            return True

        def carry(self) -> None:
            """Let the task go on with the work, or end with it."""
            if self._called is not None and not self._called.done():
                self._called.set_result(None)

        def _go_on(self) -> Any:
            if self._ended is not None:
                self._taken = True
                raise self._ended
            if self._work is not None:
                self._taken = True
                return self._first
            self._called = self._loop.create_future()
            self._called._asyncio_future_blocking = True  # what `yield from` of a future says to its task
            return self._called

        def send(self, value: Any) -> Any:
            if self._taken and self._work is not None:
                return self._work.send(value)
            return self._go_on()

        def throw(self, *error: Any) -> Any:
            """Before the task knows what its work waits for only a cancel comes; it goes there, as with any task."""
            if self._work is None:
                raise self._ended or (error[0] if isinstance(error[0], BaseException) else error[0]())
            if not self._taken:
                self._taken = True
                if isinstance(self._first, asyncio.Future) and self._first.cancel():
                    return self._first
            return self._work.throw(*error)

        def close(self) -> None:
            if self._work is not None:
                self._work.close()

        def __await__(self) -> Generator[Any, Any, Any]:
            raise TypeError("only a task runs this")

    # References to a task nobody kept: the carrier's, that of its next step, and that of the look itself.
    _UNSHARED = 3

    class Starter:
        """Starts work in copies of one context."""

        def __init__(self, loop: asyncio.AbstractEventLoop, context: contextvars.Context) -> None:
            self._loop = loop
            self._context = context
            self._spare: _Carrier | None = None

        def start(self, work: Work) -> asyncio.Task[Any] | None:
            """Begin this work; gives its task, None if it has ended well already."""
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
            if not carrier.ended_well:
                carrier.carry()
                return carrier.task
            if self._spare is None and carrier.spare(self._context):
                self._spare = carrier
            else:
                carrier.carry()
            return None

        def close(self) -> None:
            """Keep nothing for later."""
            if self._spare is not None:
                self._spare.task.cancel()
                self._spare = None
