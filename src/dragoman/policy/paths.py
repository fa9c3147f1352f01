"""Path patterns of rules: `*` inside one name, `**` across folders, `?`, `[abc]`; relative, absolute or from `~`.

A pattern is text; `compiled` makes it a matcher for whole absolute paths, never for parts of them. A relative pattern
stands below a folder that is given when it is matched. Case counts. Pure: no path is looked up.
"""

from __future__ import annotations

import re
from functools import lru_cache


def fault_of(pattern: str) -> str | None:
    """What is wrong with a pattern, in words; None if nothing is."""
    if not pattern:
        return "the pattern is empty; ** stands for everything"
    if "\0" in pattern:
        return "a path cannot have a NUL in it"
    if ".." in pattern.split("/"):
        return "'..' cannot be matched, for paths are compared after they are resolved"
    if pattern.startswith("~") and pattern != "~" and not pattern.startswith("~/"):
        return "only ~/ is understood, not the home of somebody else"
    return None


def matches(pattern: str, path: str, bases: tuple[str, ...], home: str) -> bool:
    """Whether an absolute path is meant by a pattern; a relative one is tried below each of the bases."""
    if pattern.startswith("/"):
        return compiled(pattern).fullmatch(path) is not None
    if pattern == "~" or pattern.startswith("~/"):
        below = _below(path, home) if home else None
        return below is not None and (pattern == "~" or compiled(pattern[2:]).fullmatch(below) is not None)
    matcher = compiled(pattern.removeprefix("./"))
    return any((below := _below(path, base)) is not None and matcher.fullmatch(below) is not None for base in bases)


def _below(path: str, base: str) -> str | None:
    """The path as seen from a folder; None if it is not in there."""
    if path == base:
        return ""
    folder = base.rstrip("/") + "/"
    return path[len(folder) :] if path.startswith(folder) else None


@lru_cache(maxsize=4096)
def compiled(pattern: str) -> re.Pattern[str]:
    """The matcher of a pattern."""
    parts = pattern.split("/")
    made = []
    for index, part in enumerate(parts):
        is_last = index == len(parts) - 1
        if part != "**":
            made.append(_name(part) + ("" if is_last else "/"))
        elif not is_last:
            made.append("(?:[^/]+/)*")
        elif made:  # src/** is the folder itself and all below
            made[-1] = made[-1].removesuffix("/")
            made.append("(?:/.*)?" if index > 1 or parts[0] else "/.*")
        else:
            made.append(".*")
    return re.compile("".join(made), re.S)


def _name(part: str) -> str:
    """The expression for one name of a path."""
    made, index = "", 0
    while index < len(part):
        character = part[index]
        index += 1
        if character == "*":
            made += "[^/]*"
        elif character == "?":
            made += "[^/]"
        elif character == "[" and (end := part.find("]", index + 1)) > 0:
            inner = part[index:end].replace("\\", "\\\\").replace("[", "\\[")
            made += f"(?!/)[{'^' + inner[1:] if inner[0] == '!' else inner.replace('^', chr(92) + '^', 1)}]"
            index = end + 1
        else:
            made += re.escape(character)
    return made
