"""Path patterns of rules: `*` within a name, `**` across folders, `?`, `[abc]`; relative, absolute or from `~`.

A pattern matches whole absolute paths, case-sensitive. A relative pattern is matched below the given bases. Pure: no
file is accessed.
"""

from __future__ import annotations

import re
from functools import lru_cache

from dragoman.policy.globs import glob_regex

# The longest path that is compared, in characters: no system opens a longer one.
LONGEST = 4096

# One character of a name.
_ONE = "[^/]"
# As few folders as possible, and as many as possible.
_ACROSS_FEW = "(?:.*?/)??"
_ACROSS_ALL = "(?:.*/)?"


def pattern_fault(pattern: str) -> str | None:
    """Return what is wrong with a pattern; None if it is valid."""
    if not pattern:
        return "the pattern is empty; use ** to match everything"
    if "\0" in pattern:
        return "a path cannot contain a NUL character"
    if ".." in pattern.split("/"):
        return "'..' never matches, because paths are resolved first; write the resolved path"
    if pattern.startswith("~") and pattern != "~" and not pattern.startswith("~/"):
        return "only ~/ is supported; write the full path of another user's home"
    return None


def matches(pattern: str, path: str, bases: tuple[str, ...], home: str) -> bool:
    """Return whether an absolute path matches a pattern; a relative pattern is tried below each base."""
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
    """Return the path relative to a folder; None if it is not inside."""
    if path == base:
        return ""
    folder = base.rstrip("/") + "/"
    return path[len(folder) :] if path.startswith(folder) else None


@lru_cache(maxsize=4096)
def compile_pattern(pattern: str) -> re.Pattern[str]:
    """Compile a pattern; matching takes time linear in pattern times path."""
    return re.compile(_expression(pattern.split("/")), re.S)


def _expression(parts: list[str]) -> str:
    """Return names and `**` as one expression.

    Between two `**` is a fixed number of names. The first position where they fit is always good enough, because the
    rest may start anywhere behind it. So each match is atomic and never retried.
    """
    runs: list[list[str]] = [[]]  # the names before, between and after `**`; two in a row count as one
    for index, part in enumerate(parts):
        if part != "**":
            runs[-1].append(glob_regex(part, _ONE))
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
    return made.removesuffix("/") + "(?:/.*)?"  # src/** includes the folder itself
