"""The table from a client's method to the function that serves it, shared by all clients.

A method without a row is an extension, or refused (access.py).
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine
from typing import TYPE_CHECKING, Any

from dragoman.engine.incoming import DoneCallback, Incoming
from dragoman.host import account_calls, list_sessions, open_session, prompt

if TYPE_CHECKING:
    from dragoman.host.host_client import HostClient

ServeMethod = Callable[["HostClient", Incoming, DoneCallback], Awaitable[None] | None]


def _reply_to_params(function: Callable[[HostClient, Any], Any]) -> ServeMethod:
    """Make a handler from a function of the params. What it returns, now or later, is the answer; None is empty."""
    return _reply_to_incoming(lambda client, incoming: function(client, incoming.params))


def _reply_to_incoming(function: Callable[[HostClient, Incoming], Any]) -> ServeMethod:
    def serve(client: HostClient, incoming: Incoming, done: DoneCallback) -> Awaitable[None] | None:
        result = function(client, incoming)
        if asyncio.iscoroutine(result):
            return _reply_later(incoming, result, done)
        done(_empty_result(incoming) if result is None else result, None)
        return None

    return serve


async def _reply_later(incoming: Incoming, work: Coroutine[Any, Any, Any], done: DoneCallback) -> None:
    result = await work
    done(_empty_result(incoming) if result is None else result, None)


def _empty_result(incoming: Incoming) -> Any:
    return incoming.row.result() if incoming.row is not None else {}


SERVED_METHODS: dict[str, ServeMethod] = {
    "initialize": _reply_to_params(lambda client, params: client.initialize(params)),
    "authenticate": _reply_to_incoming(account_calls.authenticate),
    "logout": _reply_to_incoming(account_calls.logout),
    "auth/status": _reply_to_incoming(account_calls.request_agent),
    "providers/list": _reply_to_incoming(account_calls.request_agent),
    "providers/set": _reply_to_incoming(account_calls.set_provider),
    "providers/disable": _reply_to_incoming(account_calls.set_provider),
    "session/new": open_session.new_session,
    "session/load": open_session.load_session,
    "session/resume": open_session.resume_session,
    "session/attach": open_session.attach,
    "_dragoman/attach": open_session.attach_extension,
    "session/detach": _reply_to_params(open_session.detach),
    "_dragoman/detach": _reply_to_params(open_session.detach_extension),
    "session/fork": open_session.fork_session,
    "session/list": _reply_to_params(list_sessions.list_sessions),
    "session/close": _reply_to_params(list_sessions.close_session),
    "session/delete": _reply_to_params(list_sessions.delete_session),
    "session/archive": _reply_to_params(list_sessions.archive_session),
    "session/unarchive": _reply_to_params(list_sessions.unarchive_session),
    "session/status": _reply_to_params(list_sessions.session_status),
    "session/set_title": _reply_to_params(list_sessions.set_title),
    "_dragoman/agents": _reply_to_params(list_sessions.list_agents),
    "_dragoman/set_role": _reply_to_params(list_sessions.set_role),
    "session/prompt": prompt.prompt,
    "session/cancel": prompt.cancel,
    "tool_call/cancel": _reply_to_incoming(prompt.cancel_in_turn),
    "terminal/cancel": _reply_to_incoming(prompt.cancel_in_turn),
    "$/cancel_request": prompt.cancel_request,
    "session/set_mode": _reply_to_params(prompt.set_mode),
    "session/set_config_option": _reply_to_params(prompt.set_config_option),
    "_dragoman/presence": prompt.set_presence,
    "_dragoman/stop": _reply_to_params(prompt.stop),
    "_dragoman/withdraw": _reply_to_params(prompt.withdraw),
    "fs/changed": prompt.forward_fs_changed,
}
