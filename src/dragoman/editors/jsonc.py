"""Read JSON with comments and trailing commas, and remember where each value stands in the text.

Settings files of editors are edited by hand. `json` cannot read them, and would lose their comments.
"""

from __future__ import annotations

import json
import re
from typing import Any

import msgspec

# Deeper than any settings file; a deeper one would end in a RecursionError.
MAX_DEPTH = 100

_SPACE = re.compile(r"(?:[\s\ufeff]|//[^\n]*|/\*.*?\*/)*", re.S)
_LITERAL = re.compile(r"true|false|null|-?(?:0|[1-9]\d*)(?:\.\d+)?(?:[eE][+-]?\d+)?")
_STRING = re.compile(r'"(?:[^"\\\x00-\x1f]|\\.)*"')


class JsonFault(ValueError):
    """A text that cannot be read, or not be changed: the line and the reason."""

    def __init__(self, text: str, at: int, reason: str) -> None:
        super().__init__(f"line {text.count(chr(10), 0, at) + 1}: {reason}")


class Node(msgspec.Struct):
    """One value: its place in the text, and the members of an object."""

    start: int
    end: int
    value: Any
    members: dict[str, Member] | None = None  # None: not an object


class Member(msgspec.Struct):
    """One member of an object: where its key begins, and its value."""

    start: int
    node: Node


def parse(text: str) -> Node | None:
    """Return the value of the text; None for a text of nothing but space and comments. Raise JsonFault."""
    at = skip_space(text, 0)
    if at == len(text):
        return None
    node = _read_value(text, at, 0)
    rest = skip_space(text, node.end)
    if rest != len(text):
        raise JsonFault(text, rest, "there is text after the end of the value")
    return node


def skip_space(text: str, at: int) -> int:
    """Return the place after space and comments."""
    match = _SPACE.match(text, at)
    assert match is not None
    if text.startswith("/*", match.end()):
        raise JsonFault(text, match.end(), "a comment does not end")
    return match.end()


def _read_value(text: str, at: int, depth: int) -> Node:
    if depth > MAX_DEPTH:
        raise JsonFault(text, at, f"more than {MAX_DEPTH} levels of nesting")
    first = text[at : at + 1]
    if first == "{":
        return _read_object(text, at, depth)
    if first == "[":
        return _read_list(text, at, depth)
    match = _STRING.match(text, at) if first == '"' else _LITERAL.match(text, at)
    if match is None:
        raise JsonFault(text, at, "a value was expected" if first else "the text ends too early")
    return Node(at, match.end(), _decode(text, at, match[0]))


def _read_object(text: str, start: int, depth: int) -> Node:
    members: dict[str, Member] = {}
    at = skip_space(text, start + 1)
    while not text.startswith("}", at):
        match = _STRING.match(text, at)
        if match is None:
            raise JsonFault(text, at, 'a key in double quotes or "}" was expected')
        key = _decode(text, at, match[0])
        colon = skip_space(text, match.end())
        if not text.startswith(":", colon):
            raise JsonFault(text, colon, f"a colon was expected after {match[0]}")
        node = _read_value(text, skip_space(text, colon + 1), depth + 1)
        if key in members:
            raise JsonFault(text, at, f"the key {match[0]} is there twice; remove one of them")
        members[key] = Member(at, node)
        at = _next_item(text, node.end, "}")
    return Node(start, at + 1, {key: member.node.value for key, member in members.items()}, members)


def _read_list(text: str, start: int, depth: int) -> Node:
    values = []
    at = skip_space(text, start + 1)
    while not text.startswith("]", at):
        node = _read_value(text, at, depth + 1)
        values.append(node.value)
        at = _next_item(text, node.end, "]")
    return Node(start, at + 1, values)


def _next_item(text: str, at: int, close: str) -> int:
    """Return where the next item or the closing bracket stands."""
    at = skip_space(text, at)
    if text.startswith(",", at):
        return skip_space(text, at + 1)
    if not text.startswith(close, at):
        raise JsonFault(text, at, f'a comma or "{close}" was expected')
    return at


def _decode(text: str, at: int, source: str) -> Any:
    try:
        return json.loads(source)
    except ValueError as error:
        raise JsonFault(text, at, str(error)) from None
