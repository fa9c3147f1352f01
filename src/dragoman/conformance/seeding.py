"""Short ways to write a fault: change the answers to one method, one kind of update, one call, one thing heard.

An edit takes a copy of its own, and may change it in place (and give nothing) or give what stands in its place; edits
of whole messages give the list of messages that go on. Messages are those of the wire, in one dialect a fault.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterable
from typing import Any

from dragoman.conformance.twin import Change, Fault, Json, Tape

Edit = Callable[[Any], Any]
Whole = Callable[[Tape, Any], Iterable[Any]]


def results(method: str, edit: Edit) -> Fault:
    """The results that requests of this method are answered with."""

    def whole(_: Tape, message: Json) -> Iterable[Json]:
        if "result" in message:
            message = {**message, "result": edited(message["result"], edit)}
        yield message

    return replies(method, whole)


def errors(method: str, edit: Edit) -> Fault:
    """The errors that requests of this method are answered with."""

    def whole(_: Tape, message: Json) -> Iterable[Json]:
        if "error" in message:
            message = {**message, "error": edited(message["error"], edit)}
        yield message

    return replies(method, whole)


def replies(method: str, whole: Whole) -> Fault:
    """The whole answers to requests of this method."""
    return Fault(says=_where(lambda tape, message: tape.method(message) == method, whole))


def calls(method: str, whole: Whole) -> Fault:
    """What the sound one calls: requests and notifications."""
    return Fault(says=_where(lambda _, message: message.get("method") == method, whole))


def params(method: str, edit: Edit) -> Fault:
    """The params of what the sound one calls."""

    def whole(_: Tape, message: Json) -> Iterable[Json]:
        yield {**message, "params": edited(message.get("params"), edit)}

    return calls(method, whole)


def updates(kind: str, edit: Edit) -> Fault:
    """The updates of one kind, in v1 and banjo; None for those of every kind."""

    def whole(_: Tape, message: Json) -> Iterable[Json]:
        told = message.get("params", {})
        update = told.get("update")
        if isinstance(update, dict) and (not kind or update.get("sessionUpdate") == kind):
            message = {**message, "params": {**told, "update": edited(update, edit)}}
        yield message

    return calls("session/update", whole)


def hears(method: str, whole: Whole) -> Fault:
    """What the sound one hears: calls of the peer, as far as their params are an object."""

    def meant(_: Tape, message: Json) -> bool:
        return message.get("method") == method and isinstance(message.get("params"), dict)

    return Fault(hears=_where(meant, whole))


def speaks(whole: Whole) -> Fault:
    """Everything that is said and is a message."""
    return Fault(says=_where(lambda *_: True, whole))


def listens(whole: Whole) -> Fault:
    """Everything that is heard and is a message."""
    return Fault(hears=_where(lambda *_: True, whole))


def edited(value: Json, edit: Edit) -> Json:
    """A copy, changed."""
    made = copy.deepcopy(value)
    given = edit(made)
    return made if given is None else given


def without(*names: str) -> Edit:
    """An edit: these members are missing."""
    return lambda value: {name: item for name, item in value.items() if name not in names}


def with_(**members: Json) -> Edit:
    """An edit: these members are such."""
    return lambda value: {**value, **members}


def dropped(_: Tape, __: Json) -> Iterable[Json]:
    """A whole edit: it is never said, or never heard."""
    return ()


def twice(_: Tape, message: Json) -> Iterable[Json]:
    """A whole edit: it is said twice."""
    return (message, message)


def fails(code: int, message: str = "Internal error") -> Whole:
    """A whole edit of an answer: an error in its place."""
    return lambda _, reply: [{"jsonrpc": "2.0", "id": reply.get("id"), "error": {"code": code, "message": message}}]


def _where(meant: Callable[[Tape, Any], bool], whole: Whole) -> Change:
    def change(tape: Tape, message: Json) -> Iterable[Json]:
        if isinstance(message, dict) and meant(tape, message):
            return whole(tape, message)
        return (message,)

    return change
