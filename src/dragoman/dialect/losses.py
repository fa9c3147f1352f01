"""What a message loses when a dialect says it: lowered, lifted again, and compared.

Takes a vocabulary message, gives the paths of the members that did not come back. What the dialect cannot say travels
under `_meta.dragoman`, which no peer need understand, so that counts as lost too. Generic: no dialect keeps a list.
"""

from __future__ import annotations

from typing import Any

from dragoman.dialect.dialects import Dialect
from dragoman.dialect.reshape import SIDE_DATA_KEY
from dragoman.errors import ProtocolError
from dragoman.schema.side import Side


def losses(dialect: Dialect, side: Side, method: str, params: Any) -> list[str]:
    """The paths of what a peer of this dialect does not hear."""
    try:
        name, wire = dialect.lower_call(side, method, params)
        _, heard = dialect.lift_call(side, name, without_side_data(wire))
    except ProtocolError:
        return [method]
    return sorted(set(missing_paths(without_side_data(params), without_side_data(heard), "")))


def without_side_data(value: Any) -> Any:
    """The values without side data."""
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
    """The paths in `said` whose value is not the same in `heard`; list positions are written as []."""
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
