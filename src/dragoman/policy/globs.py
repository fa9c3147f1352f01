"""Globs (`*`, `?`, `[abc]`) as regular expressions that run in time linear in pattern times text.

Stars match from the left. The first position where the text between two stars fits is always good enough, so each match
is an atomic group and never retried. `glob_matcher` is for rules and commands, `glob_regex` for paths. Pure.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import lru_cache

_WILD = re.compile(r"[*?\[]")


def wildcards(pattern: str) -> int:
    """Return an upper bound on the number of wildcard characters in a pattern."""
    return len(_WILD.findall(pattern))


@lru_cache(maxsize=4096)
def glob_matcher(pattern: str) -> Callable[[str], object]:
    """Return a function that says whether a pattern matches a whole text; case-sensitive."""
    if not _WILD.search(pattern):
        return pattern.__eq__
    return re.compile(glob_regex(pattern, "."), re.S).fullmatch


def glob_regex(pattern: str, one: str) -> str:
    """Return the regular expression of a glob. A wildcard matches `one`: `.`, or `[^/]` within a file name."""
    first, *others = _between_stars(pattern, one)
    if not others:
        return first
    *middle, last = others
    found = "".join(f"(?>{one}*?{part})" for part in middle if part)
    return f"{first}{found}{one}*{last}" if last else f"{first}{found}{one}*+"


def _between_stars(pattern: str, one: str) -> list[str]:
    """Return the expressions before, between and after the stars; each matches a fixed number of characters."""
    made = [""]
    index = 0
    while index < len(pattern):
        character = pattern[index]
        index += 1
        if character == "*":
            made.append("")
        elif character == "?":
            made[-1] += one
        elif character == "[" and (end := _end_of_class(pattern, index)) > 0:
            made[-1] += _class(pattern[index:end], one)
            index = end + 1
        else:
            made[-1] += re.escape(character)
    return made


def _end_of_class(pattern: str, start: int) -> int:
    """Return the index of the closing bracket, or -1 if there is none. A `]` that comes first is a member."""
    first = start + 1 if pattern.startswith("!", start) else start
    return pattern.find("]", first + 1)


def _class(inner: str, one: str) -> str:
    """Return the expression for a character class, negated after `!`."""
    is_negated = inner.startswith("!")
    members = ""
    rest = inner[1:] if is_negated else inner
    index = 0
    while index < len(rest):
        low = rest[index]
        high = rest[index + 2] if rest[index + 1 : index + 2] == "-" and index + 2 < len(rest) else ""
        index += 3 if high else 1
        if not high:
            members += re.escape(low)
        elif low <= high:  # a reversed range matches nothing
            members += f"{re.escape(low)}-{re.escape(high)}"
    if not members:
        return one if is_negated else "(?!)"
    return f"(?=[{'^' if is_negated else ''}{members}]){one}"
