"""Report what a message loses in a dialect: lower it, lift it again, and compare.

Returns the paths of the lost members. Side data under `_meta.dragoman` counts as lost, because a peer need not
understand it. Generic: no dialect keeps a list.
"""

from __future__ import annotations

from typing import Any

from dragoman.dialect.dialects import Dialect
from dragoman.dialect.reshape import SIDE_DATA_KEY
from dragoman.errors import ProtocolError
from dragoman.schema.side import Side


def losses(dialect: Dialect, side: Side, method: str, params: Any) -> list[str]:
    """Return the paths of the members that a peer of this dialect does not receive."""
    try:
        name, wire = dialect.lower_call(side, method, params)
        _, received = dialect.lift_call(side, name, without_side_data(wire))
    except ProtocolError:
        return [method]
    return sorted(set(missing_paths(without_side_data(params), without_side_data(received), "")))


def result_losses(dialect: Dialect, side: Side, method: str, result: Any) -> list[str]:
    """Return the paths of the members of a result of `side` that a peer of this dialect does not receive."""
    try:
        wire = dialect.lower_result(side, method, result)
        received = dialect.lift_result(side, method, without_side_data(wire))
    except ProtocolError:  # the peer gets an error, or its emulator answers
        return []
    return sorted(set(missing_paths(without_side_data(result), without_side_data(received), "")))


def without_empty(paths: list[str], source: Any) -> list[str]:
    """Return the lost paths whose value says something: not false, null or an empty list. An empty object does."""

    def value(path: str) -> Any:
        found = source
        for name in path.split("."):
            found = found.get(name) if isinstance(found, dict) else None
        return found

    return [path for path in paths if path.endswith("[]") or value(path) not in (False, None, [])]


# Members whose value decides how a message is translated.
_TAGS = frozenset({"type", "sessionUpdate", "kind", "status", "stopReason", "outcome", "priority", "role", "stream"})


def message_shape(value: Any, name: str = "") -> Any:
    """Return a hashable form of what a message can lose: its members at every depth, and the values that decide."""
    if isinstance(value, dict):
        return frozenset((key, message_shape(item, key)) for key, item in value.items())
    if isinstance(value, list):
        return min(len(value), 2), frozenset(message_shape(item) for item in value)
    if isinstance(value, str):
        return value if name in _TAGS else str
    return value if value is None or isinstance(value, bool) else type(value)


def without_side_data(value: Any) -> Any:
    """Return the values without side data."""
    if isinstance(value, list):
        return [without_side_data(item) for item in value]
    if not isinstance(value, dict):
        return value
    out = {}
    for name, item in value.items():
        if name == "_meta" and isinstance(item, dict):
            kept = {key: without_side_data(inner) for key, inner in item.items() if key != SIDE_DATA_KEY}
            if kept:
                out[name] = kept
        else:
            out[name] = without_side_data(item)
    return out


def missing_paths(expected: Any, actual: Any, path: str) -> list[str]:
    """Return the paths whose value differs; list positions are written as []."""
    if isinstance(expected, dict) and isinstance(actual, dict):
        found: list[str] = []
        for name, item in expected.items():
            inner = f"{path}.{name}" if path else name
            found.extend([inner] if name not in actual else missing_paths(item, actual[name], inner))
        return found
    if isinstance(expected, list) and isinstance(actual, list):
        if len(expected) != len(actual):
            return [f"{path}[]"]
        return [
            lost for one, other in zip(expected, actual, strict=True) for lost in missing_paths(one, other, f"{path}[]")
        ]
    return [] if expected == actual else [path]
