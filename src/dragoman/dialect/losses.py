"""What a message loses when a dialect says it: lowered, lifted again, and compared.

Takes a vocabulary message, gives the paths of the members that did not come back. What the dialect cannot say travels
under `_meta.dragoman`, which no peer need understand, so that counts as lost too. Generic: no dialect keeps a list.
"""

from __future__ import annotations

from typing import Any

from dragoman.dialect.dialects import Dialect
from dragoman.dialect.reshape import SIDE
from dragoman.errors import ProtocolError
from dragoman.schema.side import Side


def losses(dialect: Dialect, side: Side, method: str, params: Any) -> list[str]:
    """The paths of what a peer of this dialect does not hear."""
    try:
        name, wire = dialect.lower_call(side, method, params)
        _, heard = dialect.lift_call(side, name, bare(wire))
    except ProtocolError:
        return [method]
    return sorted(set(missing(bare(params), bare(heard), "")))


def bare(value: Any) -> Any:
    """The values without side data."""
    if isinstance(value, list):
        return [bare(item) for item in value]
    if not isinstance(value, dict):
        return value
    out = {}
    for name, item in value.items():
        if name == "_meta" and isinstance(item, dict):
            kept = {key: bare(inner) for key, inner in item.items() if key != SIDE}
            if kept:
                out[name] = kept
        else:
            out[name] = bare(item)
    return out


def missing(said: Any, heard: Any, path: str) -> list[str]:
    """The paths in `said` whose value is not the same in `heard`; list positions are written as []."""
    if isinstance(said, dict) and isinstance(heard, dict):
        found: list[str] = []
        for name, item in said.items():
            inner = f"{path}.{name}" if path else name
            found.extend([inner] if name not in heard else missing(item, heard[name], inner))
        return found
    if isinstance(said, list) and isinstance(heard, list):
        if len(said) != len(heard):
            return [f"{path}[]"]
        return [lost for one, other in zip(said, heard, strict=True) for lost in missing(one, other, f"{path}[]")]
    return [] if said == heard else [path]
