"""What an object on the wire must look like: a value is compared with a drawing of it, and the first fault is told.

A drawing is a type, a set of known texts, a function that says yes, a list of one drawing (any number of such) or a
dict of members; a name that ends in `?` may be absent or null. Takes JSON, gives words ("" when all is well).
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from typing import Any

Json = Any
Drawing = Any

_TYPES: dict[type, tuple[str, Callable[[Json], bool]]] = {
    str: ("a text", lambda value: isinstance(value, str)),
    bool: ("true or false", lambda value: isinstance(value, bool)),
    int: ("a whole number", lambda value: isinstance(value, int) and not isinstance(value, bool)),
    float: ("a number", lambda value: isinstance(value, int | float) and not isinstance(value, bool)),
    dict: ("an object", lambda value: isinstance(value, dict)),
    list: ("a list", lambda value: isinstance(value, list)),
    object: ("anything", lambda _: True),
}
_TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d(:\d\d(\.\d+)?)?(Z|[+-]\d\d:?\d\d)?")
_BASE64 = re.compile(r"[A-Za-z0-9+/]*={0,2}")


def fault(value: Json, drawing: Drawing, where: str = "") -> str:
    """What is wrong with a value; "" when nothing is."""
    name = where or "it"
    if isinstance(drawing, type):
        words, holds = _TYPES[drawing]
        return "" if holds(value) else f"{name} is {_shown(value)}, not {words}"
    if isinstance(drawing, frozenset):
        known = isinstance(value, str) and (value in drawing or value.startswith("_"))
        return "" if known else f"{name} is {_shown(value)}, none of {', '.join(sorted(drawing))}"
    if isinstance(drawing, list):
        return _fault_of_list(value, drawing[0], name)
    if isinstance(drawing, dict):
        return _fault_of_object(value, drawing, where)
    return "" if drawing(value) else f"{name} is {_shown(value)}, not {drawing.__doc__}"


def _fault_of_list(value: Json, each: Drawing, name: str) -> str:
    if not isinstance(value, list):
        return f"{name} is {_shown(value)}, not a list"
    found = (fault(item, each, f"{name}[{number}]") for number, item in enumerate(value))
    return next((words for words in found if words), "")


def _fault_of_object(value: Json, drawing: dict[str, Drawing], where: str) -> str:
    if not isinstance(value, dict):
        return f"{where or 'it'} is {_shown(value)}, not an object"
    for name, each in drawing.items():
        bare = name.removesuffix("?")
        path = f"{where}.{bare}" if where else bare
        if value.get(bare) is None and bare != name:
            continue
        if bare not in value:
            return f"{path} is missing"
        if words := fault(value[bare], each, path):
            return words
    return ""


def _shown(value: Json) -> str:
    text = repr(value)
    return text if len(text) < 60 else text[:57] + "..."


def absolute(value: Json) -> bool:
    """an absolute path"""
    return isinstance(value, str) and os.path.isabs(value)


def some(value: Json) -> bool:
    """a text with something in it"""
    return isinstance(value, str) and bool(value)


def many(value: Json) -> bool:
    """a list with something in it"""
    return isinstance(value, list) and bool(value)


def count(value: Json) -> bool:
    """a whole number from 0 on"""
    return isinstance(value, int) and not isinstance(value, bool) and value >= 0


def line(value: Json) -> bool:
    """a line number from 1 on"""
    return isinstance(value, int) and not isinstance(value, bool) and value >= 1


def time(value: Json) -> bool:
    """a time as ISO 8601 writes it"""
    return isinstance(value, str) and _TIME.fullmatch(value) is not None


def base64(value: Json) -> bool:
    """base64"""
    return isinstance(value, str) and len(value) % 4 == 0 and _BASE64.fullmatch(value) is not None


def text(*known: str) -> frozenset[str]:
    """One of these texts, or one that begins with an underscore."""
    return frozenset(known)


def block(value: Json) -> bool:
    """a content block (an object whose type is known, with the members of that type)"""
    drawing = BLOCKS.get(value.get("type")) if isinstance(value, dict) else None
    return drawing is not None and not fault(value, drawing)


BLOCKS: dict[Any, Drawing] = {
    "text": {"text": str},
    "image": {"data": str, "mimeType": some},
    "audio": {"data": str, "mimeType": some},
    "resource": {"resource": {"uri": some, "text?": str, "blob?": base64, "mimeType?": str}},
    "resource_link": {"uri": some, "name": str, "mimeType?": str, "size?": int},
}
