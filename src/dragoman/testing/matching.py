"""Comparing what was expected with what was heard: exactly, or as far as the expectation says anything.

Takes JSON and gives the first difference in words, None when there is none. An expectation may hold matchers where a
value is not known beforehand: ANYTHING, `named` (the same value wherever that name stands), `like`, `one_of`, `where`.
Knows nothing of messages.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import msgspec

# So much of a value is shown in a difference: enough to recognise it. Characters.
SHOWN = 200


class Matcher(msgspec.Struct, frozen=True):
    """Stands in an expectation for a value that is not known beforehand."""

    words: str
    holds: Callable[[Any], bool]

    def __repr__(self) -> str:
        return f"<{self.words}>"


class Named(msgspec.Struct, frozen=True):
    """A value that the other end makes up: taken when it is first heard, the same from then on."""

    name: str

    def __repr__(self) -> str:
        return f"<{self.name}>"


ANYTHING = Matcher("anything", lambda _: True)


def named(name: str) -> Named:
    """The value that goes by this name: learnt where it is first heard, then expected, and put into what is said."""
    return Named(name)


def like(pattern: str) -> Matcher:
    """A text in which this regular expression is found."""
    found = re.compile(pattern)
    return Matcher(f"a text like {pattern}", lambda value: isinstance(value, str) and found.search(value) is not None)


def one_of(*values: Any) -> Matcher:
    """One of these values."""
    return Matcher(f"one of {', '.join(map(repr, values))}", lambda value: value in values)


def where(holds: Callable[[Any], bool], words: str = "what the test asks for") -> Matcher:
    """A value of which this function says yes; `words` say it in the failure."""
    return Matcher(words, holds)


def exactly(expected: Any, heard: Any) -> str | None:
    """None when both are the same, else where they differ."""
    return _difference(expected, heard, {}, whole=True)


def matches(expected: Any, heard: Any, names: dict[str, Any] | None = None) -> str | None:
    """Like `exactly`, but objects heard may have more members than expected; `names` are known and learnt."""
    return _difference(expected, heard, {} if names is None else names, whole=False)


def filled(value: Any, names: dict[str, Any]) -> Any:
    """What is to be said, with the values that go by their names; a name nobody has heard is a fault of the test."""
    if isinstance(value, Named):
        if value.name not in names:
            raise ValueError(f"nothing was heard yet that goes by the name {value.name!r}; expect named(...) first")
        return names[value.name]
    if isinstance(value, Matcher):
        raise ValueError(f"{value!r} can be expected but not said; say a value")
    if isinstance(value, dict):
        return {name: filled(item, names) for name, item in value.items()}
    if isinstance(value, list | tuple):
        return [filled(item, names) for item in value]
    return value


def _difference(expected: Any, heard: Any, names: dict[str, Any], *, whole: bool) -> str | None:
    if isinstance(expected, Matcher):
        return None if expected.holds(heard) else f"expected {expected.words}, heard {_shown(heard)}"
    if isinstance(expected, Named):
        known = names.setdefault(expected.name, heard)
        return None if _same(known, heard) else f"expected {_shown(known)} ({expected.name}), heard {_shown(heard)}"
    if type(expected) is dict and type(heard) is dict:
        return _of_objects(expected, heard, names, whole)
    if isinstance(expected, list) and isinstance(heard, list):
        if len(expected) != len(heard):
            return f"expected {len(expected)} items, heard {len(heard)}"
        pairs = enumerate(zip(expected, heard, strict=True))
        found = (f"[{i}]: {fault}" for i, (a, b) in pairs if (fault := _difference(a, b, names, whole=whole)))
        return next(found, None)
    return None if _same(expected, heard) else f"expected {_shown(expected)}, heard {_shown(heard)}"


def _of_objects(expected: dict[str, Any], heard: dict[str, Any], names: dict[str, Any], whole: bool) -> str | None:
    if whole and (extra := set(heard) - set(expected)):
        return f"unexpected {sorted(extra)}"
    for name, value in expected.items():
        if name not in heard:
            return f"{name} is missing"
        if fault := _difference(value, heard[name], names, whole=whole):
            return f"{name}: {fault}"
    return None


def _same(expected: Any, heard: Any) -> bool:
    # True == 1 in Python; on the wire they are two things.
    return bool(expected == heard) and isinstance(expected, bool) == isinstance(heard, bool)


def _shown(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= SHOWN else text[: SHOWN - 3] + "..."
