"""Who serves which method of a client's. One table for all desks: a thousand of them would be a thousand tables.

Below are the calls, by what they are about; what is in no row is an extension, or refused (fates.py).
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine
from typing import TYPE_CHECKING, Any

from dragoman.engine.exchange import Done
from dragoman.engine.message import Incoming
from dragoman.host import catalogue, errands, opening, prompting

if TYPE_CHECKING:
    from dragoman.host.desk import Desk

Serve = Callable[["Desk", Incoming, Done], Awaitable[None] | None]


def _answer(function: Callable[[Desk, Any], Any]) -> Serve:
    """From a function of the params: what it returns, now or later, is the answer."""
    return _answered(lambda desk, incoming: function(desk, incoming.params))


def _answered(function: Callable[[Desk, Incoming], Any]) -> Serve:
    def serve(desk: Desk, incoming: Incoming, done: Done) -> Awaitable[None] | None:
        result = function(desk, incoming)
        if asyncio.iscoroutine(result):
            return _later(result, done)
        done(result, None)
        return None

    return serve


async def _later(work: Coroutine[Any, Any, Any], done: Done) -> None:
    done(await work, None)


SERVED: dict[str, Serve] = {
    "initialize": _answer(lambda desk, params: desk.introduce(params)),
    "authenticate": _answered(errands.authenticate),
    "logout": _answered(errands.logout),
    "auth/status": _answered(errands.ask),
    "providers/list": _answered(errands.ask),
    "providers/set": _answered(errands.set_provider),
    "providers/disable": _answered(errands.set_provider),
    "session/new": opening.new,
    "session/load": opening.load,
    "session/resume": opening.resume,
    "session/attach": opening.attach,
    "_dragoman/attach": opening.attach_values,
    "session/detach": _answer(opening.detach),
    "_dragoman/detach": _answer(opening.detach_values),
    "session/fork": opening.fork,
    "session/list": _answer(catalogue.list_sessions),
    "session/close": _answer(catalogue.close),
    "session/delete": _answer(catalogue.delete),
    "session/archive": _answer(catalogue.archive),
    "session/unarchive": _answer(catalogue.unarchive),
    "session/status": _answer(catalogue.status),
    "session/set_title": _answer(catalogue.set_title),
    "_dragoman/set_role": _answer(catalogue.set_role),
    "session/prompt": prompting.prompt,
    "session/cancel": prompting.cancel,
    "$/cancel_request": prompting.cancel_request,
    "session/set_mode": _answer(prompting.set_mode),
    "session/set_config_option": _answer(prompting.set_option),
    "_dragoman/presence": prompting.presence,
    "fs/changed": prompting.changed,
}
