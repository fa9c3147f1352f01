"""Starting a task whose first, synchronous part runs at once.

From Python 3.12 on asyncio does this itself. On 3.11 the same is done by hand: the coroutine's first step runs here,
with the new task as the current one, and the task takes over from there.
"""

from __future__ import annotations

import asyncio
import contextvars
import sys
from collections.abc import Coroutine, Generator
from typing import Any

if sys.version_info >= (3, 12):

    def start(
        loop: asyncio.AbstractEventLoop, work: Coroutine[Any, Any, Any], context: contextvars.Context
    ) -> asyncio.Task[Any]:
        """A task for this work, begun already when this returns."""
        return asyncio.Task(work, loop=loop, context=context, eager_start=True)

else:

    class _Begun(Coroutine[Any, Any, Any]):
        """A coroutine after its first step, as the coroutine of the task that takes it over."""

        __slots__ = ("_ended", "_first", "_taken", "_work")

        def __init__(self, work: Coroutine[Any, Any, Any]) -> None:
            self._work = work
            self._first: Any = None  # what the first step waits for
            self._ended: BaseException | None = None  # how it ended, if it did
            self._taken = False

        def begin(self) -> None:
            try:
                self._first = self._work.send(None)
            except BaseException as ended:
                self._ended = ended

        def send(self, value: Any) -> Any:
            if self._taken:
                return self._work.send(value)
            self._taken = True
            if self._ended is not None:
                raise self._ended
            return self._first

        def throw(self, *error: Any) -> Any:
            """The first time only a cancel comes this way: it goes to what is waited for, as with any task."""
            if self._taken:
                return self._work.throw(*error)
            self._taken = True
            if self._ended is not None:
                raise self._ended
            if isinstance(self._first, asyncio.Future) and self._first.cancel():
                return self._first
            return self._work.throw(*error)

        def close(self) -> None:
            self._work.close()

        def __await__(self) -> Generator[Any, Any, Any]:
            raise TypeError("only a task runs this")

    def start(
        loop: asyncio.AbstractEventLoop, work: Coroutine[Any, Any, Any], context: contextvars.Context
    ) -> asyncio.Task[Any]:
        """A task for this work, begun already when this returns."""
        begun = _Begun(work)
        task = loop.create_task(begun, context=context)
        current = asyncio.current_task(loop)
        if current is not None:
            asyncio.tasks._leave_task(loop, current)
        asyncio.tasks._enter_task(loop, task)
        try:
            context.run(begun.begin)
        finally:
            asyncio.tasks._leave_task(loop, task)
            if current is not None:
                asyncio.tasks._enter_task(loop, current)
        return task
