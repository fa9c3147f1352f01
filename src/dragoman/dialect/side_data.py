"""Typed messages as ledgers and roles handle them: their members, and the side data that stands beside those.

Takes Structs of the vocabulary, and answers, which a relay may give as JSON objects: both are read and changed the same
way, by the names of the Struct. Nothing is changed in place. `shape` does the same for JSON that is being spelled.
"""

from __future__ import annotations

from functools import cache
from typing import Any

import msgspec
from msgspec import UNSET

from dragoman.dialect.reshape import ABSENT, INFERRED, SIDE, Object
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
