"""Members and side data of typed messages, for emulators and roles.

Takes vocabulary Structs, or results that a relay gives as JSON objects: both are read and copied alike, by Struct
names. Nothing is changed in place. `reshape` does the same for JSON in codecs.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any, Final

import msgspec
from msgspec import UNSET

from dragoman.dialect.reshape import ABSENT, INFERRED_KEY, SECRET_MEMBERS, SIDE_DATA_KEY, Json, Lowered, Object
from dragoman.schema.base import to_json

# Side data of a state that a host derives from its turns, because agents of most dialects tell none; and of the one
# that tells a client that the turn of its own prompt begins.
DERIVED: Final = "derived"
OWN_TURN: Final = "ownTurn"

# Side data of a state by which an agent of the library tells work of its own; the emulator tells the turns of prompts.
OWN_STATE: Final = "ownState"

# Side data of a user message that the library's agent took into its running turn.
JOINED: Final = "joined"


# Side data of an agent's capabilities that only our own end of its connection needs.
_AGENT_NOTES: Final = frozenset({"noStdio", "noSessions"})


def without_agent_notes(result: Object) -> Object:
    """Return an agent's answer to initialize without what only the translator needs to know of the agent."""
    capabilities = result.get("agentCapabilities")
    if not isinstance(capabilities, dict) or not _AGENT_NOTES & side_data_of(capabilities).keys():
        return result
    return {**result, "agentCapabilities": with_side_data(capabilities, **dict.fromkeys(_AGENT_NOTES, ABSENT))}


def get_member(message: Any, name: str) -> Any:
    """Return a member of a message; UNSET if it is absent."""
    return message.get(_camel_case(name), UNSET) if isinstance(message, dict) else getattr(message, name, UNSET)


def with_members(message: Any, **members: Any) -> Any:
    """Return a copy with other members; UNSET removes one."""
    if not isinstance(message, dict):
        return msgspec.structs.replace(message, **members)
    names = {_camel_case(name) for name in members}
    rest = {name: value for name, value in message.items() if name not in names}
    return rest | {_camel_case(name): to_json(value) for name, value in members.items() if value is not UNSET}


def side_data_of(message: Any) -> Object:
    """Return the side data of a message; empty if there is none."""
    meta = get_member(message, "meta")
    found = meta.get(SIDE_DATA_KEY) if isinstance(meta, dict) else None
    return found if isinstance(found, dict) else {}


def with_side_data(message: Any, **members: Any) -> Any:
    """Return a copy with these members in its side data; ABSENT removes one."""
    meta = get_member(message, "meta")
    side_data = {name: value for name, value in {**side_data_of(message), **members}.items() if value is not ABSENT}
    rest = {name: value for name, value in meta.items() if name != SIDE_DATA_KEY} if isinstance(meta, dict) else {}
    whole = {**rest, SIDE_DATA_KEY: side_data} if side_data else rest
    return with_members(message, meta=whole or UNSET)


def inferred_members(message: Any) -> list[str]:
    """Return the members that the peer did not send itself."""
    names = side_data_of(message).get(INFERRED_KEY)
    return names if isinstance(names, list) else []


def mark_explicit(message: Any, *names: str) -> Any:
    """Return a copy in which these members no longer count as inferred."""
    left = [name for name in inferred_members(message) if name not in names]
    return with_side_data(message, **{INFERRED_KEY: left or ABSENT}) if left != inferred_members(message) else message


def mark_inferred(message: Any, *names: str) -> Any:
    """Return a copy in which these members count as inferred: the peer lacks them."""
    return with_side_data(message, **{INFERRED_KEY: list(dict.fromkeys([*inferred_members(message), *names]))})


def side_data_meta(request: Any, members: Object) -> Any:
    """Return the `_meta` for a requester whose dialect wants it; official answers stay official."""
    return {SIDE_DATA_KEY: members} if side_data_of(request) else UNSET


def int_or_none(value: Any) -> int | None:
    """Return an integer, or None."""
    return value if isinstance(value, int) else None


@cache
def _camel_case(name: str) -> str:
    if name == "meta":
        return "_meta"
    first, *parts = name.split("_")
    return first + "".join(word.capitalize() for word in parts)


# Side data is only on vocabulary objects, which nest no deeper than options in a group of an option in a result; below
# is a tool's own JSON, of any depth.
MAX_DEPTH: Final = 24

_PRIVATE_MEMBERS: Final = SECRET_MEMBERS | {INFERRED_KEY}

# Only in a client's capabilities may a peer use our key: it lists what it supports beyond its dialect.
_TRUSTED_MEMBERS: Final = frozenset({"clientCapabilities", "client_capabilities", "capabilities"})

_EditMeta = Callable[[Object, Json, int], Json]


def strip_private(value: Json) -> Any:
    """Return the value without private notes, at any depth."""
    return _walk(value, _drop_private, MAX_DEPTH)


def strip_side_data(value: Json) -> Any:
    """Return the value without anything under our key."""
    return _walk(value, _drop_side_data, MAX_DEPTH)


def strip_initialize_side_data(params: Object) -> Object:
    """Return initialize params without anything under our key, except the client's capabilities."""
    capabilities = {name: strip_private(params[name]) for name in _TRUSTED_MEMBERS if name in params}
    rest = {name: value for name, value in params.items() if name not in capabilities}
    return {**strip_side_data(rest), **capabilities}


def begin_lowering(obj: Json, drop_inferred: tuple[str, ...] = ()) -> Lowered:
    """Begin lowering an object; inferred members are dropped, except `ours`, which this dialect infers itself."""
    lowered = Lowered(obj)
    for name in lowered.inferred:
        if name not in drop_inferred and name in obj:
            lowered.rest[name] = obj[name]
    return lowered


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
