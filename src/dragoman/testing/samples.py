"""Sample messages generated from the schema types: the smallest, a full one, and each variant.

The dialect contract uses them, so that the author of a dialect need not write examples.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from random import Random
from typing import Any

import msgspec
from msgspec import inspect as types

Json = Any

# Types nest (options in groups, blocks in content); below this depth only required members are generated.
MAX_DEPTH = 6

# Most values of one union; the union of updates has the most members.
MAX_VARIANTS = 80

# Values of strings that some reader parses.
_TEXTS = {
    "blob": "aGVsbG8=",
    "cwd": "/w",
    "data": "aGVsbG8=",
    "mimeType": "image/png",
    "path": "/w/a.txt",
    "uri": "file:///w/a.txt",
    "url": "https://example.org/x",
    "value": "on",
}


@cache
def samples(kind: Any) -> list[Json]:
    """Return distinct values of this type, as JSON builtins; all of them decode."""
    found: dict[bytes, Json] = {}
    for full in (False, True):
        for value in _variants(types.type_info(kind), "", full, MAX_DEPTH):
            found.setdefault(msgspec.json.encode(value, order="sorted"), value)
    return [value for value in found.values() if _decodes(kind, value)]


@cache
def _decoder(kind: Any) -> msgspec.json.Decoder[Any]:
    return msgspec.json.Decoder(kind)


def _decodes(kind: Any, value: Json) -> bool:
    try:
        _decoder(kind).decode(msgspec.json.encode(value))
    except msgspec.ValidationError:  # a string with a format that we do not know
        return False
    return True


def _variants(info: types.Type, name: str, full: bool, depth: int) -> list[Json]:
    """Return at least one value; several for a union."""
    if isinstance(info, types.UnionType):
        members = [each for each in info.types if not isinstance(each, types.NoneType)]
        return [value for each in members for value in _variants(each, name, full, depth)][:MAX_VARIANTS] or [None]
    if isinstance(info, types.StructType):
        return list(_objects(info, full, depth))
    if isinstance(info, types.ListType | types.VarTupleType | types.SetType):
        return [[value] for value in _variants(info.item_type, name, full, depth - 1)] if depth > 0 and full else [[]]
    if isinstance(info, types.DictType):
        return [{"KEY": _variants(info.value_type, name, full, depth - 1)[0]}] if depth > 0 and full else [{}]
    if isinstance(info, types.LiteralType):
        return list(info.values)
    return [_scalar(info, name)]


def _scalar(info: types.Type, name: str) -> Json:
    if isinstance(info, types.StrType):
        return _TEXTS.get(name, f"a-{name}" if name else "text")
    if isinstance(info, types.BoolType):
        return True
    if isinstance(info, types.IntType):
        return 1
    if isinstance(info, types.FloatType):
        return 0.5
    if isinstance(info, types.RawType | types.AnyType):
        return _TEXTS.get(name, {"any": ["thing", 1, None]})
    return None


def _objects(info: types.StructType, full: bool, depth: int) -> Iterator[Json]:
    wanted = [field for field in info.fields if field.required or (full and depth > 0 and field.encode_name != "_meta")]
    choices = {field.encode_name: _variants(field.type, field.encode_name, full, depth - 1) for field in wanted}
    tag = {info.tag_field: info.tag} if info.tag_field else {}
    first = {name: values[0] for name, values in choices.items()}
    yield {**tag, **first}
    for name, values in choices.items():
        for other in values[1:]:
            yield {**tag, **first, name: other}


def random_json(random: Random, names: list[str], depth: int = 4) -> Json:
    """Return random JSON with these member names, so that every rule gets odd input."""
    draw = random.random()
    if depth and draw < 0.5:
        return {random.choice(names): random_json(random, names, depth - 1) for _ in range(random.randrange(5))}
    if depth and draw < 0.6:
        return [random_json(random, names, depth - 1) for _ in range(random.randrange(3))]
    return random.choice([None, True, False, 0, -1, 1.5, "", "text", "\ud800", random.choice(names)])
