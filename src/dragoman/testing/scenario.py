"""A scenario: one conversation as a list of steps, as seen by the peer that plays it.

Actions are in the imperative, expectations in the past tense: ask and answered, tell and told, answer and asked, refuse
and refused, leave and left. An answer belongs to the latest open request, unless `to` names a method.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import msgspec


class Step(msgspec.Struct, frozen=True):
    """One step of a scenario: an action or an expectation."""


class Action(Step, frozen=True):
    """Something we send or do."""

    verb: str
    method: str = ""
    body: Any = None

    def __str__(self) -> str:
        return _describe(self)


class Expectation(Step, frozen=True):
    """Something the peer must send or do; members that are not named may have any value."""

    verb: str
    method: str = ""
    body: Any = None

    def __str__(self) -> str:
        return _describe(self)


class Unordered(Step, frozen=True):
    """Several expectations, in any order."""

    expected: tuple[Expectation, ...]


class Tolerated(Step, frozen=True):
    """A message that may come any number of times before the next expectation; None for any message."""

    expected: Expectation | None


class Eventually(Step, frozen=True):
    """An expectation before which any message may come."""

    expected: Expectation


class Message(NamedTuple):
    """A message in the terms of a scenario: verb, method, body and id."""

    verb: str
    method: str
    body: Any
    id: Any = None


def ask(method: str, params: Any = None, /, **members: Any) -> Action:
    """Send a request, with these params or members."""
    return Action("ask", method, _params(params, members))


def tell(method: str, params: Any = None, /, **members: Any) -> Action:
    """Send a notification, with these params or members."""
    return Action("tell", method, _params(params, members))


def answer(result: Any = None, /, *, to: str = "", **members: Any) -> Action:
    """Answer the latest open request (or that of method `to`) with this result."""
    return Action("answer", to, _params(result, members))


def refuse(code: int, message: str = "refused", data: Any = None, *, to: str = "") -> Action:
    """Answer the latest open request (or that of method `to`) with an error."""
    error: dict[str, Any] = {"code": code, "message": message}
    return Action("refuse", to, error if data is None else {**error, "data": data})


def say(frame: bytes | dict[str, Any]) -> Action:
    """Send these bytes, or this object, as one frame, valid or not."""
    return Action("say", "", frame)


def leave() -> Action:
    """Close the connection."""
    return Action("leave")


def asked(method: str, params: Any = None, /, **members: Any) -> Expectation:
    """Expect a request."""
    return Expectation("asked", method, _params(params, members))


def told(method: str, params: Any = None, /, **members: Any) -> Expectation:
    """Expect a notification."""
    return Expectation("told", method, _params(params, members))


def updated(kind: str, /, **members: Any) -> Expectation:
    """Expect a session update of this kind: short for `told("session/update", ...)`."""
    return told("session/update", update={"sessionUpdate": kind, **members})


def answered(result: Any = None, /, *, to: str = "", **members: Any) -> Expectation:
    """Expect a result for our latest open request (or that of method `to`)."""
    return Expectation("answered", to, _params(result, members))


def refused(code: Any = None, /, *, to: str = "", **members: Any) -> Expectation:
    """Expect an error for our latest open request (or that of method `to`)."""
    return Expectation("refused", to, members if code is None else {"code": code, **members})


def left() -> Expectation:
    """Expect the peer to close the connection."""
    return Expectation("left")


def unordered(*expected: Expectation) -> Unordered:
    """Expect all of these, in any order."""
    return Unordered(expected)


def any_number(expected: Expectation | None = None) -> Tolerated:
    """Allow any number of such messages (without an argument: of any message) before the next expectation."""
    return Tolerated(expected)


def eventually(expected: Expectation) -> Eventually:
    """Expect this after any other messages."""
    return Eventually(expected)


def _params(whole: Any, members: dict[str, Any]) -> Any:
    if whole is not None and members:
        raise TypeError("give the params as one value or member by member, not both")
    return members if whole is None else whole


def _describe(step: Action | Expectation) -> str:
    parts = [step.verb, step.method]
    if step.body not in (None, {}):
        parts.append(repr(step.body))
    return " ".join(part for part in parts if part)
