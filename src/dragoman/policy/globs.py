"""Globs: `*`, `?` and `[abc]` as expressions whose time grows with the text and the pattern, and never faster.

A star is tried from the left, and the first place where what stands between two stars fits is the right one: going back
could only find a later one. So what was found is never tried again (an atomic group), and no pattern, whoever wrote it,
takes longer than its length times that of the text. Pure; `word` is for rules and commands, `expression` for paths.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import lru_cache

_WILD = re.compile(r"[*?\[]")


def wildcards(pattern: str) -> int:
    """How many signs of a pattern stand for something else than themselves, as an upper bound."""
    return len(_WILD.findall(pattern))


@lru_cache(maxsize=4096)
def word(pattern: str) -> Callable[[str], object]:
    """Whether a whole text is meant by a pattern; case counts."""
    if not _WILD.search(pattern):
        return pattern.__eq__
    return re.compile(expression(pattern, "."), re.S).fullmatch


def expression(pattern: str, one: str) -> str:
    """The expression of a pattern in which a sign stands for `one`: `.`, or `[^/]` where names end at a slash."""
    first, *others = _between_stars(pattern, one)
    if not others:
        return first
    *middle, last = others
    found = "".join(f"(?>{one}*?{part})" for part in middle if part)
    return f"{first}{found}{one}*{last}" if last else f"{first}{found}{one}*+"


def _between_stars(pattern: str, one: str) -> list[str]:
    """What stands before, between and after the stars, as expressions that each take a fixed number of characters."""
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
    """Where the bracket closes; one that comes first is a member. -1 if it is only a bracket."""
    first = start + 1 if pattern.startswith("!", start) else start
    return pattern.find("]", first + 1)


def _class(inner: str, one: str) -> str:
    """One of some characters, or (after `!`) none of them."""
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
        elif low <= high:  # the wrong way round there is nothing between them
            members += f"{re.escape(low)}-{re.escape(high)}"
    if not members:
        return one if is_negated else "(?!)"
    return f"(?=[{'^' if is_negated else ''}{members}]){one}"
