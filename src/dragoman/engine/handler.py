"""Handlers, and how to make one from a function.

A handler takes a call and a callback for its answer. What it returns must be awaited: before the next message for a
notification, as a task for a request.
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
    """Make a handler from a function of the params; its return value, or that of its coroutine, is the answer."""

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
    """Answer a notification that came with an id, since the peer may wait for it."""
    if work is None:
        done({}, None)
        return None

    async def await_and_answer() -> None:
        try:
            await work
        except Exception as error:
            done(None, to_protocol_error(error))
            raise
        done({}, None)

    return await_and_answer()
