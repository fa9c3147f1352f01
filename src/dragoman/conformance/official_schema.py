"""The official schema of v1, for what an agent sends: by its letter, and without the code that it checks.

`problem` compares a value with a definition and describes the first difference.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from functools import cache
from importlib.resources import files
from typing import Any

from dragoman.conformance.json_shape import excerpt

Json = Any
Schema = dict[str, Any]

_TYPES: dict[str, tuple[type, ...]] = {
    "string": (str,),
    "boolean": (bool,),
    "integer": (int,),
    "number": (int, float),
    "object": (dict,),
    "array": (list,),
    "null": (type(None),),
}


@cache
def _document() -> Schema:
    found: Schema = json.loads(files("dragoman.conformance").joinpath("official_schema.json").read_text("utf-8"))
    return found


def definition(part: str, method: str) -> Schema | None:
    """Return the schema of the `params` or the `result` of a method; None for a method of no schema."""
    name = _document()["methods"].get(f"{part} {method}")
    return None if name is None else {"$ref": f"#/$defs/{name}"}


ERROR: Schema = {"$ref": "#/$defs/Error"}


def problem(value: Json, schema: Schema, where: str) -> str:
    """Return what is wrong with a value, or ""."""
    return next(_problems(value, schema, where), "")


def unknown_members(value: Json, schema: Schema) -> list[str]:
    """Return the members of an object that its schema does not name."""
    return sorted(set(value) - set(_members(schema))) if isinstance(value, dict) else []


def _members(schema: Schema) -> Iterator[str]:
    schema = _resolve(schema)
    yield from schema.get("properties", ())
    for word in ("allOf", "anyOf", "oneOf"):
        for each in schema.get(word, ()):
            yield from _members(each)


def _resolve(schema: Schema) -> Schema:
    found: Schema = _document()["$defs"][schema["$ref"].rpartition("/")[2]] if "$ref" in schema else schema
    return found


def _problems(value: Json, schema: Schema, where: str) -> Iterator[str]:
    schema = _resolve(schema)
    kinds = schema.get("type", [])
    kinds = [kinds] if isinstance(kinds, str) else kinds
    if kinds and not any(_is_of(value, kind) for kind in kinds):
        yield f"{where} is {excerpt(value)}, not {' or '.join(kinds)}"
        return
    if "const" in schema and not _equal(value, schema["const"]):
        yield f"{where} is {excerpt(value)}, not {schema['const']!r}"
    if _is_of(value, "number") and (value < schema.get("minimum", value) or value > schema.get("maximum", value)):
        yield f"{where} is {value}, which is out of range"
    if isinstance(value, str) and len(value) < schema.get("minLength", 0):
        yield f"{where} is too short"
    if isinstance(value, dict):
        yield from _object_problems(value, schema, where)
    if isinstance(value, list) and "items" in schema:
        for number, item in enumerate(value):
            yield from _problems(item, schema["items"], f"{where}[{number}]")
    for each in schema.get("allOf", ()):
        yield from _problems(value, each, where)
    if "not" in schema and not problem(value, schema["not"], where):
        yield f"{where} has a form that the schema excludes"
    for word in ("anyOf", "oneOf"):
        if word in schema:
            yield from _union_problems(value, schema[word], where, only_one=word == "oneOf")


def _object_problems(value: dict[str, Json], schema: Schema, where: str) -> Iterator[str]:
    known = schema.get("properties", {})
    for name in schema.get("required", ()):
        if name not in value:
            yield f"{where}.{name} is missing"
    rest = schema.get("additionalProperties")
    for name, item in value.items():
        each = known.get(name, rest if isinstance(rest, dict) else {})
        yield from _problems(item, each, f"{where}.{name}")


def _union_problems(value: Json, variants: list[Schema], where: str, *, only_one: bool) -> Iterator[str]:
    found = [problem(value, each, where) for each in variants]
    fits = found.count("")
    if fits == 1 or (fits and not only_one):
        return
    if fits:
        yield f"{where} has {fits} of the forms that exclude each other"
        return
    tagged = [why for each, why in zip(variants, found, strict=True) if _has_tag(value, each)]
    yield tagged[0] if len(tagged) == 1 else f"{where} is {excerpt(value)}, which has none of the forms in the schema"


def _has_tag(value: Json, variant: Schema) -> bool:
    """Whether a value says that it is of this variant: it is an object with its constants, or it is not null."""
    variant = _resolve(variant)
    constants = {name: each["const"] for name, each in variant.get("properties", {}).items() if "const" in each}
    if not constants:
        return value is not None and variant.get("type") != "null" and "const" not in variant
    return isinstance(value, dict) and all(_equal(value.get(name), tag) for name, tag in constants.items())


def _is_of(value: Json, kind: str) -> bool:
    if isinstance(value, bool):
        return kind == "boolean"
    return isinstance(value, _TYPES[kind]) or (kind == "integer" and isinstance(value, float) and value.is_integer())


def _equal(one: Json, other: Json) -> bool:
    return type(one) is type(other) and bool(one == other)
