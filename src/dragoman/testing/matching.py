"""Compare expected with received JSON: exactly, or only the members that are expected.

A comparison returns the first difference as text, or None. An expectation may contain matchers for unknown values:
ANYTHING, `variable` (the same value wherever the name occurs), `regex`, `one_of`, `where`.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import msgspec

# Characters of a value shown in a difference: enough to recognize it.
SHOWN = 200


class Matcher(msgspec.Struct, frozen=True):
    """A placeholder in an expectation for an unknown value."""

    description: str
    accepts: Callable[[Any], bool]

    def __repr__(self) -> str:
        return f"<{self.description}>"


class Variable(msgspec.Struct, frozen=True):
    """A value that the peer chooses: stored when first received, expected from then on."""

    name: str

    def __repr__(self) -> str:
        return f"<{self.name}>"


ANYTHING = Matcher("anything", lambda _: True)


def variable(name: str) -> Variable:
    """Match any value the first time, the same value afterwards; in an action, send that value."""
    return Variable(name)


def regex(pattern: str) -> Matcher:
    """Match a string in which this regular expression is found."""
    found = re.compile(pattern)
    return Matcher(f"a string like {pattern}", lambda value: isinstance(value, str) and found.search(value) is not None)


def one_of(*values: Any) -> Matcher:
    """Match one of these values."""
    return Matcher(f"one of {', '.join(map(repr, values))}", lambda value: value in values)


def where(accepts: Callable[[Any], bool], description: str = "a value that passes the check") -> Matcher:
    """Match a value for which this function returns true; the failure shows `description`."""
    return Matcher(description, accepts)


def exact_mismatch(expected: Any, received: Any) -> str | None:
    """Return None if both are the same, else the first difference."""
    return _mismatch(expected, received, {}, whole=True)


def mismatch(expected: Any, received: Any, names: dict[str, Any] | None = None) -> str | None:
    """Compare like `exact_mismatch`, but received objects may have more members; read and extend `names`."""
    return _mismatch(expected, received, {} if names is None else names, whole=False)


def substitute(value: Any, names: dict[str, Any]) -> Any:
    """Replace variables with their values; raise ValueError for an unknown name."""
    if isinstance(value, Variable):
        if value.name not in names:
            raise ValueError(f"no value was received yet for the name {value.name!r}; expect variable(...) first")
        return names[value.name]
    if isinstance(value, Matcher):
        raise ValueError(f"{value!r} can be expected but not sent; give a value")
    if isinstance(value, dict):
        return {name: substitute(item, names) for name, item in value.items()}
    if isinstance(value, list | tuple):
        return [substitute(item, names) for item in value]
    return value


def _mismatch(expected: Any, received: Any, names: dict[str, Any], *, whole: bool) -> str | None:
    if isinstance(expected, Matcher):
        return None if expected.accepts(received) else f"expected {expected.description}, received {_to_text(received)}"
    if isinstance(expected, Variable):
        known = names.setdefault(expected.name, received)
        if _same(known, received):
            return None
        return f"expected {_to_text(known)} ({expected.name}), received {_to_text(received)}"
    if type(expected) is dict and type(received) is dict:
        return _object_mismatch(expected, received, names, whole)
    if isinstance(expected, list) and isinstance(received, list):
        if len(expected) != len(received):
            return f"expected {len(expected)} items, received {len(received)}"
        pairs = enumerate(zip(expected, received, strict=True))
        found = (f"[{i}]: {fault}" for i, (a, b) in pairs if (fault := _mismatch(a, b, names, whole=whole)))
        return next(found, None)
    return None if _same(expected, received) else f"expected {_to_text(expected)}, received {_to_text(received)}"


def _object_mismatch(
    expected: dict[str, Any], received: dict[str, Any], names: dict[str, Any], whole: bool
) -> str | None:
    if whole and (extra := set(received) - set(expected)):
        return f"unexpected {sorted(extra)}"
    for name, value in expected.items():
        if name not in received:
            return f"{name} is missing"
        if fault := _mismatch(value, received[name], names, whole=whole):
            return f"{name}: {fault}"
    return None


def _same(expected: Any, received: Any) -> bool:
    # True == 1 in Python, but not in JSON.
    return bool(expected == received) and isinstance(expected, bool) == isinstance(received, bool)


def _to_text(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= SHOWN else text[: SHOWN - 3] + "..."
