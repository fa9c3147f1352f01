"""The answers that each frame must get, computed with the standard library's JSON reader, to compare with.

A request with a readable id must get one answer with that id. A frame that is no message must get one answer too: with
its id if it has one, otherwise with null. Notifications and answers must get none.
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
    """The answers that one peer must get, and those that it got."""

    def __init__(self, checks_ids: bool = False) -> None:
        """`checks_ids`: a request with a fractional id gets an answer without an id."""
        self._checks_ids = checks_ids
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
        """Record the answers that a frame must get; return it if it is a message."""
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
        elif key is None or (self._is_invalid(id) and isinstance(method, str)):
            self.nameless += 1
        else:
            self.requests += isinstance(method, str)
            self.open[key] += 1
            self.named[key] = frame
        return value

    def _is_invalid(self, id: Any) -> bool:
        return self._checks_ids and isinstance(id, float) and not id.is_integer()

    def on_answer(self, answer: dict[str, Any]) -> None:
        """Record an answer."""
        key = key_of(answer.get("id"))
        error = answer.get("error")
        # An error of an MCP server passes as it is, without our data.
        unread = error is not None and (error.get("data") or {}).get("kind") == "parse_error"
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
        """Return whether every answer with an id came."""
        return not self.open

    def check(self) -> None:
        """Check that no answer came twice or without a request."""
        assert not self.surplus, f"answered without being asked: {self.surplus[:3]}"
        assert self.nameless <= self.nameless_received <= self.nameless + self.doubtful, (
            f"{self.nameless_received} answers with id null, not {self.nameless} to {self.nameless + self.doubtful}"
        )


class _Nothing:
    pass


_NOTHING: Any = _Nothing()


def key_of(id: Any) -> Key:
    """Return an id in a form that both ends share: numbers compare as numbers, lone surrogates are replaced."""
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
    """Return the value of the frame, and whether it is strict JSON."""
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
    """Return the possible id of a frame that is not JSON."""
    for text in _IDS.findall(frame):
        try:
            id = _STRICT.decode(text.decode("utf-8", "replace"))
        except (ValueError, RecursionError):
            continue
        if isinstance(id, str | int | float):
            yield key_of(id)


def _is_too_deep(frame: bytes) -> bool:
    """Return whether the frame nests too deeply; counting stops at the limit."""
    if frame.count(b"[") + frame.count(b"{") <= MAX_DEPTH:
        return False
    depth = 0
    for bracket in _BRACKETS.findall(_STRINGS.sub(b"", frame)):
        depth += 1 if bracket in b"{[" else -1
        if depth > MAX_DEPTH:
            return True
    return False
