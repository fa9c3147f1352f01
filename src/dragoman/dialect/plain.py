"""What never crosses a wire: our notes on the way out, a peer's words under our key on the way in.

Takes JSON builtins that may hold `_meta.dragoman` anywhere. `plain` drops `inferred` lists and secrets from
it, the last step of every lowering; `cleared` drops all of it, the first step of every lifting. What needs no
change is given back as it is, not copied. Knows no method and no dialect.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from dragoman.dialect.reshape import ABSENT, INFERRED, SECRET, SIDE, Json, Lowered, Object

# Side data stands on vocabulary objects, which never nest deeper than options of a group of an option of a
# result; below that is a tool's own JSON, which may be as deep as it likes and is none of our business.
DEPTH: Final = 24

_NEVER_SAID: Final = SECRET | {INFERRED}

# Under a client's capabilities alone a peer may use our key: it says what it can do beyond its dialect.
_BELIEVED: Final = frozenset({"clientCapabilities", "client_capabilities", "capabilities"})

_Rule = Callable[[Object, Json, int], Json]


def plain(value: Json) -> Any:
    """The value without notes that stay at home, wherever in it they stand."""
    return _walk(value, _without_notes, DEPTH)


def cleared(value: Json) -> Any:
    """The value without anything under our key."""
    return _walk(value, _without_side, DEPTH)


def cleared_initialize(params: Object) -> Object:
    """The params of initialize without anything under our key, but for what the client says it can do."""
    said = {name: plain(params[name]) for name in _BELIEVED if name in params}
    rest = {name: value for name, value in params.items() if name not in said}
    return {**cleared(rest), **said}


def opened(obj: Json, ours: tuple[str, ...] = ()) -> Lowered:
    """An object to lower, with all that was inferred but `ours`: what this dialect's own reading fills in."""
    low = Lowered(obj)
    for name in low.inferred:
        if name not in ours and name in obj:
            low.left[name] = obj[name]
    return low


def _walk(value: Json, rule: _Rule, depth: int) -> Json:
    if not depth:
        return value
    kind = type(value)
    if kind is dict:
        return _walk_object(value, rule, depth - 1)
    if kind is list:
        items = [_walk(item, rule, depth - 1) for item in value]
        return items if any(new is not old for new, old in zip(items, value, strict=True)) else value
    return value


def _walk_object(value: Object, rule: _Rule, depth: int) -> Object:
    out: Object | None = None
    for name, item in value.items():
        kind = type(item)
        if kind is dict and name == "_meta" and SIDE in item:
            new = rule(item, item[SIDE], depth)
        elif kind is dict or kind is list:
            new = _walk(item, rule, depth)
        else:
            continue
        if new is not item:
            out = dict(value) if out is None else out
            if new is ABSENT:
                del out[name]
            else:
                out[name] = new
    return value if out is None else out


def _without_notes(meta: Object, side: Json, depth: int) -> Json:
    if not isinstance(side, dict):
        return meta
    kept = {name: _walk(item, _without_notes, depth) for name, item in side.items() if name not in _NEVER_SAID}
    return {**meta, SIDE: kept} if kept else _without_side(meta, side, depth)


def _without_side(meta: Object, side: Json, depth: int) -> Json:
    return {name: item for name, item in meta.items() if name != SIDE} or ABSENT
