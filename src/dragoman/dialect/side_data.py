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

from dragoman.dialect.reshape import ABSENT, INFERRED_KEY, SECRET_MEMBERS, SIDE_DATA_KEY, Json, Lowered, Object
from dragoman.schema.base import to_json


def get_member(message: Any, name: str) -> Any:
    """A member of a message; UNSET when it was not said."""
    return message.get(_camel_case(name), UNSET) if isinstance(message, dict) else getattr(message, name, UNSET)


def with_members(message: Any, **members: Any) -> Any:
    """A copy of a message with other members; UNSET leaves one out."""
    if not isinstance(message, dict):
        return msgspec.structs.replace(message, **members)
    said = {_camel_case(name): to_json(value) for name, value in members.items() if value is not UNSET}
    rest = {name: value for name, value in message.items() if name not in {_camel_case(name) for name in members}}
    return {**rest, **said}


def side_data_of(message: Any) -> Object:
    """The side data of a message; empty when there is none."""
    meta = get_member(message, "meta")
    found = meta.get(SIDE_DATA_KEY) if isinstance(meta, dict) else None
    return found if isinstance(found, dict) else {}


def with_side_data(message: Any, **members: Any) -> Any:
    """A copy of a message with these members in its side data; ABSENT takes one away."""
    meta = get_member(message, "meta")
    beside = {name: value for name, value in {**side_data_of(message), **members}.items() if value is not ABSENT}
    rest = {name: value for name, value in meta.items() if name != SIDE_DATA_KEY} if isinstance(meta, dict) else {}
    whole = {**rest, SIDE_DATA_KEY: beside} if beside else rest
    return with_members(message, meta=whole or UNSET)


def inferred_members(message: Any) -> list[str]:
    """Which members the peer did not say itself."""
    names = side_data_of(message).get(INFERRED_KEY)
    return names if isinstance(names, list) else []


def mark_explicit(message: Any, *names: str) -> Any:
    """A copy of a message in which these members count as said: somebody has found out."""
    left = [name for name in inferred_members(message) if name not in names]
    return with_side_data(message, **{INFERRED_KEY: left or ABSENT}) if left != inferred_members(message) else message


def mark_inferred(message: Any, *names: str) -> Any:
    """A copy of a message in which these members count as not said: the peer has no place for them."""
    return with_side_data(message, **{INFERRED_KEY: list(dict.fromkeys([*inferred_members(message), *names]))})


def side_data_meta(request: Any, members: Object) -> Any:
    """The `_meta` that tells this to who asked, if its dialect wants it; official answers stay official."""
    return {SIDE_DATA_KEY: members} if side_data_of(request) else UNSET


def int_or_none(value: Any) -> int | None:
    """A number that was said, or None."""
    return value if isinstance(value, int) else None


@cache
def _camel_case(name: str) -> str:
    if name == "meta":
        return "_meta"
    first, *words = name.split("_")
    return first + "".join(word.capitalize() for word in words)


# Side data stands on vocabulary objects, which never nest deeper than options of a group of an option of a
# result; below that is a tool's own JSON, which may be as deep as it likes and is none of our business.
MAX_DEPTH: Final = 24


_PRIVATE_MEMBERS: Final = SECRET_MEMBERS | {INFERRED_KEY}


# Under a client's capabilities alone a peer may use our key: it says what it can do beyond its dialect.
_TRUSTED_MEMBERS: Final = frozenset({"clientCapabilities", "client_capabilities", "capabilities"})


_EditMeta = Callable[[Object, Json, int], Json]


def strip_private(value: Json) -> Any:
    """The value without notes that stay at home, wherever in it they stand."""
    return _walk(value, _drop_private, MAX_DEPTH)


def strip_side_data(value: Json) -> Any:
    """The value without anything under our key."""
    return _walk(value, _drop_side_data, MAX_DEPTH)


def strip_initialize_side_data(params: Object) -> Object:
    """The params of initialize without anything under our key, but for what the client says it can do."""
    said = {name: strip_private(params[name]) for name in _TRUSTED_MEMBERS if name in params}
    rest = {name: value for name, value in params.items() if name not in said}
    return {**strip_side_data(rest), **said}


def begin_lowering(obj: Json, drop_inferred: tuple[str, ...] = ()) -> Lowered:
    """An object to lower, with all that was inferred but `ours`: what this dialect's own reading fills in."""
    low = Lowered(obj)
    for name in low.inferred:
        if name not in drop_inferred and name in obj:
            low.rest[name] = obj[name]
    return low


def _walk(value: Json, edit_meta: _EditMeta, depth: int) -> Json:
    if not depth:
        return value
    kind = type(value)
    if kind is dict:
        return _walk_object(value, edit_meta, depth - 1)
    if kind is list:
        items = [_walk(item, edit_meta, depth - 1) for item in value]
        return items if any(new is not old for new, old in zip(items, value, strict=True)) else value
    return value


def _walk_object(value: Object, edit_meta: _EditMeta, depth: int) -> Object:
    out: Object | None = None
    for name, item in value.items():
        kind = type(item)
        if kind is dict and name == "_meta" and SIDE_DATA_KEY in item:
            new = edit_meta(item, item[SIDE_DATA_KEY], depth)
        elif kind is dict or kind is list:
            new = _walk(item, edit_meta, depth)
        else:
            continue
        if new is not item:
            out = dict(value) if out is None else out
            if new is ABSENT:
                del out[name]
            else:
                out[name] = new
    return value if out is None else out


def _drop_private(meta: Object, side: Json, depth: int) -> Json:
    if not isinstance(side, dict):
        return meta
    kept = {name: _walk(item, _drop_private, depth) for name, item in side.items() if name not in _PRIVATE_MEMBERS}
    return {**meta, SIDE_DATA_KEY: kept} if kept else _drop_side_data(meta, side, depth)


def _drop_side_data(meta: Object, side: Json, depth: int) -> Json:
    return {name: item for name, item in meta.items() if name != SIDE_DATA_KEY} or ABSENT
