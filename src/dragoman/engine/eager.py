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

    class _Begun:
        """A coroutine after its first step, awaitable by the task that takes it over."""

        __slots__ = ("error", "first", "result", "work")

        def __init__(self, work: Coroutine[Any, Any, Any]) -> None:
            self.work = work
            self.first: Any = None
            self.result: Any = None
            self.error: BaseException | None = None

        def begin(self) -> None:
            try:
                self.first = self.work.send(None)
            except StopIteration as stop:
                self.result, self.work = stop.value, None  # type: ignore[assignment]
            except BaseException as error:
                self.error, self.work = error, None  # type: ignore[assignment]

        def __await__(self) -> Generator[Any, Any, Any]:
            if self.error is not None:
                raise self.error
            if self.work is None:
                return self.result
            pending = self.first
            while True:
                thrown: BaseException | None = None
                answer: Any = None
                try:
                    answer = yield pending
                except BaseException as error:
                    thrown = error
                try:
                    pending = self.work.send(answer) if thrown is None else self.work.throw(thrown)
                except StopIteration as stop:
                    return stop.value

    async def _take_over(begun: _Begun) -> Any:
        return await begun

    def start(
        loop: asyncio.AbstractEventLoop, work: Coroutine[Any, Any, Any], context: contextvars.Context
    ) -> asyncio.Task[Any]:
        """A task for this work, begun already when this returns."""
        begun = _Begun(work)
        task = loop.create_task(_take_over(begun), context=context)
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
