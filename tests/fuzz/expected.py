"""What each frame is due: written down here by itself, with the standard library's JSON reader, to hold the engine to.

A request with an id that can be read is due one answer with that id. A frame that is no message at all is due one
answer too: with its id if that is there, else with null. Notifications and answers are due nothing.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterable
from typing import Any

from dragoman.wire.depth import MAX_DEPTH

Key = str | float | None

_STRINGS = re.compile(rb'"(?:[^"\\]|\\.)*"')
_IDS = re.compile(rb'"id" *: *([^,}\]]*)')
_BRACKETS = re.compile(rb"[\[\]{}]")


class Due:
    """The answers that are due to one peer, and those that came."""

    def __init__(self) -> None:
        self.frames = 0
        self.valid = 0
        self.requests = 0
        self.open: Counter[Key] = Counter()
        self.named: dict[Key, bytes] = {}  # the last frame with that id, for whoever looks into a failure
        self.nameless = 0  # answers with id null that are due
        self.doubtful = 0  # frames that may be answered or not: no JSON, or too deep to tell the id everywhere
        self._perhaps: set[Key] = set()  # ids of doubtful frames
        self.nameless_received = 0
        self.asked: set[Key] = set()  # ids of what the other end asked
        self.surplus: list[Any] = []

    def sent(self, frame: bytes) -> dict[str, Any] | None:
        """Write down what a frame is due; gives it back if it is a message."""
        self.frames += 1
        value, is_valid = _read(frame)
        self.valid += is_valid
        if value is _NOTHING or _is_too_deep(frame):
            self.doubtful += 1
            self._perhaps.update(_perhaps(frame))
            return None
        if not isinstance(value, dict):
            self.nameless += 1
            return None
        id = value.get("id", _NOTHING)
        if isinstance(id, bool | dict | list):
            self.nameless += 1
            return None
        method = value.get("method", _NOTHING)
        is_answer = "result" in value or "error" in value
        if is_answer and (method is _NOTHING or method is None):
            return value
        if isinstance(method, str) and id is _NOTHING:
            return value
        key = None if id is _NOTHING else key_of(id)
        if method is _NOTHING and key in self.asked:
            self.doubtful += 1  # an answer without result or error: it ends the request, unless that has ended
            self._perhaps.add(key)
        elif key is None:
            self.nameless += 1
        else:
            self.requests += isinstance(method, str)
            self.open[key] += 1
            self.named[key] = frame
        return value

    def on_answer(self, answer: dict[str, Any]) -> None:
        """An answer came."""
        key = key_of(answer.get("id"))
        error = answer.get("error")
        unread = error is not None and error["data"]["kind"] == "parse_error"
        if key is not None and self.open[key] > 0 and not (unread and key in self._perhaps):
            self.open[key] -= 1
            if not self.open[key]:
                del self.open[key], self.named[key]
        elif key is None or key in self._perhaps:
            self.nameless_received += 1
        else:
            self.surplus.append(answer)

    @property
    def is_settled(self) -> bool:
        """Whether every answer that has a name came."""
        return not self.open

    def check(self) -> None:
        """Nobody was answered twice, or without having asked."""
        assert not self.surplus, f"answered without being asked: {self.surplus[:3]}"
        assert self.nameless <= self.nameless_received <= self.nameless + self.doubtful, (
            f"{self.nameless_received} answers with id null, not {self.nameless} to {self.nameless + self.doubtful}"
        )


class _Nothing:
    pass


_NOTHING: Any = _Nothing()


def key_of(id: Any) -> Key:
    """An id as both ends may write it: numbers compare as numbers, halves of characters are replaced."""
    if isinstance(id, str):
        return id if id.isascii() else id.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    if id is None:
        return None
    try:
        number = float(id)
    except OverflowError:
        return None
    return None if number in (float("inf"), float("-inf")) else number


def _integer(digits: str) -> int | float:
    return int(digits) if len(digits) < 300 else float(digits)


# Readers cost more to make than to use. What the frame in hand says that JSON has no words for is in _ODD.
_ODD: list[str] = []
_STRICT = json.JSONDecoder(parse_constant=_ODD.append, parse_int=_integer)
_MILD = json.JSONDecoder(strict=False, parse_constant=_ODD.append, parse_int=_integer)


def _read(frame: bytes) -> tuple[Any, bool]:
    """What the frame says, and whether it is JSON by the letter."""
    _ODD.clear()
    try:
        try:
            text = frame.decode()
        except UnicodeDecodeError:
            _ODD.append("bytes")
            text = frame.decode("utf-8", "replace")
        try:
            return _STRICT.decode(text), not _ODD
        except json.JSONDecodeError:
            return _MILD.decode(text.removeprefix("\ufeff")), False
    except RecursionError:
        return _NOTHING, True
    except ValueError:
        return _NOTHING, False


def _perhaps(frame: bytes) -> Iterable[Key]:
    """What may be the id of a frame that is no JSON."""
    for text in _IDS.findall(frame):
        try:
            id = _STRICT.decode(text.decode("utf-8", "replace"))
        except (ValueError, RecursionError):
            continue
        if isinstance(id, str | int | float):
            yield key_of(id)


def _is_too_deep(frame: bytes) -> bool:
    """Whether the frame nests too deeply: few brackets are not counted out, and nothing after the deepest allowed."""
    if frame.count(b"[") + frame.count(b"{") <= MAX_DEPTH:
        return False
    depth = 0
    for bracket in _BRACKETS.findall(_STRINGS.sub(b"", frame)):
        depth += 1 if bracket in b"{[" else -1
        if depth > MAX_DEPTH:
            return True
    return False
