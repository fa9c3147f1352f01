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
Whole = Callable[[FaultContext, Any], Iterable[Any]]


def edit_results(method: str, edit: Edit) -> Fault:
    """Edit the results of requests of this method."""

    def whole(_: FaultContext, message: Json) -> Iterable[Json]:
        if "result" in message:
            message = {**message, "result": apply_edit(message["result"], edit)}
        yield message

    return edit_replies(method, whole)


def edit_errors(method: str, edit: Edit) -> Fault:
    """Edit the errors of requests of this method."""

    def whole(_: FaultContext, message: Json) -> Iterable[Json]:
        if "error" in message:
            message = {**message, "error": apply_edit(message["error"], edit)}
        yield message

    return edit_replies(method, whole)


def edit_replies(method: str, whole: Whole) -> Fault:
    """Edit the whole answers to requests of this method."""
    return Fault(outgoing=_where(lambda context, message: context.method(message) == method, whole))


def edit_calls(method: str, whole: Whole) -> Fault:
    """Edit the calls of the peer: requests and notifications."""
    return Fault(outgoing=_where(lambda _, message: message.get("method") == method, whole))


def edit_params(method: str, edit: Edit) -> Fault:
    """Edit the params of the peer's calls."""

    def whole(_: FaultContext, message: Json) -> Iterable[Json]:
        yield {**message, "params": apply_edit(message.get("params"), edit)}

    return edit_calls(method, whole)


def edit_updates(kind: str, edit: Edit) -> Fault:
    """Edit the updates of one kind, in v1 and banjo; "" for every kind."""

    def whole(_: FaultContext, message: Json) -> Iterable[Json]:
        params = message.get("params", {})
        update = params.get("update")
        if isinstance(update, dict) and (not kind or update.get("sessionUpdate") == kind):
            message = {**message, "params": {**params, "update": apply_edit(update, edit)}}
        yield message

    return edit_calls("session/update", whole)


def edit_incoming(method: str, whole: Whole) -> Fault:
    """Edit incoming calls whose params are an object."""

    def matches(_: FaultContext, message: Json) -> bool:
        return message.get("method") == method and isinstance(message.get("params"), dict)

    return Fault(incoming=_where(matches, whole))


def edit_all_outgoing(whole: Whole) -> Fault:
    """Edit every outgoing message."""
    return Fault(outgoing=_where(lambda *_: True, whole))


def edit_all_incoming(whole: Whole) -> Fault:
    """Edit every incoming message."""
    return Fault(incoming=_where(lambda *_: True, whole))


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


def fail_with(code: int, message: str = "Internal error") -> Whole:
    """Replace an answer by an error."""
    return lambda _, reply: [{"jsonrpc": "2.0", "id": reply.get("id"), "error": {"code": code, "message": message}}]


def _where(matches: Callable[[FaultContext, Any], bool], whole: Whole) -> Change:
    def change(context: FaultContext, message: Json) -> Iterable[Json]:
        if isinstance(message, dict) and matches(context, message):
            return whole(context, message)
        return (message,)

    return change


# --- faults of clients ---

Meant = Callable[[Json], bool]


def disconnect_on(matches: Meant) -> ClientFault:
    """A client that crashes on such input (a message, or bytes that are none)."""

    def change(context: FaultContext, message: Json) -> Iterable[Json]:
        if matches(message):
            context.disconnect()
            return ()
        return (message,)

    return ClientFault(incoming=change)


def ignore_on(matches: Meant) -> ClientFault:
    """A client that ignores such messages."""
    return ClientFault(incoming=lambda _, message: () if matches(message) else (message,))


def answer_on(matches: Meant, id: Json, **error: Json) -> ClientFault:
    """A client that answers what needs no answer."""

    def change(context: FaultContext, message: Json) -> Iterable[Json]:
        if matches(message):
            reply = {"jsonrpc": "2.0", "id": id, "error": {"code": -32603, "message": "Internal error", **error}}
            context.send(reply if id != "none" else {k: v for k, v in reply.items() if k != "id"})
        return (message,)

    return ClientFault(incoming=change)


def is_call(method: str) -> Meant:
    """Match messages of this method."""
    return lambda message: isinstance(message, dict) and message.get("method") == method


def edit_outgoing(change: Change) -> ClientFault:
    """A client that changes its outgoing messages."""
    return ClientFault(outgoing=change)
