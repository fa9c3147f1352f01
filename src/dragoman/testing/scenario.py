"""A scenario: one conversation as a list of steps, as seen by the peer that plays it.

Actions begin with `send_`, expectations with `expect_`. A result or an error belongs to the latest open request, unless
`to` names a method.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import msgspec


class Step(msgspec.Struct, frozen=True):
    """One step of a scenario: an action or an expectation."""


class MessageStep(Step, frozen=True):
    """One message: its kind ("request", "notification", "result", "error", "frame" or "disconnect") and content."""

    kind: str
    method: str = ""
    body: Any = None

    def __str__(self) -> str:
        parts = [self.kind, self.method, "" if self.body in (None, {}) else repr(self.body)]
        return " ".join(part for part in parts if part)


class Action(MessageStep, frozen=True):
    """Something we send or do."""


class Expectation(MessageStep, frozen=True):
    """Something the peer must send or do; members that are not named may have any value."""


class Unordered(Step, frozen=True):
    """Several expectations, in any order; with `skips`, any other message may come before."""

    expected: tuple[Expectation, ...]
    skips: bool = False


class AnyNumber(Step, frozen=True):
    """A message that may come any number of times before the next expectation; None for any message."""

    expected: Expectation | None


class Message(NamedTuple):
    """A received message: kind, method, body and id."""

    kind: str
    method: str
    body: Any
    id: Any = None


def send_request(method: str, params: Any = None, /, **members: Any) -> Action:
    """Send a request, with these params or members."""
    return Action("request", method, _params(params, members))


def send_notification(method: str, params: Any = None, /, **members: Any) -> Action:
    """Send a notification, with these params or members."""
    return Action("notification", method, _params(params, members))


def send_result(result: Any = None, /, *, to: str = "", **members: Any) -> Action:
    """Answer the latest open request (or that of method `to`) with this result."""
    return Action("result", to, _params(result, members))


def send_error(code: int, message: str = "refused", data: Any = None, *, to: str = "") -> Action:
    """Answer the latest open request (or that of method `to`) with an error."""
    error: dict[str, Any] = {"code": code, "message": message}
    return Action("error", to, error if data is None else {**error, "data": data})


def send_frame(frame: bytes | dict[str, Any]) -> Action:
    """Send these bytes, or this object, as one frame, valid or not."""
    return Action("frame", "", frame)


def disconnect() -> Action:
    """Close the connection."""
    return Action("disconnect")


def expect_request(method: str, params: Any = None, /, **members: Any) -> Expectation:
    """Expect a request."""
    return Expectation("request", method, _params(params, members))


def expect_notification(method: str, params: Any = None, /, **members: Any) -> Expectation:
    """Expect a notification."""
    return Expectation("notification", method, _params(params, members))


def expect_update(kind: str, /, **members: Any) -> Expectation:
    """Expect a session update of this kind: short for `expect_notification("session/update", ...)`."""
    return expect_notification("session/update", update={"sessionUpdate": kind, **members})


def expect_result(result: Any = None, /, *, to: str = "", **members: Any) -> Expectation:
    """Expect a result for our latest open request (or that of method `to`)."""
    return Expectation("result", to, _params(result, members))


def expect_error(code: Any = None, /, *, to: str = "", **members: Any) -> Expectation:
    """Expect an error for our latest open request (or that of method `to`)."""
    return Expectation("error", to, members if code is None else {"code": code, **members})


def expect_disconnect() -> Expectation:
    """Expect the peer to close the connection."""
    return Expectation("disconnect")


def unordered(*expected: Expectation) -> Unordered:
    """Expect all of these, in any order."""
    return Unordered(expected)


def any_number(expected: Expectation | None = None) -> AnyNumber:
    """Allow any number of such messages (without an argument: of any message) before the next expectation."""
    return AnyNumber(expected)


def eventually(expected: Expectation) -> Unordered:
    """Expect this after any other messages."""
    return Unordered((expected,), skips=True)


def _params(whole: Any, members: dict[str, Any]) -> Any:
    if whole is not None and members:
        raise TypeError("give the params as one value or member by member, not both")
    return members if whole is None else whole
