"""Path patterns of rules: `*` inside one name, `**` across folders, `?`, `[abc]`; relative, absolute or from `~`.

A pattern is text; `compiled` makes it a matcher for whole absolute paths, never for parts of them. A relative pattern
stands below a folder that is given when it is matched. Case counts. Pure: no path is looked up.
"""

from __future__ import annotations

import re
from functools import lru_cache

from dragoman.policy.globs import expression

# The longest path that is compared, in characters: no system opens a longer one by its name.
LONGEST = 4096

# One character of a name.
_ONE = "[^/]"
# As few folders as will do, and as many as will do.
_ACROSS_FEW = "(?:.*?/)??"
_ACROSS_ALL = "(?:.*/)?"


def pattern_fault(pattern: str) -> str | None:
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
        return compile_pattern(pattern).fullmatch(path) is not None
    if pattern == "~" or pattern.startswith("~/"):
        below = _relative_to(path, home) if home else None
        return below is not None and (pattern == "~" or compile_pattern(pattern[2:]).fullmatch(below) is not None)
    if pattern == ".":
        return path in bases
    matcher = compile_pattern(pattern.removeprefix("./"))
    return any(
        (below := _relative_to(path, base)) is not None and matcher.fullmatch(below) is not None for base in bases
    )


def _relative_to(path: str, base: str) -> str | None:
    """The path as seen from a folder; None if it is not in there."""
    if path == base:
        return ""
    folder = base.rstrip("/") + "/"
    return path[len(folder) :] if path.startswith(folder) else None


@lru_cache(maxsize=4096)
def compile_pattern(pattern: str) -> re.Pattern[str]:
    """The matcher of a pattern; its time grows with the pattern times the path, and never faster."""
    return re.compile(_expression(pattern.split("/")), re.S)


def _expression(parts: list[str]) -> str:
    """Names and `**` as one expression.

    Between two `**` stands a fixed number of names. The first place where they fit is as good as any later one, for
    what follows may then begin anywhere behind: so it is found once and never tried again.
    """
    runs: list[list[str]] = [[]]  # the names before, between and after `**`; two in a row are one
    for index, part in enumerate(parts):
        if part != "**":
            runs[-1].append(expression(part, _ONE))
        elif index == 0 or parts[index - 1] != "**":
            runs.append([])
    first, *others = runs
    if not others:
        return "/".join(first)
    *middle, last = others
    start = "".join(f"{name}/" for name in first)
    found = ["".join(f"{name}/" for name in names) for names in middle]
    if found and not last:
        found[-1] = found[-1].removesuffix("/") + "(?![^/])"
    made = start + "".join(f"(?>{_ACROSS_FEW}{each})" for each in found)
    if last:
        return made + _ACROSS_ALL + "/".join(last)
    if start in ("", "/") and not found:
        return f"{start}.*"
    return made.removesuffix("/") + "(?:/.*)?"  # src/** is the folder itself and all below
