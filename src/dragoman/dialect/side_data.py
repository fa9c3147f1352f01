"""Typed messages as ledgers and roles handle them: their members, and the side data that stands beside those.

Takes Structs of the vocabulary, and answers, which a relay may give as JSON objects: both are read and changed the same
way, by the names of the Struct. Nothing is changed in place. `shape` does the same for JSON that is being spelled.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any, Final

import msgspec
from msgspec import UNSET

from dragoman.dialect.reshape import ABSENT, INFERRED, SECRET, SIDE, Json, Lowered, Object
from dragoman.schema.base import to_json


def member(message: Any, name: str) -> Any:
    """A member of a message; UNSET when it was not said."""
    return message.get(_camel(name), UNSET) if isinstance(message, dict) else getattr(message, name, UNSET)


def changed(message: Any, **members: Any) -> Any:
    """A copy of a message with other members; UNSET leaves one out."""
    if not isinstance(message, dict):
        return msgspec.structs.replace(message, **members)
    said = {_camel(name): to_json(value) for name, value in members.items() if value is not UNSET}
    rest = {name: value for name, value in message.items() if name not in {_camel(name) for name in members}}
    return {**rest, **said}


def side(message: Any) -> Object:
    """The side data of a message; empty when there is none."""
    meta = member(message, "meta")
    found = meta.get(SIDE) if isinstance(meta, dict) else None
    return found if isinstance(found, dict) else {}


def noted(message: Any, **members: Any) -> Any:
    """A copy of a message with these members in its side data; ABSENT takes one away."""
    meta = member(message, "meta")
    beside = {name: value for name, value in {**side(message), **members}.items() if value is not ABSENT}
    rest = {name: value for name, value in meta.items() if name != SIDE} if isinstance(meta, dict) else {}
    whole = {**rest, SIDE: beside} if beside else rest
    return changed(message, meta=whole or UNSET)


def inferred(message: Any) -> list[str]:
    """Which members the peer did not say itself."""
    names = side(message).get(INFERRED)
    return names if isinstance(names, list) else []


def known(message: Any, *names: str) -> Any:
    """A copy of a message in which these members count as said: somebody has found out."""
    left = [name for name in inferred(message) if name not in names]
    return noted(message, **{INFERRED: left or ABSENT}) if left != inferred(message) else message


def unsaid(message: Any, *names: str) -> Any:
    """A copy of a message in which these members count as not said: the peer has no place for them."""
    return noted(message, **{INFERRED: list(dict.fromkeys([*inferred(message), *names]))})


def noted_for(asked: Any, told: Object) -> Any:
    """The `_meta` that tells this to who asked, if its dialect wants it; official answers stay official."""
    return {SIDE: told} if side(asked) else UNSET


def number(value: Any) -> int | None:
    """A number that was said, or None."""
    return value if isinstance(value, int) else None


@cache
def _camel(name: str) -> str:
    if name == "meta":
        return "_meta"
    first, *words = name.split("_")
    return first + "".join(word.capitalize() for word in words)


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
