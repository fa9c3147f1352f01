"""Set and remove one member of a JSON text; every other character stays as it is.

The result is read again: if it is not the old value with that one change, the edit is refused.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from typing import Any

from dragoman.editors.jsonc import JsonFault, Node, parse, skip_space

JsonPath = tuple[str, ...]

_DEFAULT_INDENT = "  "


def find_member(text: str, path: JsonPath) -> Node | None:
    """Return the value at a path; None if it is not there. Raise JsonFault."""
    node = parse(text)
    for key in path:
        member = (node.members or {}).get(key) if node is not None else None
        node = None if member is None else member.node
    return node


def source_of(text: str, path: JsonPath) -> str | None:
    """Return the value at a path as it stands in the text; None if it is not there."""
    node = find_member(text, path)
    return None if node is None else text[node.start : node.end]


def set_member(text: str, path: JsonPath, value: Any) -> str:
    """Return the text with the value at the path; raise JsonFault if that is not possible."""
    after = _set(text, path, value)
    _check(text, after, path, value)
    return after


def restore_member(text: str, path: JsonPath, source: str) -> str:
    """Return the text with the value at the path as it once stood there."""
    node = find_member(text, path)
    value = json.loads(json.dumps(_value_of(source)))
    if node is None:
        return set_member(text, path, value)
    after = text[: node.start] + source + text[node.end :]
    _check(text, after, path, value)
    return after


def remove_member(text: str, path: JsonPath) -> str:
    """Return the text without the member at the path; the text itself if it is not there."""
    parent = find_member(text, path[:-1])
    if parent is None or parent.members is None or path[-1] not in parent.members:
        return text
    member = parent.members[path[-1]]
    comma = skip_space(text, member.node.end)
    pieces = [(member.start, member.node.end)]
    if text.startswith(",", comma):
        pieces.append((comma, comma + 1))
    elif (previous := _member_before(parent, member.start)) is not None:
        before = skip_space(text, previous.end)
        spaces = len(text[before + 1 :]) - len(text[before + 1 :].lstrip(" \t"))
        pieces.append((before, before + 1 + spaces))
    for start, end in sorted(pieces, reverse=True):
        start, end = _widen_to_line(text, start, end)
        text = text[:start] + text[end:]
    parse(text)
    return text


def render(value: Any, unit: str, indent: str = "") -> str:
    """Return a value as JSON: objects over several lines, lists of plain values on one."""
    if isinstance(value, Mapping) and value:
        inner = indent + unit
        named = [(json.dumps(key, ensure_ascii=False), render(each, unit, inner)) for key, each in value.items()]
        lines = [f"{inner}{key}: {source}" for key, source in named]
        return "{\n" + ",\n".join(lines) + f"\n{indent}}}"
    return json.dumps(value, ensure_ascii=False)


# --- how a member is set --------------------------------------------------------------------------------------


def _set(text: str, path: JsonPath, value: Any) -> str:
    unit = _indent_unit(text)
    root = parse(text)
    if root is None:
        start = f"{text.rstrip()}\n" if text.strip() else ""
        return f"{start}{render(_nest(path, value), unit)}\n"
    node = root
    for depth, key in enumerate(path):
        if node.members is None:
            name = ".".join(path[:depth]) or "the file"
            raise JsonFault(text, node.start, f"{name} is not an object in braces; change it by hand")
        member = node.members.get(key)
        if member is None:
            return _insert(text, node, key, _nest(path[depth + 1 :], value), unit)
        node = member.node
    source = render(value, unit, _line_indent(text, node.start))
    return text[: node.start] + _with_newlines(text, source) + text[node.end :]


def _insert(text: str, node: Node, key: str, value: Any, unit: str) -> str:
    """Add a member at the end of an object."""
    assert node.members is not None
    base = _line_indent(text, node.start)
    name = json.dumps(key, ensure_ascii=False)
    if not node.members:
        inner = base + unit
        kept = text[node.start + 1 : node.end - 1].rstrip()  # comments
        source = f"{name}: {render(value, unit, inner)}"
        return _replace(text, node.start + 1, node.end - 1, f"{kept}\n{inner}{source}\n{base}")
    last = max(member.node.end for member in node.members.values())
    first = min(member.start for member in node.members.values())
    if "\n" not in text[node.start : first] and "\n" not in text[last : node.end]:
        comma = skip_space(text, last)
        has_comma = text.startswith(",", comma)
        at = comma + 1 if has_comma else last
        source = f" {name}: {json.dumps(value, ensure_ascii=False)}"
        return _replace(text, at, at, f"{source}," if has_comma else f",{source}")
    inner = _line_indent(text, first) if _begins_line(text, first) else base + unit
    comma = skip_space(text, last)
    has_comma = text.startswith(",", comma)
    at = _end_of_remark(text, comma + 1 if has_comma else last)
    source = f"\n{inner}{name}: {render(value, unit, inner)}{',' if has_comma else ''}"
    if not text[at : node.end - 1].strip() and "\n" not in text[at : node.end]:
        source += f"\n{base}"
    text = _replace(text, at, at, source)
    return text if has_comma else text[:last] + "," + text[last:]


def _nest(path: Sequence[str], value: Any) -> Any:
    for key in reversed(path):
        value = {key: value}
    return value


def _replace(text: str, start: int, end: int, source: str) -> str:
    return text[:start] + _with_newlines(text, source) + text[end:]


def _with_newlines(text: str, source: str) -> str:
    return source.replace("\n", "\r\n") if "\r\n" in text else source


# --- the layout of a text -------------------------------------------------------------------------------------


def _indent_unit(text: str) -> str:
    """Return the indentation of one level: that of the first indented key."""
    match = re.search(r'^([ \t]+)"', text, re.M)
    return match[1] if match else _DEFAULT_INDENT


def _line_indent(text: str, at: int) -> str:
    match = re.compile(r"[ \t]*").match(text, text.rfind("\n", 0, at) + 1)
    assert match is not None
    return match[0]


def _begins_line(text: str, at: int) -> bool:
    return not text[text.rfind("\n", 0, at) + 1 : at].strip()


def _end_of_remark(text: str, at: int) -> int:
    """Return the end of the comments that stand on the same line after a value."""
    match = re.compile(r"(?:[ \t]*(?://[^\r\n]*|/\*[^\n]*?\*/))*").match(text, at)
    assert match is not None
    return match.end()


def _member_before(parent: Node, start: int) -> Node | None:
    before = [member for member in (parent.members or {}).values() if member.start < start]
    return max(before, key=lambda member: member.start).node if before else None


def _widen_to_line(text: str, start: int, end: int) -> tuple[int, int]:
    """Take the line with what was on it, if nothing else is."""
    line_start = text.rfind("\n", 0, start) + 1
    line_end = text.find("\n", end)
    if line_end < 0 or text[line_start:start].strip() or text[end:line_end].strip(" \t\r,"):
        return start, end
    return (line_start, line_end + 1) if not text[end:line_end].strip() else (start, end)


# --- the check ------------------------------------------------------------------------------------------------


def _value_of(text: str) -> Any:
    node = parse(text)
    return None if node is None else node.value


def _check(before: str, after: str, path: JsonPath, value: Any) -> None:
    wanted = _value_of(before)
    wanted = {} if wanted is None else wanted
    level = wanted
    for key in path[:-1]:
        level = level.setdefault(key, {})
    level[path[-1]] = json.loads(json.dumps(value))
    if _value_of(after) != wanted:
        raise JsonFault(before, 0, "the entry cannot be added without changing other parts; add it by hand")
