"""Who serves which method of a client's. One table for all desks: a thousand of them would be a thousand tables.

Below are the calls, by what they are about; what is in no row is an extension, or refused (fates.py).
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine
from typing import TYPE_CHECKING, Any

from dragoman.engine.incoming import Incoming
from dragoman.engine.pending import Done
from dragoman.host import account_calls, list_sessions, open_session, prompt

if TYPE_CHECKING:
    from dragoman.host.host_client import Desk

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
    "authenticate": _answered(account_calls.authenticate),
    "logout": _answered(account_calls.logout),
    "auth/status": _answered(account_calls.ask),
    "providers/list": _answered(account_calls.ask),
    "providers/set": _answered(account_calls.set_provider),
    "providers/disable": _answered(account_calls.set_provider),
    "session/new": open_session.new,
    "session/load": open_session.load,
    "session/resume": open_session.resume,
    "session/attach": open_session.attach,
    "_dragoman/attach": open_session.attach_values,
    "session/detach": _answer(open_session.detach),
    "_dragoman/detach": _answer(open_session.detach_values),
    "session/fork": open_session.fork,
    "session/list": _answer(list_sessions.list_sessions),
    "session/close": _answer(list_sessions.close),
    "session/delete": _answer(list_sessions.delete),
    "session/archive": _answer(list_sessions.archive),
    "session/unarchive": _answer(list_sessions.unarchive),
    "session/status": _answer(list_sessions.status),
    "session/set_title": _answer(list_sessions.set_title),
    "_dragoman/set_role": _answer(list_sessions.set_role),
    "session/prompt": prompt.prompt,
    "session/cancel": prompt.cancel,
    "$/cancel_request": prompt.cancel_request,
    "session/set_mode": _answer(prompt.set_mode),
    "session/set_config_option": _answer(prompt.set_option),
    "_dragoman/presence": prompt.presence,
    "fs/changed": prompt.changed,
}
