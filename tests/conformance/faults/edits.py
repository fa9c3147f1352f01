"""Short ways to write a fault: change answers, updates, calls or incoming messages.

An edit gets a copy, and changes it in place (returning None) or returns a new value. Edits of whole messages return the
list of messages to pass on. Messages are those of the wire, in one dialect per fault.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterable
from typing import Any

from tests.conformance.faults.fault import Change, ClientFault, Fault, FaultContext, Json

Edit = Callable[[Any], Any]
MessageEdit = Callable[[FaultContext, Any], Iterable[Any]]


def edit_results(method: str, edit: Edit) -> Fault:
    """Edit the results of requests of this method."""

    def edit_message(_: FaultContext, message: Json) -> Iterable[Json]:
        if "result" in message:
            message = {**message, "result": apply_edit(message["result"], edit)}
        yield message

    return edit_replies(method, edit_message)


def edit_errors(method: str, edit: Edit) -> Fault:
    """Edit the errors of requests of this method."""

    def edit_message(_: FaultContext, message: Json) -> Iterable[Json]:
        if "error" in message:
            message = {**message, "error": apply_edit(message["error"], edit)}
        yield message

    return edit_replies(method, edit_message)


def edit_replies(method: str, edit_message: MessageEdit) -> Fault:
    """Edit the whole answers to requests of this method."""
    return Fault(outgoing=_where(lambda context, message: context.method(message) == method, edit_message))


def edit_calls(method: str, edit_message: MessageEdit) -> Fault:
    """Edit the calls of the peer: requests and notifications."""
    return Fault(outgoing=_where(lambda _, message: message.get("method") == method, edit_message))


def edit_params(method: str, edit: Edit) -> Fault:
    """Edit the params of the peer's calls."""

    def edit_message(_: FaultContext, message: Json) -> Iterable[Json]:
        yield {**message, "params": apply_edit(message.get("params"), edit)}

    return edit_calls(method, edit_message)


def edit_updates(kind: str, edit: Edit) -> Fault:
    """Edit the updates of one kind, in v1 and banjo; "" for every kind."""

    def edit_message(_: FaultContext, message: Json) -> Iterable[Json]:
        params = message.get("params", {})
        update = params.get("update")
        if isinstance(update, dict) and (not kind or update.get("sessionUpdate") == kind):
            message = {**message, "params": {**params, "update": apply_edit(update, edit)}}
        yield message

    return edit_calls("session/update", edit_message)


def edit_incoming(method: str, edit_message: MessageEdit) -> Fault:
    """Edit incoming calls whose params are an object."""

    def matches(_: FaultContext, message: Json) -> bool:
        return message.get("method") == method and isinstance(message.get("params"), dict)

    return Fault(incoming=_where(matches, edit_message))


def edit_all_outgoing(edit_message: MessageEdit) -> Fault:
    """Edit every outgoing message."""
    return Fault(outgoing=_where(lambda *_: True, edit_message))


def edit_all_incoming(edit_message: MessageEdit) -> Fault:
    """Edit every incoming message."""
    return Fault(incoming=_where(lambda *_: True, edit_message))


def apply_edit(value: Json, edit: Edit) -> Json:
    """Return a changed copy."""
    made = copy.deepcopy(value)
    given = edit(made)
    return made if given is None else given


def without(*names: str) -> Edit:
    """Return an edit that removes these members."""
    return lambda value: {name: item for name, item in value.items() if name not in names}


def with_(**members: Json) -> Edit:
    """Return an edit that sets these members."""
    return lambda value: {**value, **members}


def drop(_: FaultContext, __: Json) -> Iterable[Json]:
    """Drop the message."""
    return ()


def twice(_: FaultContext, message: Json) -> Iterable[Json]:
    """Send the message twice."""
    return (message, message)


def fail_with(code: int, message: str = "Internal error") -> MessageEdit:
    """Replace an answer by an error."""
    return lambda _, reply: [{"jsonrpc": "2.0", "id": reply.get("id"), "error": {"code": code, "message": message}}]


def _where(matches: Callable[[FaultContext, Any], bool], edit_message: MessageEdit) -> Change:
    def change(context: FaultContext, message: Json) -> Iterable[Json]:
        if isinstance(message, dict) and matches(context, message):
            return edit_message(context, message)
        return (message,)

    return change


# --- faults of clients ---

Matches = Callable[[Json], bool]


def disconnect_on(matches: Matches) -> ClientFault:
    """A client that crashes on such input (a message, or bytes that are none)."""

    def change(context: FaultContext, message: Json) -> Iterable[Json]:
        if matches(message):
            context.disconnect()
            return ()
        return (message,)

    return ClientFault(incoming=change)


def ignore_on(matches: Matches) -> ClientFault:
    """A client that ignores such messages."""
    return ClientFault(incoming=lambda _, message: () if matches(message) else (message,))


def answer_on(matches: Matches, id: Json, **error: Json) -> ClientFault:
    """A client that answers what needs no answer."""

    def change(context: FaultContext, message: Json) -> Iterable[Json]:
        if matches(message):
            reply = {"jsonrpc": "2.0", "id": id, "error": {"code": -32603, "message": "Internal error", **error}}
            context.send(reply if id != "none" else {k: v for k, v in reply.items() if k != "id"})
        return (message,)

    return ClientFault(incoming=change)


def is_call(method: str) -> Matches:
    """Match messages of this method."""
    return lambda message: isinstance(message, dict) and message.get("method") == method


def edit_outgoing(change: Change) -> ClientFault:
    """A client that changes its outgoing messages."""
    return ClientFault(outgoing=change)
