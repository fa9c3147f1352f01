"""Line numbers of TOML keys, which tomllib does not give.

Takes valid TOML, gives the line of every table and key outside of values. A key in an inline table has the line of the
value that contains it. Pure.
"""

from __future__ import annotations

import re
from collections import Counter

TomlPath = tuple[str | int, ...]

_HEADER = re.compile(r"\s*(?P<open>\[{1,2})(?P<name>[^\]]+)\]{1,2}")
_KEY = re.compile(r"""\s*(?P<name>(?:[A-Za-z0-9_-]+|"[^"\n]*"|'[^'\n]*')(?:\s*\.\s*[A-Za-z0-9_-]+)*)\s*=""")
# Text that can hide a bracket or a quote: strings of all four kinds, and comments.
_OPAQUE = re.compile(r'"""(?:\\.|[^\\])*?"{3,5}|\'\'\'.*?\'{3,5}|"(?:\\.|[^"\\\n])*"|\'[^\'\n]*\'|#[^\n]*', re.S)


def line_numbers(text: str) -> dict[TomlPath, int]:
    """Return the line of each table and key, from 1; an array of tables has its index in the path."""
    bare = _OPAQUE.sub(_blank_out, text)
    found: dict[TomlPath, int] = {}
    counts: Counter[TomlPath] = Counter()
    table: TomlPath = ()
    depth = 0
    for number, (line, shown) in enumerate(zip(bare.split("\n"), text.split("\n"), strict=True), 1):
        if depth == 0:
            if header := _HEADER.match(line):
                name = _key_parts(_HEADER.match(shown) or header)
                if header["open"] == "[[":
                    table = (*name, counts[name])
                    counts[name] += 1
                else:
                    table = name
                found.setdefault(table, number)
                continue
            if key := _KEY.match(shown):
                found.setdefault((*table, *_key_parts(key)), number)
        depth = max(0, depth + line.count("[") + line.count("{") - line.count("]") - line.count("}"))
    return found


def line_number(found: dict[TomlPath, int], path: TomlPath) -> int:
    """Return the line of a key, or of the nearest key or table around it."""
    while path:
        if path in found:
            return found[path]
        path = path[:-1]
    return 1


def format_path(path: TomlPath) -> str:
    """Format a path as users write it: rule[2].operation, from 1."""
    text = ""
    for part in path:
        text += f"[{part + 1}]" if isinstance(part, int) else f".{part}" if text else part
    return text


def _key_parts(match: re.Match[str]) -> TomlPath:
    return tuple(part.strip().strip("\"'") for part in match["name"].split("."))


def _blank_out(found: re.Match[str]) -> str:
    """Replace all characters but newlines, so that lines and columns stay the same."""
    return re.sub(r"[^\n]", "_", found[0])
