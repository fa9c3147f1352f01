"""What a handler is, and how handlers are made of functions.

A handler takes a call and a callback for its answer. What it returns must be awaited: before the next message for a
notification, as a task of its own for a request. Knows nothing of connections.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any

from dragoman.engine.errors import to_protocol_error
from dragoman.engine.incoming import Incoming
from dragoman.engine.pending import DoneCallback

Handler = Callable[[Incoming, DoneCallback], Awaitable[None] | None]


def make_handler(function: Callable[[Any], Any]) -> Handler:
    """A handler from a function of the params: what it returns, now or later, is the answer."""

    def handler(incoming: Incoming, done: DoneCallback) -> Awaitable[None] | None:
        result = function(incoming.params)
        if asyncio.iscoroutine(result):
            return _answer_later(result, done)
        done(result, None)
        return None

    return handler


async def _answer_later(work: Coroutine[Any, Any, Any], done: DoneCallback) -> None:
    done(await work, None)


def answer_notification(work: Awaitable[None] | None, done: DoneCallback) -> Awaitable[None] | None:
    """A notification that came with an id: handled as ever, and answered, for somebody may wait."""
    if work is None:
        done({}, None)
        return None

    async def awaited() -> None:
        try:
            await work
        except Exception as error:
            done(None, to_protocol_error(error))
            raise
        done({}, None)

    return awaited()
