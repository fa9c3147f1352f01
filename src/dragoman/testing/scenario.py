"""A scenario: one conversation as a list of steps, from the seat of whoever plays it.

What we do is in the imperative, what we expect in the past: ask and answered, tell and told, answer and asked, refuse
and refused, leave and left. Steps are values; `script` plays them. An answer is always that to the nearest question
still open, unless `to` names another. Knows no transport.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import msgspec


class Step(msgspec.Struct, frozen=True):
    """One step of a scenario: something we do, or something we expect."""


class Action(Step, frozen=True):
    """Something we say or do."""

    verb: str
    method: str = ""
    body: Any = None

    def __str__(self) -> str:
        return _told(self)


class Expectation(Step, frozen=True):
    """Something the other end is to say or do; members that are not named may be anything."""

    verb: str
    method: str = ""
    body: Any = None

    def __str__(self) -> str:
        return _told(self)


class Unordered(Step, frozen=True):
    """Several expectations, to be met in any order."""

    expected: tuple[Expectation, ...]


class Tolerated(Step, frozen=True):
    """What may come, any number of times, before the next expectation is met; None: whatever comes."""

    expected: Expectation | None


class Eventually(Step, frozen=True):
    """An expectation before which anything else may come."""

    expected: Expectation


class Message(NamedTuple):
    """A message as a scenario names it: what was done with it, its method, what it says, and its id."""

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
    """Answer the nearest request still open (or the one `to` a method) with this result."""
    return Action("answer", to, _params(result, members))


def refuse(code: int, message: str = "refused", data: Any = None, *, to: str = "") -> Action:
    """Answer the nearest request still open (or the one `to` a method) with an error."""
    error: dict[str, Any] = {"code": code, "message": message}
    return Action("refuse", to, error if data is None else {**error, "data": data})


def say(frame: bytes | dict[str, Any]) -> Action:
    """Send these bytes, or this object, as one frame, whatever it is."""
    return Action("say", "", frame)


def leave() -> Action:
    """Close the connection."""
    return Action("leave")


def asked(method: str, params: Any = None, /, **members: Any) -> Expectation:
    """The other end sends a request."""
    return Expectation("asked", method, _params(params, members))


def told(method: str, params: Any = None, /, **members: Any) -> Expectation:
    """The other end sends a notification."""
    return Expectation("told", method, _params(params, members))


def updated(kind: str, /, **members: Any) -> Expectation:
    """The agent tells an update of this kind: `told("session/update", ...)`, shorter."""
    return told("session/update", update={"sessionUpdate": kind, **members})


def answered(result: Any = None, /, *, to: str = "", **members: Any) -> Expectation:
    """The nearest request of ours still open (or the one `to` a method) is answered with a result."""
    return Expectation("answered", to, _params(result, members))


def refused(code: Any = None, /, *, to: str = "", **members: Any) -> Expectation:
    """The nearest request of ours still open (or the one `to` a method) is answered with an error."""
    return Expectation("refused", to, members if code is None else {"code": code, **members})


def left() -> Expectation:
    """The other end closes the connection."""
    return Expectation("left")


def unordered(*expected: Expectation) -> Unordered:
    """All of these, in any order."""
    return Unordered(expected)


def any_number(expected: Expectation | None = None) -> Tolerated:
    """Such messages (without an argument: any) may come before the next expectation is met, or not."""
    return Tolerated(expected)


def eventually(expected: Expectation) -> Eventually:
    """This comes, whatever comes before it."""
    return Eventually(expected)


def _params(whole: Any, members: dict[str, Any]) -> Any:
    if whole is not None and members:
        raise TypeError("give the params as one value or member by member, not both")
    return members if whole is None else whole


def _told(step: Action | Expectation) -> str:
    words = [step.verb, step.method]
    if step.body not in (None, {}):
        words.append(repr(step.body))
    return " ".join(word for word in words if word)
