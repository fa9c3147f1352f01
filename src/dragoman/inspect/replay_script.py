"""A recording as a script for one peer: what to say when the other one says what it said then.

Takes the lines of a recording and a role; then takes what the peer under test says and gives what to say next, with the
moments of the recording. Ids of requests, sessions and terminals that the peer makes up are learnt as they come and put
into what we say. Strict wants order and content as recorded; lenient takes requests in any order. Pure: `player` does
the talking.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NamedTuple

import msgspec

from dragoman.inspect.diff import IDS, IGNORED, compare
from dragoman.inspect.format import TO_AGENT, TO_CLIENT, Recorded

_BACK = {TO_AGENT: TO_CLIENT, TO_CLIENT: TO_AGENT}

METHOD_NOT_FOUND, INVALID_REQUEST = -32601, -32600


class Step(msgspec.Struct, eq=False):
    """One recorded line, as a part of the play."""

    line: int
    t: int
    data: bytes
    message: Any  # None when it was no JSON object

    @property
    def method(self) -> str:
        """The method of a call, nothing otherwise."""
        method = self.message.get("method") if isinstance(self.message, dict) else None
        return method if isinstance(method, str) else ""

    @property
    def id(self) -> str:
        """The id as JSON; nothing for a notification."""
        return _id(self.message)

    @property
    def is_answer(self) -> bool:
        """Whether it answers a request."""
        return isinstance(self.message, dict) and not self.method and "id" in self.message

    def __str__(self) -> str:
        what = self.method or ("an answer" if self.is_answer else "a line that is no message")
        return f"{what} (line {self.line} of the recording)"


class Cue(msgspec.Struct, eq=False):
    """Something the peer said, and what followed from us before it spoke again."""

    heard: Step | None
    lines: list[Step]
    is_over: bool = False


class Line(NamedTuple):
    """Something to say now, or so many microseconds after what was heard."""

    after: int
    data: bytes


class Reaction(NamedTuple):
    """What to say, what was wrong, and whether that ends the play."""

    lines: list[Line]
    wrong: str = ""


class Script:
    """One recording, played as one of its peers."""

    def __init__(
        self, frames: Iterable[Recorded], we: str, strict: bool, ignored: frozenset[str] = frozenset()
    ) -> None:
        self.strict = strict
        self._ignored = IGNORED | ignored
        self._cues = [Cue(None, [])]
        self._answers: dict[str, Step] = {}  # ours, by method, for requests that come once more
        self._ids: dict[str, Any] = {}  # ids of the peer's requests: recorded (as JSON) to real
        self._names: dict[str, str] = {}  # sessions and the like: recorded to real
        self._held: dict[str, list[Line]] = {}  # our answers to requests that have not come yet
        asked: dict[tuple[str, str], str] = {}
        for frame in frames:
            if frame.way not in _BACK or not frame.data.strip() or frame.cut:
                continue
            step = Step(frame.line, frame.t or 0, frame.data, _object(frame.data))
            if frame.way == we:
                self._cues[-1].lines.append(step)
                if step.is_answer and (method := asked.get((_BACK[we], step.id))):
                    self._answers.setdefault(method, step)
            else:
                self._cues.append(Cue(step, []))
            if step.method and step.id:
                asked[frame.way, step.id] = step.method

    def begin(self) -> list[Line]:
        """What we say before the peer says anything."""
        self._cues[0].is_over = True
        return self._said(self._cues[0], 0)

    def hear(self, data: bytes) -> Reaction:
        """The peer said this."""
        message = _object(data)
        heard = Step(0, 0, data, message)
        cue, differences = self._find(heard)
        if cue is None:
            return self._unexpected(heard)
        assert cue.heard is not None
        if self.strict and differences:
            at = f"{cue.heard} was expected; "
            return Reaction(self._refusal(heard, INVALID_REQUEST, at + differences[0]), at + "\n  ".join(differences))
        cue.is_over = True
        if heard.method and heard.id:
            self._ids[cue.heard.id] = message["id"]
        _learn(cue.heard.message, message, self._names)
        lines = self._held.pop(cue.heard.id, []) if heard.method else []
        return Reaction(lines + self._said(cue, cue.heard.t))

    def missing(self) -> list[str]:
        """What the peer has not said."""
        return [str(cue.heard) for cue in self._cues if not cue.is_over and cue.heard is not None]

    # --- finding the place ----------------------------------------------------------------------------------

    def _find(self, heard: Step) -> tuple[Cue | None, list[str]]:
        waiting = [cue for cue in self._cues if not cue.is_over and cue.heard is not None]
        if self.strict:
            if not waiting:
                return None, []
            return waiting[0], self._differences(waiting[0].heard, heard)
        alike = [cue for cue in waiting if _alike(cue.heard, heard)]
        best: tuple[Cue | None, list[str]] = (None, [])
        for cue in alike:
            differences = self._differences(cue.heard, heard)
            if best[0] is None or len(differences) < len(best[1]):
                best = (cue, differences)
            if not differences:
                break
        return best

    def _differences(self, expected: Step | None, heard: Step) -> list[str]:
        if expected is None or expected.message is None or heard.message is None:
            same = expected is not None and expected.data == heard.data
            return [] if same else [f"{heard.data[:80]!r} came"]
        if not _alike(expected, heard):
            came = heard.method or f"an answer to {heard.id}"
            return [f"{came} came"]
        return list(compare(_without_id(expected.message), _without_id(heard.message), self._ignored))

    def _unexpected(self, heard: Step) -> Reaction:
        came = heard.method or (f"an answer to {heard.id}" if heard.is_answer else f"{heard.data[:80]!r}")
        if self.strict:
            text = f"{came} came; the recording has nothing more from this peer"
            return Reaction(self._refusal(heard, INVALID_REQUEST, text), text)
        if not heard.method or not heard.id:
            return Reaction([])
        again = self._answers.get(heard.method)
        if again is None:
            return Reaction(self._refusal(heard, METHOD_NOT_FOUND, f"the recording has no answer to {heard.method}"))
        return Reaction([Line(0, _encode({**self._renamed(again.message), "id": heard.message["id"]}))])

    def _refusal(self, heard: Step, code: int, text: str) -> list[Line]:
        if not heard.method or not heard.id:
            return []
        error = {"code": code, "message": text}
        return [Line(0, _encode({"jsonrpc": "2.0", "id": heard.message["id"], "error": error}))]

    # --- speaking -------------------------------------------------------------------------------------------

    def _said(self, cue: Cue, since: int) -> list[Line]:
        lines = []
        for step in cue.lines:
            after = max(0, step.t - since)
            if step.is_answer and step.id not in self._ids:
                if step.id != "null":
                    self._held.setdefault(step.id, []).append(Line(0, step.data))
                continue
            lines.append(Line(after, self._spoken(step)))
        return lines

    def _spoken(self, step: Step) -> bytes:
        if step.message is None:
            return step.data
        message = self._renamed(step.message)
        if step.is_answer:
            message = {**message, "id": self._ids[step.id]}
        elif step.method == "$/cancel_request" and isinstance(message.get("params"), dict):
            params = message["params"]
            real = self._ids.get(_id({"id": params.get("requestId")}), params.get("requestId"))
            message = {**message, "params": {**params, "requestId": real}}
        return step.data if message == step.message else _encode(message)

    def _renamed(self, value: Any) -> Any:
        """The message with the names that the peer gave to sessions, terminals and the like."""
        return _replaced(value, self._names) if self._names else value


def _alike(expected: Step | None, heard: Step) -> bool:
    if expected is None or expected.message is None or heard.message is None:
        return expected is not None and expected.data == heard.data
    if heard.is_answer or expected.is_answer:
        return heard.is_answer and expected.is_answer and expected.id == heard.id
    return expected.method == heard.method and bool(expected.id) == bool(heard.id)


def _without_id(message: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in message.items() if name != "id"}


def _learn(recorded: Any, real: Any, names: dict[str, str]) -> None:
    if isinstance(recorded, dict) and isinstance(real, dict):
        for name, value in recorded.items():
            other = real.get(name)
            if name in IDS and isinstance(value, str) and isinstance(other, str):
                if value != other:
                    names[value] = other
            else:
                _learn(value, other, names)
    elif isinstance(recorded, list) and isinstance(real, list):
        for one, other in zip(recorded, real, strict=False):
            _learn(one, other, names)


def _replaced(value: Any, names: dict[str, str], name: str = "") -> Any:
    if isinstance(value, dict):
        return {key: _replaced(item, names, key) for key, item in value.items()}
    if isinstance(value, list):
        return [_replaced(item, names) for item in value]
    return names.get(value, value) if name in IDS and isinstance(value, str) else value


def _object(data: bytes) -> Any:
    try:
        message = msgspec.json.decode(data)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return None
    return message if isinstance(message, dict) else None


def _id(message: Any) -> str:
    return _encode(message["id"]).decode() if isinstance(message, dict) and "id" in message else ""


def _encode(value: Any) -> bytes:
    return bytes(msgspec.json.encode(value))
