"""The expected shape of JSON: `mismatch` compares a value with a shape and describes the first difference.

A shape is a type, a set of known strings, a predicate, a list of one shape (any number of items) or a dict of members;
a name that ends in `?` may be absent or null.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from typing import Any

Json = Any
Shape = Any

_TYPES: dict[type, tuple[str, Callable[[Json], bool]]] = {
    str: ("a string", lambda value: isinstance(value, str)),
    bool: ("true or false", lambda value: isinstance(value, bool)),
    int: ("an integer", lambda value: isinstance(value, int) and not isinstance(value, bool)),
    float: ("a number", lambda value: isinstance(value, int | float) and not isinstance(value, bool)),
    dict: ("an object", lambda value: isinstance(value, dict)),
    list: ("a list", lambda value: isinstance(value, list)),
    object: ("anything", lambda _: True),
}
_TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d(:\d\d(\.\d+)?)?(Z|[+-]\d\d:?\d\d)?")
_BASE64 = re.compile(r"[A-Za-z0-9+/]*={0,2}")


def mismatch(value: Json, shape: Shape, where: str = "") -> str:
    """Return what is wrong with a value, or ""."""
    name = where or "it"
    if isinstance(shape, type):
        problem, holds = _TYPES[shape]
        return "" if holds(value) else f"{name} is {excerpt(value)}, not {problem}"
    if isinstance(shape, frozenset):
        known = isinstance(value, str) and (value in shape or value.startswith("_"))
        return "" if known else f"{name} is {excerpt(value)}, none of {', '.join(sorted(shape))}"
    if isinstance(shape, list):
        return _list_mismatch(value, shape[0], name)
    if isinstance(shape, dict):
        return _object_mismatch(value, shape, where)
    return "" if shape(value) else f"{name} is {excerpt(value)}, not {shape.__doc__}"


def _list_mismatch(value: Json, each: Shape, name: str) -> str:
    if not isinstance(value, list):
        return f"{name} is {excerpt(value)}, not a list"
    found = (mismatch(item, each, f"{name}[{number}]") for number, item in enumerate(value))
    return next((problem for problem in found if problem), "")


def _object_mismatch(value: Json, shape: dict[str, Shape], where: str) -> str:
    if not isinstance(value, dict):
        return f"{where or 'it'} is {excerpt(value)}, not an object"
    for name, each in shape.items():
        member = name.removesuffix("?")
        path = f"{where}.{member}" if where else member
        if value.get(member) is None and member != name:
            continue
        if member not in value:
            return f"{path} is missing"
        if problem := mismatch(value[member], each, path):
            return problem
    return ""


def excerpt(value: Json) -> str:
    """Return a value as a short text."""
    text = repr(value)
    return text if len(text) < 60 else text[:57] + "..."


def absolute(value: Json) -> bool:
    """an absolute path"""
    return isinstance(value, str) and os.path.isabs(value)


def non_empty(value: Json) -> bool:
    """a non-empty string"""
    return isinstance(value, str) and bool(value)


def non_empty_list(value: Json) -> bool:
    """a non-empty list"""
    return isinstance(value, list) and bool(value)


def natural(value: Json) -> bool:
    """an integer from 0 on"""
    return isinstance(value, int) and not isinstance(value, bool) and value >= 0


def line_number(value: Json) -> bool:
    """a line number from 1 on"""
    return isinstance(value, int) and not isinstance(value, bool) and value >= 1


def iso_time(value: Json) -> bool:
    """an ISO 8601 time"""
    return isinstance(value, str) and _TIME.fullmatch(value) is not None


def base64_text(value: Json) -> bool:
    """base64"""
    return isinstance(value, str) and len(value) % 4 == 0 and _BASE64.fullmatch(value) is not None


def one_of(*known: str) -> frozenset[str]:
    """Return the shape of these strings, or any that begins with an underscore."""
    return frozenset(known)


def content_block(value: Json) -> bool:
    """a content block (an object with a known type and the members of that type)"""
    shape = BLOCKS.get(value.get("type")) if isinstance(value, dict) else None
    return shape is not None and not mismatch(value, shape)


BLOCKS: dict[Any, Shape] = {
    "text": {"text": str},
    "image": {"data": str, "mimeType": non_empty},
    "audio": {"data": str, "mimeType": non_empty},
    "resource": {"resource": {"uri": non_empty, "text?": str, "blob?": base64_text, "mimeType?": str}},
    "resource_link": {"uri": non_empty, "name": str, "mimeType?": str, "size?": int},
}
